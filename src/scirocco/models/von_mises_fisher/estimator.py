"""A Bayesian mixture on the unit sphere, for directions such as sentence embeddings.

    x ~ sum_k w_k vMF(mu_k, kappa_k),    log vMF(x | mu, kappa) = kappa mu . x - G(kappa) - log(area of the sphere)
    w ~ Dirichlet(alpha),  mu_k uniform on the sphere or vMF(m, kappa_0)
    log kappa_k - log(1 - kappa_k / 10^6) ~ N(log median, spread^2), one for all or one for each (``laws``)

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
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import DensityMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from scirocco.constraints import interval, simplex
from scirocco.core.checks import real_array, require_choice, require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.program import Given
from scirocco.core.seeds import Purpose, generator
from scirocco.estimators import ControlVariate
from scirocco.manifolds import Sphere
from scirocco.models.base import GrowingModel, Rows, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import validate_data
from scirocco.models.von_mises_fisher import laws
from scirocco.models.von_mises_fisher.chains import orders, scaled_sampler
from scirocco.models.von_mises_fisher.laws import FREE, HIERARCHICAL, MOST_KAPPA, NEAREST, SHARED, Mixture, Prior
from scirocco.models.von_mises_fisher.search import EXACT, Found, start
from scirocco.run.trace import Summary, table_of
from scirocco.target import Target

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.partitions import ClusterView, CredibleBall, PointPartition
    from scirocco.partitions.draws import PartitionDraws

AUTO = "auto"
CONCENTRATIONS = (AUTO, FREE, SHARED, HIERARCHICAL)
TOLERANCE = 1e-3  # of a row's length
BATCH = 500  # rows: with control variates their noise is 6 % of all at most, and sds are those of 1,000
PIECE = 2**24  # log densities at a time
DRAWS = 100  # that predictions are averaged over


class VonMisesFisherMixture(DensityMixin, GrowingModel):  # type: ignore[misc]
    """A mixture of von Mises-Fisher laws on the unit sphere, all of whose parameters have posteriors.

    All chains start at the best mode of several tries and stay near it: they say how sure the parameters of this
    arrangement are, not whether there is another.

    Parameters
    ----------
    n_components : int, default 2
        Number of components; ``choose_components`` compares some.
    concentration : str, default "auto"
        "free", one for each component, "shared", one for all, or "hierarchical", one for each from a log-normal law
        whose mean and spread are learnt. "auto" looks at the rows: where they lie around free components as von
        Mises-Fisher laws say it is "free", and where they differ more it is "shared", because a wide component
        would then take rows of all clusters. ``concentration_`` and ``summary`` say what it took.
    alpha : float, default 1.0
        Of the Dirichlet prior of the weights.
    kappa_median, kappa_spread
        Median of the concentrations' prior, the number of features if None, and the sd of their logarithm; of
        "hierarchical" those of the law's own median.
    prior_mean, prior_concentration
        m and kappa_0 of a vMF prior of the means; uniform by default.
    normalize : bool, default False
        Divide rows by their lengths; otherwise they must have length 1 to within 0.001.
    sampler, estimator, batch_size, n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose
        The run; see ``scirocco.models.base.GradientModel``. By default SGGMC with control variates around the mode.

    Attributes
    ----------
    weights_, means_, concentrations_
        Posterior means, of ``means_`` the direction.
    labels_
        The most probable component of each training row.
    membership_
        Probabilities of the components for each training row, averaged over draws; not after ``load``.
    concentration_
        "free", "shared" or "hierarchical".
    dispersion_
        How far rows lie around the means of components whose concentrations are not shared, 1 if as the law says;
        above 1.2 or so they differ more, and concentrations should be shared. None if they were to be.
    background_
        The component that takes rows of others because it is wide, or None; there is a warning.
    posterior_
        Draws of ``weights``, ``means`` and ``concentrations``, an ``xarray.Dataset``, components in one order, the
        largest first.
    trace_
        The run, of the same, components in the order of the start.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> rng = np.random.default_rng(0)
    >>> X = sc.directional.sample(rng, np.eye(3).repeat([200, 100, 50], axis=0), 20.0)
    >>> model = VonMisesFisherMixture(3, n_draws=50, random_state=0).fit(X)
    >>> model.weights_.round(1), model.predict(np.eye(3))
    (array([0.6, 0.3, 0.1]), array([0, 1, 2]))
    """

    _arrays: ClassVar = ("weights_", "means_", "concentrations_", "labels_")
    _facts: ClassVar = ("concentration_", "dispersion_", "background_")

    concentration_: str
    dispersion_: float | None
    background_: int | None

    def __init__(
        self, n_components: int = 2, *, concentration: str = "auto", alpha: float = 1.0,
        kappa_median: float | None = None, kappa_spread: float = 2.0, prior_mean: Any = None,
        prior_concentration: float = 0.0, normalize: bool = False, sampler: Any = None, estimator: Any = None,
        batch_size: int | float | None = None, n_draws: int = 250, burn_in: int = 300, thin: int = 5, n_chains: int = 4,
        max_seconds: float | None = None, random_state: Any = None, measure_bias: bool = True, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.n_components = n_components
        self.concentration = concentration
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
        require_choice("concentration", self.concentration, CONCENTRATIONS)

    def _look_at(self, X: Any, y: Any, *, reset: bool) -> Rows:
        del y
        return (self._rows(X, reset=reset),)

    def _fit_rows(self, rows: Rows, location: FitLocation, known: bool) -> None:
        (X,) = rows
        if len(X) < self.n_components:
            raise ValueError(f"n_components is {self.n_components}, but X has n_samples = {len(X)}")
        begun = location.description and location.description.model
        if begun and "concentration" not in begun.settings:
            self.concentration = FREE  # it is a run of the versions that had no other
        seed = location.seed(self.random_state)
        before = self._earlier() if known else None
        found = self._start(X, seed, before)
        if found.background is not None:
            warnings.warn(
                f"one component, of weight {found.mixture.weights[found.background]:.2f}, takes rows of others because "
                "it is wide: set concentration='shared' for clusters",
                stacklevel=6,
            )
        self.concentration_, self.dispersion_ = found.concentration, found.dispersion
        target, prior = self.target(X), self._prior(X.shape[1], found.concentration)
        free = self.sampler is None and self.estimator is None
        params = found.mixture.params
        self._sample(
            target, params, lambda: scaled_sampler(found.mixture, prior, target.size), location, batch_size=BATCH,
            estimator=ControlVariate(centre=params) if free else None, seed=seed, near=before is not None,
        )  # fmt: skip
        self._settle(before)
        self.background_ = None if found.background is None else int(np.argmin(self.concentrations_))

    def _start(self, X: np.ndarray, seed: int, before: Mixture | None) -> Found:
        """The mode that chains begin at, and what "auto" takes."""
        auto = self.concentration == AUTO
        prior = self._prior(X.shape[1], FREE if auto else self.concentration)
        return start(X, self.n_components, prior, seed, before, auto)

    def _earlier(self) -> Mixture | None:
        """A draw of the earlier fit; None if it had another number of components."""
        drawn = {name: values.astype(np.float64) for name, values in self._last_draw().items()}
        kappas = np.minimum(drawn["concentrations"] / MOST_KAPPA, NEAREST)
        found = Mixture(drawn["weights"], drawn["means"], np.log(MOST_KAPPA) + np.log(kappas) - np.log1p(-kappas))
        return found if len(found.weights) == self.n_components else None

    def target(self, X: np.ndarray) -> Target:
        """The posterior as a ``Target`` for rows of length 1 in single precision, for runs of your own.

        Its parameters are ``weights``, ``means`` and ``concentrations``, of which there is one if they are shared. With
        "auto" concentrations are what ``fit`` took, and free before it.
        """
        taken = getattr(self, "concentration_", FREE) if self.concentration == AUTO else self.concentration
        prior = Given(laws.log_prior, self._prior(X.shape[1], taken))
        constraints = {"weights": simplex, "concentrations": interval(0, MOST_KAPPA)}
        manifold = {"means": Sphere()}
        return Target(prior, laws.log_likelihood, X, batched=True, manifold=manifold, constraints=constraints)

    def _prior(self, dimension: int, concentration: str = FREE) -> Prior:
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
        spread = float(self.kappa_spread)
        return Prior(dimension, float(self.alpha), math.log(median), spread, tuple(pull.tolist()), concentration)

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
        weights, kappas = weights.astype(np.float64), np.broadcast_to(kappas, weights.shape)
        order = orders(weights, means, kappas, places)
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
        for name in ("labels_", "membership_"):  # of an earlier fit
            self.__dict__.pop(name, None)

    # Using.

    def _asked(self, X: Any) -> np.ndarray:
        """These rows, or the training rows."""
        if X is not None:
            return self._given(X)
        check_is_fitted(self)
        if not hasattr(self, "_kept"):
            raise NotFittedError("a model that was loaded has no rows: they are not in its file; give X")
        return np.asarray(self._kept[0])

    def _given(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._rows(X, reset=False)

    def _log_densities(self, rows: np.ndarray, most: int = DRAWS) -> Iterator[np.ndarray]:
        """log w_k + log vMF(x | k) for draws, without the area of the sphere, by piece: (rows, draws, components)."""
        weights, means, kappas = (self._draws(name, most) for name in ("weights", "means", "concentrations"))
        dtype = np.float64 if rows.size * weights.size <= EXACT else np.float32
        slopes = (kappas[..., None] * means.astype(dtype)).reshape(-1, rows.shape[1]).astype(dtype)
        offsets = (np.log(weights) - laws.excess(rows.shape[1], kappas)).astype(dtype)
        for part in np.array_split(rows, len(rows) * weights.size // PIECE + 1):
            yield (part.astype(dtype) @ slopes.T).reshape(len(part), *weights.shape) + offsets

    def predict_proba(self, X: Any, *, return_std: bool = False) -> Any:
        """Posterior probabilities of the components, averaged over (at most 100) draws, (row, component).

        With ``return_std`` their sds over the draws too: how far the membership is itself unknown.
        """
        parts = self._memberships(self._given(X), return_std=return_std)
        return parts if return_std else parts[0]

    def _memberships(self, rows: np.ndarray, *, return_std: bool = False) -> tuple[np.ndarray, ...]:
        found = []
        for piece in self._log_densities(rows):
            chances = softmax(piece, axis=2)
            found.append((chances.mean(axis=1), chances.std(axis=1)) if return_std else (chances.mean(axis=1),))
        return tuple(np.concatenate(part) for part in zip(*found, strict=True))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return np.argmax(self.predict_proba(X), axis=1)

    @cached_property
    def membership_(self) -> np.ndarray:
        """``predict_proba`` of the training rows."""
        return self._memberships(self._asked(None))[0]

    @cached_property
    def labels_(self) -> np.ndarray:
        """``predict`` of the training rows."""
        return np.argmax(self.membership_, axis=1)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """``fit``, then ``labels_``."""
        return self.fit(X, y).labels_

    def score_samples(self, X: Any) -> np.ndarray:
        """The log of the posterior predictive density of each row, with respect to the area of the sphere."""
        rows = self._given(X)
        pieces = [logsumexp(piece, axis=(1, 2)) - np.log(piece.shape[1]) for piece in self._log_densities(rows)]
        return np.concatenate(pieces) - laws.log_area(self.n_features_in_)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log predictive density."""
        del y
        return float(np.mean(self.score_samples(X), dtype=np.float64))

    def summary(self) -> Summary:
        """Mean, sd, ESS and R-hat of weights and concentrations, and what is to be said of the components."""
        check_is_fitted(self)
        named = {"weights": self.posterior_["weights"].values, "concentrations": self._own_concentrations()}
        labels = [f"{name}[{k}]" for name, values in named.items() for k in range(values.shape[2])]
        found, trace = table_of(np.concatenate(list(named.values()), axis=2), labels), getattr(self, "trace_", None)
        return Summary(
            found.table, "\n".join(line for line in (found.note, *self._remarks()) if line), verdict=self.verdict(),
            bias=trace and trace.bias, tuning=trace and trace.tuning,
        )  # fmt: skip

    def _own_concentrations(self) -> np.ndarray:
        """Those that are parameters: one if they are shared."""
        every: np.ndarray = self.posterior_["concentrations"].values
        return every[:, :, :1] if self.concentration_ == SHARED else every

    def _remarks(self) -> Iterator[str]:
        auto = " (auto)" if self.concentration == AUTO else ""
        far = (
            ""
            if self.dispersion_ is None
            else (f"; squared, rows lie {self.dispersion_:.2f} times as far around free components as these say")
        )
        yield f"concentrations: {self.concentration_}{auto}{far}."
        if self.background_ is not None:
            yield f"component {self.background_} is wide and takes rows of others: set concentration='shared'."
        if hasattr(self, "_kept"):
            sure = self.membership_.max(axis=1).mean()
            yield (
                f"{np.unique(self.labels_).size} of {len(self.weights_)} components are the most probable of some row; "
                f"in a draw {sure:.0%} of the rows are in the component that labels_ says."
            )

    # Partitions: of the training rows, or of others.

    def sample_labels(self, X: Any = None, *, max_draws: int = DRAWS) -> np.ndarray:
        """Draws of the components of rows, (draw, row), one for each of at most ``max_draws`` draws of the parameters.

        What ``scirocco.partitions`` takes; the methods below do so.
        """
        require_count("max_draws", max_draws)
        rng, found = generator(self._fixed_seed(), Purpose.MIXTURE_SAMPLE), []
        for piece in self._log_densities(self._asked(X), max_draws):
            reached = np.cumsum(softmax(piece, axis=2), axis=2)
            found.append(np.sum(reached[..., :-1] < rng.random(reached.shape[:2])[..., None], axis=2, dtype=np.int32))
        return np.concatenate(found).T

    def view(self, X: Any = None) -> ClusterView:
        """Clusters of a representative draw, and all draws by their names; see ``partitions.cluster_view``.

        It pairs clusters by the rows they share, where the components of ``posterior_`` are paired by their parameters:
        ``view.labels`` are ``labels_`` by other names if the draws have one arrangement.
        """
        from scirocco.partitions import cluster_view

        return cluster_view(self.sample_labels(X), seed=self._fixed_seed())

    def point_partition(self, X: Any = None, *, loss: str = "vi", n_starts: int = 4) -> PointPartition:
        """The partition of rows nearest to draws of it; see ``partitions.point_partition``.

        Of more than 10,000 rows a sample is searched, and the others join the cluster that theirs in the draws lie in.
        """
        return self._partitions(X).point(loss=loss, n_starts=n_starts)

    def credible_ball(
        self, X: Any = None, partition: Any = None, *, level: float = 0.95, loss: str = "vi"
    ) -> CredibleBall:  # fmt: skip
        """How far from a partition, such as ``point_partition(X).labels``, draws are; from ``labels_`` if None."""
        if partition is None:
            partition = self.labels_ if X is None else self.predict(X)
        return self._partitions(X).ball(partition, level=level, loss=loss)

    def co_clustering(self, X: Any) -> np.ndarray:
        """How often pairs of rows are in one component, (row, row): give some rows, since all would be N x N."""
        return self._partitions(X).co_clustering()

    def entropy(self, X: Any = None) -> np.ndarray:
        """How unsure each row's component is, in bits."""
        from scirocco.partitions.draws import entropy_in_bits

        return entropy_in_bits(self.membership_ if X is None else self.predict_proba(X))

    def cluster_sizes(self, X: Any = None, *, level: float = 0.9) -> pd.DataFrame:
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

    def _restore(self, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if "concentration_" not in meta:  # a file of the versions in which they were free
            meta |= {"concentration_": FREE, "dispersion_": None, "background_": None}
        super()._restore(meta, arrays)
