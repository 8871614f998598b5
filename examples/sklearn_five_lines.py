"""Logistic regression on imbalanced data, in five lines; prints the gain of adaptive draws."""

from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tombola.estimators import LinearClassifier


def main() -> None:
    X, y = make_classification(20_000, 30, weights=[0.98], class_sep=1.5, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    for solver in ("auto", "adagrad"):
        model = make_pipeline(StandardScaler(), LinearClassifier(solver=solver, random_state=0))
        model.fit(X, y)
        epochs, score = model[-1].n_iter_, model.score(X_test, y_test)
        print(f"{solver}: {epochs} epochs, accuracy on new rows {score:.4f}, {model[-1].gauge_}")


if __name__ == "__main__":
    main()
