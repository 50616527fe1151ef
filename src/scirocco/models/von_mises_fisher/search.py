"""Where the chains begin: a mode of the posterior, and which concentrations "auto" takes.

Many seeds on a part of the rows are merged; the best of several tries is brought to the mode on all rows by expectation
maximisation. In high dimensions rows of a cluster are nearly as far from each other as from all others. Seeds then hit
clusters by chance, and those that share one never part again: hence more seeds than components.

If components have concentrations of their own they compete for rows by their width, and that is right only where rows
lie around their means as the law of von Mises and Fisher says. It says that x . mu has the variance A'(kappa). The
``dispersion`` is the mean over rows and components of (x . mu - A)^2 / A', 1 if the law is right (White's test of the
information, for kappa). Rows of real clusters differ more: some are typical and some are not. The typical ones then
make narrow components, and one wide component, the background, takes the others of all clusters. So "auto" takes one
shared concentration where the dispersion is too large, and others where it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.special import softmax

from scirocco.core.interrupt import poll
from scirocco.core.seeds import Purpose, generator
from scirocco.models.von_mises_fisher.laws import (
    SHARED,
    Mixture,
    Prior,
    change_of,
    in_pieces,
    kappas_of,
    length_and_slope,
)

EXACT = 10**7  # products of a row's features, up to which they are taken in double precision
SOUGHT_ROWS, STARTS, SEEDS = 10_000, 4, 3  # rows at least, tries, seeds for each component
HARD_SWEEPS, SOFT_SWEEPS = 8, 10
ROWS_SWEPT, LEAST_SWEEPS, MOST_SWEEPS = 5 * 10**6, 30, 500  # over all rows: as many as they are few
SWEPT = 2**14  # rows at a time
NEWTON_STEPS = 10
SETTLED = 0.05  # gain of a sweep in the log posterior of all rows
DISPERSED, ERRORS = 1.2, 3.0  # a dispersion that is too large, and how many of its sds it must be beyond
LEAVING = 0.05  # share of all rows that are in a background and would not be if all components were as wide


@dataclass(frozen=True)
class Found:
    """A mode, how the rows lie around it, and what was decided by that."""

    mixture: Mixture
    concentration: str
    dispersion: float | None
    """Of a mixture whose concentrations are not shared; 1 if the law of the components is right."""
    rows: int
    background: int | None
    """The component that takes rows of others because it is wide."""

    @property
    def misfit(self) -> bool:
        """Whether rows differ more than their components say."""
        return self.dispersion is not None and self.dispersion > DISPERSED + ERRORS * math.sqrt(2 / self.rows)


def start(X: np.ndarray, components: int, prior: Prior, seed: int, near: Mixture | None, auto: bool) -> Found:
    """A mode, near an earlier one or from seeds; with ``auto`` that of one concentration where others mislead."""
    found = _examined(X, _mode_of(X, components, prior, seed, near), prior)
    if not (auto and found.misfit and components > 1):
        return found
    shared = replace(prior, concentration=SHARED)
    return replace(found, mixture=_mode_of(X, components, shared, seed, near), concentration=SHARED, background=None)


def _examined(X: np.ndarray, mixture: Mixture, prior: Prior) -> Found:
    """The dispersion of the rows, and the background, of a mixture whose concentrations are not shared."""
    if prior.shared:
        return Found(mixture, SHARED, None, len(X), None)
    kappas, widest = mixture.kappas, int(np.argmin(mixture.log_kappas))
    length, slope = length_and_slope(prior.dimension, kappas)
    common = replace(mixture, log_kappas=(mixture.weights @ mixture.log_kappas)[None])
    total, own, leaving = 0.0, 0, 0
    for logs, x in mixture.each_log_densities(X, SWEPT):
        away = (x @ mixture.means.T.astype(x.dtype) - length) ** 2 / slope
        total += float(np.sum(softmax(logs, axis=1) * away, dtype=np.float64))
        mine = logs.argmax(axis=1) == widest
        own += int(mine.sum())
        if mine.any():
            leaving += int(np.sum(next(common.each_log_densities(x[mine], SWEPT))[0].argmax(axis=1) != widest))
    found = Found(mixture, prior.concentration, total / len(X), len(X), None)
    large = own > len(X) / len(kappas) and leaving > LEAVING * len(X)
    return replace(found, background=widest) if found.misfit and large and len(kappas) > 1 else found


def _mode_of(X: np.ndarray, components: int, prior: Prior, seed: int, near: Mixture | None) -> Mixture:
    if near is not None:
        logs = near.log_kappas
        return mode_near(X, replace(near, log_kappas=logs.mean(keepdims=True) if prior.shared else logs), prior)
    return mode(X, components, prior, generator(seed, Purpose.MIXTURE_SEARCH))


def mode(X: np.ndarray, components: int, prior: Prior, rng: np.random.Generator) -> Mixture:
    """A mode of the posterior, by expectation maximisation, the largest component first."""
    X = X.astype(np.float64) if X.size * components <= EXACT else X
    part = X[rng.permutation(len(X))[: max(SOUGHT_ROWS, 100 * components)]]
    tries = [_climb(part, _seeded(part, components, prior, rng), prior, SOFT_SWEEPS) for _ in range(STARTS)]
    best = max(tries, key=lambda found: found[1])[0]
    found = mode_near(X, best, prior)
    return found.ordered(np.argsort(-found.weights, kind="stable"))


def mode_near(X: np.ndarray, mixture: Mixture, prior: Prior) -> Mixture:
    """The mode that sweeps over all rows lead to."""
    X = X.astype(np.float64) if X.size * len(mixture.weights) <= EXACT else X
    return _climb(X, mixture, prior, int(np.clip(ROWS_SWEPT // len(X), LEAST_SWEEPS, MOST_SWEEPS)))[0]


def _seeded(X: np.ndarray, components: int, prior: Prior, rng: np.random.Generator) -> Mixture:
    """Spherical k-means from too many seeds; then the two clusters are merged that lose least, until enough are left.

    The loss is that of k-means, |a| + |b| - |a + b| of the sums a and b of their rows.
    """
    seeds = min(SEEDS * components, len(X))
    means = _spread_rows(X, seeds, rng)
    for _ in range(HARD_SWEEPS):
        nearest = np.concatenate([(x @ means.T).argmax(axis=1) for x in in_pieces(X, SWEPT)])
        sums = coo_array((np.ones(len(X), X.dtype), (nearest, np.arange(len(X)))), shape=(seeds, len(X))).tocsr() @ X
        means = _directions(sums, means)
    sums, sizes = sums.astype(np.float64), np.bincount(nearest, minlength=seeds).astype(np.float64)
    while len(sums) > components:
        gram = sums @ sums.T
        square = np.diag(gram)
        lost = np.sqrt(square)[:, None] + np.sqrt(square) - np.sqrt(np.maximum(square[:, None] + square + 2 * gram, 0))
        lost[np.tril_indices(len(sums))] = np.inf
        a, b = np.unravel_index(int(np.argmin(lost)), lost.shape)
        sums[a], sizes[a] = sums[a] + sums[b], sizes[a] + sizes[b]
        sums, sizes = np.delete(sums, b, axis=0), np.delete(sizes, b)
    logs = np.full(1 if prior.shared else components, prior.centre)
    return _maximised(Mixture(sizes, _directions(sums, X[:components]), logs), sizes, sums, prior)


def _spread_rows(X: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn one by one in proportion to their squared distance from those before (k-means++)."""
    chosen, far = [int(rng.integers(len(X)))], np.full(len(X), 2.0)
    while len(chosen) < wanted:
        far = np.clip(1 - X @ X[chosen[-1]], 0, far)
        chances = far / far.sum() if np.any(far > 0) else None
        chosen.append(int(rng.choice(len(X), p=chances)))
    return X[chosen]


