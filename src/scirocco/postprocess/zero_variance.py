"""Zero-variance control variates: averages over draws with the gradient's help.

    E[c_j(theta)] = 0 under exp(-U),     linear    c_i  = d_i U
                                         quadratic c_ii = theta_i d_i U - 1,  c_ij = theta_i d_j U + theta_j d_i U

which are grad Q . grad U - Laplacian Q for the monomials Q. Then g - b'c has the mean of g, and with b = Var(c)^-1
Cov(c, g) the smallest variance: none at all for polynomials g of the same degree on a Gaussian. An unbiased estimate of
grad U does as well as long as it does not see the minibatches that made theta, only less so: what is removed falls with
its noise, so it goes with ``estimator=ControlVariate()``. Mira, Solgi and Imparato (2013); Friel, Mira and Oates
(2016); Baker et al. (2019), whose printed sign of b, and of the Laplacian, is wrong.

The coefficients come from a ridge regression whose penalty is chosen by generalised cross-validation. Each half of the
draws is corrected with the coefficients of the other half: a draw never takes part in its own correction, so many
parameters make it useless at worst, not wrong.

For SGLD the linear ones have mean 0 under the law that is sampled, too: E[theta_{k+1} - theta_k] = -h E[grad U]. The
quadratic ones have it up to the bias of the sampler; they then estimate something between its law and the posterior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scirocco.core.checks import numbers, real_array, require_count, require_finite
from scirocco.run.convergence import standard_error

PENALTIES = np.concatenate([[0.0], 10.0 ** np.arange(-10.0, 4.0)])  # relative to the mean square of the columns
MOST_COLUMNS = 5000
BATCHES = 64


@dataclass(frozen=True)
class ZeroVariance:
    """Corrected means with their standard errors, and the plain ones beside them."""

    mean: np.ndarray
    se: np.ndarray
    plain_mean: np.ndarray
    plain_se: np.ndarray

    @property
    def variance_ratio(self) -> np.ndarray:
        """How many times more draws the plain mean would need."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.square(self.plain_se / self.se))

    def __str__(self) -> str:
        rows = [f"{'mean':>12} {'se':>10} {'plain mean':>12} {'plain se':>10} {'gain':>8}"]
        parts = (self.mean, self.se, self.plain_mean, self.plain_se, self.variance_ratio)
        rows += [
            f"{m:12.5g} {s:10.3g} {p:12.5g} {q:10.3g} {r:8.3g}"
            for m, s, p, q, r in zip(*map(np.ravel, parts), strict=True)
        ]
        return "\n".join(rows)


def control_variates(positions: np.ndarray, gradients: np.ndarray, degree: int = 1) -> np.ndarray:
    """The functions of mean 0, (..., columns), from positions and gradients of U, (..., d)."""
    if degree == 1:
        return gradients
    d = positions.shape[-1]
    i, j = np.triu_indices(d, 1)
    cross = positions[..., i] * gradients[..., j] + positions[..., j] * gradients[..., i]
    return np.concatenate([gradients, positions * gradients - 1, cross], axis=-1)


