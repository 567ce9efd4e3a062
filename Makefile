# `make demo` and `make test` are the two commands; `make help` lists the others.
# Each first makes .venv, with everything at the versions of plugins/constraints.txt.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The first Python 3.11 or later. Another: make PYTHON=/path/to/python3.12 test
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$python"; break; }; done)

BIN := .venv/bin
STAMP := .venv/installed
# Reinstall when one of these changes. pyspark_volley.py is here because an editable install holds a copy of it.
INPUTS := pyproject.toml $(wildcard plugins/*/pyproject.toml) plugins/editable.txt plugins/constraints.txt \
	volley_connectors/spark/pyspark_volley.py
PACKAGES := volley_core volley_connectors $(wildcard plugins/*/volley_*)
PYTEST := $(BIN)/python -m pytest --durations=15

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: $(STAMP) ## stream files into a table, with a crash in the middle, and count the rows
	$(BIN)/volley demo

.PHONY: test
test: lint servers ## lint, then all tests
	$(PYTEST)

.PHONY: quick
quick: servers ## all tests but the slow ones
	$(PYTEST) -m "not slow"

.PHONY: lint
lint: $(STAMP) ## formatting, ruff, and mypy in strict mode
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES)

.PHONY: servers
servers: $(STAMP) ## download or build the servers that tests talk to, once
	$(BIN)/python -m tests.servers

.PHONY: format
format: $(STAMP) ## format the code and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(STAMP) ## a benchmark: make bench BENCH=engine, or another module of benchmarks/
	$(BIN)/python -m benchmarks.$(or $(BENCH),engine)

.PHONY: constraints
constraints: $(STAMP) ## pin the newest versions of all dependencies that fit together
	{ sed -n '/^#/p' plugins/constraints.txt; \
	  $(BIN)/uv pip compile pyproject.toml --all-extras --python-version 3.11 --upgrade --no-header --no-annotate --quiet \
	  | grep -E '^[a-z0-9._-]+==' | LC_ALL=C sort; } > .venv/constraints.txt
	mv .venv/constraints.txt plugins/constraints.txt
	git --no-pager diff --stat -- plugins/constraints.txt

.PHONY: clean
clean: ## remove .venv and everything that was built
	rm -rf .venv dist build spark-warehouse metastore_db derby.log .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The variables reach the environments that pip builds in too, so that hatchling is pinned as well: one is for pip
# before 25.3, one for later. Their paths are relative because pip splits them at spaces.
$(STAMP): $(INPUTS)
	@[ -n "$(PYTHON)" ] || { echo "No Python 3.11 or later was found. Install one, or name it: make PYTHON=..." >&2; exit 1; }
	[ -x $(BIN)/pip ] || "$(PYTHON)" -m venv .venv
	PIP_CONSTRAINT=plugins/constraints.txt PIP_BUILD_CONSTRAINT=plugins/constraints.txt \
		$(BIN)/python -m pip install --quiet -r plugins/editable.txt
	$(BIN)/python -m pip check
	touch $(STAMP)
