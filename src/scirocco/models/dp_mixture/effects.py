"""How the probability of a cluster depends on what else is known of the rows.

    P(z_i = k | x_i) = x_i' b_k,    sum_k b_k = (1, 0, ..., 0) for an intercept and covariates

b_k is how much the probability of cluster k changes with a covariate, the others being fixed: a difference of shares
for yes and no. The method of composition: each draw of the labels gets weights of its rows from a flat Dirichlet law,
the Bayesian bootstrap (Rubin 1981), and gives a least-squares fit; together they are draws of b that contain the
uncertainty of who belongs where and of which rows were seen, whatever the variance of a label given x.

The mixture knows nothing of x, so a label that it is unsure of depends on x less than the true one does. If the columns
are independent of x given the cluster, then with p_ik the membership of row i

    E(drawn share of s | x) = sum_t P(z = t | x) D_ts,    D_ts = sum_i p_it p_is / sum_i p_it

and coefficients are those of the drawn labels times the inverse of D (Bolck, Croon and Hagenaars 2004). Where clusters
overlap so much that this would blow up the noise, coefficients are left as they are, nearer to 0 than the truth, which
is said; so are those of others, which are no cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.models.effects import Effects, design

BLURRED = 10.0  # condition number of D up to which it is inverted


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
    draws, known, note = np.array(found), clusters - 1, ""
    blur = _blur(membership[:, :known].astype(np.float64))
    if np.linalg.cond(blur) <= BLURRED:
        draws[:, :, :known] = draws[:, :, :known] @ np.linalg.inv(blur)
    else:
        note = (
            "Clusters overlap too much to correct for labels that are unsure: effects are nearer to 0 than the truth."
        )
    return Effects(draws, names, note, "cluster", [*range(known), "others"])


def _blur(p: np.ndarray) -> np.ndarray:
    """D, (true, drawn)."""
    together = p.T @ p
    return np.asarray(together / np.maximum(together.sum(axis=1, keepdims=True), 1e-300))
