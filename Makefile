# `make demo` and `make test` need nothing but Debian or Ubuntu, root and this checkout.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3

.PHONY: setup demo test lint sanity unit lab-test e2e bench docs clean

setup: $(VENV)/.ready

$(VENV)/.ready: setup.py galaxy.yml tools/prepare-machine
	tools/prepare-machine $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# From bare lab hosts to a model that answers; a second run shows that nothing changes.
demo: setup
	$(BIN)/python tools/demo.py

test: setup
	tools/run-tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict .
	ANSIBLE_COLLECTIONS_PATH=playbooks/collections ANSIBLE_INVENTORY=inventories/mixed $(BIN)/ansible-lint --strict --nocolor
	$(BIN)/vermin --quiet --no-tips --target=3.6- --violations --no-parse-comments plugins/modules plugins/module_utils
	$(BIN)/python tools/role_docs.py --check
	tools/run-sanity

# The parts of ansible-test that need no container, run on a copy at the path that it insists on.
sanity: setup
	tools/run-sanity

unit: setup
	$(BIN)/pytest tests/unit tests/engine

lab-test: setup
	$(BIN)/pytest tests/lab tests/roles

e2e: setup
	$(BIN)/pytest tests/e2e

bench: setup
	$(BIN)/python tests/bench/validate.py

# Write the generated parts of the documentation.
docs: setup
	$(BIN)/python tools/role_docs.py
	$(BIN)/python -m vllm_fleet validate --schema > docs/inventory.schema.json
	$(BIN)/python tools/catalog_docs.py
	$(BIN)/python tools/doctor_docs.py

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
