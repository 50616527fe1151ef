"""Latent Dirichlet allocation."""

from scirocco.models.lda.estimator import LDA
from scirocco.models.lda.topic_choice import TopicChoice, choose_topics

__all__ = ["LDA", "TopicChoice", "choose_topics"]
