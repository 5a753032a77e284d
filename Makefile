# Every target sets itself up: a machine with Python 3.11 or newer and make is enough.
# `make help` lists them. PYTHON names the interpreter that makes .venv, VENV where it goes.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null \
	&& echo $$p && break; done)
VENV ?= .venv
BIN = $(VENV)/bin
SETUP = VENV=$(VENV) $(PYTHON) tools/setup_venv.py
SEED ?= 0
DRAWS ?= 20000
ARGS ?=

.PHONY: help demo test test-all fuzz sweep history bench lint format types docs map check-python clean

help:
	@echo "make demo       the three demonstrations; pictures in demo_output/"
	@echo "make test       the test suite, without its slow tests (ARGS= goes to pytest)"
	@echo "make test-all   all of it"
	@echo "make fuzz       random programs against real JAX (DRAWS=20000 SEED=0)"
	@echo "make sweep      every function of numpy, scipy, nn against real JAX (ARGS='--x64 --draws 50')"
	@echo "make history    calls whose answers must not depend on the calls before them (ARGS='--families 400')"
	@echo "make bench      workloads against real JAX and NumPy (ARGS='--quick --only loops')"
	@echo "make lint       ruff: rules and format      make format   lets ruff rewrite the files"
	@echo "make types      mypy, strict, on the package"
	@echo "make docs       the documentation as a site in build/site, with the API reference"
	@echo "make map        rewrites docs/map.md from the files' first lines"

check-python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3.12"; exit 1; }

demo: check-python
	@$(SETUP) demo
	@$(BIN)/python -m demo $(ARGS)

test: check-python
	@$(SETUP) test
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-all: check-python
	@$(SETUP) test
	$(BIN)/python -m pytest $(ARGS)

fuzz: check-python
	@$(SETUP) test
	$(BIN)/python tests/fuzz_run.py --draws $(DRAWS) --seed $(SEED) $(ARGS)

sweep: check-python
	@$(SETUP) test
	$(BIN)/python tests/sweep_run.py --seed $(SEED) $(ARGS)

history: check-python
	@$(SETUP) test
	$(BIN)/python tests/history_run.py --seed $(SEED) $(ARGS)

bench: check-python
	@$(SETUP) bench
	$(BIN)/python -m benchmarks $(ARGS)

lint: check-python
	@$(SETUP) dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: check-python
	@$(SETUP) dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: check-python
	@$(SETUP) dev
	$(BIN)/mypy

docs: check-python
	@$(SETUP) docs
	$(BIN)/mkdocs build --strict

map: check-python
	@$(PYTHON) tools/make_map.py

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache build dist demo_output benchmarks/results
