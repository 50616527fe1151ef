"""Bayesian logistic and softmax regression.

    p(y = k | x) = exp(x'w_k + b_k) / sum_l exp(x'w_l + b_l),    w ~ N(0, s^2) or Laplace(0, s),  b ~ N(0, t^2)

For two classes one vector of weights is enough, p(y = 1 | x) = 1 / (1 + exp(-x'w - b)). With more, every class has its
own; the prior alone settles what adding a constant to all of them would leave open.

The second derivative of log p(y | x) in the logit is at most 1/4, whatever the logit, and that of a Gaussian prior its
precision: the bounds by which the zig-zag process is exact from minibatches (``sampler="zigzag"``).
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import require_choice
from scirocco.core.interrupt import interruptible
from scirocco.core.program import Given
from scirocco.core.types import Array, Params
from scirocco.models.base import GrowingModel, Rows, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import validate_data
from scirocco.run.describe import rebuild
from scirocco.samplers import UnderdampedLangevin
from scirocco.samplers.base import Sampler
from scirocco.target import Target
from scirocco.tuning.glm import BATCH, row_draws, zigzag
from scirocco.verbs.sample import require_same_data

PRIORS = ("gaussian", "laplace")
ZIGZAG = "zigzag"
CURVATURE = 0.25  # of the log likelihood in the logit, at most
MOST_LOGITS = 2**24  # at a time: predictions of many draws for many rows come in pieces


class LogisticRegression(ClassifierMixin, GrowingModel):  # type: ignore[misc]
    """Bayesian logistic regression for two classes, softmax regression for more.

    Constant columns stay: their weights follow the prior (shared with the intercept), and a warning says so.
    Separable classes need no treatment: the prior keeps the posterior proper, and the draws show how far it reaches.

    Parameters
    ----------
    prior : str, default "gaussian"
        "gaussian" or "laplace", of the weights.
    prior_scale : float, default 1.0
        Its scale s, the sd of the Gaussian or the b of the Laplace law.
    fit_intercept : bool, default True
        Whether there is an intercept.
    intercept_scale : float, default 10.0
        Sd t of its Gaussian prior.
    sampler : optional
        Any gradient sampler; by default ``UnderdampedLangevin(step_size="auto")``. Or "zigzag", which is exact from
        minibatches, of 10 rows by default: for two classes and a Gaussian prior. A step is then a time in which the
        process moves by one posterior sd, and costs the more the more columns there are (docs/guides/tuning.md).
    estimator, batch_size, n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose
        The run; see ``scirocco.models.base.GradientModel``.

    Attributes
    ----------
    coef_, intercept_
        Posterior means, shaped as in scikit-learn.
    classes_
        The labels.
    posterior_
        Draws of ``coef`` and ``intercept``, an ``xarray.Dataset`` (chain, draw, ...).
    trace_
        The run, with its summary, tuning and bias report.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = sc.LogisticRegression(n_draws=50, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0)
    >>> model.predict([[1.0, 1.0]]), model.coef_.shape
    (array([ True]), (1, 2))
    """

    _arrays: ClassVar = ("classes_", "coef_", "intercept_")
    classes_: np.ndarray

    def __init__(
        self, *, prior: str = "gaussian", prior_scale: float = 1.0, fit_intercept: bool = True,
        intercept_scale: float = 10.0, sampler: Any = None, estimator: Any = None,
        batch_size: int | float | None = None, n_draws: int = 500, burn_in: int = 200, thin: int = 4,
        n_chains: int = 4, max_seconds: float | None = None, random_state: Any = None, measure_bias: bool = True,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.prior = prior
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
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
    def fit(self, X: Any, y: Any, *, path: str | Path | None = None) -> LogisticRegression:
        """Sample the posterior of the weights given rows ``X`` and labels ``y``.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X, y)``.
        """
        return self._fit(X, y, FitLocation.of(path))

    @interruptible
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> LogisticRegression:
        """Rows that join those of earlier calls: the posterior given all of them, from where it was.

        It is that of ``fit`` on all rows, which the model keeps in memory for it. ``classes`` are all labels, where the
        first rows may lack some; later calls need not repeat them. Labels that are new let the fit begin anew.
        """
        return self._join(X, y, classes=classes)

    def _check_settings(self) -> None:
        super()._check_settings()
        if isinstance(self.sampler, str):
            require_choice("sampler", self.sampler, (ZIGZAG,))
        require_choice("prior", self.prior, PRIORS)
        require_positive_setting("prior_scale", self.prior_scale)
        require_positive_setting("intercept_scale", self.intercept_scale)

    def _look_at(self, X: Any, y: Any, *, reset: bool) -> Rows:
        X, y = validate_data(self, X, y, dtype=np.float32, reset=reset)
        check_classification_targets(y)
        return X, y

    def _fit_rows(self, rows: Rows, location: FitLocation, known: bool, classes: Any = None) -> None:
        """With ``classes`` that rows may lack."""
        X, y = rows
        if known:
            classes = self.classes_
        labels = np.unique(y if classes is None else np.concatenate([np.asarray(classes), y]))
        self.classes_, codes = labels, np.searchsorted(labels, y)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes; got 1 class, {self.classes_[0]!r}")
        constant = np.flatnonzero(np.all(X[:1] == X, axis=0))
        if constant.size:
            warnings.warn(
                f"columns {constant[:10].tolist()} of X are constant: their weights follow the prior", stacklevel=2
            )
        initial = self._initial(X.shape[1])
        before = self.trace_.mean if known else {}
        near = {name: np.shape(v) for name, v in before.items()} == {name: v.shape for name, v in initial.items()}
        if near:
            initial = {name: jnp.asarray(before[name], leaf.dtype) for name, leaf in initial.items()}
        target, seed = self._target(X, codes), location.seed(self.random_state)
        own = self._exact_parts(target, X, initial, location, seed, near=near) if self.sampler == ZIGZAG else {}
        default: Sampler = own.pop("sampler", UnderdampedLangevin(step_size="auto"))
        self._sample(target, own.pop("initial", initial), lambda: default, location, seed=seed, near=near, **own)
        self._settle()

    def _exact_parts(
        self, target: Target, X: np.ndarray, initial: Params, location: FitLocation, seed: int, *, near: bool
    ) -> dict[str, Any]:  # fmt: skip
        """What ``_sample`` needs for the zig-zag process; of a run that goes on only what its folder does not hold."""
        if len(self.classes_) > 2:
            raise ValueError(f"sampler='zigzag' has bounds for two classes; y has {len(self.classes_)}: leave it out")
        if self.prior != "gaussian":
            raise ValueError(f"sampler='zigzag' has bounds for prior='gaussian'; got {self.prior!r}: leave one out")
        if self.estimator is not None:
            raise ValueError("sampler='zigzag' has an estimator of its own: leave estimator out")
        features = np.c_[X, np.ones(len(X), X.dtype)] if self.fit_intercept else X
        if location.description is not None:
            require_same_data(location.path, location.description, target)
            recorded = rebuild(location.description.parts.sampler)
            return {"initial": None, "batching": row_draws(features, CURVATURE, recorded.scale)}
        scales = [self.prior_scale] * X.shape[1] + [self.intercept_scale] * self.fit_intercept
        return zigzag(
            target, features, initial, curvature=CURVATURE, prior_precision=np.array(scales, np.float64) ** -2.0,
            batch_size=min(BATCH, len(X)), seed=seed, near=near,
        )  # fmt: skip

    def _given_sampler(self) -> Any:
        return None if self.sampler == ZIGZAG else self.sampler

    def _initial(self, features: int) -> Params:
        classes = () if len(self.classes_) == 2 else (len(self.classes_),)
        start = {"coef": jnp.zeros((*classes, features))}
        return start | {"intercept": jnp.zeros(classes)} if self.fit_intercept else start

    def target(self, X: np.ndarray, codes: np.ndarray) -> Target:
        """The posterior as a ``Target``, for runs of your own; ``codes`` number the classes."""
        return self._target(X, codes, len(np.unique(codes)))

    def _target(self, X: np.ndarray, codes: np.ndarray, classes: int | None = None) -> Target:
        prior = Given(_log_prior, self.prior, float(self.prior_scale), float(self.intercept_scale))
        features = getattr(self, "feature_names_in_", None)
        coords = {} if features is None else {"feature": list(map(str, features))}
        if (len(self.classes_) if classes is None else classes) <= 2:
            dims: dict[str, tuple[str, ...]] = {"coef": ("feature",)}
            return Target(prior, _log_likelihood_of_two, (X, codes.astype(np.float32)), dims=dims, coords=coords)
        dims = {"coef": ("class", "feature")} | ({"intercept": ("class",)} if self.fit_intercept else {})
        if classes is None:
            coords["class"] = list(map(str, self.classes_))
        return Target(prior, _log_likelihood, (X, codes.astype(np.int32)), dims=dims, coords=coords)

    def _settle(self) -> None:
        coef = self._draws("coef").mean(axis=0, dtype=np.float64)
        shift = (
            self._draws("intercept").mean(axis=0, dtype=np.float64) if self.fit_intercept else np.zeros(coef.shape[:-1])
        )
        self.coef_, self.intercept_ = np.atleast_2d(coef), np.atleast_1d(shift)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior predictive probabilities of the classes: their mean over the draws, (row, class)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        coef = self._draws("coef").astype(np.float64)
        coef = coef[:, None] if coef.ndim == 2 else coef  # (draw, class or 1, feature)
        shift = self._draws("intercept").astype(np.float64).reshape(len(coef), -1) if self.fit_intercept else 0.0
        pieces = max(1, coef[..., 0].size * len(X) // MOST_LOGITS + 1)
        return np.concatenate([self._probabilities(part, coef, shift) for part in np.array_split(X, pieces)])

    def _probabilities(self, X: np.ndarray, coef: np.ndarray, shift: Any) -> np.ndarray:
        from scipy.special import expit, softmax

        logits = np.einsum("rf,dkf->rdk", X, coef, optimize=True) + shift
        if len(self.classes_) == 2:
            one = expit(logits[..., 0]).mean(axis=1)
            return np.stack([1 - one, one], axis=1)
        return softmax(logits, axis=2).mean(axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]


def _log_prior(prior: str, scale: float, intercept_scale: float, params: Params) -> Array:
    w = params["coef"] / scale
    value = -jnp.sum(jnp.abs(w)) if prior == "laplace" else -jnp.sum(w**2) / 2
    return value - jnp.sum((params["intercept"] / intercept_scale) ** 2) / 2 if "intercept" in params else value


def _log_likelihood_of_two(params: Params, example: tuple[Array, Array]) -> Array:
    x, label = example
    logit = params["coef"] @ x + params.get("intercept", 0.0)
    return label * logit - jax.nn.softplus(logit)


def _log_likelihood(params: Params, example: tuple[Array, Array]) -> Array:
    x, label = example
    logits = params["coef"] @ x + params.get("intercept", 0.0)
    return logits[label] - jax.nn.logsumexp(logits)
