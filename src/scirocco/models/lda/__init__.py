"""Latent Dirichlet allocation."""

from scirocco.models.lda.choice import TopicChoice, choose_topics
from scirocco.models.lda.estimator import LDA

__all__ = ["LDA", "TopicChoice", "choose_topics"]
