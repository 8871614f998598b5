"""Mutation testing: change one place of a rule, and see whether its tests notice.

    python tests/mutants/run.py                      # 100 places of each module
    python tests/mutants/run.py --modules index gauge --count 300
    python tests/mutants/run.py --planted            # the list in planted.py only

A mutant is one changed place (`places.py`): an operator, a number, min for max, or a statement left
out. Without --planted, the places are a random sample of each module, the same one for the same
--seed and source. Numba is switched off, and Triton's kernels run under its interpreter, so nothing
is compiled.

Each test file is first run once without a mutant, to learn which lines each test reaches and how
long it takes. Tests that do not pass that way within 6 seconds are left out, and so are, at random,
those for which two minutes a file are not enough. A mutant then runs
against the tests of its module that reach its line, quick ones and frequent killers first, up to
the first failure or 30 seconds of tests. It is *killed* if one fails, exceeds five times its usual
time (and 5 seconds), or if the process dies. Otherwise it *survives*; survivors that change nothing
that could be observed are listed in `equivalent.py`, each with its reason. Changes reach the
process of the tests only, not those that a test starts.

Results are appended to OUT/results.jsonl as they come. A second run goes on from there: what was
killed stays so until its file changes, survivors are tried again if tests have changed.
"""

import argparse
import bisect
import contextlib
import hashlib
import itertools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from equivalent import EQUIVALENT
from places import places_of, planted
from planted import PLANTED

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "src/tombola/"
STEPS = (
    "clusters/mini_batch", "coordinates/block", "coordinates/coordinate", "descent/adagrad",
    "descent/dense", "descent/estimate", "descent/lazy", "descent/rates", "descent/saga",
    "descent/scaled", "descent/sgd", "descent/svrg", "descent/variance_reduced", "dual/run",
    "lasso/quadratic", "newton/run", "newton/sample", "proximal",
)  # fmt: skip
STEP_TESTS = (
    "block", "carry", "closed_form", "coordinate", "descents", "divergence", "kmeans_rounds",
    "lazy", "mini_batch_kmeans", "newton", "newton_parts", "newton_softmax", "newton_state",
    "quadratic", "rate_search", "sdca", "sdca_state", "standardised", "unbiased", "working_sets",
)  # fmt: skip


class Module(NamedTuple):
    """What is changed, and the tests that must notice."""

    files: tuple[str, ...]  # below the package, with wildcards
    tests: tuple[str, ...]  # test files, with wildcards
    marks: str = "not slow"
    torch: bool = False


STATES = "tests/state/test_conformance.py"
IN_NUMPY = "tests/samplers/test_latest_in_numpy.py"  # the same without kernels
MODULES = {
    "index": Module(("index/*.py",), ("tests/index/test_*.py", STATES, "src/tombola/index/*.py")),
    "samplers": Module(
        ("samplers/**/*.py",),
        (
            "tests/samplers/test_*.py", "tests/test_crafted.py", STATES,
            "src/tombola/samplers/**/*.py",
        ),
    ),
    "gauge": Module(("gauge.py",), ("tests/test_gauge.py", IN_NUMPY, "src/tombola/gauge.py")),
    "draws": Module(("draws.py",), ("tests/test_draws.py", STATES, "src/tombola/draws.py")),
    "checkpoint": Module(
        ("checkpoint.py", "state/*.py"),
        (
            "tests/test_checkpoint.py", "tests/test_atomic_files.py", "tests/test_crafted.py",
            "tests/state/test_*.py", "src/tombola/checkpoint.py", "src/tombola/state/*.py",
        ),
    ),
    "random": Module(
        ("random.py",),
        (
            "tests/test_random.py", "tests/samplers/test_group_drawing.py", IN_NUMPY, STATES,
            "src/tombola/random.py",
        ),
    ),
    "solvers": Module(
        tuple(f"solvers/{name}.py" for name in STEPS),
        tuple(f"tests/solvers/test_{name}.py" for name in STEP_TESTS),
    ),
    "device": Module(
        ("torch/device/*kernels.py",), ("tests/torch/test_device_*.py",), torch=True
    ),
}  # fmt: skip
CRITICAL = ("index", "samplers", "gauge", "draws", "checkpoint")  # at most 3% may survive
SHARE = 0.03
LONGEST = 6.0  # seconds of a test, with its lines traced, to be used
FILE = 120.0  # seconds of such tests of one file
ENOUGH = 30.0  # seconds of such tests for one mutant
FACTOR, LEAST = 5.0, 5.0  # the time limit of a test: so many times as long, and seconds
KILLED, EQUIVALENT_, SURVIVED, UNREACHED = "killed", "equivalent", "survived", "unreached"


def matching(patterns, base=""):
    """Return the files that patterns name, in order."""
    return [
        str(path.relative_to(ROOT))
        for pattern in patterns
        for path in sorted(ROOT.glob(base + pattern))
    ]


