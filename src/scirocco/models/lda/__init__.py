"""Latent Dirichlet allocation."""

from scirocco.models.lda.estimator import LDA

__all__ = ["LDA"]
