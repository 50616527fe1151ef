"""Bayesian principal components: a normal law of low rank plus noise, with orthonormal loadings.

    x ~ N(m, C),    C = U diag(s^2) U' + sigma^2 I,    U'U = I                                    (U is d x k)
    U ~ uniform on the Stiefel manifold,  log s_j, log sigma ~ N(log v, r^2),  m_c ~ N(mean of column c, (q v)^2)

with v^2 the mean variance of the columns. The factors of a row are integrated out: with e = x - m, y = U'e and
l_j = s_j^2 + sigma^2,

    -2 log p(x) = |e - U y|^2 / sigma^2 + sum_j (y_j^2 / l_j + log l_j) + (d - k) log sigma^2 + d log 2 pi

by the identity of Woodbury and the determinant lemma, O(d k) a row. The residual e - U y is formed, not its square from
a difference of squares: single precision would lose noise that is small beside the scales.

In units of v, with the mean of the rows as the origin, the chain moves U on its manifold, log s and log sigma, and z
with m = C^(1/2) z (``Whitened``). The likelihood is then a function of z times one of the rest, and knows all
directions of z equally well, while the sds of m go from sigma to the largest scale, too far apart for one step size.
Chains start at the maximum of the likelihood (Tipping and Bishop 1999), around which control variates are taken.

Columns whose scales hardly differ turn into each other slowly. So every draw of the chain is turned afterwards, within
the span of its columns, by draws from the exact law of the columns and scales given all else (``turning``).

The posterior is the same for other signs and orders of the columns. Draws are matched to the columns of the start.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from scirocco.constraints import Constraints, positive
from scirocco.core.checks import require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.program import Given
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.estimators import ControlVariate, Plain
from scirocco.manifolds import Stiefel
from scirocco.models.base import GradientModel, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import check_array, validate_data
from scirocco.models.turning import BLOCK, Sums, turned
from scirocco.samplers import SGGMC
from scirocco.target import Target

PARAMETERS = ("loadings", "scales", "noise", "mean")
BATCH = 1000  # rows of a minibatch at least
FINEST = 3e-7  # smallest posterior sd of a loading that steps in single precision can follow
STEP = 0.4  # step size in posterior sds
SLOWEST = 50  # time that friction takes, in posterior sds
HEAT = 0.05  # share of the noise that may come from minibatches


class BayesianPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GradientModel):  # type: ignore[misc]
    """Probabilistic principal components, all of whose parameters have posteriors.

    Columns of the draws have the order and signs that fit those of the maximum likelihood best. Where two scales are
    equal within their uncertainty, the subspace that they span is known and the directions inside are not: these
    columns turn freely (up to 45 degrees for two of them, beyond which matching takes the other), their
    ``column_angles`` are large, their scales need not fall within a draw, and ``components_`` is one basis among many.
    What stays definite is ``subspace_`` with ``subspace_angles``, ``get_covariance``, ``score`` and
    ``noise_variance_``. Where minibatches are taken such columns need large ones, at worst all rows: the default
    takes them.

    All columns share one noise: scale them beforehand if their units differ. Constant columns stay, with a warning.

    Parameters
    ----------
    n_components : int, default 2
        k, columns of the loadings, fewer than columns of ``X``.
    prior_scale : float, default 2.0
        r, sd of the normal priors of the logarithms of scales and noise.
    mean_scale : float, default 10.0
        q, sd of the prior of the mean around the column means, in sds of the data.
    sampler, estimator, batch_size, n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose
        The run; see ``scirocco.models.base.GradientModel``. Samplers must be able to move on manifolds.

    Attributes
    ----------
    components_
        (component, feature), posterior mean directions, orthonormalised, in order of falling variance.
    explained_variance_, explained_variance_ratio_
        Posterior means of l_j = s_j^2 + sigma^2 and of its share of all.
    noise_variance_, mean_
        Posterior means of sigma^2 and m.
    subspace_
        (component, feature), an orthonormal basis of the mean subspace: the leading eigenvectors of the mean of U
        U', which does not depend on signs, order and rotations of the columns.
    posterior_
        Draws of ``loadings`` (feature, component), ``scales``, ``noise`` (sds) and ``mean`` in units of the data,
        an ``xarray.Dataset``; also, in radians, ``column_angles`` between columns and ``components_``, and
        ``subspace_angles``, the principal angles to ``subspace_``, the largest first.
    trace_
        The run, its draws those of ``posterior_``. Chains on disk (``path``) are in coordinates of their own.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> from scirocco.models.bayesian_pca import BayesianPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1)) * [3.0, 0.0, 4.0] + rng.normal(size=(500, 3))
    >>> model = BayesianPCA(1, n_draws=100, random_state=0).fit(X)
    >>> print(np.abs(model.components_).round(1), round(model.noise_variance_, 1))
    [[0.6 0.  0.8]] 1.0
    """

    _facts: ClassVar = ("noise_variance_",)
    _arrays: ClassVar = ("components_", "explained_variance_", "explained_variance_ratio_", "mean_", "subspace_")

    def __init__(
        self, n_components: int = 2, *, prior_scale: float = 2.0, mean_scale: float = 10.0, sampler: Any = None,
        estimator: Any = None, batch_size: int | float | None = None, n_draws: int = 500, burn_in: int = 500,
        thin: int = 8, n_chains: int = 4, max_seconds: float | None = None, random_state: Any = None,
        measure_bias: bool = True, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.n_components = n_components
        self.prior_scale = prior_scale
        self.mean_scale = mean_scale
        self.sampler = sampler
        self.estimator = estimator
        self.batch_size = batch_size
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.measure_bias = measure_bias
        self.verbose = verbose

    @interruptible
    def fit(self, X: Any, y: Any = None, *, path: str | Path | None = None) -> BayesianPCA:
        """Sample loadings, scales, noise and mean given rows ``X``.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X)``.
        """
        return self._fit(X, y, FitLocation.of(path))

    def _fit(self, X: Any, y: Any, location: FitLocation) -> BayesianPCA:
        del y
        self._check_run()
        require_count("n_components", self.n_components)
        for name in ("prior_scale", "mean_scale"):
            require_positive_setting(name, getattr(self, name))
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        for name, count, least in (("n_features", X.shape[1], 1), ("n_samples", len(X), 2)):
            if count < self.n_components + least:
                raise ValueError(
                    f"n_components is {self.n_components} and needs {least} more; X has only {name} = {count}"
                )
        centre, scale, unit = _standardised(X)
        sums = Sums.of(unit)
        start = self._initial(sums)
        sampler, rows = self._default_run(start, len(X))
        target = self.target(unit)
        estimator: ControlVariate | Plain = ControlVariate(centre=start)
        if self.batch_size is None and self.estimator is None and X.shape[1] <= rows:
            # All data are then less work than a minibatch.
            target, estimator, rows = self._target_of_sums(sums), Plain(), X.shape[1]
        seed = location.seed(self.random_state)
        self._sample(
            target, start, lambda: sampler, location, batch_size=rows, seed=seed, estimator=estimator,
        )  # fmt: skip
        drawn = {name: self.trace_.posterior[name].values.astype(np.float64) for name in PARAMETERS}
        drawn |= turned(**drawn, sums=sums, prior_scale=self.prior_scale, rng=generator(seed, Purpose.TURNED_COLUMNS))
        self._settle(drawn, start, centre, scale)
        return self

    def target(self, X: np.ndarray) -> Target:
        """The posterior as a ``Target`` for rows that are centred and in units of v, for runs of your own.

        Its parameters are ``loadings``, ``scales``, ``noise`` and ``mean``.
        """
        return self._target(_log_likelihood, X)

    def _target_of_sums(self, sums: Sums) -> Target:
        """The same posterior, its likelihood from d rows that have the sums of squares and products of all N."""
        values, vectors = np.linalg.eigh(sums.squares)
        root, d = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T, len(values)
        return self._target(_log_likelihood_of_sums, {
            "root": root.astype(np.float32), "rows": np.full(d, sums.rows / d, np.float32)
        })  # fmt: skip

    def _target(self, log_likelihood: Any, data: Any) -> Target:
        prior = Given(_log_prior, float(self.prior_scale), float(self.mean_scale))
        return Target(
            prior, log_likelihood, data, batched=True, manifold={"loadings": Stiefel()}, constraints=Whitened.made()
        )  # fmt: skip

    def _initial(self, sums: Sums) -> Params:
        """The maximum of the likelihood, from the eigenvalues of the covariance of the rows."""
        k, d = self.n_components, len(sums.squares)
        values, vectors = np.linalg.eigh(sums.squares / sums.rows)
        values, vectors = values[::-1], vectors[:, ::-1][:, :k]
        noise = values[k:].sum() / (d - k)
        if not noise > FINEST**2 * sums.rows * values[0]:
            raise ValueError(
                f"n_components = {k} leave {max(noise, 0.0) / values.mean():.2g} of the mean variance of X as noise, "
                "too little for a posterior: take fewer components"
            )
        largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(k)]
        start = {
            "loadings": vectors * np.sign(largest),
            "scales": np.sqrt(np.maximum(values[:k] - noise, noise / np.sqrt(sums.rows))),
            "noise": np.sqrt(noise),
            "mean": np.zeros(d),
        }
        return {name: jnp.asarray(value, jnp.float32) for name, value in start.items()}

    def _default_run(self, start: Params, n: int) -> tuple[SGGMC, int]:
        """The sampler, with steps in posterior sds by the Fisher information at the start, and rows of a minibatch."""
        scales, noise = (np.asarray(start[name], np.float64) for name in ("scales", "noise"))
        total, (d, k) = scales**2 + noise**2, start["loadings"].shape
        columns = np.minimum(noise * np.sqrt(total / n) / scales**2, 1.0)  # towards what no column spans
        turns = np.sqrt(2 * total[1:] * total[:-1] / n) / np.maximum(total[:-1] - total[1:], 1e-6)  # towards the next
        sds = {  # of the logarithms of scales and noise, and of z
            "scales": np.minimum(total / (scales**2 * np.sqrt(2 * n)), self.prior_scale),
            "noise": 1 / np.sqrt(2 * n * (d - k)),
            "mean": 1 / np.sqrt(n),
        }
        # Columns share a step, which the best known bounds. Little friction takes the least known on, but not so little
        # that the burn-in could not warm up all the others. Turning columns into each other is left to ``turned``.
        fast = columns.min()
        slow = np.clip(columns.max(), fast, min(SLOWEST * fast, 1.0))
        steps = {name: STEP * sd for name, sd in sds.items()} | {"loadings": STEP * fast}
        friction = {name: 1 / sd for name, sd in sds.items()} | {"loadings": 1 / slow}
        # What minibatches add to the injected noise, h V/2 over the friction: with control variates V grows with the
        # square of the distance to the start, which columns go that turn into each other.
        far = d + np.max(np.minimum(turns, 1.0) / columns[:-1], initial=0.0) ** 2
        rows = n * STEP / 2 * slow * fast * far / HEAT
        return SGGMC(steps, friction=friction), int(min(n, max(BATCH, rows)))

    def _settle(self, drawn: dict[str, np.ndarray], start: Params, centre: np.ndarray, scale: float) -> None:
        """Draws in the units of the data, columns in one order and with one sign, and what is known from them."""
        import xarray as xr

        loadings, scales, noise, mean = (drawn[name].copy() for name in PARAMETERS)
        reference = np.asarray(start["loadings"], np.float64)
        for at in np.ndindex(noise.shape):
            cosines = reference.T @ loadings[at]
            order = linear_sum_assignment(-np.abs(cosines))[1]
            signs = np.sign(cosines[np.arange(len(order)), order])
            loadings[at], scales[at] = loadings[at][:, order] * signs, scales[at][order]
        falling = np.argsort(-np.mean(scales**2, axis=(0, 1)), kind="stable")
        loadings, scales = loadings[..., falling], scale * scales[..., falling]
        noise, mean = scale * noise, centre + scale * mean

        self.mean_, self.noise_variance_ = mean.mean(axis=(0, 1)), float(np.mean(noise**2))
        variances = scales**2 + noise[..., None] ** 2
        every = np.sum(scales**2, axis=-1) + loadings.shape[2] * noise**2
        self.explained_variance_ = variances.mean(axis=(0, 1))
        self.explained_variance_ratio_ = (variances / every[..., None]).mean(axis=(0, 1))
        left, _, right = np.linalg.svd(loadings.mean(axis=(0, 1)), full_matrices=False)
        self.components_ = (left @ right).T
        stacked = np.moveaxis(loadings, 2, 0).reshape(loadings.shape[2], -1)  # its square is the sum of all U U'
        self.subspace_ = np.linalg.svd(stacked, full_matrices=False)[0][:, : len(falling)].T
        self.posterior_ = xr.Dataset({
            "loadings": (("chain", "draw", "feature", "component"), loadings),
            "scales": (("chain", "draw", "component"), scales),
            "noise": (("chain", "draw"), noise),
            "mean": (("chain", "draw", "feature"), mean),
            "column_angles": (("chain", "draw", "component"), _angles(self.components_.T, loadings)),
            "subspace_angles": (("chain", "draw", "angle"), _principal_angles(self.subspace_.T, loadings)),
        })  # fmt: skip
        self.trace_ = self.trace_.showing(self.posterior_[list(PARAMETERS)])
        if self.trace_.bias is not None:
            self.trace_.bias = self.trace_.bias.comparing(self.trace_.moments)

    # Using.

    def _fitted(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _each(self, most: int | None = None) -> Iterator[tuple[np.ndarray, ...]]:
        """Loadings, scales, noise and mean of each draw."""
        return zip(*(self._draws(name, most) for name in PARAMETERS), strict=True)

    def transform(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Coordinates of the rows along the components, (row, component): s_j times the factors, in units of the data.

        Given the parameters they are normal around s_j^2/l_j u_j'(x - m) with the variance s_j^2 sigma^2/l_j; here are
        their mean over the draws and, with ``return_std``, the sd of both the factors and the parameters together, of
        at most 500 draws. Means are drawn towards 0, unlike those of ``sklearn.decomposition.PCA``.
        """
        X = self._fitted(X)
        maps = [(u * (s**2 / (s**2 + e**2)), m) for u, s, e, m in self._each()]
        slope = np.mean([a for a, _ in maps], axis=0)
        mean = (X - self.mean_) @ slope - np.mean([(m - self.mean_) @ a for a, m in maps], axis=0)
        if not return_std:
            return mean
        variance, count = np.zeros_like(mean), 0
        for u, s, e, m in self._each(most=500):
            share = s**2 / (s**2 + e**2)
            variance += ((X - m) @ (u * share) - mean) ** 2 + share * e**2
            count += 1
        return mean, np.sqrt(variance / count)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows from coordinates along the components: ``mean_ + X @ components_``."""
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != self.n_components:
            raise ValueError(f"X must have a column for each of n_components = {self.n_components}; got {X.shape[1]}")
        return self.mean_ + X @ self.components_

    def score_samples(self, X: Any) -> np.ndarray:
        """The log of the posterior predictive density of each row, from at most 500 draws."""
        X, total, count = self._fitted(X), np.array(-np.inf), 0
        for draw in self._each(most=500):
            total, count = np.logaddexp(total, _log_densities(np, X, *draw)), count + 1
        return total - np.log(count)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean over rows of ``score_samples``, the log posterior predictive density."""
        del y
        return float(np.mean(self.score_samples(X)))

    def get_covariance(self) -> np.ndarray:
        """The posterior mean of C = U diag(s^2) U' + sigma^2 I, (feature, feature)."""
        check_is_fitted(self)
        scaled = self._draws("loadings") * self._draws("scales")[:, None, :]
        rows = np.moveaxis(scaled, 1, 0).reshape(scaled.shape[1], -1)
        return rows @ rows.T / len(scaled) + self.noise_variance_ * np.eye(len(rows))

    @property
    def _n_features_out(self) -> int:
        return self.n_components


