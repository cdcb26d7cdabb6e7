# Each command does its own set-up, with uv if it is there and with venv and pip if not.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

## help: this list
.PHONY: help
help:
	@sed -n 's/^## //p' Makefile | awk '{ at = index($$0, ": "); printf "make %-10s %s\n", substr($$0, 1, at - 1), substr($$0, at + 2) }'

## zip: the skill folder for hosts that take an upload, in dist/
.PHONY: zip
zip:
	@$(PYTHON) tests/hosts.py zip

## install: virtual environment with the pinned tools (every target below does this first)
.PHONY: install
install: $(VENV)/installed

$(VENV)/installed: requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed (trl 1.16); make PYTHON=python3.12 names another")'
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && uv pip install --python $(BIN)/python -r requirements-dev.txt; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet -r requirements-dev.txt; \
	fi
	@touch $@

## demo: inspect the rewards on 96 real completions, then rehearse a run on the CPU (about two minutes)
.PHONY: demo
demo: install
	@$(BIN)/python examples/demo.py

## check: the whole test suite (not covered: GPUs, vLLM and so AsyncGRPO end to end; docker: make containers)
.PHONY: check
check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python tests/run.py

## validate: what the hosts' own tools say of the plugin (npm puts 400 MB of Claude Code into .venv/hosts)
.PHONY: validate
validate: install
	@$(BIN)/python tests/hosts.py validate --cache $(VENV)/hosts

## fix: bring documents, generated tables and the mirror in line with the code (says what it changed, then exits 1)
.PHONY: fix
fix: install
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format --quiet
	$(BIN)/python -m pytest --fix tests/test_docsync.py

## stamp: renew `Last verified` if the whole suite passes with nothing skipped
.PHONY: stamp
stamp: install
	$(BIN)/python tests/run.py --stamp

## bench: completions per second beside TRL's own functions, and candidates per second in the sandbox
.PHONY: bench
bench: install
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rewards.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/sandbox.py

## curves: the example run behind the expected curves, three seeds (about 40 minutes on two cores)
.PHONY: curves
curves: install
	$(BIN)/python benchmarks/expected_curves.py

## containers: the attack corpus under docker and gVisor (root on Debian; 1 GB below /var/tmp the first time)
.PHONY: containers
containers: install
	$(BIN)/python benchmarks/containers.py --write benchmarks/containers.md