def digest_of(paths):
    """Return a digest of the texts of files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path}\0".encode() + (ROOT / path).read_bytes())
    return digest.hexdigest()[:16]


class Worker:
    """A process that runs tests, started when first used."""

    def __init__(self):
        self.process = None

    def ask(self, module, **request):
        """Return the answer to a request about a module."""
        if self.process is None:
            threads = dict.fromkeys(
                ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
            )
            environment = {
                **os.environ,
                **threads,
                "PYTHONPATH": str(ROOT / "src"),
                "PYTHONHASHSEED": "0",
                "NUMBA_DISABLE_JIT": "1",
                "TRITON_INTERPRET": "1",
                "HYPOTHESIS_PROFILE": "uncompiled",
            }
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py"))], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
                start_new_session=True,
            )  # fmt: skip
        request |= {"root": str(ROOT), "marks": module.marks, "torch": module.torch}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("a worker died")
        return json.loads(answer)

    def stop(self):
        """End the process, and the tests that it runs."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def in_parallel(jobs, act, tasks):
    """Yield `act(worker, task)` of all tasks as they come; an interruption ends what runs."""
    todo, results = queue.Queue(), queue.Queue()
    for task in tasks:
        todo.put(task)
    workers = [Worker() for _ in range(min(jobs, len(tasks)))]

    def work(worker):
        while True:
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                results.put(act(worker, task))
            except Exception as error:
                results.put(error)
                return

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            result = results.get()
            if isinstance(result, Exception):
                raise result
            yield result
    finally:
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # not while workers are stopped
        for worker in workers:
            worker.stop()
        signal.signal(signal.SIGINT, usual)


class Reach(NamedTuple):
    """The tests of a module: seconds of each one, and those that reach a line of a file."""

    seconds: dict[str, float]
    reached: dict[tuple[str, int], set[str]]  # "" among them: reached by an import

    def tests_of(self, place):
        """Return the tests that reach a place, and the others if an import reaches it too."""
        found = set()
        for line in range(place.lines[0], place.lines[1] + 1):
            found |= self.reached.get((place.file, line), set())
        others = set(self.seconds) - found if "" in found else set()
        return found - {""}, others


def reaches(modules, out, jobs):
    """Return the `Reach` of each module, measured where that is not known."""
    helpers = [
        path
        for path in matching(("tests/*.py", "tests/*/*.py"))
        if not path.startswith("tests/mutants/") and not Path(path).name.startswith("test_")
    ]
    folder = out / "reach"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for name in modules:
        common = digest_of([*matching(MODULES[name].files, SOURCE), *helpers, "pyproject.toml"])
        for path in matching(MODULES[name].tests):
            if path.startswith("src") and ">>>" not in (ROOT / path).read_text():
                continue
            tasks[name, path] = folder / f"{name}-{common}-{digest_of([path])}.json"
    missing = [(name, path) for (name, path), file in tasks.items() if not file.exists()]

    def measure(worker, task):
        name, path = task
        files = [str(ROOT / file) for file in matching(MODULES[name].files, SOURCE)]
        found = worker.ask(
            MODULES[name], measure=files, paths=[path], limit=LONGEST, enough=FILE, seconds=1800
        )
        if found["code"] not in (0, 1, 5):
            raise RuntimeError(f"{path} does not run: {found.get('by')}\n{found['log']}")
        found["reached"] = {
            str(Path(file).relative_to(ROOT)): lines for file, lines in found["reached"].items()
        }
        tasks[task].write_text(json.dumps(found))
        return path, found

    with contextlib.closing(in_parallel(jobs, measure, missing)) as answers:
        for number, (path, found) in enumerate(answers):
            used, left = len(found["seconds"]), len(found["left_out"])
            text = f"{used} tests, {left} left out, {found['took']:.0f} s"
            print(f"measured {number + 1}/{len(missing)} {path}: {text}", flush=True)
    result = {}
    for name in modules:
        reach = result[name] = Reach({}, {})
        for (other, _), file in tasks.items():
            if other != name:
                continue
            found = json.loads(file.read_text())
            tests = list(found["seconds"])
            reach.seconds.update(found["seconds"])
            for source, lines in found["reached"].items():
                for line, numbers in lines.items():
                    into = reach.reached.setdefault((source, int(line)), set())
                    into.update(tests[number] if number >= 0 else "" for number in numbers)
    return result


class Known:
    """Results of earlier runs, in a file that new ones are appended to."""

    def __init__(self, out):
        self.file = out / "results.jsonl"
        self.results = {}
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # cut off when a run was killed
                continue
            self.results[entry["name"], entry["new"]] = entry
        self.sources, self.tests = {}, {}

    def digests(self, module, place):
        """Return what a result depends on."""
        if place.file not in self.sources:
            self.sources[place.file] = digest_of([place.file])
        if module not in self.tests:
            self.tests[module] = digest_of(
                matching(MODULES[module].tests) + matching(("tests/*.py",))
            )
        return {"source": self.sources[place.file], "tests": self.tests[module]}

    def find(self, module, place):
        """Return the result of a mutant, or None."""
        entry = self.results.get((place.name, place.new))
        if entry is None:
            return None
        now = self.digests(module, place)
        same = entry["source"] == now["source"]
        return (
            entry if same and (entry["fate"] == KILLED or entry["tests"] == now["tests"]) else None
        )

    def add(self, module, place, **result):
        """Append a result."""
        entry = {"module": module, "name": place.name, "new": place.new, **result}
        entry |= self.digests(module, place)
        self.results[place.name, place.new] = entry
        with self.file.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")
        return entry


