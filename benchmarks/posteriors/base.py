"""What the posteriors share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import scirocco as sc


class Posterior(NamedTuple):
    """A target and where to begin; ``truth`` is its mean and sd where a formula gives them."""

    title: str
    target: sc.Target
    initial: Any
    truth: tuple[np.ndarray, np.ndarray] | None = None


def bernoulli(logit: Any, y: Any) -> Any:
    """The log likelihood of a success."""
    return y * logit - jax.nn.softplus(logit)


def half_cauchy(log_scale: Any) -> Any:
    """The density of the log of a scale whose prior is half-Cauchy."""
    return log_scale - jnp.log1p(jnp.exp(2 * log_scale))


def successes(rng: np.random.Generator, logit: np.ndarray) -> np.ndarray:
    """Draws of zeros and ones."""
    return (rng.random(len(logit)) < special.expit(logit)).astype(np.float32)


def single(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """In single precision."""
    return tuple(a.astype(np.int32 if a.dtype.kind in "iu" else np.float32) for a in arrays)


NO_DATA = np.ones(1000, np.float32)
"""Rows that say nothing: the prior is the posterior."""