# Equal for equal settings, unlike functions made in a method: fits of one shape then share a compiled program, and many
# fits do not fill the process with programs, which ends in a crash at the limit of memory maps.


def _log_prior(prior_scale: float, mean_scale: float, params: Params) -> Array:
    logs = jnp.log(jnp.append(params["scales"], params["noise"]))
    return -jnp.sum((logs / prior_scale) ** 2 / 2 + logs) - jnp.sum((params["mean"] / mean_scale) ** 2) / 2


def _log_likelihood(params: Params, rows: Array) -> Array:
    return _log_densities(jnp, rows, *(params[name] for name in PARAMETERS))


def _log_likelihood_of_sums(params: Params, data: Any) -> Array:
    """Of as many rows as each of ``data`` stands for, where the mean of all rows is 0.

    The sum over rows is -1/2 (tr(C^-1 R'R) + N m'C^-1 m + N log |2 pi C|), with R'R the sums of squares and products.
    """
    loadings, scales, noise, mean = (params[name] for name in PARAMETERS)
    each = _squares(jnp, mean, loadings, scales, noise) + _log_det(jnp, loadings, scales, noise)
    return -(_squares(jnp, data["root"], loadings, scales, noise) + data["rows"] * each) / 2


def _log_densities(xp: Any, x: Any, loadings: Any, scales: Any, noise: Any, mean: Any) -> Any:
    """log N(x | m, C) of each row, in JAX or NumPy."""
    return -(_squares(xp, x - mean, loadings, scales, noise) + _log_det(xp, loadings, scales, noise)) / 2