def run(mutants, out, jobs):
    """Try all mutants that OUT does not know yet; return module, place and result of each one."""
    out.mkdir(parents=True, exist_ok=True)
    known = Known(out)
    todo = [(module, place) for module, place in mutants if known.find(module, place) is None]
    reach = reaches(list(dict.fromkeys(module for module, _ in todo)), out, jobs)
    kills = Counter(entry["by"] for entry in known.results.values())

    def attempt(worker, task):
        module, place = task
        seconds = reach[module].seconds
        tests = [
            test
            for part in reach[module].tests_of(place)
            for test in sorted(part, key=lambda test: (seconds[test] + 0.02) / (1 + kills[test]))
        ]
        spent = list(itertools.accumulate(seconds[test] for test in tests))
        tests = tests[: 1 + bisect.bisect(spent, ENOUGH)]
        if not tests:
            return module, place, {"fate": UNREACHED, "by": "", "took": 0.0}
        limits = {test: LEAST + FACTOR * seconds[test] for test in tests}
        path = ROOT / place.file
        answer = worker.ask(
            MODULES[module], file=str(path), text=place.applied(path.read_text()), tests=limits,
            paths=list(dict.fromkeys(test.split("::")[0] for test in tests)),
            seconds=60.0 + 2.0 * sum(seconds[test] for test in tests),
        )  # fmt: skip
        if answer["code"] in (4, 5):
            raise RuntimeError(f"{place.name}: the tests do not run:\n{answer['log']}")
        kills[answer["by"]] += 1
        fate = KILLED if answer["code"] else SURVIVED
        return module, place, {"fate": fate, "by": answer["by"], "took": answer["took"]}

    start = time.perf_counter()
    with contextlib.closing(in_parallel(jobs, attempt, todo)) as answers:
        for number, (module, place, result) in enumerate(answers):
            known.add(module, place, **result)
            fate = fate_of(place, result)
            if sys.stdout.isatty() or fate in (SURVIVED, UNREACHED) or number % 20 == 19:
                pace = (time.perf_counter() - start) / (number + 1)
                print(
                    f"{number + 1}/{len(todo)} ({pace:.1f} s each) {fate}: {place.name}", flush=True
                )
    return [(module, place, known.find(module, place)) for module, place in mutants]


def fate_of(place, result):
    """Return one word: killed, equivalent, survived or unreached."""
    if result["fate"] != KILLED and place.name in EQUIVALENT:
        return EQUIVALENT_
    return result["fate"]


def report(results):
    """Print a table by module; return whether few enough survive."""
    print(
        f"\n{'module':<12}{'planted':>9}{'killed':>9}{'equivalent':>12}{'surviving':>11}{'seconds':>9}"
    )
    fine = True
    for module in dict.fromkeys(module for module, _, _ in results):
        mine = [
            (fate_of(place, result), result) for other, place, result in results if other == module
        ]
        counts = Counter(fate for fate, _ in mine)
        surviving = counts[SURVIVED] + counts[UNREACHED]
        mean = sum(result["took"] for _, result in mine) / len(mine)
        print(
            f"{module:<12}{len(mine):>9}{counts[KILLED]:>9}{counts[EQUIVALENT_]:>12}"
            f"{surviving:>11}{mean:>9.1f}"
        )
        fine = fine and (module not in CRITICAL or surviving <= SHARE * len(mine))
    return fine


def chosen(module, count, seed):
    """Return `count` places of a module, the same ones for the same seed."""
    places = [
        place for file in matching(MODULES[module].files, SOURCE) for place in places_of(ROOT, file)
    ]
    random.Random(f"{module} {seed}").shuffle(places)
    return places[:count]


def by_hand(modules):
    """Return the mutants that were planted by hand."""
    return [(module, planted(ROOT, *given)) for module, *given in PLANTED if module in modules]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="+", choices=MODULES, default=list(MODULES))
    parser.add_argument("--count", type=int, default=100, help="places of each module, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the random places")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--planted", action="store_true", help="the list in planted.py only")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # also if started in the background by a shell
        signal.signal(number, signal.default_int_handler)
    mutants = by_hand(options.modules) if options.planted else []
    if not options.planted:
        print(f"a fixed random sample of at most {options.count} places of each module")
        for module in options.modules:
            mutants += [(module, place) for place in chosen(module, options.count, options.seed)]
    try:
        results = run(mutants, options.out, options.jobs)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
    fine = report(results)
    if options.planted:
        fine = all(result["fate"] == KILLED for _, _, result in results)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
