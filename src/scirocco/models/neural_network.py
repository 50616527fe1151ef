"""A two-layer Bayesian neural network.

    f(x) = s(x B + b) A + a,    B ~ N(0, 1/lambda_B), b ~ N(0, 1/lambda_b), A ~ N(0, 1/lambda_A), a ~ N(0, 1/lambda_a)
    lambda ~ Gamma(shape, rate);    y ~ Categorical(softmax f(x)),  or  y ~ N(f(x), 1/nu) with nu ~ Gamma(shape, rate)

Weights move by a gradient sampler; the four precisions are drawn from their conditional laws, which are Gamma, at every
step. The model of Chen, Fox and Guestrin (2014); in Baker et al. (2019b, 4.6.3) with a softmax for s too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from scirocco.core.checks import require_choice, require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.program import Given
from scirocco.core.types import Array, Key, Params
from scirocco.gradient.blocks import Block
from scirocco.models import precisions
from scirocco.models.base import GradientModel, require_positive_setting
from scirocco.models.fit_location import FitLocation
from scirocco.models.inputs import validate_data
from scirocco.samplers import SGNHT
from scirocco.target import Target

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "softmax": jax.nn.softmax}
LEARNING_RATE, INJECTED = 0.02, 0.01  # eta N and a of the thermostat: h = sqrt(eta), A = a / h
BATCH = 100
LAYERS = ("hidden_weights", "hidden_biases", "output_weights", "output_biases")
PIECE = 4096  # rows at a time when predicting


class _Network(GradientModel):
    """The network and its priors, which classification and regression share."""

    _arrays: ClassVar[tuple[str, ...]] = ("input_mean_", "input_scale_")
    _bias_note: ClassVar[str] = (
        "This is about single weights, not about predictions: hidden units have no names and change places, so that\n"
        "  weights of different chains cannot agree, and the step is chosen for predictions, long for some weights"
    )

    def __init__(
        self, hidden: int = 100, *, activation: str = "tanh", precision_shape: float = 1.0, precision_rate: float = 1.0,
        standardize: bool = True, sampler: Any = None, estimator: Any = None, batch_size: int | float | None = None,
        n_draws: int = 100, burn_in: int = 5000, thin: int = 50, n_chains: int = 1,
        max_seconds: float | None = None, random_state: Any = None, measure_bias: bool = True,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.hidden = hidden
        self.activation = activation
        self.precision_shape = precision_shape
        self.precision_rate = precision_rate
        self.standardize = standardize
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

    def _check(self) -> None:
        self._check_run()
        require_count("hidden", self.hidden)
        require_choice("activation", self.activation, ACTIVATIONS)
        for name in ("precision_shape", "precision_rate"):
            require_positive_setting(name, getattr(self, name))

    def _fit_inputs(self, X: np.ndarray) -> np.ndarray:
        mean, scale = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        size = X.shape[1]
        self.input_mean_ = mean if self.standardize else np.zeros(size)
        self.input_scale_ = np.where(scale > 0, scale, 1.0) if self.standardize else np.ones(size)
        return self._inputs(X)

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.input_mean_) / self.input_scale_).astype(np.float32)

    def _run(self, target: Target, features: int, outputs: int, location: FitLocation) -> None:
        blocks, seed = [self.precision_block()], location.seed(self.random_state)
        start = self._optimised(target, lambda key: self.initial(key, features, outputs), blocks, seed)

        def thermostat() -> SGNHT:
            h = self._thermostat_step(target, start, LEARNING_RATE, seed)
            return SGNHT(step_size=h, diffusion=INJECTED / h)

        self._sample(target, start, thermostat, location, blocks=blocks, seed=seed, batch_size=min(BATCH, target.size))

    def initial(self, key: Key, features: int, outputs: int) -> Params:
        """Random weights of the size that keeps activations of order 1; precisions of 1."""
        first, second = jax.random.split(key)
        start = {
            "hidden_weights": jax.random.normal(first, (features, self.hidden)) / np.sqrt(features),
            "hidden_biases": jnp.zeros(self.hidden),
            "output_weights": jax.random.normal(second, (self.hidden, outputs)) / np.sqrt(self.hidden),
            "output_biases": jnp.zeros(outputs),
            "precisions": jnp.ones(len(LAYERS)),
        }
        return start | self._more()

    def _more(self) -> Params:
        return {}

    def forward(self, params: Params, X: Any) -> Array:
        """The outputs of the network f(x) for rows X."""
        return _forward(self.activation, params, X)

    def _target(self, log_likelihood: Callable[..., Array], X: np.ndarray, y: np.ndarray) -> Target:
        prior = Given(_log_prior, float(self.precision_shape), float(self.precision_rate))
        return Target(prior, Given(log_likelihood, self.activation), (X, y), batched=True)

    def precision_block(self) -> Block:
        """Draws the precisions given the weights."""
        return precisions.gibbs(LAYERS, float(self.precision_shape), float(self.precision_rate))

    def _outputs(self, X: Any) -> Any:
        """The outputs f(x) of every draw, piece by piece: (rows, draws, outputs)."""
        check_is_fitted(self)
        X = self._inputs(validate_data(self, X, dtype=np.float64, reset=False))
        draws = {name: jnp.asarray(self._draws(name)) for name in LAYERS}
        for start in range(0, len(X), PIECE):
            piece = X[start : start + PIECE]
            padded = np.concatenate([piece, np.zeros((min(PIECE, len(X)) - len(piece), X.shape[1]), np.float32)])
            yield np.moveaxis(
                np.asarray(_forward_draws(self.activation, draws, padded), np.float64)[:, : len(piece)], 0, 1
            )


class NeuralNetworkClassifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A two-layer Bayesian neural network for classes.

    Hidden units can change places, so weights of different chains are not comparable; predictions are. By default the
    sampler is a thermostat with a step size that follows the number of rows and the precision of the noise.

    Parameters
    ----------
    hidden
        Units of the hidden layer.
    activation
        s, one of "tanh", "relu", "sigmoid" or "softmax".
    precision_shape, precision_rate
        Of the Gamma law of the precisions.
    standardize
        Scale the columns of X to mean 0 and sd 1 first; constant columns become 0.
    sampler, estimator, batch_size, n_draws, burn_in, thin, n_chains, max_seconds, random_state, measure_bias, verbose
        The run; see ``scirocco.models.base.GradientModel``.

    Attributes
    ----------
    posterior_
        Draws of the weights and of ``precisions``, an ``xarray.Dataset``.
    trace_
        The run.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = sc.NeuralNetworkClassifier(hidden=8, n_draws=20, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> model.predict([[1.0, 1.0], [1.0, -1.0]])
    array([ True, False])
    """

    _arrays: ClassVar[tuple[str, ...]] = ("input_mean_", "input_scale_", "classes_")

    @interruptible
    def fit(self, X: Any, y: Any, *, path: str | Path | None = None) -> NeuralNetworkClassifier:
        """Sample the weights given rows ``X`` and labels ``y``.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X, y)``.
        """
        return self._fit(X, y, FitLocation.of(path))

    def _fit(self, X: Any, y: Any, location: FitLocation) -> NeuralNetworkClassifier:
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes; got 1 class, {self.classes_[0]!r}")
        self._run(self.target(self._fit_inputs(X), codes), X.shape[1], len(self.classes_), location)
        return self

    def target(self, X: np.ndarray, codes: np.ndarray) -> Target:
        """The posterior as a ``Target``, for runs of your own; start them at ``initial`` with ``precision_block``."""
        return self._target(_log_probability, X, codes.astype(np.int32))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior predictive probabilities of the classes: their mean over the draws, (row, class)."""
        from scipy.special import softmax

        return np.concatenate([softmax(piece, axis=2).mean(axis=1) for piece in self._outputs(X)])

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]


class NeuralNetworkRegressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A two-layer Bayesian neural network for numbers, which are scaled to mean 0 and sd 1 inside.

    Parameters and attributes are those of ``NeuralNetworkClassifier``; ``log_noise_precision`` is sampled too.

    >>> import numpy as np, scirocco as sc
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 1))
    >>> model = sc.NeuralNetworkRegressor(hidden=8, n_draws=20, random_state=0).fit(X, X[:, 0] ** 2)
    >>> mean, sd = model.predict([[0.0]], return_std=True)
    >>> bool(abs(mean[0]) < 0.2), sd.shape
    (True, (1,))
    """

    _facts: ClassVar[tuple[str, ...]] = ("output_mean_", "output_scale_")

    @interruptible
    def fit(self, X: Any, y: Any, *, path: str | Path | None = None) -> NeuralNetworkRegressor:
        """Sample the weights given rows ``X`` and numbers ``y``.

        With a ``path`` draws and checkpoints go to that folder, for ``scirocco.resume(path, X, y)``.
        """
        return self._fit(X, y, FitLocation.of(path))

    def _fit(self, X: Any, y: Any, location: FitLocation) -> NeuralNetworkRegressor:
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self.output_mean_ = float(np.mean(y))
        self.output_scale_ = float(np.std(y)) or 1.0
        scaled = ((y - self.output_mean_) / self.output_scale_).astype(np.float32)
        self._run(self.target(self._fit_inputs(X), scaled), X.shape[1], 1, location)
        return self

    def _more(self) -> Params:
        return {"log_noise_precision": jnp.zeros(())}

    def target(self, X: np.ndarray, y: np.ndarray) -> Target:
        """The posterior as a ``Target``, for runs of your own; start them at ``initial`` with ``precision_block``."""
        return self._target(_log_normal, X, y)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Posterior mean of each row's number; with ``return_std`` also the sd of a new observation."""
        pieces = [(piece[..., 0].mean(axis=1), piece[..., 0].var(axis=1)) for piece in self._outputs(X)]
        mean, variance = (np.concatenate(part) for part in zip(*pieces, strict=True))
        value = self.output_mean_ + self.output_scale_ * mean
        if not return_std:
            return value
        noise = np.mean(np.exp(-self._draws("log_noise_precision").astype(np.float64)))
        return value, self.output_scale_ * np.sqrt(variance + noise)


