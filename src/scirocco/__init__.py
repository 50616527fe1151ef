"""Bayesian inference on data too large for ordinary MCMC.

    import scirocco as sc

    target = sc.Target(log_prior, log_likelihood, data)
    trace = sc.sample(target, sc.SGLD(step_size=1e-5), initial, batch_size=500, estimator=sc.ControlVariate())
    print(trace.summary())

Names are loaded when first used, so that ``import scirocco`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

_WHERE = {
    "Target": "target",
    "Latent": "latent",
    "sample": "verbs.sample",
    "resume": "run",
    "kernel": "verbs.tune",
    "tune": "verbs.tune",
    "Auto": "samplers",
    "DamagedError": "run",
    "DivergenceError": "run",
    "Trace": "run",
    "Block": "gradient.blocks",
    "SGLD": "samplers",
    "PSGLD": "samplers",
    "SGHMC": "samplers",
    "SGNHT": "samplers",
    "UnderdampedLangevin": "samplers",
    "SMSUBU": "samplers",
    "Barker": "samplers",
    "GeodesicSGNHT": "samplers",
    "SGGMC": "samplers",
    "GMC": "samplers",
    "NUTS": "samplers",
    "ZigZag": "samplers",
    "GradientNoise": "samplers",
    "Matrix": "samplers",
    "Plain": "estimators",
    "ControlVariate": "estimators",
    "SAGA": "estimators",
    "SVRG": "estimators",
    "Decreasing": "schedules",
    "cyclical": "schedules",
    "Recipe": "recipe",
    "check_invariance": "recipe",
    "find_mode": "optimise",
    "check_calibration": "verbs.check_calibration",
    "sample_dirichlet": "verbs.sample_dirichlet",
    "sample_shards": "verbs.sample_shards",
    "Sharded": "verbs.sample_shards",
    "update": "verbs.update",
    "SCIR": "simplex",
    "SCIRCV": "simplex",
    "SGRLD": "simplex",
    "LDA": "models",
    "choose_components": "models",
    "choose_topics": "models",
    "DirichletProcessMixture": "models",
    "BayesianPCA": "models",
    "GaussianMixture": "models",
    "LogisticRegression": "models",
    "MatrixFactorization": "models",
    "NeuralNetworkClassifier": "models",
    "NeuralNetworkRegressor": "models",
    "SphericalAdmixture": "models",
    "VonMisesFisherMixture": "models",
}
_MODULES = {
    "batches",
    "bias",
    "combine",
    "constraints",
    "corpora",
    "counts",
    "datasets",
    "diagnostics",
    "diffusions",
    "directional",
    "estimators",
    "integrators",
    "manifolds",
    "models",
    "optimise",
    "partitions",
    "plots",
    "postprocess",
    "recipe",
    "run",
    "samplers",
    "schedules",
    "simplex",
    "theory",
    "tuning",
}

__all__ = [
    "GMC",
    "LDA",
    "NUTS",
    "PSGLD",
    "SAGA",
    "SCIR",
    "SCIRCV",
    "SGGMC",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRLD",
    "SMSUBU",
    "SVRG",
    "Auto",
    "Barker",
    "BayesianPCA",
    "Block",
    "ControlVariate",
    "DamagedError",
    "Decreasing",
    "DirichletProcessMixture",
    "DivergenceError",
    "GaussianMixture",
    "GeodesicSGNHT",
    "GradientNoise",
    "Latent",
    "LogisticRegression",
    "Matrix",
    "MatrixFactorization",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "Plain",
    "Recipe",
    "Sharded",
    "SphericalAdmixture",
    "Target",
    "Trace",
    "UnderdampedLangevin",
    "VonMisesFisherMixture",
    "ZigZag",
    "batches",
    "bias",
    "check_calibration",
    "check_invariance",
    "choose_components",
    "choose_topics",
    "combine",
    "constraints",
    "corpora",
    "counts",
    "cyclical",
    "datasets",
    "diagnostics",
    "diffusions",
    "directional",
    "estimators",
    "find_mode",
    "integrators",
    "kernel",
    "manifolds",
    "models",
    "optimise",
    "partitions",
    "plots",
    "postprocess",
    "recipe",
    "resume",
    "run",
    "sample",
    "sample_dirichlet",
    "sample_shards",
    "samplers",
    "schedules",
    "simplex",
    "theory",
    "tune",
    "tuning",
    "update",
]

if TYPE_CHECKING:
    from scirocco import (
        batches,
        bias,
        combine,
        constraints,
        corpora,
        counts,
        datasets,
        diagnostics,
        diffusions,
        directional,
        estimators,
        integrators,
        manifolds,
        models,
        optimise,
        partitions,
        plots,
        postprocess,
        recipe,
        run,
        samplers,
        schedules,
        simplex,
        theory,
        tuning,
    )
    from scirocco.estimators import SAGA, SVRG, ControlVariate, Plain
    from scirocco.gradient.blocks import Block
    from scirocco.latent import Latent
    from scirocco.models import (
        LDA,
        BayesianPCA,
        DirichletProcessMixture,
        GaussianMixture,
        LogisticRegression,
        MatrixFactorization,
        NeuralNetworkClassifier,
        NeuralNetworkRegressor,
        SphericalAdmixture,
        VonMisesFisherMixture,
        choose_components,
        choose_topics,
    )
    from scirocco.optimise import find_mode
    from scirocco.recipe import Recipe, check_invariance
    from scirocco.run import DamagedError, DivergenceError, Trace, resume
    from scirocco.samplers import (
        GMC,
        NUTS,
        PSGLD,
        SGGMC,
        SGHMC,
        SGLD,
        SGNHT,
        SMSUBU,
        Auto,
        Barker,
        GeodesicSGNHT,
        GradientNoise,
        Matrix,
        UnderdampedLangevin,
        ZigZag,
    )
    from scirocco.schedules import Decreasing, cyclical
    from scirocco.simplex import SCIR, SCIRCV, SGRLD
    from scirocco.target import Target
    from scirocco.verbs.check_calibration import check_calibration
    from scirocco.verbs.sample import sample
    from scirocco.verbs.sample_dirichlet import sample_dirichlet
    from scirocco.verbs.sample_shards import Sharded, sample_shards
    from scirocco.verbs.tune import kernel, tune
    from scirocco.verbs.update import update


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"scirocco.{name}")
    if name in _WHERE:
        value = getattr(importlib.import_module(f"scirocco.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'scirocco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
