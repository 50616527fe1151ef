"""The zig-zag process for a generalised linear model: mode, scale, draws of rows and bounds.

    x = mode + L phi,    L L' = (Hessian of U)^-1 at the mode,    z_j = L' x_j
    row j is drawn with p_j proportional to b_j = kappa_j max_i |z_ji| |z_j|_2

In phi all sds are near 1, so that the process crosses the posterior in a time of 1 whatever its correlations. With
these p_j all bounds are about sum_j b_j, a sum over rows in place of N times the largest row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scirocco.batches import Weighted
from scirocco.core.checks import real_number, require_seed
from scirocco.core.seeds import Purpose, generator
from scirocco.core.types import Params
from scirocco.estimators import ControlVariate
from scirocco.optimise.curvature import curvature as curvature_at
from scirocco.optimise.lipschitz import glm_bounds, glm_row_bounds
from scirocco.optimise.mode import find_mode
from scirocco.samplers.preconditioned import Scale
from scirocco.samplers.zigzag import ZigZag
from scirocco.target import Target, require_target

BATCH = 10  # rows: a proposal from fewer takes as long
FLOOR = 0.01  # of the mean bound of a row: rows that change nothing must be drawn, too
ROWS, POINTS, REACH = 1000, 4, 10.0  # at which the bounds are tried: rows, places, and their distance in sds
ROUNDING = 1e-3, 1e-5  # of a bound, and of the gradients that are subtracted


def zigzag(
    target: Target,
    features: Any,
    initial: Params,
    *,
    curvature: Any,
    prior_precision: Any,
    step_size: float = 1.0,
    temperature: float = 1.0,
    batch_size: int = BATCH,
    seed: int = 0,
    near: bool = False,
) -> dict[str, Any]:
    """What ``sample`` needs for the exact posterior of a generalised linear model, from a few rows at a time.

    Parameters
    ----------
    target : Target
        The posterior, its data in memory.
    features
        The x_j of log likelihoods l(x_j'w, y_j), a row for each example in the order of the data; columns in the
        order of the flattened parameters, a column of ones for an intercept.
    initial : pytree
        Where the search for the mode starts.
    curvature
        A bound of |l''|, one number or one for each row: 1/4 for logistic regression, 1/sigma^2 for linear
        regression, 1 for probit. Poisson regression has none.
    prior_precision
        The precision of the normal prior, one number or one for each coefficient; of other priors without cross
        terms the largest |second derivative| of the log density.
    step_size : float, default 1.0
        The time from draw to draw, in which the process moves by so many posterior sds.
    temperature : float, default 1.0
        T of exp(-U/T).
    batch_size : int, default 10
        Rows of a minibatch, one for each proposal.
    seed : int, default 0
        Of the search for the mode.
    near : bool, default False
        ``initial`` is near the mode, as the mean of an earlier run is: Newton's steps are all of the search.

    Returns
    -------
    dict
        ``sampler``, ``initial`` (the mode), ``estimator``, ``batching`` and ``batch_size``, by the names of
        ``sample``. Bounds that gradients of the target do not keep are refused.

    Examples
    --------
    >>> import jax, scirocco as sc
    >>> x = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    >>> y = (x[:, 0] > 0.3).astype(np.float32)
    >>> target = sc.Target(
    ...     lambda w: -0.5 * jnp.sum(w**2), lambda w, row: row[1] * (row[0] @ w) - jax.nn.softplus(row[0] @ w), (x, y)
    ... )
    >>> parts = zigzag(target, x, jnp.zeros(2), curvature=0.25, prior_precision=1.0)
    >>> trace = sc.sample(target, **parts, num_samples=500, burn_in=10)
    >>> float(trace.sample_stats.violations.max())
    0.0
    """
    require_target(target)
    temperature = real_number("temperature", temperature, least=0.0, open_end=True)
    flat = ravel_pytree(jax.tree.map(jnp.asarray, initial))[0]
    bounds: Any = {"curvature": curvature, "prior_precision": prior_precision}
    size = glm_bounds(features, **bounds).size  # looks at all arguments before any work
    if (rows := len(features)) != target.size or size != flat.size:
        raise ValueError(
            f"features must have a row for each of the {target.size} examples and a column for each of the {flat.size} "
            f"parameters; got the shape {(rows, size)}"
        )
    target.check(initial)
    mode = find_mode(target, initial, steps=0 if near else None, seed=require_seed(seed))
    scale = curvature_at(target, mode, seed=seed).scale
    scale = replace(scale, diagonal=np.sqrt(temperature) * scale.diagonal)
    _require_bounds(target, mode, scale, features, seed, **bounds)
    batching = row_draws(features, curvature, scale)
    lipschitz = glm_bounds(features, scale=scale, batching=batching, **bounds)
    sampler = ZigZag(step_size, lipschitz=lipschitz, scale=scale, temperature=temperature)
    return {
        "sampler": sampler, "initial": mode, "estimator": ControlVariate(centre=mode), "batching": batching,
        "batch_size": batch_size,
    }  # fmt: skip


def row_draws(features: Any, curvature: Any, scale: Scale) -> Weighted:
    """Rows in proportion to their bounds, each of them now and then."""
    row = glm_row_bounds(features, curvature, scale)
    return Weighted(np.maximum(row, max(FLOOR * float(row.mean()), np.finfo(np.float64).tiny)))


def _require_bounds(
    target: Target, mode: Params, scale: Scale, features: Any, seed: int, curvature: Any, prior_precision: Any
) -> None:
    """Reject features, curvatures and precisions that the gradients of some rows, at places around, contradict."""
    centre, restored = ravel_pytree(mode)
    data = target.source.first(min(target.size, ROWS))
    x = np.asarray(features, np.float64)[:ROWS]
    kappa, precision = np.broadcast_to(curvature, len(features))[:ROWS, None], np.asarray(prior_precision)

    def gradients(place: Params) -> tuple[np.ndarray, np.ndarray]:
        examples = jax.vmap(lambda tree: ravel_pytree(tree)[0])(target.example_gradients(place, None, data))
        prior = ravel_pytree(target.prior_gradient(place, None))[0]
        return np.asarray(examples, np.float64), np.asarray(prior, np.float64)

    there = gradients(mode)
    for phi in generator(seed, Purpose.BOUND_PLACES).standard_normal((POINTS, centre.size)):
        place = centre + jnp.asarray(scale.forward(REACH * phi), centre.dtype)
        away = np.asarray(place, np.float64) - np.asarray(centre, np.float64)
        most = kappa * np.abs(x * (x @ away)[:, None]), precision * np.abs(away)
        for name, here, before, bound in zip(
            ("features and curvature", "prior_precision"), gradients(restored(place)), there, most, strict=True
        ):
            slack = ROUNDING[0] * bound + ROUNDING[1] * (np.abs(here) + np.abs(before))
            if not np.all(np.abs(here - before) <= bound + slack):
                worst = np.max(np.abs(here - before) / np.maximum(bound + slack, np.finfo(np.float64).tiny))
                raise ValueError(
                    f"{name} do not bound the changes of the target's gradients, which are up to {worst:.3g} times as "
                    "large: give columns in the order of the flattened parameters, or larger numbers"
                )
