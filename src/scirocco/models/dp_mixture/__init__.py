"""Mixtures with an unknown number of clusters."""

from scirocco.models.dp_mixture.components import Bernoulli, Categorical, Component, Multinomial, Poisson
from scirocco.models.dp_mixture.estimator import DirichletProcessMixture

__all__ = ["Bernoulli", "Categorical", "Component", "DirichletProcessMixture", "Multinomial", "Poisson"]
