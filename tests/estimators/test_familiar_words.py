"""Words of scikit-learn that mean something else here: the error names ours."""

import inspect

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.linear_model import SGDClassifier as ScikitSGD

from tombola.estimators import LinearClassifier, LinearRegressor
from tombola.estimators.parameters import PARAMETERS, VALUES

X = np.array([[0.0], [1.0], [2.0], [3.0]])
Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"dual": True}, 'use solver="sdca"'),
        ({"positive": True}, "use Lasso or ElasticNet"),
        ({"shuffle": False}, 'use sampler="shuffle", or "uniform"'),
        ({"penalty": "l1"}, "got penalty='l1': use l1_ratio=1.0"),
        ({"penalty": "l2"}, "got penalty='l2': use l1_ratio=0.0"),
        ({"penalty": "elasticnet"}, "use l1_ratio from 0 to 1"),
        ({"penalty": None}, "use alpha=0.0"),
        ({"penalty": 7}, "use alpha, and l1_ratio"),
        ({"eta0": 0.1}, "use rate"),
        ({"learning_rate": "constant"}, "use rate"),
        ({"n_iter": 5}, "use max_iter"),
    ],
)
def test_parameters(kind, given, ours):
    with pytest.raises(TypeError, match=ours):
        kind(**given)
    with pytest.raises(ValueError, match=ours):
        kind().set_params(**given)


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"multi_class": "multinomial"}, 'use multi_class="softmax"'),
        ({"solver": "svd"}, 'use solver="auto"'),
        ({"loss": "log"}, 'use loss="log_loss"'),
        ({"solver": "lbfgs"}, 'use solver="auto"'),
        ({"solver": "newton-cg"}, 'use solver="auto"'),
        ({"solver": "newton-cholesky"}, 'use solver="auto"'),
        ({"solver": "liblinear"}, 'use solver="sdca"'),
        ({"solver": "sag"}, 'use solver="saga"'),
    ],
)
def test_values(given, ours):
    with pytest.raises(ValueError, match=ours):
        LinearClassifier(**given).fit(X, Y)


def test_the_words_are_those_of_scikit_learn_and_none_of_ours():
    ours = set(LinearClassifier().get_params()) | set(LinearRegressor().get_params())
    known = (LogisticRegression(), Ridge(), ScikitSGD())
    theirs = {name for model in known for name in model.get_params()}
    theirs |= {"n_iter", "n_alphas", "normalize"}  # of older releases
    assert not ours & set(PARAMETERS)
    assert set(PARAMETERS) <= theirs
    for (name, value), better in VALUES.items():
        known = [
            kind()._parameter_constraints.get(name) for kind in (LinearClassifier, LinearRegressor)
        ]
        options = set().union(*(constraint[0].options for constraint in known if constraint))
        assert value not in options
        assert set(better.split('" or "')) <= options


def test_other_words_are_errors_of_python_and_scikit_learn():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        LinearClassifier(colour="red")
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        LinearClassifier().set_params(colour="red")
    with pytest.raises(ValueError, match="'solver' parameter"):
        LinearClassifier(solver="best").fit(X, Y)


def test_constructors_keep_their_signature():
    model = LinearClassifier("hinge", alpha=0.5, class_weight={0: 1.0, 1: 2.0})
    assert clone(model).get_params() == model.get_params()
    first, *others = inspect.signature(LinearClassifier).parameters.values()
    assert first.name == "loss"
    assert {other.kind for other in others} == {inspect.Parameter.KEYWORD_ONLY}
    assert {first.name, *(other.name for other in others)} == set(model.get_params())
    assert repr(model) == "LinearClassifier(alpha=0.5, class_weight={0: 1.0, 1: 2.0}, loss='hinge')"


@pytest.mark.parametrize("solver", ["auto", "sdca", "saga", "svrg"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", 0.1), ("batch_size", 4), ("average", True), ("early_stopping", True)],
)
def test_what_belongs_to_sgd_and_adagrad_is_an_error_elsewhere(name, value, solver):
    model = LinearClassifier(solver=solver, **{name: value})
    with pytest.raises(ValueError, match=f'{name}={value} is for solver="sgd" or "adagrad", got'):
        model.fit(X, Y)


@pytest.mark.parametrize("solver", ["auto", "sdca", "saga", "svrg"])
@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
def test_partial_fit_is_for_sgd_and_adagrad(kind, solver):
    model = kind(solver=solver)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(
        AttributeError,
        match=f'^partial_fit needs solver="sgd" or "adagrad", got solver="{solver}"$',
    ):
        model.partial_fit(X, Y)
    assert hasattr(model.set_params(solver="sgd"), "partial_fit")
    assert kind.partial_fit.__doc__.startswith("Continue with one epoch")
