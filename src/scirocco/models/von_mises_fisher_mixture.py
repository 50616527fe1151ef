"""A Bayesian mixture on the unit sphere, for directions such as sentence embeddings.

    x ~ sum_k w_k vMF(mu_k, kappa_k),    log vMF(x | mu, kappa) = kappa mu . x - G(kappa) - log(area of the sphere)
    w ~ Dirichlet(alpha),  mu_k uniform on the sphere or vMF(m, kappa_0)
    log kappa_k - log(1 - kappa_k / 10^6) ~ N(log median, spread^2)

with G of ``directional.bessel``. The prior is the same whatever the dimension if kappa is measured in units of d: with
kappa = c d the mean of x has about the length r of r / (1 - r^2) = c. So the median is d (r = 0.70 in the plane, 0.62
in high dimensions), and with a spread of 2 two sds reach from r = 0.02 to 0.99. At the median a row has the Fisher
information kappa^2 A' about log kappa, 0.1 d or more (0.66 in the plane); the prior has 1/4, less than one row.

The bound of kappa is for rows that are equal, which would carry it off to infinity; single precision, in which the
chain runs, tells no more. Below 10^4 or so the prior is log-normal.

The chain moves means along great circles, and free numbers of weights and concentrations in flat space. With the
largest component first the posterior precision of those of the weights is nearly diagonal (``constraints.sums``).
Memberships are summed over, not sampled. Components have no names: draws are put in one order before anything is
averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.special import logsumexp, softmax
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from scirocco.constraints import interval, simplex, zero_sum
from scirocco.core.checks import real_array, require_count
from scirocco.core.interrupt import interruptible, poll
from scirocco.core.program import Given
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.directional import log_bessel_excess
from scirocco.directional.bessel import ratio_and_slope
from scirocco.estimators import ControlVariate
from scirocco.manifolds import Sphere
from scirocco.models.base import GrowingModel, Rows, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import validate_data
from scirocco.samplers import SGGMC
from scirocco.samplers.base import Sampler
from scirocco.target import Target

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.partitions import CredibleBall, PointPartition
    from scirocco.partitions.draws import PartitionDraws

TOLERANCE = 1e-3  # of a row's length
MOST_KAPPA = 1e6
NEAREST = 1 - 1e-6  # to it, of a start: single precision tells it from the bound
BATCH = 1000  # rows: fewer would cost as much, since a step is more than its products
STEP = 0.3  # in posterior sds: h^2/4 of the variance is the error of the integrator
PIECE = 2**24  # log densities at a time
DRAWS = 100  # that predictions are averaged over
EXACT = 10**7  # products of a row's features, up to which they are taken in double precision
# Of the start:
SOUGHT_ROWS, STARTS, SEEDS = 10_000, 4, 3  # rows at least, tries, seeds for each component
HARD_SWEEPS, SOFT_SWEEPS = 8, 10
ROWS_SWEPT, LEAST_SWEEPS, MOST_SWEEPS = 5 * 10**6, 30, 500  # over all rows: as many as they are few
SWEPT = 2**14  # rows at a time
NEWTON_STEPS = 10
SETTLED = 0.05  # gain of a sweep in the log posterior of all rows


class VonMisesFisherMixture(DensityMixin, GrowingModel):  # type: ignore[misc]
    """A mixture of von Mises-Fisher laws on the unit sphere, all of whose parameters have posteriors.

    Parameters
    ----------
    n_components : number of components.
    alpha : of the Dirichlet prior of the weights.
    kappa_median, kappa_spread : median of the concentrations' prior, the number of features if None, and the sd of
        their logarithm.
    prior_mean, prior_concentration : m and kappa_0 of a vMF prior of the means; uniform by default.
    normalize : divide rows by their lengths; otherwise they must have length 1 to within 0.001.
    sampler, estimator, batch_size, n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose :
        the run; see
        ``scirocco.models.base.GradientModel``. By default SGGMC with control variates around the mode.

    Attributes
    ----------
    weights_, means_, concentrations_ : posterior means, of ``means_`` the direction.
    posterior_ : draws of ``weights``, ``means`` and ``concentrations``, an ``xarray.Dataset``, components in one order,
        the largest first.
    trace_ : the run, of the same, components in the order of the start.

    All chains start at the best mode of several tries and stay near it: they say how sure the parameters of this
    arrangement are, not whether there is another.

    >>> import numpy as np, scirocco as sc
    >>> rng = np.random.default_rng(0)
    >>> X = sc.directional.sample(rng, np.eye(3).repeat([200, 100, 50], axis=0), 20.0)
    >>> model = VonMisesFisherMixture(3, n_draws=50, random_state=0).fit(X)
    >>> model.weights_.round(1), model.predict(np.eye(3))
    (array([0.6, 0.3, 0.1]), array([0, 1, 2]))
    """

    _arrays: ClassVar = ("weights_", "means_", "concentrations_")

    def __init__(
        self, n_components: int = 2, *, alpha: float = 1.0, kappa_median: float | None = None,
        kappa_spread: float = 2.0, prior_mean: Any = None, prior_concentration: float = 0.0, normalize: bool = False,
        sampler: Any = None, estimator: Any = None, batch_size: int | float | None = None, n_draws: int = 250,
        burn_in: int = 300, thin: int = 5, n_chains: int = 4, max_seconds: float | None = None,
        random_state: Any = None, measure_bias: bool = True,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.n_components = n_components
        self.alpha = alpha
        self.kappa_median = kappa_median
        self.kappa_spread = kappa_spread
        self.prior_mean = prior_mean
        self.prior_concentration = prior_concentration
        self.normalize = normalize
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
    def fit(self, X: Any, y: Any = None, *, path: str | Path | None = None) -> VonMisesFisherMixture:
        """Sample weights, means and concentrations given unit vectors, the rows of ``X``.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X)``.
        """
        return self._fit(X, y, FitLocation.of(path))

    @interruptible
    def partial_fit(self, X: Any, y: Any = None) -> VonMisesFisherMixture:
        """Rows that join those of earlier calls: the posterior given all of them, from where it was.

        It is that of ``fit`` on all rows, which the model keeps in memory for it. Components keep their places, also
        where the largest is then no longer the first.
        """
        return self._join(X, y)

    def _check_settings(self) -> None:
        super()._check_settings()
        require_count("n_components", self.n_components)
        require_positive_setting("alpha", self.alpha)

    def _look_at(self, X: Any, y: Any, *, reset: bool) -> Rows:
        del y
        return (self._rows(X, reset=reset),)

    def _fit_rows(self, rows: Rows, location: FitLocation, known: bool) -> None:
        (X,) = rows
        prior = self._prior(X.shape[1])
        if len(X) < self.n_components:
            raise ValueError(f"n_components is {self.n_components}, but X has n_samples = {len(X)}")
        seed = location.seed(self.random_state)
        before = self._earlier() if known else None
        if before is not None:
            start: Mixture | None = _mode_near(X, before, prior)
        elif location.begun:
            start = None
        else:
            start = _mode(X, self.n_components, prior, generator(seed, Purpose.MIXTURE_SEARCH))
        self._run(self.target(X), start, prior, location, seed, near=before is not None)
        self._settle(before)

    def _earlier(self) -> Mixture | None:
        """A draw of the earlier fit; None if it had another number of components."""
        drawn = {name: values.astype(np.float64) for name, values in self._last_draw().items()}
        kappas = np.minimum(drawn["concentrations"] / MOST_KAPPA, NEAREST)
        found = Mixture(drawn["weights"], drawn["means"], np.log(MOST_KAPPA) + np.log(kappas) - np.log1p(-kappas))
        return found if len(found.weights) == self.n_components else None

    def _run(
        self, target: Target, start: Mixture | None, prior: Prior, location: FitLocation, seed: int, near: bool
    ) -> None:  # fmt: skip
        """The chains, with control variates around the mode if nothing else was asked for."""
        if start is None:  # a run that goes on knows all this
            return self._sample(target, {}, lambda: SGGMC("auto"), location, seed=seed)
        free = self.sampler is None and self.estimator is None
        self._sample(
            target, start.params, lambda: _scaled_sampler(start, prior, target.size), location, batch_size=BATCH,
            estimator=ControlVariate(centre=start.params) if free else None, seed=seed, near=near,
        )  # fmt: skip

    def target(self, X: np.ndarray) -> Target:
        """The posterior as a ``Target`` for rows of length 1 in single precision, for runs of your own.

        Its parameters are ``weights``, ``means`` and ``concentrations``.
        """
        prior = Given(_log_prior, self._prior(X.shape[1]))
        constraints = {"weights": simplex, "concentrations": interval(0, MOST_KAPPA)}
        return Target(prior, _log_likelihood, X, batched=True, manifold={"means": Sphere()}, constraints=constraints)

    def _prior(self, dimension: int) -> Prior:
        median = dimension if self.kappa_median is None else self.kappa_median
        require_positive_setting("kappa_median", median)
        require_positive_setting("kappa_spread", self.kappa_spread)
        strength = float(real_array("prior_concentration", self.prior_concentration, least=0.0))
        pull = np.zeros(dimension)
        if self.prior_mean is not None:
            pull = real_array("prior_mean", self.prior_mean)
            if pull.shape != (dimension,) or not np.linalg.norm(pull) > 0:
                raise ValueError(f"prior_mean must be a direction of {dimension} numbers; got the shape {pull.shape}")
            pull = pull * strength / np.linalg.norm(pull)
        elif strength > 0:
            raise ValueError("prior_concentration needs a prior_mean to concentrate around")
        return Prior(dimension, float(self.alpha), math.log(median), float(self.kappa_spread), tuple(pull.tolist()))

    def _rows(self, X: Any, *, reset: bool) -> np.ndarray:
        """Rows of length 1 in single precision."""
        X = validate_data(self, X, dtype=[np.float32, np.float64], reset=reset, ensure_min_features=2 if reset else 1)
        lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
        if not np.all((lengths > 0) & (lengths < np.inf)):
            row = int(np.argmin((lengths > 0) & (lengths < np.inf)))
            raise ValueError(f"row {row} of X has length {lengths[row]:g}: it has no direction")
        off = np.abs(lengths - 1)
        if not self.normalize and off.max() > TOLERANCE:
            row = int(np.argmax(off))
            raise ValueError(
                f"rows of X must have length 1, and row {row} has length {lengths[row]:.6g}: give "
                "X / np.linalg.norm(X, axis=1, keepdims=True), or set normalize=True"
            )
        return np.asarray(X / lengths[:, None].astype(X.dtype), np.float32)

    def _settle(self, places: Mixture | None = None) -> None:
        """Draws of what the model is made of, components in one order, that of ``places`` if given."""
        import xarray as xr

        raw = self.trace_.posterior
        weights, means, kappas = (raw[name].values for name in ("weights", "means", "concentrations"))
        weights = weights.astype(np.float64)
        order = _orders(weights, means, kappas, places)
        if np.any(order != np.arange(order.shape[-1])):  # otherwise means, which are large, need no copy
            means = np.take_along_axis(means, order[..., None], axis=2)
            weights, kappas = (np.take_along_axis(values, order, axis=2) for values in (weights, kappas))
        each = ("chain", "draw", "component")
        self.posterior_ = xr.Dataset(
            {"weights": (each, weights), "means": ((*each, "feature"), means), "concentrations": (each, kappas)}
        )
        self.weights_, centre, self.concentrations_ = (
            values.mean(axis=(0, 1), dtype=np.float64) for values in (weights, means, kappas)
        )
        self.means_ = centre / np.linalg.norm(centre, axis=1, keepdims=True)

    # Using.

    def _log_densities(self, X: Any, most: int = DRAWS) -> Iterator[np.ndarray]:
        """log w_k + log vMF(x | k) for draws, without the area of the sphere, by piece: (rows, draws, components)."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        weights, means, kappas = (self._draws(name, most) for name in ("weights", "means", "concentrations"))
        dtype = np.float64 if X.size * weights.size <= EXACT else np.float32
        slopes = (kappas[..., None] * means.astype(dtype)).reshape(-1, X.shape[1]).astype(dtype)
        offsets = (np.log(weights) - _excess(X.shape[1], kappas)).astype(dtype)
        for part in np.array_split(X, len(X) * weights.size // PIECE + 1):
            yield (part.astype(dtype) @ slopes.T).reshape(len(part), *weights.shape) + offsets

    def predict_proba(self, X: Any, *, return_std: bool = False) -> Any:
        """Posterior probabilities of the components, averaged over (at most 100) draws, (row, component).

        With ``return_std`` their sds over the draws too: how far the membership is itself unknown.
        """
        found = []
        for piece in self._log_densities(X):
            chances = softmax(piece, axis=2)
            found.append((chances.mean(axis=1), chances.std(axis=1)) if return_std else (chances.mean(axis=1),))
        parts = tuple(np.concatenate(part) for part in zip(*found, strict=True))
        return parts if return_std else parts[0]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return np.argmax(self.predict_proba(X), axis=1)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """``fit``, then ``predict`` of the same rows."""
        return self.fit(X, y).predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """The log of the posterior predictive density of each row, with respect to the area of the sphere."""
        pieces = [logsumexp(piece, axis=(1, 2)) - np.log(piece.shape[1]) for piece in self._log_densities(X)]
        return np.concatenate(pieces) - _log_area(self.n_features_in_)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log predictive density."""
        del y
        return float(np.mean(self.score_samples(X), dtype=np.float64))

    # Partitions.

    def sample_labels(self, X: Any, *, max_draws: int = DRAWS) -> np.ndarray:
        """Draws of the components of rows, (draw, row), one for each of at most ``max_draws`` draws of the parameters.

        What ``scirocco.partitions`` takes; the methods below do so.
        """
        require_count("max_draws", max_draws)
        rng, found = generator(self._fixed_seed(), Purpose.MIXTURE_SAMPLE), []
        for piece in self._log_densities(X, max_draws):
            reached = np.cumsum(softmax(piece, axis=2), axis=2)
            found.append(np.sum(reached[..., :-1] < rng.random(reached.shape[:2])[..., None], axis=2, dtype=np.int32))
        return np.concatenate(found).T

    def point_partition(self, X: Any, *, loss: str = "vi", n_starts: int = 4) -> PointPartition:
        """The partition of rows nearest to draws of it; see ``partitions.point_partition``.

        Of more than 10,000 rows a sample is searched, and the others join the cluster that theirs in the draws lie in.
        """
        return self._partitions(X).point(loss=loss, n_starts=n_starts)

    def credible_ball(self, X: Any, partition: Any, *, level: float = 0.95, loss: str = "vi") -> CredibleBall:
        """How far from a partition, such as ``point_partition(X).labels``, draws of it are."""
        return self._partitions(X).ball(partition, level=level, loss=loss)

    def co_clustering(self, X: Any) -> np.ndarray:
        """How often pairs of rows are in one component, (row, row): give some rows, since all would be N x N."""
        return self._partitions(X).co_clustering()

    def entropy(self, X: Any) -> np.ndarray:
        """How unsure each row's component is, in bits."""
        from scirocco.partitions.draws import entropy_in_bits

        return entropy_in_bits(self.predict_proba(X))

    def cluster_sizes(self, X: Any, *, level: float = 0.9) -> pd.DataFrame:
        """The posterior of the number of rows in each component: mean and credible interval."""
        from scirocco.partitions.draws import size_intervals

        labels = self.sample_labels(X)
        sizes = np.array([np.bincount(own, minlength=len(self.weights_)) for own in labels])
        return size_intervals(sizes, level, "component")

    def _partitions(self, X: Any) -> PartitionDraws:
        from scirocco.partitions.draws import PartitionDraws  # with Numba, which nothing else needs here

        return PartitionDraws(self.sample_labels(X), self._fixed_seed(), path=(1,))

    def _fixed_seed(self) -> int:
        """Asking twice gives the same answer."""
        return int(self.random_state) if isinstance(self.random_state, int | np.integer) else 0


@dataclass(frozen=True)
class Prior:
    """The prior in numbers; ``pull`` is kappa_0 m."""

    dimension: int
    alpha: float
    centre: float
    spread: float
    pull: tuple[float, ...]


def _log_prior(prior: Prior, params: Params) -> Array:
    kappas = params["concentrations"]
    # Of many equal rows kappa comes so near its bound that single precision does not tell them apart.
    log_kappas, log_rest = jnp.log(kappas), jnp.log1p(-jnp.minimum(kappas / MOST_KAPPA, 1 - 1e-7))
    return (
        (prior.alpha - 1) * jnp.sum(jnp.log(params["weights"]))
        - jnp.sum(jnp.square((log_kappas - log_rest - prior.centre) / prior.spread) / 2 + log_kappas + log_rest)
        + jnp.sum(params["means"] @ jnp.asarray(prior.pull, jnp.float32))
    )


def _log_likelihood(params: Params, x: Array) -> Array:
    """Without the area of the sphere."""
    kappas = params["concentrations"]
    offsets = jnp.log(params["weights"]) + (kappas - log_bessel_excess(x.shape[-1] / 2 - 1, kappas))
    # Less 1 in each row: in sums over rows a large kappa would find nothing of the difference left.
    return jax.nn.logsumexp(kappas * (x @ params["means"].T - 1) + offsets, axis=1)


@dataclass(frozen=True, eq=False)
class Mixture:
    """One arrangement; ``log_kappas`` are log kappa - log(1 - kappa / 10^6)."""

    weights: np.ndarray
    means: np.ndarray
    log_kappas: np.ndarray

    @property
    def kappas(self) -> np.ndarray:
        """The concentrations."""
        return _kappas(self.log_kappas)

    @property
    def params(self) -> Params:
        """As the target has it."""
        kappas = np.minimum(self.kappas, NEAREST * MOST_KAPPA)
        named = {"weights": self.weights, "means": self.means, "concentrations": kappas}
        return {name: jnp.asarray(values, jnp.float32) for name, values in named.items()}

    def ordered(self, order: np.ndarray) -> Mixture:
        """The same with the components in another order."""
        return Mixture(self.weights[order], self.means[order], self.log_kappas[order])


# The start: many seeds on a part of the rows, merged; the best of several tries is brought to the mode on all rows.
# In high dimensions rows of a cluster are nearly as far from each other as from all others. Seeds then hit clusters by
# chance, and those that share one never part again: hence more seeds than components.


def _mode(X: np.ndarray, components: int, prior: Prior, rng: np.random.Generator) -> Mixture:
    """A mode of the posterior, by expectation maximisation."""
    X = X.astype(np.float64) if X.size * components <= EXACT else X
    part = X[rng.permutation(len(X))[: max(SOUGHT_ROWS, 100 * components)]]
    tries = [_climb(part, _seeded(part, components, prior, rng), prior, SOFT_SWEEPS) for _ in range(STARTS)]
    best = max(tries, key=lambda found: found[1])[0]
    found = _mode_near(X, best, prior)
    return found.ordered(np.argsort(-found.weights, kind="stable"))


def _mode_near(X: np.ndarray, mixture: Mixture, prior: Prior) -> Mixture:
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
        nearest = np.concatenate([(x @ means.T).argmax(axis=1) for x in _in_pieces(X)])
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
    start = Mixture(sizes, _directions(sums, X[:components]), np.full(components, prior.centre))
    return _maximised(start, sizes, sums, prior)


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
        kappas = mixture.kappas
        slopes = (kappas[:, None] * mixture.means).astype(X.dtype)
        offsets = (np.log(mixture.weights) - _excess(prior.dimension, kappas)).astype(X.dtype)
        sizes, sums, value = np.zeros(len(kappas)), np.zeros(slopes.shape), _log_prior_of(mixture, prior)
        for x in _in_pieces(X):
            logs = x @ slopes.T + offsets
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


def _log_prior_of(mixture: Mixture, prior: Prior) -> float:
    away = (mixture.log_kappas - prior.centre) / prior.spread
    return float(prior.alpha * np.log(mixture.weights).sum() - np.sum(away**2) / 2 + np.sum(mixture.means @ prior.pull))


def _maximised(mixture: Mixture, sizes: np.ndarray, sums: np.ndarray, prior: Prior) -> Mixture:
    """The best parameters given expected sizes and sums of rows of the components."""
    weights = (sizes + prior.alpha) / (sizes + prior.alpha).sum()
    means = _directions(mixture.kappas[:, None] * sums + prior.pull, mixture.means)
    along, logs = np.sum(means * sums, axis=1), mixture.log_kappas
    for _ in range(NEWTON_STEPS):
        kappas = _kappas(logs)
        change = kappas * (1 - kappas / MOST_KAPPA)  # of kappa with its free number
        ratio, slope = _ratio_and_slope(prior.dimension, kappas)
        rise = change * (along - sizes * ratio)
        # A slope is changed by a step of 1 about as much as it is large, so that no step goes too far.
        curvature = sizes * change**2 * slope + np.abs(rise) + 1 / prior.spread**2
        logs = logs + (rise - (logs - prior.centre) / prior.spread**2) / curvature
    return Mixture(weights, means, logs)


def _scaled_sampler(start: Mixture, prior: Prior, rows: int) -> Sampler:
    """Steps in sds of the posterior that a component has if its rows are known: with unknown ones they are larger."""
    sizes, kappas = rows * start.weights, start.kappas
    ratio, slope = _ratio_and_slope(prior.dimension, kappas)
    change, away = kappas * (1 - kappas / MOST_KAPPA), np.abs(start.log_kappas - prior.centre)
    precisions = {
        "weights": _precisions_of_weights(sizes + prior.alpha),
        "means": (sizes * kappas * ratio + prior.dimension)[:, None],  # a uniform direction has entries of 1/d
        # Where the rows pull a concentration, they hold it.
        "concentrations": sizes * change**2 * slope + (1 + away) / prior.spread**2,
    }
    return SGGMC(
        {name: np.float32(STEP / np.sqrt(value)) for name, value in precisions.items()},
        friction={name: np.float32(np.sqrt(value)) for name, value in precisions.items()},
    )


def _precisions_of_weights(counts: np.ndarray) -> np.ndarray:
    """Of the free numbers of a Dirichlet law with these parameters: e'(diag n - n n' / sum n) e."""
    directions = np.asarray(zero_sum.constrained(jnp.eye(len(counts) - 1)), np.float64)
    return directions**2 @ counts - (directions @ counts) ** 2 / counts.sum()


def _orders(weights: np.ndarray, means: np.ndarray, kappas: np.ndarray, places: Mixture | None) -> np.ndarray:
    """The component of each draw, (chain, draw, component), that is nearest to those of ``places``.

    Without them to those of one draw, and then the largest first. Near by the Kullback-Leibler divergence of the
    components: means alone cannot tell concentric ones.
    """
    dimension = means.shape[-1]
    fixed, strengths = (means[0, -1], kappas[0, -1]) if places is None else (places.means, places.kappas)
    ratio = _ratio_and_slope(dimension, strengths.astype(np.float64))[0]
    order = np.empty(kappas.shape, np.intp)
    excess = _excess(dimension, kappas)
    for at in np.ndindex(*kappas.shape[:2]):
        order[at] = linear_sum_assignment(excess[at] - kappas[at] * ratio[:, None] * (fixed @ means[at].T))[1]
    if places is not None:
        return order
    largest = np.argsort(-np.take_along_axis(weights, order, axis=2).mean(axis=(0, 1)), kind="stable")
    return order[..., largest]


def _in_pieces(X: np.ndarray) -> Iterator[np.ndarray]:
    return (X[first : first + SWEPT] for first in range(0, len(X), SWEPT))


def _directions(sums: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Of length 1; another vector in place of zero."""
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(lengths > 0, sums / np.where(lengths > 0, lengths, 1), otherwise)


def _kappas(logs: np.ndarray) -> np.ndarray:
    return 1 / (np.exp(-logs) + 1 / MOST_KAPPA)


def _excess(dimension: int, kappas: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(log_bessel_excess(dimension / 2 - 1, np.asarray(kappas, np.float64)))


def _ratio_and_slope(dimension: int, kappas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with jax.enable_x64(True):
        ratio, slope = ratio_and_slope(dimension / 2 - 1, kappas)
        return np.asarray(ratio), np.asarray(slope)


def _log_area(dimension: int) -> float:
    return math.log(2) + dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2)
