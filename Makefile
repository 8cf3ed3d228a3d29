# Every target but help and clean first brings .venv up to date. EXTRAS=gpu adds torch; it is on where nvidia-smi answers.
PYTHON ?= python3
EXTRAS ?= $(if $(shell nvidia-smi -L 2>/dev/null),gpu)
BIN := .venv/bin
READY := .venv/.ready$(if $(EXTRAS),-$(EXTRAS))
DEMO := build/demo
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format types bench clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(READY)  ## .venv with what the demo and the tests need

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev$(if $(EXTRAS),$(,)$(EXTRAS))]'
	@touch $@
, := ,

demo: setup  ## the shipped conversations: trace, plan, two replays, verdict, report
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	tracegen generate traces/recipes/demo.toml -o $(DEMO)/trace.parquet
	@echo
	replayer plan $(DEMO)/trace.parquet
	@echo
	replayer run $(DEMO)/trace.parquet --cache-dir $(DEMO)/cache -o $(DEMO)/run1
	replayer run $(DEMO)/trace.parquet --cache-dir $(DEMO)/cache -o $(DEMO)/run2
	@echo
	analysis report $(DEMO)/run1 $(DEMO)/run2 -o $(DEMO)/report.html
	analysis summary $(DEMO)/run1 $(DEMO)/run2

test: setup  ## the test suite
	$(BIN)/python -m pytest

lint: setup  ## ruff: errors, style, formatting
	ruff check .
	ruff format --check .

format: setup  ## let ruff mend what it can
	ruff check --fix .
	ruff format .

types: setup  ## mypy, strict
	mypy

bench: setup  ## figures beside their references; the disk part needs root and fio
	$(BIN)/python -m tests.bench

clean:  ## remove what make made
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
