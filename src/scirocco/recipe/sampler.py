r"""The complete recipe: a sampler from an energy H, a diffusion D and a curl Q.

    dz = [-(D + Q) grad H + T Gamma] dt + N(0, 2 T D dt),    Gamma_i = sum_j d(D_ij + Q_ij)/dz_j

has the stationary law exp(-H/T) for any positive semidefinite D(z) and skew-symmetric Q(z), and every such sampler has
this form. Ma, Chen and Fox (2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.checks import require_count
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.recipe.fields import (
    Field,
    apply,
    as_matrix,
    divergence,
    require_covariance,
    require_matrix,
    require_shapes,
    show,
    square_root,
    value,
)
from scirocco.samplers.base import Info, Sampler, at, automatic, info, require_positive, require_step_size


class RecipeState(NamedTuple):
    """Where the chain is: the parameters, the auxiliary vector, and the number of steps made."""

    position: Params
    auxiliary: Array
    step: Array


@dataclass(frozen=True)
class Recipe(Sampler[RecipeState]):
    """The Euler step of the complete recipe, with stochastic gradients.

        z <- z + h [-(D + Q) grad H + T Gamma] + sqrt(2 h T) D^{1/2} xi,    H(z) = U(theta) + E(theta, a)

    ``diffusion`` (D, symmetric positive semidefinite) and ``curl`` (Q, skew-symmetric) are functions of the flat
    vector z = (theta, a) or constants; a number stands for a multiple of the identity and a vector for a diagonal,
    which needs no eigenvalues. ``auxiliary`` is the number of auxiliary variables, started from N(0, T), or a
    function (key, flat theta) -> vector; ``auxiliary_energy`` E takes flat theta and a, and is |a|^2 / 2 unless given.
    The law is exp(-H/T) up to O(h), so theta has exp(-U/T) if the integral of exp(-E/T) over a does not depend on
    theta: :func:`check_invariance` tests it. Gamma is an automatic derivative; its cost grows with the cube of the
    dimension unless the fields are constant or diagonal. Ma, Chen and Fox (2015), whose epsilon is h here.

    SGHMC with friction 2 is D = diag(0, 2), Q = [[0, -1], [1, 0]]:

    >>> import jax, jax.numpy as jnp
    >>> from scirocco import Recipe
    >>> sghmc = Recipe(0.1, diffusion=jnp.array([0.0, 2.0]), curl=jnp.array([[0.0, -1.0], [1.0, 0.0]]), auxiliary=1)
    >>> state = sghmc.init(jax.random.key(0), {"theta": jnp.array(1.0)})
    >>> state, info = sghmc.step(jax.random.key(1), state, jax.grad(lambda p: p["theta"] ** 2))
    >>> print(sorted(state.position), int(state.step), float(info.gradient_norm))
    ['theta'] 1 2.0
    """

    step_size: Setting
    _: KW_ONLY
    diffusion: Field = field(metadata={"constant": True})  # its root is then taken once, not at every step
    curl: Field = field(default=0.0, metadata={"constant": True})
    auxiliary_energy: Callable[[Array, Array], Array] | None = None
    auxiliary: int | Callable[[Key, Array], Array] | None = None
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        require_positive("temperature", self.temperature, allow_zero=True)
        for name in ("step_size", "temperature") if automatic(self.step_size) is None else ("temperature",):
            if np.ndim(setting := at(getattr(self, name), 0)) or not hasattr(setting, "__float__"):
                raise TypeError(f"{name} must be one number or a function of the step index; got {setting!r}")
        if isinstance(self.diffusion, int | float) and not 0 <= self.diffusion < np.inf:
            raise ValueError(f"diffusion must be positive semidefinite and finite; got {self.diffusion!r}")
        if self.auxiliary is not None and not callable(self.auxiliary):
            require_count("auxiliary", self.auxiliary)
        if self.auxiliary is None and self.auxiliary_energy is not None:
            raise ValueError("auxiliary must be a count or a function when auxiliary_energy is given; got None")

    def check(self, position: Params) -> None:
        """Reject D and Q whose values at ``position`` are not of the right shape and symmetry."""
        self.init(jax.random.key(0), position)

    def init(self, key: Key, position: Params) -> RecipeState:
        """Start at ``position``; D and Q are checked there (their values only outside jit and vmap)."""
        theta, _ = ravel_pytree(position)
        if callable(self.auxiliary):
            auxiliary = jnp.asarray(self.auxiliary(key, theta), theta.dtype)
        else:
            warmth = jnp.sqrt(jnp.asarray(at(self.temperature, 0), theta.dtype))
            auxiliary = warmth * jax.random.normal(key, (self.auxiliary or 0,), theta.dtype)
        if auxiliary.ndim != 1:
            raise ValueError(f"auxiliary must return a vector; got shape {auxiliary.shape}")
        z = jnp.concatenate([theta, auxiliary])
        require_shapes(z, auxiliary_energy=(lambda x: self._energy(x[: theta.size], x[theta.size :]), ()))
        for name in ("diffusion", "curl"):
            require_matrix(name, getattr(self, name), z)
        if not isinstance(z, jax.core.Tracer):
            slack = 100 * float(np.finfo(z.dtype).eps)
            d, q = (np.asarray(as_matrix(value(f, z), z.size), float) for f in (self.diffusion, self.curl))
            require_covariance("diffusion", d, np.asarray(z), slack)
            if not np.allclose(q, -q.T, rtol=0, atol=slack * np.max(np.abs(q), initial=0)):
                raise ValueError(f"curl must be skew-symmetric, Q = -Q^T; at z = {show(z)} it is {q.tolist()}")
        return RecipeState(position, auxiliary, jnp.zeros((), jnp.int32))

    def drift(self, z: Array, gradient: Array, step: Array | int = 0) -> Array:
        """-(D + Q) grad H + T Gamma at the flat z, from ``gradient``, the flat grad U at theta."""
        n = gradient.size
        slope = jnp.concatenate([gradient, jnp.zeros(z.size - n, z.dtype)])
        slope += jax.grad(lambda x: self._energy(x[:n], x[n:]))(z)
        force, gamma = jnp.zeros_like(z), jnp.zeros_like(z)
        for matrix in (self.diffusion, self.curl):
            force += apply(value(matrix, z), slope)
            if callable(matrix):
                gamma += divergence(matrix, z)
        return jnp.asarray(at(self.temperature, step), z.dtype) * gamma - force

    def step(self, key: Key, state: RecipeState, gradient: Gradient) -> tuple[RecipeState, Info]:
        """One Euler step of parameters and auxiliaries."""
        theta, unravel = ravel_pytree(state.position)
        z = jnp.concatenate([theta, state.auxiliary])
        h, warmth = (jnp.asarray(at(s, state.step), z.dtype) for s in (self.step_size, self.temperature))
        slope, _ = ravel_pytree(gradient(state.position))
        root = square_root(value(self.diffusion, z))
        noise = apply(root, jax.random.normal(key, z.shape, z.dtype))
        z = (z + h * self.drift(z, slope, state.step) + jnp.sqrt(2 * h * warmth) * noise).astype(z.dtype)
        return RecipeState(unravel(z[: theta.size]), z[theta.size :], state.step + 1), info(h, slope)

    def _energy(self, theta: Array, auxiliary: Array) -> Array:
        if self.auxiliary_energy is None:
            return jnp.sum(jnp.square(auxiliary)) / 2
        return self.auxiliary_energy(theta, auxiliary)
