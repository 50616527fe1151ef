"""How topic shares depend on what is known of the documents.

    eta_dk = x_d' b_k + noise,    for every draw of the topics and of the documents' weights

The method of composition: each draw of the weights (``documents.document_draws``) gives a least-squares fit with its
normal law, of which one draw of b_k is taken; together they are draws of b_k that contain the uncertainty of the
topics, of the weights and of the regression. Only the sums x'x, x'eta and eta'eta are kept, so any number of documents
takes the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.models.effects import Effects, design
from scirocco.models.lda.documents import apart, document_draws, in_parts

__all__ = ["Effects", "effects"]


def effects(
    draws: np.ndarray, alpha: np.ndarray, documents: Documents, covariates: Any, *, seed: int, threads: int | None,
    labels: list[str],
) -> Effects:  # fmt: skip
    """The regression of topic shares on covariates, over draws of the topics."""
    matrix, names = design(covariates, documents.size)
    size, width = matrix.shape
    cross, squares = np.zeros((len(draws), width, alpha.size)), np.zeros((len(draws), alpha.size))
    seeds = apart(documents)
    for where, some in in_parts(documents):
        eta = document_draws(draws, alpha, some, seeds[where], seed=seed, threads=threads)
        cross += np.einsum("np,snk->spk", matrix[where], eta)
        squares += np.square(eta).sum(axis=1)
    inverse = np.linalg.inv(matrix.T @ matrix)
    fitted = inverse @ cross
    residual = np.maximum(squares - (fitted * cross).sum(axis=1), 0.0) / max(1, size - width)
    rng = generator(seed, Purpose.EFFECTS)
    noise = np.linalg.cholesky(inverse) @ rng.standard_normal(cross.shape)
    return Effects(fitted + noise * np.sqrt(residual)[:, None], names, labels=labels)
