"""A Bayesian mixture of normal laws.

    x ~ sum_k w_k N(m_k, diag(s_k^2))
    w ~ Dirichlet(alpha),  m_k ~ N(m_0, (r v)^2),  1/s_k^2 ~ Gamma(shape, rate v^2)

with m_0 and v the mean and sd of each column. Component labels are summed over, not
sampled. Components have no names: the draws are put in the order of the first chain's means before anything is
averaged, and a chain stays near the arrangement that it starts from, k-means.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from scirocco.constraints import positive, simplex
from scirocco.core.checks import require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.program import Given
from scirocco.core.types import Array, Params
from scirocco.models.base import GrowingModel, Rows, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import validate_data
from scirocco.samplers import UnderdampedLangevin
from scirocco.target import Target

PIECE = 2**24  # log densities at a time


class GaussianMixture(DensityMixin, GrowingModel):  # type: ignore[misc]
    """A mixture of normal laws with diagonal covariances, all of whose parameters have posteriors.

    Parameters
    ----------
    n_components : int, default 2
        Number of components.
    concentration : float, default 1.0
        Alpha of the Dirichlet prior of the weights.
    prior_scale : float, default 3.0
        r, sd of the means' prior in sds of the data.
    precision_shape, precision_rate
        Of the Gamma prior of the precisions, in units of the data's.
    sampler, estimator, batch_size, n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose
        The run; see ``scirocco.models.base.GradientModel``.

    Attributes
    ----------
    weights_, means_, scales_
        Posterior means; ``scales_`` are sds, (component, feature).
    posterior_
        Draws of ``weights``, ``means`` and ``scales``, an ``xarray.Dataset``, components in one order.
    trace_
        The run, of ``weights``, and of ``means`` and ``scales`` in units of the data's sds.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (300, 1)), rng.normal(3, 1, (200, 1))])
    >>> model = sc.GaussianMixture(2, n_draws=50, random_state=0).fit(X)
    >>> print(np.round(np.sort(model.weights_), 1))
    [0.4 0.6]
    """

    _arrays: ClassVar = ("weights_", "means_", "scales_")

    def __init__(
        self, n_components: int = 2, *, concentration: float = 1.0, prior_scale: float = 3.0,
        precision_shape: float = 1.0, precision_rate: float = 0.01, sampler: Any = None, estimator: Any = None,
        batch_size: int | float | None = None, n_draws: int = 500, burn_in: int = 500, thin: int = 4,
        n_chains: int = 4, max_seconds: float | None = None, random_state: Any = None, measure_bias: bool = True,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.n_components = n_components
        self.concentration = concentration
        self.prior_scale = prior_scale
        self.precision_shape = precision_shape
        self.precision_rate = precision_rate
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
    def fit(self, X: Any, y: Any = None, *, path: str | Path | None = None) -> GaussianMixture:
        """Sample weights, means and scales given rows ``X``.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X)``.
        """
        return self._fit(X, y, FitLocation.of(path))

    @interruptible
    def partial_fit(self, X: Any, y: Any = None) -> GaussianMixture:
        """Rows that join those of earlier calls: the posterior given all of them, from where it was.

        It is that of ``fit`` on all rows, which the model keeps in memory for it. Components keep their places.
        """
        return self._join(X, y)

    def _check_settings(self) -> None:
        super()._check_settings()
        require_count("n_components", self.n_components)
        for name in ("concentration", "prior_scale", "precision_shape", "precision_rate"):
            require_positive_setting(name, getattr(self, name))

    def _look_at(self, X: Any, y: Any, *, reset: bool) -> Rows:
        del y
        return (validate_data(self, X, dtype=np.float64, reset=reset, ensure_min_samples=2 if reset else 1),)

    def _fit_rows(self, rows: Rows, location: FitLocation, known: bool) -> None:
        (X,) = rows
        if len(X) < self.n_components:
            raise ValueError(f"n_components is {self.n_components}, but X has n_samples = {len(X)}")
        centre, spread = X.mean(axis=0), X.std(axis=0)
        constant = np.flatnonzero(spread == 0)
        if constant.size:
            raise ValueError(f"columns {constant[:10].tolist()} of X are constant: a normal law cannot fit them")
        seed = location.seed(self.random_state)
        unit = ((X - centre) / spread).astype(np.float32)
        before = self._earlier(centre, spread) if known else None
        self._sample(
            self.target(unit), self._initial(unit, seed) if before is None else before,
            lambda: UnderdampedLangevin(step_size="auto"), location, seed=seed, near=before is not None,
        )  # fmt: skip
        self._settle(centre, spread, before)

    def target(self, X: np.ndarray) -> Target:
        """The posterior as a ``Target`` for rows in units of the data's sds, for runs of your own.

        Its parameters are ``weights``, ``means`` and ``scales``.
        """
        settings = (self.concentration, self.prior_scale, self.precision_shape, self.precision_rate)
        constraints = {"weights": simplex, "scales": positive}
        return Target(Given(_log_prior, *map(float, settings)), _log_likelihood, X, constraints=constraints)

    def _initial(self, X: np.ndarray, seed: int) -> Params:
        from sklearn.cluster import KMeans

        found = KMeans(self.n_components, n_init=4, random_state=seed).fit(X)
        sizes = np.bincount(found.labels_, minlength=self.n_components) + 1.0
        spread = [X[found.labels_ == k].std(axis=0) if sizes[k] > 2 else np.ones(X.shape[1]) for k in range(len(sizes))]
        return {
            "weights": jnp.asarray(sizes / sizes.sum(), jnp.float32),
            "means": jnp.asarray(found.cluster_centers_, jnp.float32),
            "scales": jnp.asarray(np.maximum(spread, 0.05), jnp.float32),
        }

    def _earlier(self, centre: np.ndarray, spread: np.ndarray) -> Params | None:
        """A draw of the earlier fit in units of now; None if it had another number of components."""
        drawn = self._last_draw()
        if len(drawn["weights"]) != self.n_components:
            return None
        drawn = drawn | {"means": (drawn["means"] - centre) / spread, "scales": drawn["scales"] / spread}
        return {name: jnp.asarray(values, jnp.float32) for name, values in drawn.items()}

    def _settle(self, centre: np.ndarray, spread: np.ndarray, places: Params | None = None) -> None:
        """Draws in the units of the data, components in one order, that of ``places`` if given."""
        import xarray as xr

        weights, means, scales = (
            self.trace_.posterior[name].values.astype(np.float64) for name in ("weights", "means", "scales")
        )
        reference = means[0].mean(axis=0) if places is None else np.asarray(places["means"], np.float64)
        for chain, draw in np.ndindex(means.shape[:2]):
            distance = np.sum((reference[:, None] - means[chain, draw][None]) ** 2, axis=2)
            order = linear_sum_assignment(distance)[1]
            for values in (weights, means, scales):
                values[chain, draw] = values[chain, draw][order]
        names = {
            "weights": (("chain", "draw", "component"), weights),
            "means": (("chain", "draw", "component", "feature"), centre + spread * means),
            "scales": (("chain", "draw", "component", "feature"), spread * scales),
        }
        self.posterior_ = xr.Dataset(names)
        self.weights_, self.means_, self.scales_ = (values.mean(axis=(0, 1)) for _, values in names.values())

    # Using.

    def _log_densities(self, X: Any) -> Any:
        """log w_k + log N(x | k) of every draw, piece by piece: (rows, draws, components)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        weights, means, scales = (self._draws(name, most=500) for name in ("weights", "means", "scales"))
        pieces = len(X) * means.size // PIECE + 1
        for part in np.array_split(X, pieces):
            z = (part[:, None, None, :] - means) / scales
            yield np.log(weights) - np.sum(z**2 / 2 + np.log(scales) + np.log(2 * np.pi) / 2, axis=-1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior probabilities of the components, averaged over the draws, (row, component)."""
        from scipy.special import softmax

        return np.concatenate([softmax(piece, axis=2).mean(axis=1) for piece in self._log_densities(X)])

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return np.argmax(self.predict_proba(X), axis=1)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """``fit``, then ``predict`` of the same rows."""
        return self.fit(X, y).predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """The log of the posterior predictive density of each row."""
        from scipy.special import logsumexp

        pieces = [logsumexp(piece, axis=(1, 2)) - np.log(piece.shape[1]) for piece in self._log_densities(X)]
        return np.concatenate(pieces)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean over rows of ``score_samples``, the log posterior predictive density."""
        del y
        return float(np.mean(self.score_samples(X)))


def _log_prior(alpha: float, prior_scale: float, shape: float, rate: float, params: Params) -> Array:
    log_scales = jnp.log(params["scales"])
    return (
        (alpha - 1) * jnp.sum(jnp.log(params["weights"]))
        - jnp.sum((params["means"] / prior_scale) ** 2) / 2
        - jnp.sum((2 * shape + 1) * log_scales + rate * jnp.exp(-2 * log_scales))  # 1/s^2 has a Gamma law
    )


def _log_likelihood(params: Params, x: Array) -> Array:
    z = (x - params["means"]) / params["scales"]
    return jax.nn.logsumexp(jnp.log(params["weights"]) - jnp.sum(z**2 / 2 + jnp.log(params["scales"]), axis=-1))
