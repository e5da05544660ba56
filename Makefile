# The same commands as .ci/run, one at a time, in a virtual environment of the working copy.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help install test slow kernels lint format types bench demo docs ci

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  \1\t/'

install: $(VENV)/.installed  ## editable install with the extras test and bench

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -e ".[test,bench]"
	@touch $@

test: install  ## run the fast tests
	$(BIN)/python -m pytest -ra

slow: install  ## run the slow tests, and the property tests with more examples
	$(BIN)/python -m pytest -ra --slow -m "slow or hypothesis"

kernels: install  ## run the smoke tests on the linear algebra of other processors
	$(BIN)/python .ci/kernels.py

lint: install  ## style and common mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install  ## rewrite the files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install  ## check the types in src
	$(BIN)/mypy src

bench: install  ## the short benchmark of the coders
	$(BIN)/python -m benchmarks.coding --quick

docs: $(VENV)/.docs  ## build the documentation with its examples; any warning is an error; open docs/_build/html/index.html
	$(BIN)/sphinx-build -W --keep-going docs docs/_build/html

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/pip install -e ".[docs]"
	@touch $@

demo: install  ## digits, known and unknown; writes srosr-demo.png
	$(BIN)/srosr demo

ci:  ## everything that continuous integration runs, in a new environment
	.ci/run