def _climb(X: np.ndarray, mixture: Mixture, prior: Prior, sweeps: int) -> tuple[Mixture, float]:
    """Sweeps of expectation maximisation, and the log posterior before the last."""
    reached = -np.inf
    for _ in range(sweeps):
        poll()
        sizes, sums, value = np.zeros(len(mixture.weights)), np.zeros(mixture.means.shape), log_prior_of(mixture, prior)
        for logs, x in mixture.each_log_densities(X, SWEPT):
            top = logs.max(axis=1, keepdims=True)
            chances = np.exp(logs - top)
            total = chances.sum(axis=1, keepdims=True)
            chances /= total
            sizes += chances.sum(axis=0, dtype=np.float64)
            sums += chances.T @ x
            value += np.sum(np.log(total) + top, dtype=np.float64)
        mixture = _maximised(mixture, sizes, sums, prior)
        if value - reached < SETTLED:
            break
        reached = value
    return mixture, value


def log_prior_of(mixture: Mixture, prior: Prior) -> float:
    """With respect to the free numbers, in which the mode is."""
    concentrations = prior.of_concentrations(mixture.log_kappas)[0]
    return float(prior.alpha * np.log(mixture.weights).sum() + concentrations + np.sum(mixture.means @ prior.pull))


def _maximised(mixture: Mixture, sizes: np.ndarray, sums: np.ndarray, prior: Prior) -> Mixture:
    """The best parameters given expected sizes and sums of rows of the components."""
    weights = (sizes + prior.alpha) / (sizes + prior.alpha).sum()
    means = _directions(mixture.kappas[:, None] * sums + prior.pull, mixture.means)
    along, logs = np.sum(means * sums, axis=1), mixture.log_kappas
    if prior.shared:
        along, sizes = along.sum(keepdims=True), sizes.sum(keepdims=True)
    for _ in range(NEWTON_STEPS):
        kappas = kappas_of(logs)
        change = change_of(kappas)
        length, slope = length_and_slope(prior.dimension, kappas)
        rise = change * (along - sizes * length)
        _, pull, precision = prior.of_concentrations(logs)
        # A slope is changed by a step of 1 about as much as it is large, so that no step goes too far.
        logs = logs + (rise + pull) / (sizes * change**2 * slope + np.abs(rise) + precision)
    return Mixture(weights, means, logs)


def _directions(sums: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Of length 1; another vector in place of zero."""
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(lengths > 0, sums / np.where(lengths > 0, lengths, 1), otherwise)