def _squares(xp: Any, away: Any, loadings: Any, scales: Any, noise: Any) -> Any:
    """e'C^-1 e of each row e."""
    along = away @ loadings
    rest = away - along @ loadings.T
    return xp.sum(rest**2, axis=-1) / noise**2 + xp.sum(along**2 / (scales**2 + noise**2), axis=-1)


def _log_det(xp: Any, loadings: Any, scales: Any, noise: Any) -> Any:
    """log |2 pi C|."""
    d, k = loadings.shape
    return xp.sum(xp.log(scales**2 + noise**2)) + 2 * (d - k) * xp.log(noise) + d * np.log(2 * np.pi)


@dataclass(frozen=True)
class Whitened(Constraints):
    """Logarithms of scales and noise, and z in place of the mean m = C^(1/2) z, dm = |C|^(1/2) dz."""

    @classmethod
    def made(cls) -> Whitened:
        """With the constraints of scales and noise."""
        return cls(Constraints.of({"noise": positive, "scales": positive}).parts)

    def constrain(self, position: Params) -> tuple[Params, Array]:
        """The parameters at a free position, and the log of the determinant of the change of variables."""
        params, log_det = super().constrain(position)
        (d, k), roots, noise = params["loadings"].shape, _roots(params), params["noise"]
        log_root = jnp.sum(jnp.log(roots)) + (d - k) * jnp.log(noise)
        return {**params, "mean": _times(params["loadings"], roots, noise, position["mean"])}, log_det + log_root

    def parameters(self, position: Params) -> Params:
        """The parameters at a free position."""
        return self.constrain(position)[0]

    def free(self, params: Params) -> Params:
        """The free position of parameters."""
        z = _times(params["loadings"], 1 / _roots(params), 1 / params["noise"], params["mean"])
        return {**super().free(params), "mean": z}

    def constrained_names(self, tree: Params) -> list[str]:
        """The names of the leaves that are not free."""
        return [*super().constrained_names(tree), "mean"]


