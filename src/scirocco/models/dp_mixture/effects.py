"""How the probability of a cluster depends on what else is known of the rows.

    P(z_i = k | x_i) = x_i' b_k,    sum_k b_k = (1, 0, ..., 0) for an intercept and covariates

b_k is how much the probability of cluster k changes with a covariate, the others being fixed: a difference of shares
for yes and no. The method of composition: each draw of the labels gets weights of its rows from a flat Dirichlet law,
the Bayesian bootstrap (Rubin 1981), and gives a least-squares fit; together they are draws of b that contain the
uncertainty of who belongs where and of which rows were seen, whatever the variance of a label given x.

The mixture knows nothing of x, so a label that it is unsure of depends on x less than the true one does. If the columns
are independent of x given the cluster, then with p_ik the membership of row i

    E(drawn share of s | x) = sum_t P(z = t | x) D_ts,    D_ts = sum_i p_it p_is / sum_i p_it

and coefficients are those of the drawn labels times the inverse of D (Bolck, Croon and Hagenaars 2004).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.models.effects import Effects, design

BLURRED = 100.0  # condition number of D from which it is said


def membership_effects(
    labels: Iterator[np.ndarray], membership: np.ndarray, covariates: Any, *, seed: int
) -> Effects:  # fmt: skip
    """From draws of the labels of rows, whose clusters are the columns of ``membership``: the last are others."""
    matrix, names = design(covariates, len(membership), "rows")
    rng, clusters = generator(seed, Purpose.EFFECTS), membership.shape[1]
    found = []
    for own in labels:
        weighted = matrix * rng.standard_exponential(len(matrix))[:, None]
        cross = np.stack([np.bincount(own, column, minlength=clusters) for column in weighted.T])
        found.append(np.linalg.solve(weighted.T @ matrix, cross))
    blur = _blur(membership)
    draws = np.linalg.solve(blur.T, np.array(found).transpose(0, 2, 1)).transpose(0, 2, 1)
    much = np.linalg.cond(blur) > BLURRED
    note = "clusters overlap so much that which of them depends on a covariate is hardly known." if much else ""
    return Effects(draws, names, note, "cluster", [*range(clusters - 1), "others"])


def _blur(membership: np.ndarray) -> np.ndarray:
    """D, (true, drawn); others that no row belongs to are left as they are drawn."""
    p = membership.astype(np.float64)
    together, rows = p.T @ p, p.sum(axis=0)
    few = rows < 1
    found = np.where(few[:, None], np.eye(rows.size), together / np.maximum(rows, 1e-300)[:, None])
    return np.asarray(found)