def zero_variance(
    values: Any, positions: Any, gradients: Any, *, degree: int = 1, ridge: float | None = None
) -> ZeroVariance:  # fmt: skip
    """Means of ``values`` (chain, draw, ...) with control variates.

    ``positions`` and ``gradients``, of U, have the shape (chain, draw, d). ``degree`` is 1 or 2; ``ridge`` is the
    penalty relative to the mean square of the control variates, chosen from the draws if None. ``trace_zero_variance``
    calls this with what a run has kept.
    """
    _require_degree(degree)
    _require_ridge(ridge)
    theta, slope, wanted = _arrays(positions, gradients, values)
    if theta.ndim != 3 or theta.shape != slope.shape or wanted.shape[:2] != theta.shape[:2]:
        raise ValueError(
            "values, positions and gradients must have shapes (chain, draw, ...), (chain, draw, d), (chain, draw, d); "
            f"got {wanted.shape}, {theta.shape}, {slope.shape}"
        )
    if theta.shape[1] < 4:
        raise ValueError(f"at least 4 draws from each chain are needed; got {theta.shape[1]}")
    _require_finite(wanted, theta, slope)
    _require_columns(theta.shape[2], degree)
    centre = theta.mean(axis=(0, 1))  # a shift of the origin changes the span of the columns by nothing
    columns = control_variates(theta - centre, slope, degree)
    flat = wanted.reshape(*wanted.shape[:2], -1)
    half = flat.shape[1] // 2
    corrected = np.empty_like(flat)
    for fitted, applied in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        x, y = (a[:, fitted].reshape(-1, a.shape[-1]) for a in (columns, flat))
        coefficients = _regression(x, y, ridge)
        corrected[:, applied] = flat[:, applied] - columns[:, applied] @ coefficients
    shape = wanted.shape[2:]
    means = [a.mean(axis=(0, 1)).reshape(shape) for a in (corrected, flat)]
    errors = [standard_error(a).reshape(shape) for a in (corrected, flat)]
    return ZeroVariance(means[0], errors[0], means[1], errors[1])


def _require_degree(degree: int) -> None:
    if degree not in (1, 2):
        raise ValueError(f"degree must be 1 or 2; got {degree!r}")


def _require_ridge(ridge: float | None) -> None:
    if ridge is not None and real_array("ridge", ridge, least=0.0).ndim:
        raise ValueError(f"ridge must be one number; got {ridge!r}")


def _arrays(positions: Any, gradients: Any, values: Any) -> Iterator[np.ndarray]:
    for name, given in (("positions", positions), ("gradients", gradients), ("values", values)):
        yield numbers(name, given).astype(np.float64, copy=False)


def _require_finite(values: np.ndarray, positions: np.ndarray, gradients: np.ndarray) -> None:
    for name, array in (("values", values), ("positions", positions), ("gradients", gradients)):
        require_finite(name, array)


def _require_columns(d: int, degree: int) -> None:
    columns = d if degree == 1 else d * (d + 3) // 2
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"{d} parameters make {columns:,} control variates of degree {degree}; at most {MOST_COLUMNS:,} can be "
            "fitted. Take degree=1, or fewer parameters"
        )


