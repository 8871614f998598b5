# `make demo` and `make test` need nothing but Python 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SHOW := $(VENV)/.show
BENCH := .venv-bench
FRAMEWORKS := $(VENV)/.frameworks
SITE := $(VENV)/.site
RELEASE := .venv-release
OLDEST := .venv-oldest

.PHONY: demo test test-slow lint coverage crash fuzz mutants bench bench-page docs docs-links release-check test-oldest test-peers clean help

help:
	@echo "make demo       set up, compare with shuffling and scikit-learn on real data, write a page"
	@echo "make test       set up, then lint, types, layers, tests, kernel coverage"
	@echo "make test-slow  the long versions of the same tests (about 40 minutes)"
	@echo "make crash      kill runs 3,000 times, fill their disks; all must resume (five minutes)"
	@echo "make lint       ruff, mypy and import-linter alone"
	@echo "make coverage   the kernels of index and random, numba switched off"
	@echo "make fuzz       120,000 damaged states, each refused or harmless (about half an hour)"
	@echo "make mutants    change 100 places of each module and see whether its tests notice; resumes"
	@echo "make bench      compare speed with other libraries and append to benchmarks/results"
	@echo "make bench-page docs/benchmarks.md and its pictures, from the rows of make bench"
	@echo "make docs       the documentation site in out/docs; a warning or a broken local link fails"
	@echo "make docs-links try its links to other sites (needs the network)"
	@echo "make release-check  wheel and sdist: contents, an empty environment, types (three minutes)"
	@echo "make test-oldest    a part of the tests with the oldest versions that pyproject.toml allows (five minutes)"
	@echo "make test-peers     tests of scikit-learn, celer, skglm, dask-ml and PyTorch where installed, with our classes"
	@echo "make clean      remove what the others made"

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "tombola needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(SHOW): pyproject.toml constraints.txt | $(BIN)/python
	@echo "== setting up $(VENV): what the command line needs"
	$(INSTALL) --editable '.[cli]'
	@touch $@

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "== setting up $(VENV): what the tests need, PyTorch among it"
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(SHOW)

demo: $(SHOW)
	@echo "== on real data, against shuffling and scikit-learn"
	@rm -rf out/demo
	$(BIN)/tombola demo --out out/demo

test: lint
	@echo "== tests, compiled"
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"
	@$(MAKE) --no-print-directory coverage

coverage: $(READY)
	@echo "== the kernels again, numba switched off, for their coverage"
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=uncompiled $(BIN)/python -m pytest -q -n 2 -m "kernels and not slow" --cov --cov-report= tests/index tests/test_random.py tests/compiling
	$(BIN)/python -m coverage report --include='src/tombola/index/*,src/tombola/random.py' --show-missing --fail-under=95

mutants: $(READY)
	@echo "== mutants planted by hand, then at random places"
	$(BIN)/python tests/mutants/run.py --planted
	$(BIN)/python tests/mutants/run.py

$(FRAMEWORKS): $(READY)
	@echo "== installing the frameworks that recipes are for"
	$(INSTALL) lightning transformers
	@touch $@

test-slow: $(FRAMEWORKS)
	@echo "== the long versions"
	$(BIN)/python -m pytest -m slow
	@echo "== all kernels again, numba switched off"
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=uncompiled $(BIN)/python -m pytest -q -m "kernels and not slow" tests

crash: $(READY)
	PYTHONPATH=tests $(BIN)/python -m crash.run

lint: $(READY)
	@echo "== lint, types, layers"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

COUNT ?= 120000

fuzz: $(READY)
	@echo "== damaged states of all that loads one"
	$(BIN)/python tests/fuzz_campaign.py --count $(COUNT)

# an environment of its own: a peer needs an older pandas than the tests
$(BENCH)/.ready: pyproject.toml constraints.txt benchmarks/peers.txt
	@echo "== setting up $(BENCH): the libraries to compare with (large)"
	$(PYTHON) -m venv $(BENCH)
	grep -v '^pandas' constraints.txt > $(BENCH)/constraints.txt
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(BENCH)/constraints.txt --editable '.[all]' --requirement benchmarks/peers.txt
	@touch $@

bench: $(BENCH)/.ready
	$(BENCH)/bin/python benchmarks/cold.py
	$(BENCH)/bin/python benchmarks/generator.py
	$(BENCH)/bin/python benchmarks/index.py
	$(BENCH)/bin/python benchmarks/samplers.py
	$(BENCH)/bin/python benchmarks/solvers.py
	$(BENCH)/bin/python benchmarks/torch_loader.py
	$(BENCH)/bin/python benchmarks/torch_norms.py
	$(BENCH)/bin/python benchmarks/replay.py

bench-page: $(READY)
	$(BIN)/python benchmarks/page.py

$(SITE): $(READY)
	@echo "== installing what the documentation site needs"
	$(INSTALL) --editable '.[docs]'
	@touch $@

SPHINX = $(BIN)/sphinx-build --fail-on-warning --nitpicky --quiet

docs: $(SITE)
	@echo "== the documentation site; the gallery runs for a minute or two the first time"
	$(SPHINX) docs out/docs
	@echo "out/docs/index.html"

docs-links: $(SITE)
	$(SPHINX) --builder linkcheck -D plot_gallery=0 docs out/docs-links

$(RELEASE)/.ready: constraints.txt
	@echo "== setting up $(RELEASE): what builds and checks a release"
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt build hatchling mypy 'pyright[nodejs]' twine
	@touch $@

# `make release-check PYTHON=python3.13` tries the wheel with another Python
release-check: $(RELEASE)/.ready $(READY)
	$(RELEASE)/bin/python tests/release/release_check.py --python $(PYTHON) --borrow $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# without PyTorch: its oldest version comes with gigabytes of CUDA
$(OLDEST)/.ready: pyproject.toml tests/release/oldest.py
	@echo "== setting up $(OLDEST): the oldest versions that pyproject.toml allows"
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/release/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/constraints.txt --editable '.[cli,dask]' hypothesis pandas pytest pytest-timeout
	@touch $@

# compiled code of its own, or `make test` would compile again; old libraries warn of newer ones
OLD_PYTEST = NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/compiled HYPOTHESIS_PROFILE=uncompiled $(OLDEST)/bin/python -m pytest -q -m "not slow" -W ignore::DeprecationWarning
OLD_TESTS := tests/test_package.py tests/test_random.py tests/index/test_draw.py tests/samplers/test_golden.py \
	tests/dask/test_collections.py tests/datasets tests/report tests/cli/test_main.py tests/cli/test_predict.py

test-oldest: $(OLDEST)/.ready
	@echo "== a part of the tests, with the oldest versions"
	$(OLD_PYTEST) $(OLD_TESTS)
	$(OLD_PYTEST) -k "(LinearClassifier or KMeans or Lasso) and not solver and not softmax" tests/estimators/test_conventions.py

SUITES ?=

# `make test-peers SUITES=k_means`; a library in another folder is found through PYTHONPATH
test-peers: $(READY)
	@echo "== other libraries' tests of their classes, with ours in their place"
	PYTHONPATH=tests:$$PYTHONPATH $(BIN)/python -m peers $(SUITES)

clean:
	rm -rf $(VENV) $(BENCH) $(RELEASE) $(OLDEST) dist out docs/generated docs/examples docs/sg_execution_times.rst .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
