"""The geodesic stochastic gradient Nose-Hoover thermostat: SGNHT on a manifold.

    dx = v dt along geodesics,    dv = Lambda(x) [-grad U(x) dt - xi v dt + N(0, 2 C T dt)],    d xi = (v'v/m - T) dt

m is the dimension of the manifold, d - 1 on a sphere in R^d, summed over a product: with the d of the embedding the
thermostat would settle too low and the chain be too hot (Liu, Zhu and Song 2016, gSGNHT, leave this to the reader).
Targets exp(-U/T) with respect to the Hausdorff measure; absorbs gradient noise of unknown size if it is isotropic.
Their epsilon is h, C ``diffusion``, L ``inner_steps``, their integrator "split_friction".
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from scirocco.samplers.sgnht import SGNHT


@dataclass(frozen=True)
class GeodesicSGNHT(SGNHT):
    """gSGNHT; ``step_size`` is the time step h, ``diffusion`` C.

    >>> import jax, jax.numpy as jnp, scirocco as sc
    >>> data = sc.manifolds.Sphere().random(jax.random.key(0), (100, 3)) + jnp.array([1.0, 0.0, 0.0])
    >>> target = sc.Target(lambda x: 0.0, lambda x, row: row @ x, data, manifold=sc.manifolds.Sphere())
    >>> start = jnp.array([0.0, 1.0, 0.0])
    >>> trace = sc.sample(target, GeodesicSGNHT(0.02), start, num_samples=200, batch_size=20, chains=2)
    >>> sorted(trace.sample_stats.data_vars)
    ['gradient_norm', 'kinetic_energy', 'step_size', 'thermostat']
    """

    _: KW_ONLY
    integrator: str = "split_friction"
