"""What `tombola train` says after 1, 5, 20 and 200 epochs, next to how far it truly is.

    python benchmarks/train_words.py [ROWS]

A slow problem: rows like short texts (words by Zipf's law, unit length), logistic loss, a weak
penalty. The minimum is that of scikit-learn's lbfgs, run to the end.
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression

from tombola.cli.main import main

ALPHA = 1e-6
EPOCHS = (1, 5, 20, 200)
SOLVERS = ("adagrad", "sdca")


def texts(rows, columns=3000, words=30, seed=0):
    """Return rows like short texts, and labels that their words decide, but for some noise."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, columns + 1)
    drawn = rng.choice(columns, size=(rows, words), p=chances / chances.sum())
    X = sparse.csr_matrix(
        (np.ones(drawn.size), drawn.ravel(), np.arange(0, drawn.size + 1, words)),
        shape=(rows, columns),
    )
    X.sum_duplicates()
    X = sparse.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X
    margins = X @ rng.normal(scale=4.0, size=columns)
    return sparse.csr_matrix(X), (rng.random(rows) < expit(margins - np.median(margins))).astype(
        int
    )


def objective(X, y, w, intercept, alpha):
    margins = (2 * y - 1) * (X @ w + intercept)
    return float(np.logaddexp(0.0, -margins).mean() + 0.5 * alpha * (w @ w))


def minimum(X, y, alpha):
    """Return the least objective that lbfgs finds."""
    model = LogisticRegression(C=1.0 / (alpha * len(y)), tol=1e-10, max_iter=100_000).fit(X, y)
    return objective(X, y, model.coef_[0], model.intercept_[0], alpha)


def said(path, folder, *arguments):
    """Train, and return the record and the model."""
    with contextlib.redirect_stdout(io.StringIO()):
        if main(["train", str(path), "--test", "0", "--out", str(folder), *arguments]):
            raise SystemExit("tombola train has failed")
    return json.loads((folder / "run.json").read_text()), np.load(folder / "model.npz")


def rows_of_table(rows, epochs=EPOCHS, solvers=SOLVERS, alpha=ALPHA):
    """Yield solver, epochs asked for and run, the share above the minimum, and the record."""
    X, y = texts(rows)
    least = minimum(X, y, alpha)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "texts.svm"
        dump_svmlight_file(X, y, str(path))
        for solver in solvers:
            for count in epochs:
                record, model = said(
                    path, Path(place) / f"{solver}-{count}",
                    "--solver", solver, "--epochs", str(count), "--alpha", str(alpha),
                )  # fmt: skip
                value = objective(X, y, model["coef"][0], model["intercept"][0], alpha)
                yield solver, count, record["parts"][0]["epochs"], value / least - 1, record


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("| solver | --epochs | epochs run | truly above the minimum | what it says |")
    print("|---|---|---|---|---|")
    for solver, count, run, above, record in rows_of_table(size):
        print(f"| {solver} | {count} | {run:.3g} | {above:.3%} | {record['verdict']} |")
