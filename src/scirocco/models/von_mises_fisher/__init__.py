"""Mixtures of directions: a package of its prior, its search for a start, and the estimator."""

from scirocco.models.von_mises_fisher.choice import ComponentChoice, choose_components
from scirocco.models.von_mises_fisher.estimator import VonMisesFisherMixture

__all__ = ["ComponentChoice", "VonMisesFisherMixture", "choose_components"]
