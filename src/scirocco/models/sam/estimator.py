"""The spherical admixture model as a scikit-learn estimator.

    mu ~ vMF(m, kappa_0),   beta_k ~ vMF(mu, sigma),   theta_d ~ Dirichlet(alpha)
    v_d ~ vMF(beta theta_d / |beta theta_d|, kappa)

Documents are unit vectors, tf-idf rows say (``TfIdf``), and so are topics, whose negative entries speak of words that
are absent. Topics are sampled from minibatches on a product of spheres, shares of topics in documents are averaged over
(``sam.model``). Reisinger et al. (2010); the samplers are those of Liu, Zhu and Song (2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from scirocco.batches import WithReplacement
from scirocco.batches.base import batch_rows
from scirocco.core.checks import positive_array, real_array, require_choice, require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Array, Params
from scirocco.directional import log_normaliser
from scirocco.gradient.kernel import require_all_data, require_parts
from scirocco.models.base import GradientModel, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import refuse_text, validate_data
from scirocco.models.labels import checked_labels
from scirocco.models.sam import reading, variational
from scirocco.models.sam.kept_shares import Direction, KeptShares, whitening
from scirocco.models.sam.model import (
    Hyper,
    ShareAverage,
    gradient_given_nearest,
    joint_target,
    marginal_target,
    mean_cosine,
    projections,
    shares_block,
    steepness,
)
from scirocco.models.sam.weights import sampled, start
from scirocco.run.describe import rebuild
from scirocco.run.folder import RunFolder
from scirocco.run.progress import waiting
from scirocco.run.trace import Summary
from scirocco.run.verdict import MEANS, NOT, Verdict
from scirocco.samplers import GMC, SGGMC, GeodesicSGNHT, GradientNoise, Rescaled, UnderdampedLangevin
from scirocco.samplers.base import Sampler
from scirocco.samplers.preconditioned import Preconditioned
from scirocco.target import Target
from scirocco.verbs.sample import sample

if TYPE_CHECKING:
    import pandas as pd

KEPT = "langevin"  # from minibatches, shares of all documents kept
SAMPLED = ("gsgnht", "sggmc")  # from minibatches, shares averaged over
IN_TURN = ("gmc-gibbs", "gmc-approximate")  # on all data
VARIATIONAL = ("variational", "stochastic-variational")
STARTS = ("k-means", "variational")
UNIT = 1e-3  # how far from 1 the length of a row may be
BYTES = 8 * 2**30  # of dense rows
STEP = 0.3  # in units of the sd of a topic's direction
KEPT_STEP = 0.4  # in coordinates in which all directions are about as steep
ROUNDS, ROUND = 10, 200  # of sampling before the chains begin, at most, and the steps of each
ALIKE, NEAR = 2.0, 0.05  # a round that changes curvatures by this factor and log kappa by this much was the last
LONGER = 4  # times as long a run, where chains disagree
QUIET = 0.5  # times the variance of a momentum: what the noise of one minibatch may add to it
BATCH, PASS = 100, 16  # documents of a minibatch, at least; steps in which all are seen where shares are kept
NOISE_BATCHES, TINY = 8, 1e-12
PIECE = 2**24  # numbers at a time
MEASURED, SHARE_DRAWS = 500, 50  # documents that say how flat shares are; draws of shares that are averaged


class SphericalAdmixture(TransformerMixin, GradientModel):  # type: ignore[misc]
    """Topics on the sphere, with posteriors.

    Parameters
    ----------
    n_topics : int, default 20
        Number of topics K.
    alpha : default 1.0
        Of the Dirichlet prior of shares, a number or one for each topic. Large ones make shares flat.
    concentration : float, optional
        Kappa, of documents around their mixture of topics. By default documents say it, before the chains begin: the
        kappa under which they are as far from mixtures of topics as they are. ``summary`` has it.
    topic_concentration : float, optional
        Sigma, of topics around their centre mu; twice the number of words by default.
    centre_concentration : float, optional
        Kappa_0, of mu around the mean document; sigma by default.
    sampler : default "langevin"
        How topics are inferred. "langevin" keeps the shares of all documents, moves those of a minibatch and then the
        topics given all shares: no noise of minibatches. The others of minibatches average over shares, "gsgnht", a
        thermostat, and "sggmc": they take far longer to forget where they were. On all data "gmc-gibbs", topics and
        shares in turn, exact, or "gmc-approximate", several draws of the shares and a test that is only nearly right;
        and as baselines "variational" and "stochastic-variational", which give one point. Or any sampler that moves on
        manifolds, which is then used as "gsgnht" is.
    start : str or array, default "k-means"
        Where chains begin. "k-means", spherical; "variational": from there stochastic variational inference, in
        rounds, as long as they bring documents nearer to mixtures of topics, at most as many steps as a chain has; or
        an array, topics x words, of directions of any length. "langevin" then makes up to ten rounds of 200 steps,
        until topics are as steep as their scale says. All chains begin at the same topics: they tell how sure this
        arrangement is, not whether there is another. The time of all that is part of ``max_seconds``, about half of
        it at most: with a budget the start depends on the clock.
    share_draws, share_moves
        Draws of a document's shares that make a gradient where they are averaged, and moves before each of them, or at
        each visit of a document whose shares are kept.
    batch_size : int or float, optional
        Documents of a minibatch; for "langevin" a sixteenth of all, at least 100, for others 100.
    n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose
        The run; see ``scirocco.models.base.GradientModel``. Variational methods make ``burn_in`` + ``thin`` *
        ``n_draws`` steps.

    Attributes
    ----------
    components_
        Topics x words, the directions of the posterior means.
    posterior_
        Draws of ``topics``, an ``xarray.Dataset``, chains put in one order.
    concentration_
        Kappa, as given or as found.
    largest_share_
        The mean over documents of the largest share of a topic: 1 / K where shares are flat.
    document_frequency_
        Documents that have each word.
    labels_
        Names of topics, see ``label_topics``.
    search_seconds_
        What the search for a start took of the budget, compiling not counted; 0 for a run that goes on.
    trace_
        The run; None for variational methods, whose ``bounds_`` are the evidence bounds.

    Examples
    --------
    >>> import scirocco as sc
    >>> rng = np.random.default_rng(0)
    >>> counts = np.concatenate([rng.poisson(3.0 * np.eye(2)[k].repeat(4) + 0.1, (60, 8)) for k in (0, 1)])
    >>> rows = sc.models.TfIdf().fit_transform(counts)
    >>> rows = rows[np.diff(rows.indptr) > 0]
    >>> model = sc.SphericalAdmixture(2, n_draws=20, burn_in=100, random_state=0).fit(rows)
    >>> model.components_.shape, model.transform(rows[:3]).shape
    ((2, 8), (3, 2))
    """

    _arrays: ClassVar = ("components_", "centre_", "document_frequency_")
    _facts: ClassVar = ("hyper_", "labels_", "largest_share_")
    _bias_note: ClassVar = (
        "shares of topics in documents are averaged over draws of their own, whose error is not part of this report"
    )

    estimator = None  # a model of its own: not a setting

    def __init__(
        self, n_topics: int = 20, *, alpha: Any = 1.0, concentration: float | None = None,
        topic_concentration: float | None = None, centre_concentration: float | None = None, sampler: Any = "langevin",
        start: Any = "k-means", share_draws: int = 2, share_moves: int = 2,
        batch_size: int | float | None = None, n_draws: int = 100, burn_in: int = 1000, thin: int = 10,
        n_chains: int = 2, max_seconds: float | None = None, random_state: Any = None, measure_bias: bool = True,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.n_topics = n_topics
        self.alpha = alpha
        self.concentration = concentration
        self.topic_concentration = topic_concentration
        self.centre_concentration = centre_concentration
        self.sampler = sampler
        self.start = start
        self.share_draws = share_draws
        self.share_moves = share_moves
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
    def fit(self, X: Any, y: Any = None, *, path: str | Path | None = None, callback: Any = None) -> SphericalAdmixture:
        """Infer the topics of unit rows ``X``, dense or sparse.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X)``. Variational methods
        call ``callback(seconds, topics)`` after each step.
        """
        return self._fit(X, y, FitLocation.of(path), callback)

    def _fit(self, X: Any, y: Any, location: FitLocation, callback: Any = None) -> SphericalAdmixture:
        del y
        self._check_run()
        require_choice("sampler", self._algorithm, (KEPT, *SAMPLED, *IN_TURN, *VARIATIONAL))
        for name in ("n_topics", "share_draws", "share_moves"):
            require_count(name, getattr(self, name))
        rows = self._rows(X, reset=True)
        if len(rows) < self.n_topics:
            raise ValueError(f"n_topics is {self.n_topics}, but X has n_samples = {len(rows)}")
        self.hyper_: list[Any] = list(self._hyper(rows.shape[1]))
        mean = rows.mean(axis=0, dtype=np.float64)
        self.centre_ = (mean / max(np.linalg.norm(mean), 1e-12)).astype(np.float32)
        self.document_frequency_, self.labels_ = np.count_nonzero(rows, axis=0), [""] * self.n_topics
        seed = location.seed(self.random_state)
        topics = self._checked_start(rows.shape[1])
        if topics is None:
            topics = self._initial(rows, seed)
        self.hyper_ = list(self._begun(location) or self._fitting(rows, topics, self._settings))
        self.search_seconds_ = 0.0
        if self._algorithm in VARIATIONAL:
            if location.path is not None:
                raise ValueError(f"path is for runs that are sampled; sampler {self.sampler!r} has none")
            return self._fit_variational(rows, topics, seed, callback)._measured(rows, seed)
        self._check_sampler(rows, location)
        if isinstance(self.start, str) and self.start == "variational" and not location.begun:
            topics, self.search_seconds_ = self._search(rows, topics, seed)
        if self._algorithm == KEPT and not location.begun:
            topics = self._settled(rows, topics, seed)
        self._fit_sampled(rows, topics, location, seed)
        self._settle()
        return self._measured(rows, seed)

    def _hyper(self, words: int) -> Hyper:
        for name in ("concentration", "topic_concentration", "centre_concentration"):
            if getattr(self, name) is not None:
                require_positive_setting(name, getattr(self, name))
        alpha = positive_array("alpha", self.alpha)
        if alpha.ndim and alpha.shape != (self.n_topics,):
            raise ValueError(f"alpha must be a number or {self.n_topics} of them; got the shape {alpha.shape}")
        sigma = float(self.topic_concentration or 2 * words)
        return Hyper(
            tuple(map(float, np.broadcast_to(alpha, (self.n_topics,)))), float(self.concentration or 6 * words), sigma,
            float(self.centre_concentration or sigma),
        )  # fmt: skip

    @property
    def _settings(self) -> Hyper:
        alpha, kappa, sigma, kappa0 = self.hyper_
        return Hyper(tuple(alpha), kappa, sigma, kappa0)

    def _rows(self, X: Any, *, reset: bool) -> np.ndarray:
        """Dense unit rows in single precision."""
        refuse_text(X, "SphericalAdmixture")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=reset)
        if X.shape[1] < 2:
            raise ValueError(f"points of a sphere have 2 features or more; X has 1 feature(s), {X.shape[1]}")
        if 4 * X.shape[0] * X.shape[1] > BYTES:
            size = 4 * X.shape[0] * X.shape[1] / 2**30
            raise ValueError(
                f"X would take {size:.0f} GB as a dense array, more than {BYTES / 2**30:.0f}: "
                "take fewer words, such as those of moderate document frequency, or fewer documents"
            )
        dense: Any = X.todense() if sp.issparse(X) else X  # type: ignore[attr-defined]
        rows = np.asarray(dense, np.float32)
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        worst = int(np.argmax(np.abs(length - 1))) if len(length) else 0
        if len(length) and not abs(length[worst] - 1) <= UNIT:
            raise ValueError(
                f"rows of X must be unit vectors: row {worst} has length {length[worst]:.4g}. Turn counts into tf-idf "
                "rows with scirocco.models.TfIdf, or divide rows by their lengths (sklearn.preprocessing.normalize); "
                "drop empty ones"
            )
        return rows / length[:, None].astype(np.float32)

    def _checked_start(self, words: int) -> np.ndarray | None:
        """The topics that were given as directions; None for those to be found."""
        if isinstance(self.start, str):
            require_choice("start", self.start, STARTS)
            return None
        topics = real_array("start", self.start)
        if topics.shape != (self.n_topics, words):
            raise ValueError(
                f"start must be one of {', '.join(STARTS)}, or topics x words, {(self.n_topics, words)}; got an array "
                f"of the shape {topics.shape}"
            )
        length = np.linalg.norm(topics, axis=1, keepdims=True)
        if not length.min() > 0:
            raise ValueError(f"start must have a direction for each topic: row {int(np.argmin(length))} is zero")
        return (topics / length).astype(np.float32)

    def _initial(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """Centres of spherical k-means, begun far from each other, each drawn towards the mean document."""
        rng = generator(seed, Purpose.SEARCH_ROWS)
        some = rows[rng.choice(len(rows), min(len(rows), 5000), replace=False)]
        chosen = [int(rng.integers(len(some)))]
        nearest = some @ some[chosen[0]]
        for _ in range(self.n_topics - 1):
            gap = np.maximum(1 - nearest, 0).astype(np.float64) ** 2
            far = gap / gap.sum() if gap.sum() > 0 else None
            chosen.append(int(rng.choice(len(some), p=far)))
            nearest = np.maximum(nearest, some @ some[chosen[-1]])
        centres = some[chosen]
        for _ in range(10):
            labels = np.argmax(some @ centres.T, axis=1)
            sums = np.stack([some[labels == k].sum(axis=0) for k in range(self.n_topics)])
            centres = np.where(np.any(sums != 0, axis=1, keepdims=True), sums, centres) + self.centre_
            centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        return centres.astype(np.float32)

    # Fitting.

    @property
    def _algorithm(self) -> str:
        """The name of how topics are inferred; a sampler that was given is used as the thermostat is."""
        return self.sampler if isinstance(self.sampler, str) else SAMPLED[0]

    def _given_sampler(self) -> Any:
        """The sampler that was given; None where it was named."""
        return None if isinstance(self.sampler, str) else self.sampler

    def _check_sampler(self, rows: np.ndarray, location: FitLocation) -> None:
        """Reject what a run would refuse, before a start is searched for."""
        if location.path is not None and location.description is None:
            RunFolder(location.path).require_free()
        sampler = self._given_sampler()
        if sampler is None and self._algorithm in IN_TURN:
            sampler = GMC(1.0)
        if sampler is not None:
            require_parts(marginal_target(rows, self.centre_, self._settings), sampler, None, None, untuned=True)
            whole = self.batch_size is None and sampler.full_data
            require_all_data(sampler, len(rows) if whole else self._batch(rows), len(rows))

    def _search(self, rows: np.ndarray, topics: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
        half = None if self.max_seconds is None else self.max_seconds / 2
        with waiting("searching for a start", self.verbose or None):
            return variational.search(
                rows, self.centre_, topics, self._settings, batch_size=min(BATCH, self._batch(rows)), seed=seed,
                steps=self.burn_in + self.thin * self.n_draws, max_seconds=half,
            )  # fmt: skip

    def _settled(self, rows: np.ndarray, topics: np.ndarray, seed: int) -> np.ndarray:
        """Topics where the chains will be: rounds of sampling, until one leaves topics about as steep as it found them.

        A kappa that was not given follows from how near documents come to mixtures of topics.
        """
        target, hyper = self._free_target(rows), self._settings
        for number in range(ROUNDS):
            curvature = steepness(rows, topics, hyper)
            sampler = Preconditioned(UnderdampedLangevin(KEPT_STEP / 2), whitening(curvature, topics.shape[1]))
            own = int(generator(seed, Purpose.SEARCH_ROWS, 2, number).integers(2**31))
            drawn = sample(
                target, sampler, {"topics": jnp.asarray(topics)}, num_samples=2, thin=ROUND // 2, burn_in=0,
                batch_size=self._batch(rows), batching=self._batching(rows), estimator=self._kept(hyper),
                chains=self.n_chains, report=False, progress=False, seed=own,
            )  # fmt: skip
            topics = drawn.posterior["topics"].values[0, -1]
            self.search_seconds_ += drawn.seconds
            before, hyper = hyper, self._fitting(rows, topics, hyper)
            change = np.linalg.solve(curvature, steepness(rows, topics, hyper))
            apart = np.max(np.abs(np.log(np.linalg.eigvals(change).real)))
            late = self.max_seconds is not None and self.search_seconds_ > self.max_seconds / 2
            if late or (apart < np.log(ALIKE) and abs(np.log(hyper.kappa / before.kappa)) < NEAR):
                break
        self.hyper_ = list(hyper)
        return topics

    def _begun(self, location: FitLocation) -> Hyper | None:
        """The settings of a run that goes on; None for one that begins, or has its settings from the start alone."""
        if not location.begun or self._algorithm != KEPT or location.description is None:
            return None
        return self._settings._replace(kappa=float(rebuild(location.description.parts.estimator).kappa))

    def _fitting(self, rows: np.ndarray, topics: np.ndarray, hyper: Hyper) -> Hyper:
        """With the kappa under which documents are as far from their mixtures as they are, if none was given."""
        if self.concentration is not None:
            return hyper
        mean = np.clip(mean_cosine(rows, topics, hyper), 1e-3, 1 - 1e-6)
        return hyper._replace(kappa=float(rows.shape[1] * mean / (1 - mean**2)))

    def _free_target(self, rows: np.ndarray) -> Target:
        return marginal_target(rows, self.centre_, self._settings, constraints={"topics": Direction()})

    def _kept(self, hyper: Hyper) -> KeptShares:
        return KeptShares(hyper.alpha, hyper.kappa, hyper.power, self.share_moves)

    def _batch(self, rows: np.ndarray) -> int:
        """The number of rows of a minibatch."""
        size = self._own_batch(len(rows)) if self.batch_size is None else self.batch_size
        return batch_rows(min(size, len(rows)) if isinstance(size, int | np.integer) else size, len(rows))

    def _batching(self, rows: np.ndarray) -> WithReplacement | None:
        """Minibatches that know the places of documents, by which estimators keep shares: others shuffle them."""
        return WithReplacement() if self._batch(rows) < len(rows) else None

    def _own_batch(self, size: int) -> int:
        """Shares that are kept want to be visited: all documents in 16 steps."""
        return min(size, max(BATCH, size // PASS if self._algorithm == KEPT else 0))

    def _fit_sampled(self, rows: np.ndarray, topics: np.ndarray, location: FitLocation, seed: int) -> None:
        hyper = self._settings
        own = partial(self._own_sampler, rows, topics, seed)
        if self._algorithm == KEPT:
            self._sample(
                self._free_target(rows), {"topics": jnp.asarray(topics)}, own, location, seed=seed,
                estimator=self._kept(hyper), batch_size=self._own_batch(len(rows)), batching=self._batching(rows),
                spent=self.search_seconds_,
            )  # fmt: skip
            return
        if self._algorithm in SAMPLED:
            average = ShareAverage(hyper.alpha, hyper.kappa, hyper.power, self.share_draws, self.share_moves)
            self._sample(
                marginal_target(rows, self.centre_, hyper), {"topics": jnp.asarray(topics)}, own, location, seed=seed,
                estimator=average, batch_size=min(BATCH, len(rows)), batching=self._batching(rows),
                spent=self.search_seconds_,
            )  # fmt: skip
            return
        draws = 1 if self._algorithm == "gmc-gibbs" else self.share_draws
        dots, gram = projections(jnp.asarray(topics), jnp.asarray(rows))
        shares = start(dots, gram, jnp.float32(hyper.kappa))
        held = {"theta": jnp.stack([shares.theta] * draws), "log_step": shares.log_step, "moves": shares.moves}
        block = shares_block(hyper, draws, self.share_moves)
        self._sample(
            joint_target(rows, self.centre_, hyper), {"topics": jnp.asarray(topics)} | held, own, location, seed=seed,
            blocks=(block,), batch_size=len(rows), collect=_only_topics, spent=self.search_seconds_,
        )  # fmt: skip

    def _own_sampler(self, rows: np.ndarray, topics: np.ndarray, seed: int) -> Sampler:
        """Steps in units of the sd of each topic's direction, shorter where minibatches are noisier than that."""
        curvature = steepness(rows, topics, self._settings)
        if self._algorithm == KEPT:
            return Preconditioned(UnderdampedLangevin(KEPT_STEP), whitening(curvature, topics.shape[1]))
        slope = np.sqrt(np.diag(curvature))[:, None]
        stiffest = np.sqrt(np.linalg.eigvalsh(curvature / (slope * slope.T))[-1])
        scale = {"topics": (1 / slope).astype(np.float32)}
        if self._algorithm in IN_TURN:
            # The error of a trajectory grows with the number of coordinates d: steps shrink by d^(-1/4).
            return Rescaled(GMC(float(1.2 * topics.size**-0.25 / stiffest), leapfrog_steps=10), scale)
        noise = self._noise(rows, topics, seed) / slope**2
        h = float(min(STEP / stiffest, np.sqrt(QUIET / max(np.max(noise), TINY))))
        if self._algorithm == "gsgnht":
            return Rescaled(GeodesicSGNHT(h, diffusion=1.0), scale)
        # As much friction again as the noise of the gradient asks for, and so much less noise injected.
        friction = {"topics": np.maximum(1.0, h * noise).astype(np.float32)}
        known = GradientNoise({"topics": noise.astype(np.float32)})
        return Rescaled(SGGMC(h, friction=friction, noise_estimate=known), scale)

    def _noise(self, rows: np.ndarray, topics: np.ndarray, seed: int) -> np.ndarray:
        """The variance of a coordinate of each topic's gradient over minibatches, (topic, 1), measured at the start."""
        batch = self._batch(rows)
        if batch == len(rows):
            return np.zeros((len(topics), 1))
        rng = generator(seed, Purpose.NOISE_BATCHES)
        slopes = []
        for _ in range(NOISE_BATCHES):
            some = jnp.asarray(rows[rng.choice(len(rows), batch, replace=False)])
            slope = gradient_given_nearest(jnp.asarray(topics), some, self._settings.kappa)
            slopes.append(np.asarray(slope, np.float64) * len(rows) / batch)
        return np.var(slopes, axis=0, ddof=1).mean(axis=1, keepdims=True)

    def _fit_variational(self, rows: np.ndarray, topics: np.ndarray, seed: int, callback: Any) -> SphericalAdmixture:
        import xarray as xr

        batch = self._batch(rows) if self._algorithm == "stochastic-variational" else None
        with waiting("variational inference", self.verbose or None):
            found = variational.fit(
                rows, self.centre_, topics, self._settings, batch_size=batch, seed=seed, max_seconds=self.max_seconds,
                steps=self.burn_in + self.thin * self.n_draws, callback=callback,
            )  # fmt: skip
        self.trace_, self.bounds_ = None, np.asarray(found.bounds)  # type: ignore[assignment]
        self.components_ = found.topics
        self.posterior_ = xr.Dataset({"topics": (("chain", "draw", "topic", "word"), found.topics[None, None])})
        return self

    def _settle(self) -> None:
        """Put the topics of all chains in the order of the first one's, and set ``posterior_`` and ``components_``."""
        import xarray as xr

        topics = self.trace_.posterior["topics"].values.copy()
        reference = topics[0].mean(axis=0)
        for chain in range(1, len(topics)):
            order = linear_sum_assignment(-reference @ topics[chain].mean(axis=0).T)[1]
            topics[chain] = topics[chain][:, order]
        self.posterior_ = xr.Dataset({"topics": (("chain", "draw", "topic", "word"), topics)})
        mean = topics.mean(axis=(0, 1))
        self.components_ = mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _measured(self, rows: np.ndarray, seed: int) -> SphericalAdmixture:
        """How far documents differ in their shares, by some of them."""
        some = generator(seed, Purpose.NOISE_BATCHES, 1).choice(len(rows), min(len(rows), MEASURED), replace=False)
        self.largest_share_ = float(np.mean(np.max(self._shares(rows[some], SHARE_DRAWS)[0], axis=1)))
        return self

    def target(self, X: Any) -> Target:
        """The posterior of the topics given shares at their nearest, as a ``Target``, for runs of your own."""
        rows = self._rows(X, reset=not hasattr(self, "n_features_in_"))
        hyper, mean = self._settings if hasattr(self, "hyper_") else self._hyper(rows.shape[1]), rows.mean(axis=0)
        return marginal_target(rows, mean / np.linalg.norm(mean), hyper)

    # Using.

    def transform(self, X: Any, *, n_draws: int = SHARE_DRAWS, return_std: bool = False) -> Any:
        """The mean shares of topics in documents, over ``n_draws`` draws of topics and shares, (document, topic).

        With ``return_std`` also their standard deviations.
        """
        check_is_fitted(self)
        require_count("n_draws", n_draws)
        mean, sd = self._shares(self._rows(X, reset=False), n_draws)
        return (mean, sd) if return_std else mean

    def _shares(self, rows: np.ndarray, n_draws: int) -> tuple[np.ndarray, np.ndarray]:
        hyper, topics = self._settings, self._draws("topics", most=10)
        each = max(1, -(-n_draws // len(topics)))
        total = square = np.zeros((len(rows), self.n_topics))
        for number, one in enumerate(topics):
            found = [
                np.asarray(_shares(jax.random.key(number), jnp.asarray(one), piece, hyper, each), np.float64)
                for piece in _pieces(rows, self.n_topics)
            ]
            theta = np.concatenate(found, axis=1)
            total, square = total + theta.sum(axis=0), square + (theta**2).sum(axis=0)
        count = each * len(topics)
        mean = total / count
        return mean, np.sqrt(np.maximum(square / count - mean**2, 0))

    # Reading.

    @property
    def concentration_(self) -> float:
        """The kappa of the fit."""
        check_is_fitted(self)
        return float(self._settings.kappa)

    def top_words(
        self, n_words: int = 10, vocabulary: Any = None, *, level: float = 0.9, absent: bool = False
    ) -> pd.DataFrame:  # fmt: skip
        """The words with the largest entries of each topic: topic, word, mean, lower and upper end of the interval.

        With ``absent`` those with the most negative ones, which are absent where the topic is. Words that are in no
        document are left out. ``vocabulary`` names the columns of X; by default those of a DataFrame, or numbers.
        """
        check_is_fitted(self)
        return reading.top_words(self, n_words, vocabulary, level, absent)

    def summary(self, n_words: int = 5, vocabulary: Any = None) -> Summary:
        """Mean, sd, ESS and R-hat of the ``n_words`` first words of each topic, and how flat shares of topics are."""
        check_is_fitted(self)
        return reading.summary(self, n_words, vocabulary)

    def topic_info(self, n_words: int = 8, vocabulary: Any = None) -> pd.DataFrame:
        """A row for each topic: label, how well chains agree on it, and its first words.

        ``cosine`` is the least of a chain's mean with that of all chains, ``r_hat`` the median of the first ten words.
        """
        check_is_fitted(self)
        return reading.topic_info(self, n_words, vocabulary)

    def label_topics(self, labels: Any) -> SphericalAdmixture:
        """Name topics, by ``{topic: text}`` or a list with a text for each; "" takes a name away.

        Labels are shown wherever topics are listed, and saved with the model; ``fit`` forgets them.
        """
        check_is_fitted(self)
        self.labels_ = checked_labels(labels, self.labels_)
        return self

    def verdict(self) -> Verdict:
        """Whether to use the fit, why, and what to do next."""
        check_is_fitted(self)
        if self._algorithm in VARIATIONAL and hasattr(self, "trace_"):
            point = "variational inference gives one point: what the posterior is beside it is not known"
            return Verdict(MEANS, (point,), f'model.set_params(sampler="{KEPT}").fit(X)')
        found = super().verdict()
        if found.kind == NOT and self._algorithm == KEPT and self._sound and (means := reading.means_only(self)):
            return Verdict(MEANS, (means, *found.reasons))
        if "sampler=" not in found.action:
            return found
        # What is offered to chains in flat space does not run here.
        if self._algorithm != KEPT:
            return replace(found, action=f'model.set_params(sampler="{KEPT}").fit(X)')
        longer = f"thin={LONGER * self.thin}, burn_in={LONGER * max(self.burn_in, 1)}"
        return replace(found, action=f"model.set_params({longer}).fit(X)")

    @property
    def _sound(self) -> bool:
        """Whether the chains did what their sampler promises, wherever they were."""
        trace = getattr(self, "trace_", None)
        if trace is None or (trace.stopped is not None and trace.stopped.kind == "diverged"):
            return False
        return trace.bias is None or bool(trace.bias.stable and not trace.bias.fault)

    def log_perplexity(
        self, X: Any, *, n_shares: int = 1000, max_draws: int | None = 100, random_state: Any = 0
    ) -> float:
        """-mean log p(v | data), p(v | beta) averaged over draws of the topics and over shares drawn from their prior.

        The definition of Liu, Zhu and Song (2016). It is noisy, and too high, where documents say much of their shares:
        compare models with the same ``n_shares`` and ``random_state``. At most ``max_draws`` draws of the topics, all
        if None, are used.
        """
        found = self.score_samples(X, n_shares=n_shares, max_draws=max_draws, random_state=random_state)
        return -float(np.mean(found))

    def score_samples(
        self, X: Any, *, n_shares: int = 1000, max_draws: int | None = 100, random_state: Any = 0
    ) -> np.ndarray:
        """log p(v | data) of each document; see ``log_perplexity``."""
        check_is_fitted(self)
        rows, hyper = self._rows(X, reset=False), self._settings
        seed = FitLocation().seed(random_state)
        theta = generator(seed, Purpose.SEARCH_ROWS).dirichlet(hyper.alpha, n_shares).astype(np.float32)
        with jax.enable_x64(True):
            constant = float(log_normaliser(rows.shape[1], hyper.kappa))
        each = []
        for topics in self._draws("topics", most=max_draws):
            found = [_evidence(jnp.asarray(topics), piece, theta, hyper.kappa) for piece in _pieces(rows, n_shares)]
            each.append(np.concatenate([np.asarray(part, np.float64) for part in found]))
        return logsumexp(each, axis=0) - np.log(len(each)) - np.log(n_shares) + constant

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of ``score_samples``."""
        del y
        return float(np.mean(self.score_samples(X)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of ``transform``: topic0, topic1, ..."""
        del input_features
        check_is_fitted(self)
        return np.array([f"topic{k}" for k in range(self.n_topics)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _only_topics(params: Params) -> Params:
    return {"topics": params["topics"]}


def _pieces(rows: np.ndarray, columns: int) -> Iterator[Array]:
    for part in np.array_split(rows, len(rows) * max(columns, rows.shape[1]) // PIECE + 1):
        yield jnp.asarray(part)


@partial(jax.jit, static_argnums=(3, 4))
def _shares(key: Array, topics: Array, rows: Array, hyper: Hyper, draws: int) -> Array:
    dots, gram = projections(topics, rows)
    alpha, kappa = (jnp.asarray(x, dots.dtype) for x in (hyper.alpha, hyper.kappa))
    first, second = jax.random.split(key)
    begun = start(dots, gram, kappa)
    settled, _ = sampled(first, begun, dots, gram, alpha, kappa, power=hyper.power, draws=1, between=30)
    return sampled(second, settled, dots, gram, alpha, kappa, power=hyper.power, draws=draws, between=2)[1]


@jax.jit
def _evidence(topics: Array, rows: Array, theta: Array, kappa: float) -> Array:
    """log sum_s exp(kappa v'beta theta_s / |beta theta_s|) of each row."""
    dots, gram = projections(topics, rows)
    length = jnp.sqrt(jnp.sum(theta * (theta @ gram), axis=-1))
    return jax.nn.logsumexp(kappa * (dots @ theta.T) / length, axis=1)
