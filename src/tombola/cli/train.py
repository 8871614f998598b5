"""`tombola train`: fit a model, save it with its trace and a report; resume where it stopped."""

import argparse
import csv
import io
import shutil
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from tombola.cli import runs
from tombola.cli.arguments import add_data_arguments, number_from, whole_number
from tombola.cli.data import OpenData, check_clusters, open_data, wants_scale
from tombola.cli.errors import CommandError
from tombola.cli.output import check_folder, owned, say
from tombola.cli.runs import Begun, Finished, Run, Settings, courses, read_record
from tombola.datasets import DataError
from tombola.datasets.base import checksum_of_arrays
from tombola.datasets.sources import stem_of
from tombola.report.record import versions
from tombola.samplers.registry import GROUPED, NAMES
from tombola.state.files import write_text

if TYPE_CHECKING:
    from tombola.cli.train_fit import Trained
    from tombola.estimators.plan import Plan

__all__ = ["add_arguments", "run"]

# as in tombola.estimators, which is slow to import
SOLVERS = ("auto", "newton", "sdca", "saga", "svrg", "adagrad", "sgd")
LINEAR = ("solver", "alpha", "l1_ratio")  # the options of linear models only
CLUSTERING = ("n_clusters",)  # the options of clustering only
EPOCHS = 100  # the default of the estimators


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_data_arguments(parser)
    add = parser.add_argument
    add("--solver", choices=SOLVERS, help="for linear models; default: auto")
    add("--sampler", choices=NAMES, default="auto", help="how rows are drawn")
    add(
        "--alpha", type=number_from(0.0),
        help="the strength of the penalty, alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2); "
        "default: 1 / n, for n rows",
    )  # fmt: skip
    l1 = "the share of l1 in the penalty, from 0 to 1; default: 0"
    add("--l1-ratio", type=number_from(0.0, most=1.0), help=l1)
    add("--n-clusters", type=whole_number(1), help="for clustering; default: 8")
    add(
        "--epochs", type=whole_number(1), default=EPOCHS,
        help=f"passes over the rows, at most; default: {EPOCHS}",
    )  # fmt: skip
    add(
        "--tol", type=number_from(0.0),
        help="stop when the objective is proved to be above its minimum by at most TOL times its "
        "value at w = 0 (newton, sdca, saga, svrg), or when it has not fallen by this share for 5 "
        "epochs (adagrad, sgd); 0: run all epochs; default: 0.0001, for clustering after 10 "
        "mini-batches without progress",
    )  # fmt: skip
    add(
        "--jobs", type=whole_number(1), default=1,
        help="threads, over classes; the model does not depend on it; default: 1",
    )  # fmt: skip
    add(
        "--test", type=number_from(0.0, below=1.0), metavar="SHARE",
        help="of the rows, held out for testing; default: the set's own test part, or 0.2",
    )  # fmt: skip
    add("--seed", type=whole_number(0), default=0)
    add("--out", type=Path, metavar="FOLDER", help="default: out/train-NAME")
    again = "continue a run with the same arguments that was interrupted"
    add("--resume", action="store_true", help=again)


def run(options: argparse.Namespace) -> int:
    """Fit, save and report."""
    folder = options.out or Path("out") / f"train-{stem_of(options.file)}"
    check_folder(folder, resume=options.resume)
    data = open_data(options, hold_out=True)
    plan = _plan(options, data)

    from tombola.cli.train_fit import fit

    try:  # before anything is written: for example, squares of numbers may overflow
        problem = plan.estimator.parts(data.X, data.y)[0].make()
    except ValueError as error:
        raise DataError(str(error)) from None

    held = None
    if data.X_test is not None:
        held = runs.HeldOut(rows=data.X_test.shape[0], checksum=checksum_of_arrays(data.X_test))
    rows = runs.Data(**data.record(), notes=list(data.notes), held_out=held)
    record = Begun(
        command="train", finished=False, settings=_settings(options, data, plan, problem),
        data=rows, versions=versions(),
    )  # fmt: skip
    if options.resume:
        _check_same(folder, record)
    with owned(folder, resume=options.resume):
        try:
            write_text(folder / "run.json", record.json())
            (folder / "state").mkdir(exist_ok=True)
            trained = fit(data, plan, options.jobs, folder / "state", resume=options.resume)
            _save(folder, trained, record)
        except (CommandError, DataError):
            if not options.resume:  # training failed: leave nothing behind
                shutil.rmtree(folder)
            raise
    return 0


