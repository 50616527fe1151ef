"""Stochastic gradient geodesic Monte Carlo: SGHMC on a manifold.

    dx = v dt along geodesics,    dv = Lambda(x) [-grad U(x) dt - C v dt + N(0, (2 C T - h V) dt)],    v tangent at x

Targets exp(-U/T) with respect to the Hausdorff measure of the embedded manifold, up to O(h^2) for exact gradients;
without a right V minibatch noise heats the chain. Liu, Zhu and Song (2016, SGGMC), whose epsilon is h, C ``friction``,
V ``GradientNoise``, L ``inner_steps``, and whose integrator is "split_friction". They draw one minibatch for all L
steps: its noise is then coherent over a trajectory and heats the chain; here every step has its own.

It is ``SGHMC`` with another default: any sampler with momenta moves on the manifold that the target is defined on.
(jax-sgmc uses the name sggmc for an amortised Metropolis-Hastings correction, which this is not.)
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from scirocco.samplers.sghmc import SGHMC


@dataclass(frozen=True)
class SGGMC(SGHMC):
    """Stochastic gradient geodesic Monte Carlo; ``step_size`` is the time step h, ``friction`` C.

    >>> import jax, jax.numpy as jnp, scirocco as sc
    >>> data = sc.manifolds.Sphere().random(jax.random.key(0), (100, 3)) + jnp.array([1.0, 0.0, 0.0])
    >>> target = sc.Target(lambda x: 0.0, lambda x, row: row @ x, data, manifold=sc.manifolds.Sphere())
    >>> start = jnp.array([0.0, 1.0, 0.0])
    >>> trace = sc.sample(target, SGGMC(0.02), start, num_samples=200, batch_size=20, chains=2)
    >>> print(abs((trace.posterior.theta**2).sum("theta_dim_0") - 1).max().item() < 1e-5)
    True
    """

    _: KW_ONLY
    integrator: str = "split_friction"