def _roots(params: Params) -> Array:
    """The roots of the eigenvalues of C in the directions of the loadings."""
    return jnp.sqrt(params["scales"] ** 2 + params["noise"] ** 2)


def _times(loadings: Array, along: Array, elsewhere: Array, vector: Array) -> Array:
    """U diag(along) U' x + elsewhere (I - U U') x."""
    return elsewhere * vector + loadings @ ((along - elsewhere) * (vector @ loadings))


def _blocks(X: np.ndarray, centre: Any = 0.0) -> Iterator[np.ndarray]:
    """The rows in float64, some of them at a time."""
    for rows in gen_batches(len(X), max(1, BLOCK // X.shape[1])):
        yield X[rows] - np.asarray(centre, np.float64)


def _standardised(X: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Column means, the root v of the mean variance of the columns, and the rows in these units."""
    centre = X.mean(axis=0, dtype=np.float64)
    variances = sum(np.sum(block**2, axis=0) for block in _blocks(X, centre)) / len(X)
    scale = float(np.sqrt(np.mean(variances)))
    if not scale > 1e-12 * np.max(np.abs(centre), initial=0.0):
        raise ValueError("X has zero variance: its rows are all equal")
    constant = np.flatnonzero(variances <= (1e-7 * scale) ** 2)
    if constant.size:
        warnings.warn(
            f"columns {constant[:10].tolist()} of X are constant: they lower the noise that all columns share",
            stacklevel=4,
        )
    return centre, scale, np.concatenate([(block / scale).astype(np.float32) for block in _blocks(X, centre)])


def _angles(reference: np.ndarray, loadings: np.ndarray) -> np.ndarray:
    """Angles between columns and those of the reference, from sines: cosines near 1 lose what single precision has."""
    cosines = np.sum(reference * loadings, axis=-2)
    sines = np.linalg.norm(loadings - reference * cosines[..., None, :], axis=-2)
    return np.arctan2(sines, cosines)


def _principal_angles(basis: np.ndarray, loadings: np.ndarray) -> np.ndarray:
    """Principal angles between the spans of columns and that of an orthonormal basis, the largest first."""
    rest = loadings - basis @ (basis.T @ loadings)
    return np.arcsin(np.minimum(np.linalg.svd(rest, compute_uv=False), 1.0))