def _forward(activation: str, params: Params, X: Any) -> Array:
    hidden = ACTIVATIONS[activation](X @ params["hidden_weights"] + params["hidden_biases"])
    return hidden @ params["output_weights"] + params["output_biases"]


@partial(jax.jit, static_argnums=0)
def _forward_draws(activation: str, draws: Params, X: Array) -> Array:
    return jax.lax.map(lambda params: _forward(activation, params, X), draws)


def _log_prior(shape: float, rate: float, params: Params) -> Array:
    value = precisions.log_prior(params, LAYERS, shape, rate)
    if "log_noise_precision" in params:
        log_nu = params["log_noise_precision"]
        value += shape * log_nu - rate * jnp.exp(log_nu)
    return value


def _log_probability(activation: str, params: Params, rows: tuple[Array, Array]) -> Array:
    x, label = rows
    logits = _forward(activation, params, x)
    return jnp.take_along_axis(logits, label[:, None], axis=1)[:, 0] - jax.nn.logsumexp(logits, axis=1)


def _log_normal(activation: str, params: Params, rows: tuple[Array, Array]) -> Array:
    x, number = rows
    log_nu = params["log_noise_precision"]
    return (log_nu - jnp.exp(log_nu) * (number - _forward(activation, params, x)[:, 0]) ** 2) / 2
