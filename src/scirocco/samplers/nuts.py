"""The No-U-Turn sampler of BlackJAX as one of ours: for the runner, its checkpoints, and the shards of data.

    p ~ N(0, M),    leapfrog steps of size h to both sides, doubled until the trajectory turns back,
    the new point drawn from the trajectory by its weights exp(-H)

Exact, on all data: Hoffman and Gelman (2014), with multinomial draws (Betancourt 2017). During the first ``adaptation``
steps h follows the acceptance by dual averaging and M^-1 the variances of the draws in windows that double, Stan's
scheme; after them both are fixed, and only then are draws those of the posterior. U is taken relative to the position
at which the step begins, summed from differences row by row, which single precision can hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.core.checks import require_count, require_flag
from scirocco.core.keys import Use, fold
from scirocco.core.types import Array, Gradient, Key, Params, Setting
from scirocco.samplers.base import Auto, Info, Sampler, at, potential_difference, require_positive


class NUTSState(NamedTuple):
    """The parameters, the step count, h and M^-1, what adapts them, and what the last trajectory was like."""

    position: Params
    step: Array
    step_size: Array
    inverse_mass: Array
    averaging: Any
    moments: Any
    acceptance: Array
    leapfrog_steps: Array
    diverging: Array


@dataclass(frozen=True)
class NUTS(Sampler[NUTSState]):
    """The No-U-Turn sampler (``pip install scirocco[nuts]``); ``step_size`` is the first h, which then adapts.

    ``adaptation`` steps are part of the burn-in, which must not be shorter. ``acceptance`` is what h is adapted to,
    ``dense`` makes M a full matrix, ``doublings`` bounds a trajectory by 2^doublings leapfrog steps.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> trace = sc.sample(target, NUTS(), jnp.array(0.0), num_samples=500, chains=2)
    >>> bool(abs(trace.posterior["theta"].mean() - 45 / 11) < 0.1)
    True
    """

    full_data: ClassVar[bool] = True

    step_size: Setting = 1.0
    _: KW_ONLY
    adaptation: int = 500
    acceptance: float = 0.8
    dense: bool = False
    doublings: int = 10
    temperature: Setting = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.step_size, str | Auto | dict | list | tuple) or callable(self.step_size):
            raise TypeError(f"step_size must be one number, where the adaptation begins; got {self.step_size!r}")
        if np.ndim(self.step_size):
            raise ValueError(f"step_size must be one number; got the shape {np.shape(self.step_size)}")
        require_positive("step_size", self.step_size)
        require_count("adaptation", self.adaptation, 0)
        require_count("doublings", self.doublings)
        require_flag("dense", self.dense)
        if not 0 < self.acceptance < 1:
            raise ValueError(f"acceptance must lie between 0 and 1; got {self.acceptance!r}")
        require_positive("temperature", self.temperature)
        _blackjax()

    @property
    def warm_up(self) -> int:  # type: ignore[override]
        """The number of steps in which h and M adapt."""
        return self.adaptation

    def init(self, key: Key, position: Params) -> NUTSState:
        """Start at ``position``, M being the identity."""
        del key
        x = _vector(position)[0]
        averaging, moments = self._adapting()
        h, zero = jnp.asarray(self.step_size, jnp.float32), jnp.zeros((), jnp.float32)
        mass = jnp.eye(x.size, dtype=x.dtype) if self.dense else jnp.ones(x.size, x.dtype)
        rate, seen = (_arrays(part, x.dtype) for part in (averaging.init(h), moments.init(x.size)))
        return NUTSState(position, jnp.int32(0), h, mass, rate, seen, jnp.ones((), jnp.float32), zero, zero)

    def step(self, key: Key, state: NUTSState, gradient: Gradient) -> tuple[NUTSState, Info]:
        """A trajectory, and while there is adaptation left what it says of h and M."""
        nuts = _blackjax().nuts
        temperature = at(self.temperature, state.step)
        x, restored = _vector(state.position)

        def log_density(x: Array) -> Array:
            return -potential_difference(gradient, state.position, restored(x)).astype(x.dtype) / temperature

        begun = nuts.init(x, log_density)
        end, found = nuts.build_kernel()(
            fold(key, Use.NOISE), begun, log_density, state.step_size, state.inverse_mass, self.doublings
        )  # fmt: skip
        seen = (found.acceptance_rate, found.num_integration_steps, found.is_divergent)
        last = NUTSState(
            restored(end.position), state.step + 1, *state[2:6], *(value.astype(jnp.float32) for value in seen)
        )
        steepness = jnp.linalg.norm(begun.logdensity_grad) * temperature
        adapted = self._adapted(last, end.position) if self.adaptation else last
        return adapted, Info(state.step_size, steepness.astype(jnp.float32))

    def _adapting(self) -> tuple[_Adaptation, _Adaptation]:
        """BlackJAX's algorithms that adapt h, and that measure the moments of the draws for M."""
        adaptation = _blackjax().adaptation
        return (
            _Adaptation(*adaptation.step_size.dual_averaging_adaptation(self.acceptance)),
            _Adaptation(*adaptation.mass_matrix.welford_algorithm(not self.dense)),
        )

    def _adapted(self, state: NUTSState, x: Array) -> NUTSState:
        """The state with h and M adapted to the last step; the state as it is when the adaptation is over."""
        averaging, moments = self._adapting()
        plan = _blackjax().adaptation.window_adaptation.build_schedule(self.adaptation)
        slow, ends = plan[jnp.minimum(state.step, self.adaptation) - 1]
        rate = averaging.update(state.averaging, jnp.nan_to_num(state.acceptance))
        seen = _chosen(slow, moments.update(state.moments, x), state.moments)
        covariance, count, _ = moments.final(seen)
        renewed = _inverse_mass(covariance, count, state.inverse_mass)
        rate, seen, mass = _chosen(
            ends, (averaging.init(averaging.final(rate)), moments.init(x.size), renewed),
            (rate, seen, state.inverse_mass),
        )  # fmt: skip
        h = jnp.where(state.step == self.adaptation, averaging.final(rate), jnp.exp(rate.log_step_size))
        adapted = state._replace(step_size=h.astype(jnp.float32), inverse_mass=mass, averaging=rate, moments=seen)
        return NUTSState(*_chosen(state.step <= self.adaptation, adapted, state))

    def stats(self, state: NUTSState) -> dict[str, Array]:
        """Acceptance, leapfrog steps and whether the energy went astray, of the last trajectory."""
        return {"acceptance": state.acceptance, "n_steps": state.leapfrog_steps, "diverging": state.diverging}

    def stationary_variance(self, state: NUTSState, precision: Params, noise: Params, epoch: float = np.inf) -> Params:
        """T / lambda, the variance of the target itself: the method is exact."""
        del noise, epoch
        temperature = float(at(self.temperature, state.step))
        return jax.tree.map(lambda lam: temperature / np.asarray(lam), precision)

    def injected_noise(self, state: NUTSState, like: Params) -> Params:
        """2 T / h^2: the noise of momenta that are new each time."""
        temperature = at(self.temperature, state.step)
        return jax.tree.map(lambda _: 2 * temperature / state.step_size**2, like)

    def drift_scale(self, state: NUTSState, like: Params) -> Params:
        """h^2 multiplies grad U in the recursion of the positions, as for SGHMC."""
        return jax.tree.map(lambda _: state.step_size**2, like)


