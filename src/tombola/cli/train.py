"""`tombola train`: fit a model, save it with its trace and a report, and go on where it stopped."""

import argparse
import csv
import io
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tombola.cli.arguments import add_data_arguments, number_from, whole_number
from tombola.cli.data import OpenData, check_clusters, open_data, wants_scale
from tombola.cli.errors import CommandError
from tombola.cli.folders import check_folder
from tombola.cli.progress import Progress
from tombola.datasets import DataError
from tombola.files import replaced_file, write_text
from tombola.report.record import versions

__all__ = ["add_arguments", "run"]

SAVE_EVERY = 5.0  # seconds between two saves; more where a save takes long
LOOKS = 20  # at the objective, in a run
SOLVERS = ("saga", "svrg", "adagrad", "sgd")
SAMPLERS = ("auto", "vrb", "group-vrb", "shuffle", "uniform", "balanced")
LINEAR: dict[str, Any] = {
    "solver": "saga",
    "l2": 1e-4,
    "l1": 0.0,
}  # what only linear models have, by default
CLUSTERING: dict[str, Any] = {"clusters": 8}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_data_arguments(parser)
    parser.add_argument("--solver", choices=SOLVERS, help="for linear models; default: saga")
    parser.add_argument("--sampler", choices=SAMPLERS, default="auto", help="how rows are drawn")
    parser.add_argument(
        "--l2", type=number_from(0.0), help="l2/2 |w|^2 is added to the loss; default: 0.0001"
    )
    parser.add_argument(
        "--l1", type=number_from(0.0), help="l1 |w|_1 is added to the loss; default: 0"
    )
    parser.add_argument("--clusters", type=whole_number(1), help="for clustering; default: 8")
    parser.add_argument(
        "--epochs", type=whole_number(1), default=20, help="passes over the rows; default: 20"
    )
    parser.add_argument(
        "--test", type=number_from(0.0, below=1.0), metavar="SHARE",
        help="of the rows, held out for testing; default: the set's own test part, or 0.2",
    )  # fmt: skip
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: out/train-NAME")
    parser.add_argument(
        "--resume", action="store_true",
        help="go on where a run with the same arguments was interrupted",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Fit, save and report."""
    folder = options.out or Path("out") / f"train-{Path(options.file).stem}"
    check_folder(folder, resume=options.resume)
    data = open_data(options, hold_out=True)
    settings = _settings(options, data)
    try:
        fit = Fit(data, settings)
    except ValueError as error:  # numbers whose squares overflow, say
        raise DataError(str(error)) from None
    record = {
        "command": "train",
        "settings": settings,
        "data": {**data.record(), "notes": list(data.notes)},
        "versions": versions(),
        "finished": False,
    }
    if options.resume:
        _check_same(folder, record)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "run.json", _as_json(record))
    (folder / "state").mkdir(exist_ok=True)
    try:
        fit.run(folder / "state", resume=options.resume)
    except CommandError:
        if not options.resume:  # it could not be trained: leave nothing behind
            shutil.rmtree(folder)
        raise
    _save(folder, fit, record)
    return 0


def _settings(options: argparse.Namespace, data: OpenData) -> dict[str, Any]:
    """Return everything that decides the outcome, besides the data."""
    clustering = data.task == "clustering"
    for name in LINEAR if clustering else CLUSTERING:
        if getattr(options, name) is not None:
            raise CommandError(f"--{name} is not for {data.task}")
    if data.task != "classification" and options.sampler in ("group-vrb", "balanced"):
        raise CommandError(f"--sampler {options.sampler} needs classes, and this is {data.task}")
    own: dict[str, Any] = {
        name: default if getattr(options, name) is None else getattr(options, name)
        for name, default in (CLUSTERING if clustering else LINEAR).items()
    }
    if clustering:
        check_clusters(own["clusters"], data)
    return {
        "target": options.target,
        "task": data.task,
        "impute": options.impute,
        "scale": data.preparation is not None and wants_scale(options, data.task),
        **own,
        "sampler": options.sampler,
        "epochs": options.epochs,
        "test": options.test,
        "seed": options.seed,
    }


def _check_same(folder: Path, record: dict[str, Any]) -> None:
    """Refuse to go on with a run that was begun otherwise."""
    path = folder / "run.json"
    if not path.exists():
        if folder.is_dir() and any(folder.iterdir()):
            raise CommandError(f"{folder} holds no run of `tombola train`: it has no run.json")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        settings, checksum = before["settings"], before["data"]["checksum"]
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"{path} is not the record of a run of `tombola train`") from None
    for name, value in record["settings"].items():
        if settings.get(name) != value:
            raise CommandError(
                f"{folder} was begun with {name} = {settings.get(name)}, this is {value}: a run "
                "goes on with the same arguments, or in another folder"
            )
    if checksum != record["data"]["checksum"]:
        raise CommandError(f"{folder} was begun with other data than {record['data']['source']}")


# --- fitting ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """One problem of a fit: all of it, or one class against the others."""

    problem: Any
    solver: Any
    sampler: Any  # None: the solver's own


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a part has come to: the tables of items are gone."""

    name: str
    solution: Any
    trace: Any
    epochs: Any  # of each row of the trace
    seconds: float
    solver: str
    sampler: str
    gauge: Any


class Fit:
    """The estimator's problems, solvers and samplers, run so that they can be interrupted.

    It ends in the model that `SGDClassifier`, `SGDRegressor` or `MiniBatchKMeans` fits with
    ``max_iter=epochs, tol=None, random_state=seed``, to the bit.
    """

    def __init__(self, data: OpenData, settings: dict[str, Any]) -> None:
        self.data, self.settings = data, settings
        y: Any = data.y
        self.classes = np.unique(y) if data.task == "classification" else None
        self.labels: list[Any] = [None] if self.classes is None else list(self.classes)
        if len(self.labels) == 2:
            self.labels = self.labels[1:]
        self.outcomes: list[Outcome] = []
        self.part(0)  # so that what is wrong with X is known before anything is written

    def part(self, number: int) -> Part:
        """Return problem, solver and sampler as the estimator makes them."""
        from tombola import solvers
        from tombola.estimators import SGDRegressor
        from tombola.estimators.base import draw_seeds, make_row_sampler
        from tombola.problems import KMeans, LeastSquares, Logistic
        from tombola.samplers.registry import make_sampler

        data, chosen = self.data, self.settings
        seed = draw_seeds(chosen["seed"], len(self.labels))[number]
        X, y = data.X, data.y
        if data.task == "clustering":
            clusters = KMeans(X, chosen["clusters"])
            sampler = None
            if chosen["sampler"] != "auto":
                sampler = make_sampler(chosen["sampler"], clusters.n, seed, None)
            return Part(clusters, solvers.MiniBatchKMeans(seed=seed), sampler)
        penalties = {"l2": chosen["l2"], "l1": chosen["l1"], "intercept": True}
        side = None if self.classes is None else y == self.labels[number]
        problem: Any = LeastSquares if side is None else Logistic
        problem = problem(X, y if side is None else side, **penalties)
        sampler = make_row_sampler(chosen["sampler"], problem, seed, side, chosen["solver"])
        rates = SGDRegressor(solver=chosen["solver"])  # an estimator knows them
        return Part(problem, rates._solver(chosen["solver"], problem), sampler)

    def run(self, folder: Path, *, resume: bool) -> None:
        """Minimise each part, saving it now and then; with `resume` from what was saved."""
        several = len(self.labels) > 1
        for number, label in enumerate(self.labels):
            part = self.part(number)
            what = f"training, {number + 1} of {len(self.labels)}" if several else "training"
            with Progress(what) as progress:
                result = self._minimised(part, folder / f"{number}.npz", resume, progress)
            self.outcomes.append(
                Outcome(
                    name=self.data.name if label is None else str(label),
                    solution=result.solution,
                    trace=result.trace,
                    epochs=result.trace.rounds * part.solver.batch_size / part.problem.n,
                    seconds=result.seconds,
                    solver=type(part.solver).__name__,
                    sampler=type(result.sampler).__name__,
                    gauge=result.sampler.gauge,
                )
            )

    def _minimised(self, part: Part, path: Path, resume: bool, progress: Progress) -> Any:
        from tombola.checkpoint import CheckpointError
        from tombola.solvers import DivergenceError, Result

        result = None
        if resume and path.exists():
            try:
                result = Result.load(path)
            except CheckpointError as error:
                raise CommandError(f"the saved run cannot be gone on with: {error}") from None
        rounds = self.settings["epochs"] * -(-part.problem.n // part.solver.batch_size)
        saved, pause = time.monotonic(), SAVE_EVERY

        def due(rounds: int, solution: Any, loss: float) -> bool:
            return time.monotonic() >= saved + pause

        while result is None or result.rounds < rounds:
            try:
                result = part.solver.minimize(
                    part.problem,
                    sampler=part.sampler if result is None else None,
                    rounds=rounds,
                    trace=LOOKS if len(self.labels) == 1 else LOOKS // 2,
                    resume=result,
                    progress=progress,
                    until=due,
                    every=max(1, rounds // 200),
                )
            except DivergenceError as error:
                raise CommandError(str(error)) from None
            began = time.monotonic()
            result.save(path)
            saved = time.monotonic()
            pause = max(SAVE_EVERY, 20 * (saved - began))
            if result.interrupted:
                raise KeyboardInterrupt("interrupted; the same command with --resume goes on")
        return result

    # --- what came out ------------------------------------------------------------------------

    @property
    def solution(self) -> Any:
        """Solutions of all parts, one a row; for clustering the centres."""
        if self.data.task == "clustering":
            return self.outcomes[0].solution
        return np.stack([outcome.solution for outcome in self.outcomes])

    def model(self) -> dict[str, Any]:
        """Return the arrays that predict."""
        ready, w = self.data.preparation, self.solution
        arrays: dict[str, Any] = {"columns": np.array(self.data.columns, dtype=str)}
        if ready is not None:
            arrays |= {"fill": ready.fill, "mean": ready.mean, "scale": ready.scale}
        if self.data.task == "clustering":
            return {**arrays, "centres": w}
        if self.classes is not None:
            arrays["classes"] = self.classes
        return {**arrays, "coef": w[:, :-1], "intercept": w[:, -1]}

    def scores(self) -> dict[str, float]:
        """Return what the model is worth on the rows held out; nothing where there are none."""
        data, w = self.data, self.solution
        if data.X_test is None:
            return {}
        if data.task == "clustering":
            from tombola.problems import KMeans

            held = KMeans(data.X_test, 1)
            held.clusters = len(w)  # there may be fewer rows
            return {"mean squared distance to the nearest centre": held.value(w)}
        outputs = np.asarray(data.X_test @ w[:, :-1].T) + w[:, -1]
        truth: Any = data.y_test
        if self.classes is None:
            errors = truth - outputs[:, 0]
            spread = float(((truth - truth.mean()) ** 2).mean())
            found = {"root mean squared error": float(np.sqrt((errors**2).mean()))}
            if spread > 0:
                found["R squared"] = 1.0 - float((errors**2).mean()) / spread
            return found
        return self._class_scores(outputs, truth)

    def _class_scores(self, outputs: Any, truth: Any) -> dict[str, float]:
        from sklearn.metrics import average_precision_score

        classes: Any = self.classes
        two = len(classes) == 2
        numbers = (outputs[:, 0] > 0).astype(int) if two else outputs.argmax(axis=1)
        right = classes[numbers] == truth
        shares = [right[truth == label].mean() for label in classes if (truth == label).any()]
        y: Any = self.data.y
        commonest = max(classes, key=lambda label: (y == label).sum())
        found = {
            "accuracy": float(right.mean()),
            "accuracy of the commonest class": float((truth == commonest).mean()),
            "mean accuracy over the classes": float(np.mean(shares)),
        }
        if two and (truth == classes[1]).any():
            found[f"average precision of {classes[1]}"] = float(
                average_precision_score(truth == classes[1], outputs[:, 0])
            )
        return found

    def trace(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and the rows of the trace, part by part."""
        names = ["problem", "epoch", "rounds", "item_gradients", "seconds", "objective",
                 "variance_ratio"]  # fmt: skip
        rows: list[list[Any]] = []
        for outcome in self.outcomes:
            columns = (outcome.epochs, *vars(outcome.trace).values())
            numbers = zip(*(column.tolist() for column in columns), strict=True)
            rows += [[outcome.name, *row] for row in numbers]
        return names, rows


# --- saving -------------------------------------------------------------------------------------


def _save(folder: Path, fit: Fit, record: dict[str, Any]) -> None:
    from tombola.cli.train_report import report, summary

    scores = fit.scores()
    seconds = sum(outcome.seconds for outcome in fit.outcomes)
    record = {**record, "scores": scores, "seconds": seconds, "finished": True}
    text = io.StringIO()
    names, rows = fit.trace()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    with replaced_file(folder / "model.npz") as file:
        np.savez(file, **fit.model())
    write_text(folder / "trace.csv", text.getvalue())
    report(fit, record).save(folder / "report.html")
    write_text(folder / "run.json", _as_json(record))
    print("\n".join(summary(fit, record)))
    print(f"{folder}: model.npz, trace.csv, run.json, report.html")


def _as_json(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2, allow_nan=False) + "\n"
