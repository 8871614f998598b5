"""Does `tombola advise` say the same each time? The table of docs/decisions/advise.md.

    python benchmarks/verdicts.py [--runs 10] [--budget 5] [--sets NAME ...]

For each set: runs with the same seed, with other seeds, and a race ten times as long. The first six
are built in, and the rule was made on them; the public ones are files in $TOMBOLA_DATA.
"""

import argparse
import sys
from collections import Counter

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.preprocessing import StandardScaler

from tombola.advice import advise
from tombola.datasets import load


def standardised(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def public(name):
    data = load(name)
    X = data.X if sparse.issparse(data.X) else StandardScaler().fit_transform(data.X)
    return X, data.y


def last_column(name):
    """Predict the last column of a set by the others."""
    X = StandardScaler().fit_transform(load(name).X)
    return X[:, :-1], X[:, -1]


def text_like(n=24_000, d=20_000, words=60):
    """Counts of words with frequencies as in texts, brought to norm 1, and a linear target."""
    rng = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, d + 1)
    columns = rng.choice(d, (n, words), p=chances / chances.sum())
    rows = np.repeat(np.arange(n), words)
    X = sparse.csr_matrix((np.ones(n * words), (rows, columns.ravel())), shape=(n, d))
    X.sum_duplicates()
    X = sparse.csr_matrix(X.multiply(1.0 / sparse.linalg.norm(X, axis=1)[:, None]))
    margins = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    return X, (margins > np.quantile(margins, 0.7)).astype(int)


def rare(n=40_000, d=30):
    """One row in two hundred is to be found, in columns of uneven tails."""
    rng = np.random.default_rng(1)
    X = rng.standard_t(4, size=(n, d))
    margins = X @ rng.normal(size=d) + 2.0 * rng.normal(size=n)
    return StandardScaler().fit_transform(X), margins > np.quantile(margins, 0.995)


def blobs(n=40_000, d=10, k=20):
    rng = np.random.default_rng(2)
    centres = 1.5 * rng.normal(size=(k, d))
    return centres[rng.integers(0, k, n)] + rng.normal(size=(n, d)), None


SETS = {
    "breast cancer": (lambda: standardised(load_breast_cancer), {"task": "classification"}),
    "digits": (lambda: standardised(load_digits), {"task": "classification"}),
    "diabetes": (lambda: standardised(load_diabetes), {"task": "regression"}),
    "text-like": (text_like, {"task": "classification"}),
    "rare positives": (rare, {"task": "classification"}),
    "clusters": (blobs, {"task": "clustering", "n_clusters": 20}),
}

CLASSIFIED = ["a9a", "aloi", "campaign", "cover", "hapt", "mammography", "mnist", "mushrooms"]
CLASSIFIED += ["shuttle", "skin", "smtp"]
PUBLIC = {
    name: (lambda name=name: public(name), {"task": "classification"}) for name in CLASSIFIED
} | {
    "kdd, last column": (lambda: last_column("kdd"), {"task": "regression"}),
    "kdd, clusters": (lambda: (public("kdd")[0], None), {"task": "clustering", "n_clusters": 50}),
}


def verdict(data, options, seed, budget):
    """Return which model is advised, and what is said about draws."""
    found = advise(*data, **options, seed=seed, budget=budget).verdict
    pays = {True: "pay", False: "do not pay", None: "unknown"}[found.pays]
    return found.method or "undecided", pays


def shown(counts):
    total = sum(counts.values())
    return ", ".join(f"{what} {count}/{total}" for what, count in counts.most_common())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--budget", type=float, default=5.0)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=[*SETS, *PUBLIC])
    options = parser.parse_args()
    print("| set | same seed: model | draws | ten times as long | other seeds: model | draws |")
    print("|---|---|---|---|---|---|")
    for name in options.sets:
        make, settings = (SETS | PUBLIC)[name]
        data = make()
        runs = {}
        for kind, seeds in (("same", [0] * options.runs), ("other", range(1, options.runs + 1))):
            runs[kind] = []
            for done, seed in enumerate(seeds, 1):
                runs[kind].append(verdict(data, settings, seed, options.budget))
                print(f"{name}, {kind}: {done}", runs[kind][-1], file=sys.stderr)
        long = verdict(data, settings, 0, 10 * options.budget)
        cells = [shown(Counter(r[part] for r in runs[kind]))
                 for kind in ("same", "other") for part in (0, 1)]  # fmt: skip
        row = [name, *cells[:2], ", ".join(long), *cells[2:]]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
