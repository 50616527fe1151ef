"""The zig-zag process: exact from minibatches, where the change of each example's gradient has a known bound.

    x = x* + L phi,    phi moves with velocity s in {-1, 1}^d;    s_i turns round at the rate max(0, s_i E_i(x)) / T
    E = L' (grad U(x*) + change since x*, estimated from a minibatch that is new each time)

Any unbiased E that is independent of what went before leaves exp(-U/T) invariant: the rates of s_i and of -s_i differ
by their mean, s_i d_i U / T. So neither minibatches nor time steps leave an error. Turns are found by thinning. With

    |E_i(x) - E_i(x*)| <= C_i |phi|    for every minibatch

no rate along the path is above m_i(t) = (max(0, s_i E_i(x*)) + C_i (|phi| + t sqrt(d))) / T. The times at which turns
are proposed are those of a Poisson process of rate sum_i m_i(t), in closed form; one coordinate is taken in proportion
to m_i and turns with probability rate over m_i. Each proposal costs one minibatch, of a single row if one likes. A step
of the chain is a fixed time h of the process and has as many proposals as that takes.

Bierkens, Fearnhead and Roberts (2019), whose theta is s here and whose zig-zag with control variates (their section 4,
with C_i for minibatches of one row) this is for L = 1; L is a linear change of variables.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.checks import numbers, real_number
from scirocco.core.keys import Use, fold
from scirocco.core.trees import signs_like
from scirocco.core.types import Array, Gradient, GradientWithCentre, Key, Params, Setting
from scirocco.samplers.base import Info, Sampler, info, require_positive
from scirocco.samplers.preconditioned import Scale

SLACK = 1e-3  # of a bound: what rounding may add to a rate
LONGEST = 1e7  # proposals on a straight path of time h: beyond, single precision cannot tell them apart


class ZigZagState(NamedTuple):
    """The parameters, the gradient steps made, phi and its direction; what is left of the time of a step, the gradient
    steps that it took, and the proposals so far at which a rate was above its bound."""

    position: Params
    step: Array
    phi: Array  # from the centre, so that no digits are lost where the posterior is narrow
    direction: Array
    left: Array
    taken: Array
    violations: Array


@dataclass(frozen=True, eq=False)
class ZigZag(Sampler[ZigZagState]):
    """The zig-zag process with control variates; ``step_size`` is the time h from draw to draw.

    ``lipschitz`` are the C_i, one for each coordinate in the order of the flattened parameters, or one number for all;
    ``scale`` is L, the identity by default. ``tuning.zigzag`` finds all of them for generalised linear models. Chains
    start at the centre of ``ControlVariate()``, the default estimator here. A rate above its bound is counted
    (``sample_stats.violations``) and makes the verdict 'do not use it'.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> trace = sc.sample(target, ZigZag(0.5, lipschitz=11.0), jnp.array(0.0), batch_size=1)
    >>> bool(abs(trace.posterior["theta"].mean() - 45 / 11) < 0.05), float(trace.sample_stats.violations.max())
    (True, 0.0)
    """

    independent_draws: ClassVar[bool] = True
    exact_minibatches: ClassVar[bool] = True

    step_size: Setting
    _: KW_ONLY
    lipschitz: float | np.ndarray = field(metadata={"keep": True})
    scale: Scale | None = None
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        for name in ("step_size", "temperature"):
            real_number(name, getattr(self, name), least=0.0, open_end=True)
        require_positive("lipschitz", numbers("lipschitz", self.lipschitz))
        if np.ndim(self.lipschitz) > 1:
            raise ValueError(f"lipschitz must be a number or a vector; got the shape {np.shape(self.lipschitz)}")
        if self.scale is not None and not isinstance(self.scale, Scale):
            raise TypeError(f"scale must be a scirocco.samplers.Scale or None; got {self.scale!r}")

    def check(self, position: Params) -> None:
        """Reject bounds and scales for another number of parameters, and times that would never be over."""
        size = ravel_pytree(position)[0].size
        if np.ndim(self.lipschitz) and np.size(self.lipschitz) != size:
            raise ValueError(f"lipschitz has {np.size(self.lipschitz)} entries; there are {size} parameters")
        if self.scale is not None and self.scale.diagonal.size != size:
            raise ValueError(f"scale has {self.scale.diagonal.size} coordinates; there are {size} parameters")
        growth = np.sum(np.broadcast_to(self.lipschitz, size)) * np.sqrt(size) / self.temperature
        longest = np.sqrt(2 * LONGEST / growth)
        if not self.step_size < longest:
            raise ValueError(
                "step_size must be the time of a posterior sd or so, in the coordinates of the scale, and with these "
                f"bounds below {longest:.2g}; got {self.step_size!r}"
            )

    def init(self, key: Key, position: Params) -> ZigZagState:
        """At the centre, with a random direction."""
        flat = ravel_pytree(position)[0]
        phi = jnp.zeros(flat.shape, jnp.promote_types(flat.dtype, jnp.float32))
        zero = jnp.zeros((), jnp.float32)
        return ZigZagState(position, jnp.int32(0), phi, signs_like(fold(key, Use.START), phi), zero, zero, zero)

    def begin(self, key: Key, state: ZigZagState) -> ZigZagState:
        """The time of a step is to be used up."""
        del key
        return state._replace(left=jnp.asarray(self.step_size, jnp.float32), taken=jnp.zeros((), jnp.float32))

    def unfinished(self, state: ZigZagState) -> Array:
        """Whether there is time left."""
        return state.left > 0

    def step(self, key: Key, state: ZigZagState, gradient: Gradient) -> tuple[ZigZagState, Info]:
        """To the next proposal, or to the end of the time."""
        if not isinstance(gradient, GradientWithCentre):
            raise TypeError("ZigZag needs the centre of a control variate: this gradient is a function without one")
        phi, direction, dtype = state.phi, state.direction, state.phi.dtype
        centre, slope = gradient.anchored()
        origin = ravel_pytree(centre)[0].astype(dtype)
        flat, restored = ravel_pytree(state.position)
        waited, chosen, accepted = jax.random.uniform(key, (3,), dtype)

        lipschitz = jnp.broadcast_to(jnp.asarray(self.lipschitz, dtype), phi.shape)
        steepest = jnp.maximum(0, direction * self._pull(slope, dtype)) + lipschitz * jnp.linalg.norm(phi)
        level = steepest / self.temperature
        growth = lipschitz * np.sqrt(phi.size) / self.temperature
        time = first_arrival(-jnp.log1p(-waited), jnp.sum(level), jnp.sum(growth))
        proposed = time < state.left
        time = jnp.minimum(time, state.left).astype(dtype)

        phi = phi + direction * time
        position = restored((origin + self._forward(phi)).astype(flat.dtype))
        estimate = gradient(position)
        rate = direction * self._pull(estimate, dtype) / self.temperature
        bound = level + growth * time
        below = jnp.cumsum(bound)
        one = jnp.sum(below < chosen * below[-1])
        turns = proposed & (accepted * bound[one] < rate[one])
        direction = direction.at[one].multiply(jnp.where(turns, -1, 1))
        within = rate <= bound + SLACK * (bound + jnp.sqrt(growth))  # what is not a number is not within
        return ZigZagState(
            position, state.step + 1, phi, direction, state.left - time.astype(jnp.float32), state.taken + 1,
            state.violations + (proposed & ~jnp.all(within)),
        ), info(self.step_size, estimate)  # fmt: skip

    def _pull(self, gradient: Params, dtype: jnp.dtype) -> Array:
        """L' g: a gradient of the parameters as that of phi."""
        flat = ravel_pytree(gradient)[0].astype(dtype)
        return flat if self.scale is None else self.scale.transposed(flat)

    def _forward(self, phi: Array) -> Array:
        """L phi: a displacement in the units of the parameters."""
        return phi if self.scale is None else self.scale.forward(phi)

    def stats(self, state: ZigZagState) -> dict[str, Array]:
        """Gradient steps of the last step, and proposals so far at which a rate was above its bound."""
        return {"n_steps": state.taken, "violations": state.violations}

    def fault(self, state: ZigZagState) -> str:
        """That the bounds are wrong, if they were."""
        if not state.violations > 0:
            return ""
        share = float(state.violations) / max(1, int(state.step))
        return f"rates were above their bounds at {share:.2g} of the proposals: lipschitz must be larger"

    def stationary_variance(
        self, state: ZigZagState, precision: Params, noise: Params, epoch: float = np.inf
    ) -> Params:
        """T / lambda, whatever the noise."""
        del state, noise, epoch
        return jax.tree.map(lambda lam: self.temperature / np.asarray(lam), precision)

    def injected_noise(self, state: ZigZagState, like: Params) -> Params:
        """None is needed: turns are as random as they must be."""
        del state
        return jax.tree.map(jnp.zeros_like, like)

    def drift_scale(self, state: ZigZagState, like: Params) -> Params:
        """h, as if turns were a drift: no step is too long."""
        del state
        return jax.tree.map(lambda _: self.step_size, like)


def first_arrival(exponential: Array, level: Array, growth: Array) -> Array:
    """The first time of a Poisson process of rate level + growth t, from a standard exponential variable.

    >>> float(first_arrival(jnp.float32(3.0), jnp.float32(1.0), jnp.float32(4.0)))  # 1 + 4/2 = 3
    1.0
    """
    return 2 * exponential / (level + jnp.sqrt(level**2 + 2 * growth * exponential))
