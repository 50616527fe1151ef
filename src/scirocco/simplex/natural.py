"""Gradient samplers on natural parameters.

    omega_w = e^theta_w / sum e^theta,    grad U = omega sum(counts) - counts + { e^theta - prior        "gamma"
                                                                               { (theta - mean) / sd^2   normal

theta moves by SGLD, SGHMC, SGNHT or any other sampler of the gradient engine, given estimated counts. With independent
Gamma(prior, 1) weights e^theta, which is the default, omega has a Dirichlet law (the "expanded natural" form of
Patterson and Teh 2013, without its Riemannian metric); with a normal prior on theta, as Ding et al. (2014) have it, it
has none, but the gradient is the same in the counts.

It is the form that needs the least of the model and suits a sparse simplex the least: the curvature of theta_w is about
its count, so that one step size h must stay below 2 over the largest count and the rare categories hardly move. SCIR
has no such limit. No category can wait for its minibatch: the total pulls all of them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.core.program import program_part
from scirocco.samplers.base import Sampler, has_law
from scirocco.simplex.base import Counts, SimplexSampler, State
from scirocco.simplex.weights import Weights, normalised

LEAST_PROPORTION = 1e-30  # because one of 0 has no logarithm
FARTHEST = 1e6  # no posterior reaches so far: beyond it a step was too large, and the chain would never come back
AT_START = ("euler", "baoab", "badodab")  # integrators whose one gradient is that of the position they start from


@program_part
@dataclass(frozen=True)
class Natural(SimplexSampler):
    """A gradient sampler on natural parameters; ``normal_prior`` is (mean, sd) of theta, or None for Gamma weights.

    >>> from scirocco.samplers import SGLD
    >>> weights = Weights(prior=0.5, categories=4)
    >>> sampler = Natural(SGLD(step_size=0.01))
    >>> state = sampler.start(weights)
    >>> sampler.step(weights, Counts([[6.0, 3.0, 1.0, 0.0]]), state)
    >>> weights.proportions().shape
    (1, 4)
    """

    sampler: Any
    _: KW_ONLY
    normal_prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.sampler, Sampler):
            raise TypeError(f"sampler must be one of the gradient engine, such as SGLD; got {self.sampler!r}")
        integrator = getattr(self.sampler, "integrator", "euler")
        if integrator not in AT_START:
            raise ValueError(
                f"natural parameters need an integrator out of {', '.join(AT_START)}, which take the gradient where "
                f"the counts were estimated; got {integrator!r}"
            )
        if self.normal_prior is not None:
            mean, sd = self.normal_prior
            if not (np.isfinite(mean) and 0 < sd < np.inf):
                raise ValueError(f"normal_prior must be a mean and a positive sd; got {self.normal_prior!r}")

    @property
    def step_size(self) -> Any:
        """The step size of the gradient sampler."""
        return self.sampler.step_size

    @property
    def independent_draws(self) -> bool:
        """Whether minibatches must be independent of each other."""
        return self.sampler.independent_draws

    def start(self, weights: Weights) -> State:
        """The proportions stay; the totals, which the counts say nothing about, become those of the prior."""
        theta = np.log(np.maximum(normalised(weights.catch_up().T).T, LEAST_PROPORTION))
        if self.normal_prior is None:
            theta += np.log(np.broadcast_to(weights.prior, theta.shape).sum(axis=0))
        else:
            theta += self.normal_prior[0] - theta.mean(axis=0)
        inner = _begin(self, weights.key[:1].view(np.uint32), _call(weights), theta.astype(np.float32))
        weights.replace(np.exp(theta))
        return _named(inner)

    def step(self, weights: Weights, counts: Counts, state: State | None = None) -> None:
        """One step of the gradient sampler on all categories."""
        counts.require_fit(weights, signed=True)
        if not state:
            raise ValueError("natural parameters must be started first: give step what start(weights) returned")
        estimate, prior = (a.astype(np.float32) for a in (counts.dense(weights.categories).T, weights.prior))
        words = weights.key[:1].view(np.uint32)
        inner, theta = _advance(self, words, _call(weights), _leaves(state), estimate, prior)
        state |= _named(inner)
        weights.replace(np.asarray(theta, np.float64))
        weights.steps += 1

    def sd_ratio(self, state: State, parameter: np.ndarray, noise: np.ndarray) -> np.ndarray | None:
        """The predicted sd of theta over that of the posterior, given its curvature and the variance of the counts."""
        if not has_law(self.sampler):
            return None
        blank = jax.ShapeDtypeStruct(parameter.shape, jnp.float32)
        outline = jax.eval_shape(self.sampler.init, jax.random.key(0), blank)
        inner = jax.tree.unflatten(jax.tree.structure(outline), [jnp.asarray(leaf) for leaf in _leaves(state)])
        variance = np.asarray(self.sampler.stationary_variance(inner, parameter, noise))
        return np.sqrt(variance * parameter)


def _named(leaves: Any) -> State:
    """The leaves of the gradient sampler's state, as arrays with names."""
    return {f"inner{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}


def _leaves(state: State) -> list[np.ndarray]:
    return [state[f"inner{i}"] for i in range(len(state))]


def _call(weights: Weights) -> int:
    """The number of the next random draw."""
    call, weights.calls = weights.calls, weights.calls + 1
    return call


def _key(words: Any, call: Any) -> Any:
    """A key for JAX, from the weights' own and the number of the call."""
    return jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), call)


@jax.jit
def _begin(natural: Natural, words: Any, call: Any, theta: Any) -> list[Any]:
    """The leaves of the sampler's first state."""
    return jax.tree.leaves(natural.sampler.init(_key(words, call), theta))


@jax.jit
def _advance(natural: Natural, words: Any, call: Any, inner: Any, counts: Any, prior: Any) -> tuple[list[Any], Any]:
    """The leaves of the state after a step, and e^theta."""

    def gradient(theta: Any) -> Any:
        pull = jax.nn.softmax(theta, axis=0) * jnp.sum(counts, axis=0) - counts
        if natural.normal_prior is None:
            return pull + jnp.exp(theta) - prior
        mean, sd = natural.normal_prior
        return pull + (theta - mean) / sd**2

    sampler, key = natural.sampler, _key(words, call)
    outline = jax.eval_shape(sampler.init, key, jax.ShapeDtypeStruct(counts.shape, counts.dtype))
    state = jax.tree.unflatten(jax.tree.structure(outline), inner)
    fresh = sampler.begin(jax.random.fold_in(key, 1), state)
    due = state.step % sampler.inner_steps == 0
    state = jax.tree.map(lambda a, b: jnp.where(due, a, b), fresh, state)
    state, _ = sampler.step(key, state, gradient)
    theta = state.position
    return jax.tree.leaves(state), jnp.where(jnp.abs(theta) < FARTHEST, jnp.exp(theta), jnp.nan)
