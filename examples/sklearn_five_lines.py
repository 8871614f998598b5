"""Logistic regression on unbalanced data, in five lines: what did the draws gain?"""

from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tombola.estimators import SGDClassifier


def main() -> None:
    X, y = make_classification(20_000, 30, weights=[0.98], class_sep=1.5, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = make_pipeline(StandardScaler(), SGDClassifier(tol=None, random_state=0)).fit(X, y)
    print(model[-1].gauge_)
    print(f"accuracy on new rows: {model.score(X_test, y_test):.4f}")


if __name__ == "__main__":
    main()
