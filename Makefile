# `make test` and `make reproduce` need only python3 (3.11 or newer) and make: they make .venv themselves.
PYTHON ?= python3
# Python keeps what it compiles, whatever the environment says: otherwise importing torch takes twice as long, in each of
# some hundred processes.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
# One thread per process: the tests run in as many processes as there are cores.
ALONE := OMP_NUM_THREADS=1
SOURCES := $(shell find memgrad -name '*.py')
DOCS := $(shell find docs -name '_*' -prune -o -type f -print)
# Types and docs are made beside the tests.
MAKEFLAGS += --jobs=2
# As many as there are cores: one more, to use the time in which tests wait, took 8 % longer.
WORKERS := $(shell nproc 2>/dev/null || echo 2)

# A second, and part of `tests`: as something that they wait for, it would give their turn to the docs.
define LINT
$(BIN)/ruff check .
$(BIN)/ruff format --check .
endef

.PHONY: help test tests test-slow mutants lint types docs docs-quick wheel wheel-quick explorer reproduce bench clean
.DELETE_ON_ERROR:

help:
	@echo "make test       lint, types, docs, the wheel in short, tests with doctests (what CI runs)"
	@echo "make test-slow  the tests that take minutes, and the docs with their figures"
	@echo "make mutants    break the library on purpose, and see whether the tests notice (hours; see CONTRIBUTING.md)"
	@echo "make docs       the documentation, into docs/_build/html"
	@echo "make wheel      the sdist and the wheel, into dist/, tried in a new environment (downloads the dependencies)"
	@echo "make explorer   the interactive page, from explorer/ into memgrad/explorer/ (needs Node 20 and npm)"
	@echo "make bench      the benchmarks, and the tables of the docs"
	@echo "make reproduce  rehearse the paper: its figures, claims and a report, into reproduction/"
	@echo "make clean      remove .venv and everything that was built"

test: tests types docs-quick wheel-quick

# Each process takes a stretch of the list, and what its tests share (a cluster, a browser) is made once.
tests: $(BIN)/installed
	$(LINT)
	$(ALONE) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-slow: $(BIN)/installed-trainers docs
	$(ALONE) $(BIN)/python -m pytest -m slow -n $(WORKERS) --dist worksteal

# Options as in `make mutants MUTANTS="--package memory --sample 50 --seed 1"`. What was done is kept in .mutants.
mutants: $(BIN)/installed
	$(ALONE) $(BIN)/python tests/mutants/run.py $(MUTANTS)

lint: $(BIN)/installed
	$(LINT)

types: $(BIN)/installed
	$(BIN)/mypy

docs: docs/_build/built

# -E reads every page again: a warning that failed one build must not be missed by the next.
docs/_build/built: $(BIN)/installed $(SOURCES) $(DOCS)
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@touch $@

# The same pages without drawing their figures, to check text, links and docstrings.
docs-quick: $(BIN)/installed
	$(BIN)/python -m sphinx -E -W --keep-going -q -t quick -b html docs docs/_build/quick

wheel: $(BIN)/installed
	$(ALONE) $(BIN)/python release/wheel.py

# The same with the dependencies of .venv: half a minute, no network.
wheel-quick: $(BIN)/installed
	$(ALONE) $(BIN)/python release/wheel.py --borrow

# Only those who change the page need Node: the built page is part of the repository, and a test says when it is stale.
explorer:
	@command -v npm >/dev/null || { echo "make explorer needs Node 20 or newer with npm, which is not installed." >&2; exit 1; }
	cd explorer && npm ci --no-fund --no-audit && npm run build

reproduce: $(BIN)/installed
	$(BIN)/memgrad reproduce

# The constraints hold for the build backend too, hence the variable. Python compiles the modules that it imports: pip
# would compile all of them first, which takes more than half of the time of installing.
$(BIN)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"memgrad needs Python 3.11 or newer, got {sys.version}")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	@touch $@

$(BIN)/installed-trainers: $(BIN)/installed
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[trainers]'
	@touch $@

$(BIN)/installed-bench: $(BIN)/installed
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[bench]'
	@touch $@

bench: $(BIN)/installed-bench
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/optimizer_step.py --threads 1 --out docs/benchmarks/mixture_step.md
	$(BIN)/python benchmarks/sde_paths.py --out docs/benchmarks/sde_paths.md
	$(BIN)/python benchmarks/sweep.py --out docs/benchmarks/sweep.md

clean:
	rm -rf .venv dist explorer/node_modules docs/_build docs/_generated reproduction .mypy_cache .pytest_cache .ruff_cache .hypothesis .mutants
