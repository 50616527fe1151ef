# Two commands do all the set-up on a machine with Python 3.11 or newer and pip: `make demo` and `make test`.
# `make test PYTHON=python3.13` does it for another version, in an environment of its own.

PYTHON ?= python3
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(patsubst python%,%,$(notdir $(PYTHON))))
BIN := $(VENV)/bin
LOWEST := .venv-lowest
# uv takes a tenth of pip's time; where it finds no index, as behind a mirror that only pip knows, pip does it
install = $(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2) || $(1)/bin/python -m pip install --quiet $(2)

.PHONY: demo test suite lint types test-all test-quick test-lowest test-pymc test-package package coverage bench experiments docs \
	docs-fresh clean clean-compiled

# 3 says that the verdict is not to use the result, as it may be where a machine is slow
demo: $(VENV)/.demo
	rm -rf results/demo
	$(BIN)/scirocco demo --out results/demo || [ $$? -eq 3 ]

# types are looked at by one core while the other begins with the tests
test: lint
	$(MAKE) --no-print-directory -j 2 types suite

suite: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --durations=20

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	# texts of users go into a page as texts
	! grep -nE 'innerHTML|outerHTML|insertAdjacentHTML|document\.write' src/scirocco/report/assets/report.js

# the library, and a program that uses it
types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/mypy tests/consumer.py

# slower statistical sweeps too, compiled as users compile
test-all: lint types
	XLA_FLAGS= $(BIN)/python -m pytest -n 2 --dist worksteal --durations=20

# a little of everything, which a new version of Python or of a library would break first
test-quick: $(VENV)/.test
	XLA_FLAGS= $(BIN)/python -m pytest tests -n 2 -m "quick and not slow"

# the same with the oldest versions that pyproject.toml allows; what they find deprecated in each other is their affair
test-lowest: $(LOWEST)/.test
	XLA_FLAGS= $(LOWEST)/bin/python -m pytest tests -n 2 -m "quick and not slow" -W ignore::DeprecationWarning

# PyMC's models; it wants an older Numba than there is, and so lives beside the other packages, not among them
test-pymc: $(VENV)-pymc/.test
	PYTHONPATH=src PYTENSOR_FLAGS=cxx= $(VENV)-pymc/bin/python -m pytest tests/interop/test_pymc.py

