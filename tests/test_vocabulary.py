"""One word for one thing (docs/reference/conventions.md): no verb speaks as models do, no model as verbs do."""

from __future__ import annotations

import inspect

import pytest

import scirocco as sc
from scirocco import combine, models, optimise, samplers, simplex, tuning

OF_VERBS = {"num_samples", "chains", "seed", "threads", "workers", "progress", "initial"}
OF_MODELS = {"n_draws", "n_chains", "random_state", "n_jobs", "max_iter", "verbose", "start"}
OF_NOBODY = {
    "n_samples", "samples", "most", "iterations", "n_iter", "n_steps", "burnin", "warmup", "init", "rng", "algorithm",
    "solver", "time_limit", "minibatch_size",
}  # fmt: skip
VERBS = [
    sc.sample, sc.sample_dirichlet, sc.sample_shards, sc.check_calibration, sc.kernel, sc.tune, sc.resume, sc.find_mode,
    optimise.lipschitz_constants, combine.certify, combine.kdemc, combine.parametric, combine.semiparametric,
    combine.weierstrass, tuning.zigzag, tuning.glm_bounds,
]  # fmt: skip
MODELS = [getattr(models, name) for name in models.__all__ if isinstance(getattr(models, name), type)]


def words(function) -> set[str]:
    return set(inspect.signature(function).parameters)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_verbs(verb):
    assert not words(verb) & (OF_MODELS | OF_NOBODY)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_models(model):
    methods = {name: getattr(model, name) for name in dir(model) if not name.startswith("_")}
    methods = {name: m for name, m in methods.items() if inspect.isroutine(m) and m.__module__.startswith("scirocco")}
    assert "fit" in methods
    for name, method in {"__init__": model.__init__, **methods}.items():
        assert not words(method) & (OF_VERBS | OF_NOBODY), name


@pytest.mark.parametrize("module", [sc, samplers, simplex], ids=lambda module: module.__name__)
def test_every_class_has_one_name(module):
    classes = [value for value in (getattr(module, name) for name in module.__all__) if isinstance(value, type)]
    assert len(classes) == len(set(classes))
