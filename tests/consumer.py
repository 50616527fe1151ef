"""A program of somebody who uses the library and checks it with mypy: its types reach him, and mistakes are found.

It is read, not run. ``# type: ignore`` marks what mypy has to find: with ``warn_unused_ignores`` it is an error if it
does not.
"""

import jax
import jax.numpy as jnp
import numpy as np

import scirocco as sc


def log_prior(w: jax.Array) -> jax.Array:
    """Standard normal."""
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w: jax.Array, x: jax.Array) -> jax.Array:
    """Normal with unit variance."""
    return -0.5 * jnp.sum((x - w) ** 2)


def right() -> tuple[sc.Trace, str, sc.LDA]:
    """What goes in and comes out."""
    target: sc.Target = sc.Target(log_prior, log_likelihood, np.zeros((100, 2)))
    trace: sc.Trace = sc.sample(target, sc.SGLD("auto"), jnp.zeros(2), batch_size=10, estimator=sc.ControlVariate())
    verdict: str = trace.verdict().kind
    return trace, verdict, sc.LDA(10, max_seconds=5.0)


def wrong(target: sc.Target) -> None:
    """A result, an argument and an attribute that are not so."""
    count: int = sc.sample(target, sc.SGLD("auto"), jnp.zeros(2))  # type: ignore[assignment]
    trace = sc.sample(target, sc.SGLD("auto"), jnp.zeros(2), chains="four")  # type: ignore[arg-type]
    print(count, trace.draws)  # type: ignore[attr-defined]
