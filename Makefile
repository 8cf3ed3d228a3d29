# Every target but help and clean first brings .venv up to date. EXTRAS=gpu adds torch; it is on where nvidia-smi answers.
PYTHON ?= python3
EXTRAS ?= $(if $(shell nvidia-smi -L 2>/dev/null),gpu)
BIN := .venv/bin
READY := .venv/.ready$(if $(EXTRAS),-$(EXTRAS))
DEMO := build/demo
# Twelve users who think for 8 to 80 ms, so that the drive is kept busy; an object of 4 to 40 MB each turn; a drive of 2 GB/s
# as the reference, for a laptop has one between 0.5 and 7.
DEMO_LOAD := --order reference:nvme-2 --cycles 3 --pace closed --speedup 60 --decode once --kv-dtype fp8 --storage-capacity-gb 1

# Of `make submission` and `make sweep`. The smoke scale needs none of them.
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
need = $(if $($(1)),,$(error $(1) is not set: $(2)))

export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo test submission sweep lint format types bench clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(READY)  ## .venv with what the demo and the tests need

$(READY): pyproject.toml constraints.txt $(wildcard replayer/core/* tracegen/core/*)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev$(if $(EXTRAS),$(,)$(EXTRAS))]'
	@touch $@
, := ,

demo: setup  ## what DRAM before a drive brings: a trace, its plan, three replays with it and three without, the ratio
	@rm -rf $(DEMO) && mkdir -p $(DEMO)/cache
	tracegen generate demo -o $(DEMO)/trace.parquet
	@echo
	replayer plan $(DEMO)/trace.parquet $(DEMO_LOAD) --cpu-mem-gb 0.1
	@echo
	replayer run $(DEMO)/trace.parquet $(DEMO_LOAD) --cpu-mem-gb 0.1 --cache-dir $(DEMO)/cache --repeat 3 -o $(DEMO)/dram
	replayer run $(DEMO)/trace.parquet $(DEMO_LOAD) --cpu-mem-gb 0 --cache-dir $(DEMO)/cache --repeat 3 -o $(DEMO)/drive
	@echo
	analysis summary $(DEMO)/dram-1 $(DEMO)/drive-1
	@echo
	analysis report $(DEMO)/dram-* $(DEMO)/drive-* -o $(DEMO)/report.html
	analysis compare $(DEMO)/dram-* --against $(DEMO)/drive-* --vary usable_bytes

test: setup  ## the test suite
	$(BIN)/python -m pytest

submission: setup  ## MLPerf's options: traces, trials, package, validation; CACHE_DIR= RESULTS= SYSTEM= ORG=, or SCALE=smoke
	$(call need,CACHE_DIR,a directory on the system under test)$(call need,RESULTS,a directory on another file system)
	$(call need,SYSTEM,the name of the system under test)$(call need,ORG,the name of your organisation)
	$(if $(filter cut full,$(WORK)),,$(error WORK=$(WORK) must be cut (300 s a trial) or full (to the end of the trace)))
	$(if $(and $(filter full,$(WORK)),$(filter closed,$(DIVISION))),$(error WORK=full is not CLOSED: pass DIVISION=open))
	$(if $(filter file,$(origin CACHE_DIR)),@mkdir -p '$(CACHE_DIR)')
	analysis submission begin '$(SUBMISSION)' --org '$(ORG)' --system '$(SYSTEM)' --division '$(DIVISION)' \
	  --scale '$(SCALE)' --trials '$(TRIALS)' --cache-dir '$(CACHE_DIR)' --results '$(RESULTS)'
	replayer sweep '$(or $(GRID),submission-$(SCALE))' --cache-dir '$(CACHE_DIR)' --trials '$(TRIALS)' --ranks '$(RANKS)' \
	  --mpirun '$(MPIRUN)' $(if $(filter full,$(WORK)),--flag duration=unlimited) -o '$(SUBMISSION)/replays'
	analysis submission package '$(SUBMISSION)' --results '$(RESULTS)'
	analysis submission validate '$(RESULTS)/$(DIVISION)/$(ORG)'

sweep: setup  ## the cases of a TOML file: GRID= CACHE_DIR= RESULTS=; trials, comparison, report
	$(call need,GRID,a TOML file of cases, see docs/sweeps.md)$(call need,RESULTS,a directory to make or go on with)
	replayer sweep '$(GRID)' $(if $(CACHE_DIR),--cache-dir '$(CACHE_DIR)') --ranks '$(RANKS)' --mpirun '$(MPIRUN)' -o '$(RESULTS)'
	analysis compare '$(RESULTS)'/*/trial_*
	analysis report '$(RESULTS)'/*/trial_* -o '$(RESULTS)/report.html' --force

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
