# Two commands do all the set-up on a machine with Python 3.11 or newer and pip: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types test-all bench experiments clean clean-compiled

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# slower statistical sweeps too
test-all: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

# needs SCIROCCO_DATA, the folder with the data sets
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/gradient_engine.py --peers
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/simplex_engine.py
	$(BIN)/python benchmarks/lda.py
	$(BIN)/python benchmarks/lda_scaling.py

# the last four need SCIROCCO_DATA as well
experiments: $(VENV)/.dev
	$(BIN)/python experiments/double_well.py --output results
	$(BIN)/python experiments/normal_mean.py --output results
	$(BIN)/python experiments/normal_gamma.py --output results
	$(BIN)/python experiments/sparse_boxplot.py --output results
	$(BIN)/python experiments/ks_distance.py --output results
	$(BIN)/python experiments/control_variate_boxplots.py --output results
	$(BIN)/python experiments/variance_curves.py --output results
	$(BIN)/python experiments/lda_stream.py --output results
	$(BIN)/python experiments/lda_control_variate.py --output results
	$(BIN)/python experiments/lda_thermostat.py --output results
	$(BIN)/python experiments/lda_growing_data.py --output results

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[experiments]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[dev,bench]"
	touch $@

clean:
	rm -rf $(VENV) results build dist

# Numba's cached machine code, which does not notice changes in other files than its own
clean-compiled:
	find src -name '*.nb[ic]' -delete
