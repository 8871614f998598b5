"""The report of `tombola train`: a few lines in the terminal, and a page."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tombola.datasets.base import count

if TYPE_CHECKING:
    from tombola.cli.train_fit import Fit
    from tombola.report import Page

__all__ = ["report", "snippet", "summary"]

SETTLED = 0.01  # of the decrease of the objective, in the last tenth of the run


def summary(fit: "Fit", record: dict[str, Any]) -> list[str]:
    """Return the lines for the terminal."""
    data = fit.data
    lines = [
        f"{data.name}: {data.task}, {data.X.shape[0]:,} rows x {data.X.shape[1]:,} columns",
        *(f"  {note}" for note in data.notes),
        f"{how(fit)}; {record['seconds']:.1f} s",
        f"objective {_objective(fit)[0]:.6g} -> {_objective(fit)[-1]:.6g}; {verdict(fit)}",
    ]
    if record["scores"]:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in record["scores"].items())
        lines.append(f"held out: {shown}")
    return lines


def how(fit: "Fit") -> str:
    """Return the solver, the sampler and the number of epochs, in words."""
    number, first = len(fit.outcomes), fit.outcomes[0]
    several = f", {number} classes, each against the others" if number > 1 else ""
    epochs = count(fit.plan.estimator.max_iter, "epoch")
    return f"{first.solver}, rows drawn by {first.sampler}, {epochs}{several}"


def _objective(fit: "Fit") -> Any:
    """Return the objective from the start to the end, its mean over the parts.

    A part that ended sooner than another stays where it was.
    """
    columns = [outcome.trace.objective for outcome in fit.outcomes]
    most = max(map(len, columns))
    return np.mean([np.pad(column, (0, most - len(column)), "edge") for column in columns], axis=0)


def verdict(fit: "Fit") -> str:
    """Return whether the objective has stopped falling, by its trace."""
    seen = _objective(fit)
    whole, late = seen[0] - seen[-1], seen[round(0.9 * (len(seen) - 1))] - seen[-1]
    if whole <= 0:
        return "it has not fallen: try another solver, or scaled columns"
    if late > SETTLED * whole:
        return f"{late / whole:.0%} of the decrease came in the last tenth: use more --epochs"
    return "it has converged"


def snippet(fit: "Fit") -> str:
    """Return the lines that predict with numpy and the saved file only."""
    lines = ["import numpy as np", 'model = np.load("model.npz")']
    Z = "X"
    if fit.data.preparation is not None:
        Z = "Z"
        lines += [
            '# X: an array with the columns model["columns"], in that order',
            'X = np.where(np.isnan(X), model["fill"], X)',
            'Z = (X - model["mean"]) / model["scale"]',
        ]
    if fit.data.task == "clustering":
        squares = f"(({Z}[:, None, :] - model['centres']) ** 2).sum(axis=2)"
        if Z == "X":  # sparse
            squares = "(model['centres'] ** 2).sum(axis=1) - 2 * (X @ model['centres'].T)"
        return "\n".join([*lines, f"predicted = ({squares}).argmin(axis=1)"])
    lines.append(f'scores = {Z} @ model["coef"].T + model["intercept"]')
    if fit.classes is None:
        lines.append("predicted = scores[:, 0]")
    elif len(fit.classes) == 2:
        lines.append('predicted = model["classes"][(scores[:, 0] > 0).astype(int)]')
    else:
        lines.append('predicted = model["classes"][scores.argmax(axis=1)]')
    return "\n".join(lines)


def report(fit: "Fit", record: dict[str, Any]) -> "Page":
    """Return the page."""
    from tombola.report import Page

    data = fit.data
    n, d = data.X.shape
    scores = record["scores"]
    held = f" On the rows held out: {_first(scores)}." if scores else ""
    page = Page(
        f"{data.name}: {data.task}",
        f"{how(fit)}: the objective went from {_objective(fit)[0]:.4g} to "
        f"{_objective(fit)[-1]:.4g}; {verdict(fit)}.{held}",
    )
    page.heading("The data")
    page.text(f"{n:,} rows to train on, {d:,} columns; from {data.source}.")
    for note in data.notes:
        page.text(note)
    page.text(f"SHA-256 `{data.checksum}`.")
    if scores:
        page.heading("On the rows held out")
        page.table(["score", "value"], [[name, value] for name, value in scores.items()])
    page.heading("The run")
    certified = fit.outcomes[0].gap is not None
    variance = (
        "" if certified else ", and the variance of the gradient estimates over that of uniform "
        "draws at the same solution; below 1 is better"
    )  # fmt: skip
    page.figure(
        _figure(fit),
        f"The objective (loss and penalties) on the training rows{variance}."
        + (" Means over the classes." if len(fit.outcomes) > 1 else ""),
        f"The objective falls from {_objective(fit)[0]:.4g} to {_objective(fit)[-1]:.4g}.",
    )
    rows = [
        [it.name, it.trace.objective[-1],
         it.gap if certified else it.gauge.second_moment_ratio, it.seconds]
        for it in fit.outcomes
    ]  # fmt: skip
    measure = "relative duality gap" if certified else "second moment over uniform's"
    page.table(
        ["problem", "objective", measure, "seconds"], rows,
        caption="The objective is at most this gap above its minimum, times the objective at 0 "
        "with the best intercept." if certified else
        "Second moments by the sampler's gauge: below 1 is better than uniform draws.",
    )  # fmt: skip
    if fit.outcomes[0].sampler == "Static":
        page.text(
            "Rows were drawn with fixed probabilities, which do not follow the losses: the ratios "
            "above may exceed 1. By default, SAGA and SVRG draw by curvature, which allows larger "
            "steps."
        )
    page.heading("Predict with it")
    page.text("With numpy and the saved file only:")
    page.code(snippet(fit))
    page.text(
        "The same fit, to the bit, with scikit-learn's interface; X holds the training rows"
        + (", prepared like `Z` in the lines above:" if data.preparation else ":")
    )
    page.code(fit.plan.code())
    page.heading("Settings and versions")
    settings = {**record["settings"], **record["versions"]}
    page.table(["setting", "value"], [[name, str(value)] for name, value in settings.items()])
    return page


def _first(scores: dict[str, float]) -> str:
    name, value = next(iter(scores.items()))
    return f"{name} {value:.4g}"


def _figure(fit: "Fit") -> Any:
    from tombola.report.figures import new_figure, style

    epochs = max((outcome.epochs for outcome in fit.outcomes), key=len)
    certified = fit.outcomes[0].gap is not None
    figure, axes = new_figure(1 if certified else 2, height=2.2, share_x=True)
    upper, lower = axes[0], axes[-1]
    look = style("vrb")
    upper.plot(epochs, _objective(fit), linewidth=1.7, **look)
    upper.set_ylabel("objective")
    if certified:
        upper.set_xlabel("epochs")
        return figure
    ratios = np.mean([outcome.trace.variance_ratio for outcome in fit.outcomes], axis=0)
    lower.plot(epochs, ratios, linewidth=1.7, **look)
    lower.axhline(1.0, color="#8a8f94", linewidth=1)
    lower.set(xlabel="epochs", ylabel="variance over uniform's", ylim=(0, None))
    return figure
