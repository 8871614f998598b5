"""What adaptive draws add to static class balance: one-vs-all logistic regression on VOC 2007.

    python benchmarks/groups.py --data FOLDER      # with voc2007_*.npz; about two minutes

AdaGrad (rate 0.1, one draw per step, 15,000 steps), features of mean norm 1, fed with gradient
norms. The six classes were not used to choose the sampler's rule. A speed of 2 means half as many
draws to the final value of uniform draws, found on a grid of 60 marks, for the objective and for
the test score.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import timing
from numba import njit

import tombola
from tombola.samplers.compiled import draw_one, fill_probabilities, update_one

CLASSES = ("bicycle", "car", "dog", "horse", "sofa", "train")
STEPS, MARKS, RATE = 15_000, 60, 0.1
FEATURES = ("voc2007_efficientnet_lite2_gap1280.npz", "voc2007_vgg19conv5_gapgmp1024.npz")


@njit(fastmath=True)
def dot(a, b):
    total = np.float32(0.0)
    for j in range(a.size):
        total += a[j] * b[j]
    return np.float64(total)


@njit
def train(state, features, labels, norms, models, ratios):
    """Train one model; at each mark, keep it and its second moment over that of uniform draws."""
    n, d = features.shape
    w, squares = np.zeros(d, dtype=np.float32), np.full(d, 1e-12, dtype=np.float32)
    chances = np.empty(n)
    for t in range(STEPS):
        item, probability = draw_one(state)
        slope = 1.0 / (1.0 + np.exp(-dot(features[item], w))) - labels[item]
        step = np.float32(slope / (n * probability))
        for j in range(d):
            g = step * features[item, j]
            squares[j] += g * g
            w[j] -= np.float32(RATE) * g / np.sqrt(squares[j])
        update_one(state, item, probability, abs(slope) * norms[item])
        if (t + 1) % (STEPS // MARKS) == 0:
            mark = (t + 1) // (STEPS // MARKS) - 1
            models[mark] = w
            fill_probabilities(state, chances)
            ours, uniform = 0.0, 0.0
            for i in range(n):
                slope = 1.0 / (1.0 + np.exp(-dot(features[i], w))) - labels[i]
                squared = (slope * norms[i]) ** 2
                ours += squared / chances[i]
                uniform += n * squared
            ratios[mark] = ours / uniform


def average_precision(scores, positive):
    """The area under the precision-recall curve."""
    hits = positive[np.argsort(-scores, kind="stable")]
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())


def first(values, goal, sign):
    """The first mark at which a curve is as good as the goal."""
    good = np.flatnonzero(sign * values >= sign * goal)
    return (good[0] + 1) if len(good) else len(values)


def speed(mean, half):
    """A geometric mean with its interval, from logarithms."""
    return f"{np.exp(mean):.2f} [{np.exp(mean - half):.2f}, {np.exp(mean + half):.2f}]"


SAMPLERS = {
    "uniform": lambda y, seed: tombola.Static(np.ones(len(y)), seed=seed),
    "static, balanced": lambda y, seed: tombola.Static.balanced(y, seed=seed),
    "VRB(n)": lambda y, seed: tombola.VRB(len(y), seed=seed),
    "GroupVRB": lambda y, seed: tombola.GroupVRB(y, seed=seed),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.data is None or not all((Path(options.data) / name).exists() for name in FEATURES):
        parser.error(f"--data (or TOMBOLA_DATA) must name a folder with {' and '.join(FEATURES)}")
    results = {name: [] for name in SAMPLERS}
    for file in FEATURES:
        data = np.load(Path(options.data) / file)
        for label in CLASSES:
            column = list(data["classes"]).index(label)
            known, test = data["Ytrain"][:, column] != 0, data["Ytest"][:, column] != 0
            x = np.ascontiguousarray(data["Xtrain"][known], dtype=np.float32)
            scale = np.linalg.norm(x, axis=1).mean()
            x, held = x / scale, data["Xtest"][test].astype(np.float32) / scale
            y = (data["Ytrain"][known, column] > 0).astype(np.float64)
            positive = data["Ytest"][test, column] > 0
            norms = np.linalg.norm(x, axis=1).astype(np.float64)
            for seed in range(options.seeds):
                curves = {}
                for name, make in SAMPLERS.items():
                    sampler = make(y, seed)
                    models = np.empty((MARKS, x.shape[1]), dtype=np.float32)
                    ratios = np.empty(MARKS)
                    train(sampler.state, x, y, norms, models, ratios)
                    z = x @ models.T
                    objective = (np.logaddexp(0, z) - y[:, np.newaxis] * z).mean(axis=0)
                    score = [average_precision(s, positive) for s in (held @ models.T).T]
                    curves[name] = ratios.mean(), objective, np.array(score)
                _, base, base_score = curves["uniform"]
                for name, (ratio, objective, score) in curves.items():
                    results[name].append([
                        ratio,
                        np.log(MARKS / first(objective, base[-1], -1)),
                        objective[-1] / base[-1],
                        np.log(MARKS / first(score, base_score[-1], 1)),
                        score[-1] - base_score[-1],
                    ])  # fmt: skip
            print(f"{file.split('_')[1]:14} {label:8} done", flush=True)
    rows = []
    for name, values in results.items():
        mean = np.mean(values, axis=0)
        half = 1.96 * np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
        rows.append([
            name,
            f"{mean[0]:.3f} ± {half[0]:.3f}",
            speed(mean[1], half[1]),
            f"{mean[2]:.3f} ± {half[2]:.3f}",
            speed(mean[3], half[3]),
            f"{mean[4]:+.4f} ± {half[4]:.4f}",
        ])  # fmt: skip
    print(f"\n{len(results['uniform'])} runs, means with 95% intervals")
    timing.table(
        ["sampler", "second moment over uniform's", "objective: speed", "objective over uniform's",
         "average precision: speed", "minus uniform's"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