# what is published: the wheel and the archive of sources
package: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*
	# on PyPI links have to lead to the repository
	! tar -xzOf dist/*.tar.gz --wildcards "*/PKG-INFO" | grep -E "\]\((docs|CONTRIBUTING)"

# what `make package` has made, in an environment outside of this folder: the quick tests, and a program that uses it
test-package:
	outside=$$(mktemp -d) && trap 'rm -rf "$$outside"' EXIT && wheel=$$(echo "$(CURDIR)"/dist/*.whl) && \
	$(PYTHON) -m venv "$$outside/env" && "$$outside/env/bin/python" -m pip install --quiet uv && \
	($(call install,"$$outside/env","$$wheel[test]" mypy)) && \
	tar -xzf dist/*.tar.gz -C "$$outside" --strip-components=1 && cd "$$outside" && PATH="$$outside/env/bin:$$PATH" && \
	python -c "import scirocco; print(scirocco.__file__)" | grep -F "$$outside/env/" && \
	mypy tests/consumer.py && XLA_FLAGS= python -m pytest tests -n 2 -m "quick and not slow"

# the share of lines and branches; what Numba compiles counts as not run
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --cov=scirocco --cov-branch \
		--cov-report=term-missing:skip-covered

# the site, docs/_build/html/index.html, which opens without a network; pages that run code are run when they change
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -j auto docs docs/_build/html
	$(BIN)/python docs/_extensions/offline.py docs/_build/html

# all of them run
docs-fresh:
	rm -rf docs/_build docs/evidence/reproduction
	$(MAKE) docs

# needs SCIROCCO_DATA, the folder with the data sets
bench: $(VENV)/.bench results/covertype_reference.npz
	$(BIN)/python benchmarks/gradient_engine.py --peers
	$(BIN)/python benchmarks/uncertainty.py
	$(BIN)/python benchmarks/verdicts.py
	$(BIN)/python benchmarks/long_steps.py
	$(BIN)/python benchmarks/zigzag.py
	$(BIN)/python benchmarks/bias_cost.py --output results
	$(BIN)/python benchmarks/large_table.py
	$(BIN)/python benchmarks/numpyro_models.py
	$(BIN)/python benchmarks/local_parameters.py
	$(BIN)/python benchmarks/covertype.py --reference results/covertype_reference.npz
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/simplex_engine.py
	$(BIN)/python benchmarks/geodesic.py --peers
	$(BIN)/python benchmarks/vmf_mixture.py
	$(BIN)/python benchmarks/vmf_concentrations.py
	$(BIN)/python benchmarks/vmf_embeddings.py
	$(BIN)/python benchmarks/directions_coverage.py
	$(BIN)/python benchmarks/spherical_coverage.py
	$(BIN)/python benchmarks/combine.py
	$(BIN)/python benchmarks/lda.py
	$(BIN)/python benchmarks/lda_speed.py
	$(BIN)/python benchmarks/lda_scaling.py
	$(BIN)/python benchmarks/lda_threads.py
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/cluster_gradients.py
	$(BIN)/python benchmarks/dp_mixture.py
	$(BIN)/python benchmarks/dp_mixture.py --data synthetic --rows 100000
	$(BIN)/python benchmarks/dp_mixture_scaling.py
	$(BIN)/python benchmarks/latent_classes.py
	$(BIN)/python benchmarks/mixed_tables.py
	$(BIN)/python benchmarks/practitioner.py

# takes long and is made once
results/covertype_reference.npz: | $(VENV)/.bench
	$(BIN)/python benchmarks/covertype.py --make-reference 1500 $@

# from lda_stream.py on they need SCIROCCO_DATA as well
experiments: $(VENV)/.dev
	$(BIN)/python experiments/double_well.py --output results
	$(BIN)/python experiments/normal_mean.py --output results
	$(BIN)/python experiments/normal_gamma.py --output results
	$(BIN)/python experiments/sparse_boxplot.py --output results
	$(BIN)/python experiments/ks_distance.py --output results
	$(BIN)/python experiments/control_variate_boxplots.py --output results
	$(BIN)/python experiments/variance_curves.py --output results
	$(BIN)/python experiments/against_nuts.py --output results
	$(BIN)/python experiments/gaussian_mixture.py --output results
	$(BIN)/python experiments/divide_and_conquer.py --output results
	$(BIN)/python experiments/constant_cost.py --output results
	$(BIN)/python experiments/geodesic_circle.py --output results
	$(BIN)/python experiments/geodesic_mixture.py --output results
	$(BIN)/python experiments/lda_stream.py --output results
	$(BIN)/python experiments/lda_control_variate.py --output results
	$(BIN)/python experiments/lda_thermostat.py --output results
	$(BIN)/python experiments/lda_coverage.py --output results
	$(BIN)/python experiments/lda_growing_data.py --output results
	$(BIN)/python experiments/dp_mixture.py --output results
	$(BIN)/python experiments/dp_mixture_starts.py --output results
	$(BIN)/python experiments/logistic_growing_data.py --output results
	$(BIN)/python experiments/logistic_zero_variance.py --output results
	$(BIN)/python experiments/six_samplers_logistic.py --output results
	$(BIN)/python experiments/six_samplers_network.py --output results
	$(BIN)/python experiments/matrix_factorization_growing_data.py --output results
	$(BIN)/python experiments/matrix_factorization_zero_variance.py --output results
	$(BIN)/python experiments/thermostat_learning.py --output results
	$(BIN)/python experiments/spherical_topics.py --output results

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(call install,$(VENV),-e ".[experiments]")
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(call install,$(VENV),-e ".[test]")
	touch $@

$(LOWEST)/.test: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e ".[test]"
	touch $@

$(VENV)-pymc/.test: $(VENV)/.dev
	$(BIN)/python -m venv $(VENV)-pymc
	cd $(VENV)-pymc/lib/python3*/site-packages && echo "$(CURDIR)"/$(VENV)/lib/python3*/site-packages > beside.pth
	$(VENV)-pymc/bin/python -m pip install --quiet "pymc>=5.28.5,<7"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(call install,$(VENV),-e ".[dev]")
	touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	$(call install,$(VENV),-e ".[docs]")
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[dev,bench]"
	# it asks for an old ArviZ, which it never imports
	$(BIN)/python -m pip install --quiet --no-deps geosss==0.3.5
	touch $@

clean:
	rm -rf .venv .venv-* results build dist docs/_build docs/evidence/reproduction .coverage*

# Numba's cached machine code, which does not notice changes in other files than its own
clean-compiled:
	find src -name '*.nb[ic]' -delete