def _plan(options: argparse.Namespace, data: OpenData) -> "Plan":
    """Return the plan that the options ask for, or raise an error that names a wrong option."""
    from tombola.estimators.plan import ESTIMATORS, Plan

    clustering = data.task == "clustering"
    for name in LINEAR if clustering else CLUSTERING:
        if getattr(options, name) is not None:
            raise CommandError(f"--{name.replace('_', '-')} is not for {data.task}")
    if data.task != "classification" and options.sampler in GROUPED:
        raise CommandError(f"--sampler {options.sampler} needs classes, and this is {data.task}")
    if clustering and options.tol:
        raise CommandError(
            f"--tol {options.tol:g} is not for clustering, which stops after 10 mini-batches "
            "without progress; --tol 0 runs all epochs"
        )
    own = {name: getattr(options, name) for name in (CLUSTERING if clustering else LINEAR)}
    if options.tol is not None:
        own["tol"] = options.tol or None
    estimator = ESTIMATORS[data.task](
        sampler=options.sampler, max_iter=options.epochs, random_state=options.seed,
        **{name: value for name, value in own.items() if value is not None or name == "tol"},
    )  # fmt: skip
    if clustering:
        check_clusters(estimator.n_clusters, data)
    return Plan(estimator)


def _settings(options: argparse.Namespace, data: OpenData, plan: "Plan", problem: Any) -> Settings:
    """Return all settings, besides the data, that decide the outcome."""
    names = CLUSTERING if data.task == "clustering" else LINEAR
    own = {name: getattr(plan.estimator, name) for name in names}
    if "alpha" in own:
        own["alpha"] = problem.alpha
    asked = ("target", "impute", "sampler", "epochs", "test", "seed")
    return Settings(
        **{name: getattr(options, name) for name in asked}, task=data.task, tol=plan.estimator.tol,
        encode=data.preparer.encode, reading=data.reading(),
        scale=data.preparer.kept_ is not None and wants_scale(options, data.task), **own,
    )  # fmt: skip


def _check_same(folder: Path, record: Begun) -> None:
    """Refuse to resume a run that has other settings or data."""
    if not (folder / "run.json").exists():
        if folder.is_dir() and any(entry.suffix != ".part" for entry in folder.iterdir()):
            # a .part is what a killed process left of run.json
            raise CommandError(f"{folder} holds no run of `tombola train`: it has no run.json")
        return
    before = read_record(folder)
    if before.data.checksum != record.data.checksum:
        raise CommandError(f"{folder} was begun with other data than {record.data.source}")
    settings = vars(before.settings)
    for name, value in vars(record.settings).items():
        if settings[name] != value:
            was = str(settings[name])
            was = was if len(was) < 100 else f"{was[:96]} ..."
            raise CommandError(
                f"{folder} was begun with {name} = {was}, this is {value}: "
                "resume with the same arguments, or use another folder"
            )


def _save(folder: Path, trained: "Trained", begun: Begun) -> None:
    from tombola.cli.run_page import report, snippet, summary
    from tombola.cli.scores import scores_of
    from tombola.cli.verdict import verdict
    from tombola.models import save_model

    data, plan, trace = trained.data, trained.plan, trained.trace
    parts = [recorder.record for recorder in trained.recorders]
    went = courses(parts, trace)
    record = Finished(
        **{**vars(begun), "finished": True}, parts=parts, scores=scores_of(trained),
        seconds=sum(part.seconds for part in parts), verdict=verdict(went, plan.estimator.tol),
        code=runs.Code(predict=snippet(data, trained.model), fit=plan.code()),
    )  # fmt: skip
    text = io.StringIO()
    try:
        ended = record.json()
    except ValueError:  # nothing that training ends with, but a state may hold any number
        raise CommandError(
            "the run cannot be finished: its objective or a score is not a finite number"
        ) from None
    writer = csv.DictWriter(text, trace[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(trace)
    save_model(folder / "model.npz", plan.estimator, trained.arrays(), data.preparer, data.read_as)
    write_text(folder / "trace.csv", text.getvalue())
    run = Run(data.name, record, went)
    report(run).save(folder / "report.html")
    write_text(folder / "run.json", ended)
    say(
        *summary(run),
        f"{folder}: model.npz, trace.csv, run.json, report.html",
        f"new rows: tombola predict {quote(str(folder))} FILE",
    )
