"""The combinations of parameters that are sampled far too wide or too narrow, by the virial identity.

    E u'(x - mean) w'grad U = T u'w    for the right law and any constant vectors u and w

On a Gaussian with precision P, sampled with covariance C, the ratio of both sides is sampled over true variance of u'x
if u is a left and w a right eigenvector of C P; the extreme eigenvalues are the worst combinations of all, which may be
far off while every single parameter looks right. They are looked for in coordinates in which P is near T I,

    z = R x,  h = R'^-1 grad U,    the symmetric part of E z h' / T has the eigenvectors v,    u = R'v,  w = R^-1 v

on one half of the chains, and the identity is evaluated along them on the other half, so that the choice does not bias
it; then the other way round. R is the root of the curvature that the points and gradients of the first half show, if
there are enough of them; without it only what sticks out of the coordinates that were given is found, by Lanczos
iterations: a variance beyond 1 + sqrt(coordinates / points), roughly (Baik, Ben Arous and Peche 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scirocco.bias.virials import BLOCKS, Curvature, halves, sds
from scirocco.run.convergence import ess, standard_error

KRYLOV = 40  # products with the matrix, at most, for both of its ends
NAMED = 3  # parameters of a combination, at most
MOSTLY = 0.9  # of the squared length of a combination: what is not named then goes without saying


class Combination(NamedTuple):
    """A combination u'x of coordinates: sampled over true variance, its standard error, and u."""

    ratio: float
    error: float
    weights: np.ndarray


def worst_combinations(
    places: np.ndarray, slopes: np.ndarray, temperature: float = 1.0,
    curvatures: tuple[Curvature, Curvature] | None = None,
) -> tuple[Combination, Combination]:  # fmt: skip
    """The narrowest and the widest, from points and gradients, (chain, point, coordinate).

    ``curvatures`` is what ``Curvature.of_halves`` found.

    >>> x = np.random.default_rng(0).normal(size=(4, 100, 2))
    >>> wide = x + 0.5 * x.sum(axis=2, keepdims=True)  # twice too wide in the sum
    >>> narrowest, widest = worst_combinations(wide, wide)
    >>> print(round(widest.ratio), round(narrowest.ratio))
    4 1
    """
    centred = (np.asarray(a, np.float64) - np.mean(a, axis=(0, 1), dtype=np.float64) for a in (places, slopes))
    x, g = (halves(a) for a in centred)
    ways = []
    for here in (0, 1):
        pairs = _extremes(x[here], g[here], temperature, None if curvatures is None else curvatures[here])
        ways.append([_measured(x[1 - here], g[1 - here] / temperature, *pair) for pair in pairs])
    narrowest, widest = (_both(*found) for found in zip(*ways, strict=True))
    return narrowest, widest


def _extremes(
    x: np.ndarray, g: np.ndarray, temperature: float, curvature: Curvature | None
) -> list[tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """u and w with u'w = 1 for the smallest and the largest eigenvalue that these points show."""
    size = x.shape[-1]
    x, g = x.reshape(-1, size), g.reshape(-1, size)
    unit = sds(x) if curvature is None else curvature.unit
    z, h = x / unit, g * unit
    if curvature is not None:
        # Of the right law no eigenvalue is below T/d here, those of a matrix of correlations being at most d.
        root = np.sqrt(np.maximum(curvature.values, temperature / size))
        z, h = (z @ curvature.vectors) * root, (h @ curvature.vectors) / root
    found = _ends(z, h)
    if curvature is None:
        return [(v / unit, v * unit) for v in found]
    return [((curvature.vectors @ (root * v)) / unit, (curvature.vectors @ (v / root)) * unit) for v in found]


def _ends(z: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
    """The first and the last eigenvector of the symmetric part of z'h, from one Krylov space."""
    size = z.shape[1]
    start = np.random.default_rng(0).standard_normal(size)
    basis, images = np.empty((min(KRYLOV, size), size)), np.empty((min(KRYLOV, size), size))
    new, kept = start / np.linalg.norm(start), 0
    while True:
        basis[kept], images[kept] = new, z.T @ (h @ new) + h.T @ (z @ new)
        kept += 1
        new = images[kept - 1].copy()
        length = np.linalg.norm(new)
        for _ in range(2):  # once leaves what rounding adds
            new -= basis[:kept].T @ (basis[:kept] @ new)
        rest = np.linalg.norm(new)
        if kept == len(basis) or rest <= np.finfo(np.float64).eps * size * length:
            break
        new /= rest
    vectors = basis[:kept].T @ np.linalg.eigh(basis[:kept] @ images[:kept].T)[1]
    return [vectors[:, 0], vectors[:, -1]]


def _measured(x: np.ndarray, g: np.ndarray, u: np.ndarray, w: np.ndarray) -> Combination:
    """The identity along u and w, and the largest of three standard errors: by the autocorrelations of the products, by
    blocks of them, and by what so many effective draws leave to chance in a variance."""
    along = x @ u
    products = along * (g @ w)
    ratio = float(products.mean())
    blocks = np.concatenate([part.mean(axis=1) for part in np.array_split(products, BLOCKS, axis=1)])
    effective = float(ess(along[..., None], "mean")[0])
    errors = (
        float(standard_error(products[..., None])[0]), float(blocks.std(ddof=1)) / np.sqrt(len(blocks)),
        abs(ratio) * np.sqrt(2 / effective),
    )  # fmt: skip
    return Combination(ratio, max(errors), u)


def _both(one: Combination, other: Combination) -> Combination:
    """The mean of both ways round, and the combination that is farther off.

    Errors are added up: where few combinations are uncertain both ways find the same, and are off together.
    """
    far = max(one, other, key=lambda c: abs(np.log(max(c.ratio, np.finfo(np.float64).tiny))))
    return Combination((one.ratio + other.ratio) / 2, (one.error + other.error) / 2, far.weights)


def in_words(weights: np.ndarray, labels: Sequence[str]) -> str:
    """The largest weights of a combination, of length 1 together and the first positive.

    >>> in_words(np.array([3.0, 0.0, -4.0]), ["a", "b", "c"])
    '0.80 c - 0.60 a'
    """
    shares = weights / np.linalg.norm(weights)
    order = np.argsort(-np.abs(shares).round(2), kind="stable")[:NAMED]
    named = order[np.abs(shares[order]) > np.abs(shares[order[0]]) / 10]
    shares = shares[named] * np.sign(shares[named[0]])
    terms = [
        f"{'-' if share < 0 else '+'} {abs(share):.2f} {labels[k]}" for k, share in zip(named, shares, strict=True)
    ]
    rest = " + ..." if np.sum(shares**2) < MOSTLY else ""
    return " ".join(terms).removeprefix("+ ") + rest