def _regression(x: np.ndarray, y: np.ndarray, ridge: float | None) -> np.ndarray:
    """Coefficients of a ridge regression with intercept (dropped); the penalty by generalised cross-validation."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    scale = np.sqrt(np.mean(x**2, axis=0))
    scale[scale == 0] = 1.0
    u, s, vt = np.linalg.svd(x / scale, full_matrices=False)
    inside = u.T @ y
    solid = s > s[:1] * max(x.shape) * np.finfo(float).eps
    s, inside, vt = s[solid], inside[solid], vt[solid]
    rows, outside = len(x), np.sum(y**2, axis=0) - np.sum(inside**2, axis=0)
    penalties = PENALTIES if ridge is None else np.array([float(ridge)])
    best, kept = np.full(y.shape[1], np.inf), np.zeros((len(s), y.shape[1]))
    for penalty in penalties * rows:
        shrunk = s**2 / (s**2 + penalty)
        residual = np.maximum(outside, 0) + np.sum((1 - shrunk[:, None]) ** 2 * inside**2, axis=0)
        freedom = rows - 1 - shrunk.sum()
        if freedom <= 0:
            continue
        score = residual / freedom**2
        better = score < best
        best[better] = score[better]
        kept[:, better] = (shrunk / s)[:, None] * inside[:, better]
    return np.asarray((vt.T @ kept) / scale[:, None])


class StreamingZeroVariance:
    """The same from sums alone, for chains that are not stored.

    ``add`` takes stretches of one chain in their order. Kept are the joint second moments of the quantity and its
    control variates, and the means of at most 64 stretches for the standard error; when they are too many, they are
    joined in pairs. The coefficients come from all draws, with a fixed small ridge: for many more draws than
    parameters.

    >>> rng = np.random.default_rng(0)
    >>> stream = StreamingZeroVariance()
    >>> for _ in range(20):
    ...     theta = 3 + rng.normal(size=(50, 2))
    ...     stream.add(theta, theta, theta - 3)          # U = |theta - 3|^2 / 2
    >>> stream.result().mean.round(6)
    array([3., 3.])
    """

    def __init__(self, *, degree: int = 1, ridge: float = 1e-10, stretch: int = 50) -> None:
        _require_degree(degree)
        _require_ridge(ridge)
        require_count("stretch", stretch)
        self.degree, self.ridge, self.stretch = degree, ridge, stretch
        self.count = 0
        self._means: list[np.ndarray] = []
        self._open: list[np.ndarray] = []

    def add(self, values: Any, positions: Any, gradients: Any) -> None:
        """Draws of the quantity (draw, ...), of the parameters and of the gradient of U, both (draw, d)."""
        theta, slope, wanted = _arrays(positions, gradients, values)
        if theta.ndim != 2 or theta.shape != slope.shape or len(wanted) != len(theta):
            raise ValueError(
                f"values, positions and gradients must have shapes (draw, ...), (draw, d) and (draw, d); got "
                f"{wanted.shape}, {theta.shape}, {slope.shape}"
            )
        _require_finite(wanted, theta, slope)  # one of them would spoil the sums for good
        if not self.count:
            _require_columns(theta.shape[1], self.degree)
            self._shape, self._origin = wanted.shape[1:], theta.mean(axis=0)
            self._quantities = int(np.prod(self._shape))
            width = self._quantities + control_variates(theta[:1], slope[:1], self.degree).shape[1]
            self._mean, self._moment = np.zeros(width), np.zeros((width, width))
        columns = control_variates(theta - self._origin, slope, self.degree)
        joint = np.concatenate([wanted.reshape(len(wanted), -1), columns], axis=1)
        self._merge(joint)
        for row in joint:
            self._open.append(row)
            if len(self._open) == self.stretch:
                self._means.append(np.mean(self._open, axis=0))
                self._open = []
        if len(self._means) >= BATCHES:
            pairs = zip(self._means[::2], self._means[1::2], strict=False)
            self._means, self.stretch = [(a + b) / 2 for a, b in pairs], 2 * self.stretch

    def _merge(self, joint: np.ndarray) -> None:
        mean = joint.mean(axis=0)
        deviation, gap = joint - mean, mean - self._mean
        total = self.count + len(joint)
        self._moment += deviation.T @ deviation + np.outer(gap, gap) * (self.count * len(joint) / total)
        self._mean += gap * (len(joint) / total)
        self.count = total

    def result(self) -> ZeroVariance:
        """The estimate so far."""
        if len(self._means) < 4:
            raise ValueError(f"at least {4 * self.stretch} draws are needed; got {self.count}")
        q = self._quantities
        inner, outer = self._moment[q:, q:] / self.count, self._moment[q:, :q] / self.count
        scale = np.sqrt(np.diag(inner))
        scale[scale == 0] = 1.0
        values, vectors = np.linalg.eigh(inner / np.outer(scale, scale))
        solid = values > values[-1] * len(values) * np.finfo(float).eps
        values, vectors = values[solid], vectors[:, solid]
        b = (vectors / (values + self.ridge)) @ (vectors.T @ (outer / scale[:, None])) / scale[:, None]
        batches = np.array(self._means)
        corrected = batches[:, :q] - batches[:, q:] @ b
        errors = [a.std(axis=0, ddof=1) / np.sqrt(len(a)) for a in (corrected, batches[:, :q])]
        means = self._mean[:q] - self._mean[q:] @ b, self._mean[:q]
        shaped = [np.reshape(a, self._shape) for a in (means[0], errors[0], means[1], errors[1])]
        return ZeroVariance(*shaped)
