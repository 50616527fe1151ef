"""Any gradient sampler in coordinates in which the posterior is near N(0, I).

    theta = centre + L phi,    L L' = P ~ (Hessian of U)^-1,    grad_phi = L' grad_theta

The inner sampler moves phi; a constant linear change of variables keeps its law, so everything known of the sampler
(its bias, its friction in units of the posterior's own time scale) holds for phi. ``step_size="auto"`` ends here.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.keys import Use, fold
from scirocco.core.parts import part
from scirocco.core.program import program_part
from scirocco.core.types import Array, Gradient, Key, Number, Params
from scirocco.samplers.base import Info, potential_difference
from scirocco.samplers.noise import row_deviations
from scirocco.samplers.wrapper import Wrapper


@part
@program_part
@dataclass(frozen=True, eq=False)
class Scale:
    """L = D M, with D diagonal and M symmetric: nothing, a matrix, or the identity but for some directions.

    ``vectors`` (d, k) are orthonormal and ``stretches`` (k,) the factors along them: M = I + V (stretches - 1) V'. A
    ``matrix`` of fewer rows mixes as many parts of the vector, of one length each.

    >>> scale = Scale(np.array([1.0, 2.0]), matrix=np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> print(scale.forward(np.array([1.0, 0.0])), scale.transposed(np.array([1.0, 0.0])), scale.variance)
    [1. 1.] [1.  0.5] [1.25 5.  ]
    >>> print(scale.backward(scale.forward(np.array([1.0, 3.0]))))
    [1. 3.]
    """

    diagonal: np.ndarray = field(metadata={"keep": True})
    matrix: np.ndarray | None = field(default=None, metadata={"keep": True})
    vectors: np.ndarray | None = field(default=None, metadata={"keep": True})
    stretches: np.ndarray | None = field(default=None, metadata={"keep": True})

    def forward(self, phi: Number) -> Any:
        """L phi: a vector of phi in the units of the parameters."""
        return self.diagonal.astype(phi.dtype) * self._mixed(phi)  # type: ignore[union-attr]

    def transposed(self, gradient: Number) -> Any:
        """L' g: a gradient of the parameters as that of phi."""
        return self._mixed(self.diagonal.astype(gradient.dtype) * gradient)  # type: ignore[union-attr]

    def backward(self, theta: np.ndarray) -> np.ndarray:
        """L^-1 theta, of vectors along the last axis, on the host."""
        return self._unmixed(theta / self.diagonal)

    def backward_transposed(self, covector: np.ndarray) -> np.ndarray:
        """L'^-1 of vectors along the last axis, on the host: a function of phi as that of the parameters."""
        return self._unmixed(covector) / self.diagonal

    def _unmixed(self, x: np.ndarray) -> np.ndarray:
        if self.matrix is not None:
            parts = x.reshape(-1, len(self.matrix), x.shape[-1] // len(self.matrix))
            return np.linalg.solve(self.matrix, parts).reshape(x.shape)
        if self.vectors is None or self.stretches is None:
            return x
        return x + (x @ self.vectors * (1 / self.stretches - 1)) @ self.vectors.T

    def _mixed(self, x: Any) -> Any:
        if self.matrix is not None:
            return (self.matrix.astype(x.dtype) @ x.reshape(len(self.matrix), -1)).ravel()
        if self.vectors is None or self.stretches is None:
            return x
        v = self.vectors.astype(x.dtype)
        return x + v @ ((self.stretches - 1).astype(x.dtype) * (v.T @ x))

    @property
    def variance(self) -> Any:
        """The diagonal of P: the variance that each coordinate would have were the posterior Gaussian."""
        rows: Any = 1.0  # methods, not functions of NumPy: compiled code asks too
        if self.matrix is not None:
            rows = (self.matrix**2).sum(axis=1).repeat(self.diagonal.size // len(self.matrix))
        elif self.vectors is not None and self.stretches is not None:
            rows = 1 + self.vectors**2 @ (self.stretches**2 - 1)
        return self.diagonal**2 * rows


class PreconditionedState(NamedTuple):
    """The parameters, the step count and the state of the inner sampler, whose position is phi."""

    position: Params
    step: Array
    inner: Any


@dataclass(frozen=True, eq=False)
class Preconditioned(Wrapper[PreconditionedState]):
    """``sampler`` in the coordinates of ``scale``; its step size, friction and temperature are those of phi.

    ``dispersion`` is the spread of the first phi of each chain, in posterior sds around the start; with ``starts``,
    rows of phi, the first phi is one of these.

    >>> import jax
    >>> from scirocco.samplers import SGLD
    >>> sampler = Preconditioned(SGLD(0.1), Scale(np.array([1.0, 100.0])))
    >>> state = sampler.init(jax.random.key(0), jnp.zeros(2))
    >>> state, _ = sampler.step(jax.random.key(1), state, gradient=lambda theta: theta / jnp.array([1.0, 1e4]))
    >>> state.position.shape, int(state.step)
    ((2,), 1)
    """

    own_directions: ClassVar[bool] = True

    sampler: Any
    scale: Scale
    _: KW_ONLY
    dispersion: float = 0.0
    starts: np.ndarray | None = field(default=None, metadata={"keep": True})

    def check(self, position: Params) -> None:
        """Reject a scale of another size than the parameters, and what the inner sampler rejects."""
        flat = ravel_pytree(position)[0]
        if flat.shape != self.scale.diagonal.shape:
            raise ValueError(f"scale has {self.scale.diagonal.size} coordinates; the parameters have {flat.size}")
        self.sampler.check(flat)

    def init(self, key: Key, position: Params) -> PreconditionedState:
        """Start around ``position``, which becomes the origin of phi."""
        flat, unravel = ravel_pytree(position)
        inner_key = fold(key, Use.INIT)
        own = fold(key, Use.START)
        if self.starts is None:
            phi = self.dispersion * jax.random.normal(own, flat.shape, flat.dtype)
        else:
            phi = jax.random.choice(own, jnp.asarray(self.starts, flat.dtype))
        return PreconditionedState(
            unravel(flat + self.scale.forward(phi)), jnp.int32(0), self.sampler.init(inner_key, phi)
        )

    def begin(self, key: Key, state: PreconditionedState) -> PreconditionedState:
        """What the inner sampler does before each group of inner steps."""
        return state._replace(inner=self.sampler.begin(key, state.inner))

    def stats(self, state: PreconditionedState) -> dict[str, Array]:
        """The statistics of the inner sampler."""
        return self.sampler.stats(state.inner)

    def step(self, key: Key, state: PreconditionedState, gradient: Gradient) -> tuple[PreconditionedState, Info]:
        """One step of the inner sampler. The parameters move by L times what phi moves: no centre need be carried."""
        whitened = _Whitened(gradient, self.scale, state)
        inner, info = self.sampler.step(key, state.inner, whitened)
        return PreconditionedState(whitened.moved(inner.position), state.step + 1, inner), info

    # The law, coordinate by coordinate of theta. Each is seen along its own direction in phi, in units of its own
    # variance P_jj; `marginal` makes the gradient noise that the report measures fit this.

    def marginal(self, gradient: Params) -> Params:
        """(P g)_j / P_jj: the gradient as the marginal of each coordinate feels it."""
        flat, unravel = ravel_pytree(gradient)
        spread = self.scale.forward(self.scale.transposed(flat))
        return unravel(spread / self.scale.variance.astype(flat.dtype))

    def marginal_transposed(self, vector: Params) -> Params:
        """The transpose of the linear map ``marginal``, times a vector."""
        flat, unravel = ravel_pytree(vector)
        return unravel(self.scale.forward(self.scale.transposed(flat / self.scale.variance.astype(flat.dtype))))

    def stationary_variance(
        self, state: PreconditionedState, precision: Params, noise: Params, epoch: float = np.inf
    ) -> Params:
        """The inner sampler's law at P_jj times precision and noise, times P_jj."""
        lam, v = _flat(precision), _flat(noise)
        p = self.scale.variance
        variance = self.sampler.stationary_variance(state.inner, lam * p, v * p, epoch)
        return _like(np.asarray(variance) * p, precision)

    def injected_noise(self, state: PreconditionedState, like: Params) -> Params:
        """The injected noise of the inner sampler, in units of theta."""
        flat, unravel = ravel_pytree(like)
        p = self.scale.variance.astype(flat.dtype)
        return unravel(jnp.broadcast_to(self.sampler.injected_noise(state.inner, p), p.shape) / p)

    def drift_scale(self, state: PreconditionedState, like: Params) -> Params:
        """What multiplies grad U in the inner sampler, in units of theta."""
        flat, unravel = ravel_pytree(like)
        p = self.scale.variance.astype(flat.dtype)
        return unravel(jnp.broadcast_to(self.sampler.drift_scale(state.inner, p), p.shape) * p)


class _Whitened:
    """The gradient in phi, and what else it knows there, from the gradient in theta."""

    def __init__(self, gradient: Gradient, scale: Scale, state: PreconditionedState) -> None:
        self._gradient, self._scale, self._phi = gradient, scale, state.inner.position
        self._here, self._unravel = ravel_pytree(state.position)

    def __call__(self, phi: Array) -> Array:
        return self._scale.transposed(ravel_pytree(self._gradient(self.moved(phi)))[0])

    def moved(self, phi: Array) -> Params:
        """The parameters theta at phi."""
        theta: Params = self._unravel(self._here + self._scale.forward(phi - self._phi))
        return theta

    def difference(self, start: Array, end: Array) -> Array:
        """U(end) - U(start) of two places phi."""
        return potential_difference(self._gradient, self.moved(start), self.moved(end))

    def deviations(self, phi: Array) -> Array:
        """What each row of the minibatch adds to the noise of the gradient in phi."""
        rows = row_deviations(self._gradient, self.moved(phi))
        return jax.vmap(lambda row: self._scale.transposed(ravel_pytree(row)[0]))(rows)


def _flat(tree: Params) -> np.ndarray:
    """The leaves in one vector, in float64 on the host."""
    return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree)])


def _like(flat: np.ndarray, tree: Params) -> Params:
    """A vector as a tree with the shapes of ``tree``: the inverse of ``_flat``."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(flat, ends[:-1])
    return jax.tree.unflatten(
        structure, [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    )
