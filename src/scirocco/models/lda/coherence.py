"""Coherence: do the first words of a topic occur in the same documents?

    npmi    mean over pairs of  log(p_ij / (p_i p_j)) / -log p_ij
    c_v     mean over words of  cos(v_i, sum_j v_j),    v_i = (npmi_i1, ..., npmi_in)

with p from the share of documents that have a word, or both (Bouma 2009; Roeder, Both and Hinneburg 2015). A bag of
words has no order, so the window of c_v is the whole document; in the paper it slides over 110 words.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from scirocco.corpora.documents import Documents

MEASURES = ("npmi", "c_v")


def coherence(best: np.ndarray, documents: Documents, measure: str = "npmi") -> np.ndarray:
    """Of each topic, whose first words are the columns ``best`` (topic, word)."""
    wanted, places = np.unique(best, return_inverse=True)
    mutual, places = _mutual_information(wanted, documents), places.reshape(best.shape)
    score = _of_pairs if measure == "npmi" else _of_vectors
    return np.array([score(mutual[np.ix_(words, words)]) for words in places])


def _mutual_information(wanted: np.ndarray, documents: Documents) -> np.ndarray:
    """Normalised, of every two words: 1 if they only occur together, 0 if independent, -1 if they never meet."""
    place = np.full(documents.width, -1)
    place[wanted] = np.arange(len(wanted))
    inside = place[documents.words] >= 0
    owner = np.repeat(np.arange(documents.size), np.diff(documents.starts))[inside]
    present = sp.csr_array(
        (np.ones(len(owner)), (owner, place[documents.words[inside]])), shape=(documents.size, len(wanted))
    )
    together = np.asarray((present.T @ present).todense()) / max(1, documents.size)
    single = together.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        mutual = np.log(together / np.outer(single, single)) / -np.log(together)
    return np.where(together == 0, -1.0, np.where(together == 1, 1.0, mutual))


def _of_pairs(mutual: np.ndarray) -> float:
    below = np.tril_indices(len(mutual), -1)
    return float(mutual[below].mean()) if len(below[0]) else np.nan


def _of_vectors(mutual: np.ndarray) -> float:
    if len(mutual) < 2:
        return np.nan
    vectors = mutual.copy()
    np.fill_diagonal(vectors, 1.0)
    whole = vectors.sum(axis=0)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(whole)
    return float(np.mean(vectors @ whole / np.maximum(lengths, np.finfo(float).tiny)))
