"""Mixtures with an unknown number of clusters."""

from scirocco.models.dp_mixture.components import Bernoulli, Categorical, Component, Multinomial, Poisson
from scirocco.models.dp_mixture.estimator import DirichletProcessMixture
from scirocco.models.dp_mixture.mixed import Gaussian, Mixed

__all__ = [
    "Bernoulli",
    "Categorical",
    "Component",
    "DirichletProcessMixture",
    "Gaussian",
    "Mixed",
    "Multinomial",
    "Poisson",
]