class _Adaptation(NamedTuple):
    init: Any
    update: Any
    final: Any


def _blackjax() -> Any:
    try:
        import blackjax
        import blackjax.adaptation.mass_matrix
        import blackjax.adaptation.step_size
        import blackjax.adaptation.window_adaptation
    except ImportError as error:
        raise ImportError("NUTS is BlackJAX's: pip install 'scirocco[nuts]'") from error
    return blackjax


def _vector(position: Params) -> tuple[Array, Callable[[Array], Params]]:
    """The parameters in one row, in the precision in which BlackJAX draws momenta, and the way back."""
    flat, unravel = ravel_pytree(position)
    return flat.astype(jnp.promote_types(flat.dtype, jnp.result_type(float))), lambda x: unravel(x.astype(flat.dtype))


def _inverse_mass(covariance: Array, count: Array, before: Array) -> Array:
    """The variances of the draws; as before if the chain has not moved.

    Stan shrinks them towards 0.001, which the posterior of much data is far from. Of a full matrix the correlations are
    shrunk by as much, five draws' weight, whatever the units.
    """
    if covariance.ndim == 1:
        return jnp.where(jnp.all(covariance > 0), covariance, before)
    variances = jnp.diag(covariance)
    found = (count * covariance + 5 * jnp.diag(variances)) / (count + 5)
    return jnp.where(jnp.all(variances > 0), found, before)


def _arrays(tree: Any, dtype: Any) -> Any:
    """The leaves as arrays: numbers of this dtype, counts of 32 bits."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype if jnp.result_type(leaf).kind == "f" else jnp.int32), tree)


def _chosen(condition: Array, first: Any, second: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b).astype(jnp.asarray(b).dtype), first, second)
