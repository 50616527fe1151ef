"""Learning the priors of LDA from the current assignments.

    alpha_k <- alpha_k sum_d [psi(n_dk + alpha_k) - psi(alpha_k)] / sum_d [psi(n_d + A) - psi(A)],    A = sum_k alpha_k
    beta <- beta sum_kw [psi(n_kw + beta) - psi(beta)] / (W sum_k [psi(n_k + W beta) - psi(W beta)])

One step of the fixed point of the marginal likelihood (Minka 2000) after each pass: a Monte Carlo expectation
maximisation. What is sampled is then the posterior given these priors; alpha may differ from topic to topic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma

from scirocco.core.compiled import jit

LEAST_PRIOR = 1e-4  # of alpha and beta: a topic that nobody uses must stay possible


@jit
def _histograms(starts: Any, z: Any, topics: int, limit: int) -> Any:
    """How many documents have n tokens of topic k, and n tokens in all."""
    by_topic, by_length = np.zeros((topics, limit + 1), np.int64), np.zeros(limit + 1, np.int64)
    near = np.zeros(topics, np.int64)
    for d in range(starts.size - 1):
        for k in range(topics):
            near[k] = 0
        for t in range(starts[d], starts[d + 1]):
            near[z[t]] += 1
        for k in range(topics):
            by_topic[k, near[k]] += 1
        by_length[starts[d + 1] - starts[d]] += 1
    return by_topic, by_length


def alpha_sums(alpha: np.ndarray, starts: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, float]:
    """What the step for alpha needs of some documents: sums, above for each topic, and below."""
    limit = int(np.diff(starts).max(initial=0))
    by_topic, by_length = _histograms(starts, z, alpha.size, limit)
    sizes, total = np.arange(limit + 1), alpha.sum()
    used = np.flatnonzero(by_topic.any(axis=0))
    above = (by_topic[:, used] * (digamma(used + alpha[:, None]) - digamma(alpha)[:, None])).sum(axis=1)
    return above, float(by_length @ (digamma(sizes + total) - digamma(total)))


def learnt_alpha(alpha: np.ndarray, above: np.ndarray, below: float) -> np.ndarray:
    """One step for alpha, topic by topic."""
    return np.maximum(alpha * above / max(below, 1e-300), LEAST_PRIOR)


def learnt_beta(beta: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """One step for a beta that is the same for all words; counts are words x topics."""
    words, level = counts.shape[0], float(beta.mean())
    numbers, times = np.unique(counts, return_counts=True)
    above = times @ (digamma(numbers + level) - digamma(level))
    below = words * np.sum(digamma(counts.sum(axis=0) + words * level) - digamma(words * level))
    return np.full(words, max(level * above / max(below, 1e-300), LEAST_PRIOR))
