"""Ready models, as scikit-learn estimators.

Each is loaded when first used: only topics and mixtures need Numba, which takes 0.2 s to load.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_WHERE = {
    "BayesianPCA": "bayesian_pca",
    "LDA": "lda",
    "choose_topics": "lda",
    "DirichletProcessMixture": "dp_mixture",
    "GaussianMixture": "gaussian_mixture",
    "LogisticRegression": "logistic",
    "MatrixFactorization": "matrix_factorization",
    "NeuralNetworkClassifier": "neural_network",
    "NeuralNetworkRegressor": "neural_network",
    "SphericalAdmixture": "sam",
    "TfIdf": "sam",
    "VonMisesFisherMixture": "von_mises_fisher",
    "choose_components": "von_mises_fisher",
}

__all__ = [
    "LDA",
    "BayesianPCA",
    "DirichletProcessMixture",
    "GaussianMixture",
    "LogisticRegression",
    "MatrixFactorization",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "SphericalAdmixture",
    "TfIdf",
    "VonMisesFisherMixture",
    "choose_components",
    "choose_topics",
]

if TYPE_CHECKING:
    from scirocco.models.bayesian_pca import BayesianPCA
    from scirocco.models.dp_mixture import DirichletProcessMixture
    from scirocco.models.gaussian_mixture import GaussianMixture
    from scirocco.models.lda import LDA, choose_topics
    from scirocco.models.logistic import LogisticRegression
    from scirocco.models.matrix_factorization import MatrixFactorization
    from scirocco.models.neural_network import NeuralNetworkClassifier, NeuralNetworkRegressor
    from scirocco.models.sam import SphericalAdmixture, TfIdf
    from scirocco.models.von_mises_fisher import VonMisesFisherMixture, choose_components


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'scirocco.models' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"scirocco.models.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
