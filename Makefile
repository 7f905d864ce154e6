# Everything runs in the project's own .venv; a machine needs python3, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
EXTRAS := fast,plot,report,cli,dask,onnx,zarr,docs,browser,dev
# One test process per core pays off only while each of them keeps to a single BLAS thread pool.
TEST_WORKERS ?= 2

.PHONY: setup demo test fresh lint bench docs clean

setup: $(STAMP)

# Where ensurepip is missing, venv leaves no pip; the machine's own pip then puts one there.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) \
	  || ( $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install pip )

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS)

# The pages of the first hour, each with the built wheel in an environment of its own. Needs a package index.
fresh: $(STAMP)
	KOMPAKT_FRESH_INSTALL=1 $(BIN)/python -m pytest -n 0 -s tests/test_fresh_install.py

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks.engine $(ARGS)

# A warning is an error; the gallery's examples run here. Needs no network.
docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf docs/_build docs/gallery docs/api/generated docs/api/backreferences
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
