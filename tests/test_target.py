"""What a target says of its functions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import scirocco as sc

X = np.random.default_rng(0).normal(1.0, 1.0, 500).astype(np.float32)


def log_prior(m):
    return -(m**2) / 2


def log_likelihood(m, x):
    return -((x - m) ** 2) / 2


def test_no_prior_is_a_flat_one_and_said():
    target = sc.Target(None, log_likelihood, X)
    settings = {"num_samples": 2000, "batch_size": 500, "progress": False, "report": False}
    trace = sc.sample(target, sc.GMC(0.02, leapfrog_steps=3), jnp.array(0.0), burn_in=100, **settings)
    assert trace.mean["theta"] == pytest.approx(X.mean(), abs=0.01)
    assert "the prior is flat: log_prior=None" in str(trace.summary())
    known = sc.sample(sc.Target(log_prior, log_likelihood, X), sc.SGLD(1e-4), jnp.array(0.0), **settings)
    assert "flat" not in str(known.summary())


def test_functions_in_the_wrong_order_are_noticed():
    with pytest.raises(TypeError, match="in the wrong order"):
        sc.Target(log_likelihood, log_prior, X)
    sc.Target(lambda m, scale=1.0: 0.0, log_likelihood, X)  # an argument that need not be given is none


def test_a_name_that_free_numbers_have_is_refused():
    target = sc.Target(lambda p: 0.0, lambda p, x: -((x - p["free__m"]) ** 2) / 2, X)
    with pytest.raises(ValueError, match="free__m: names that begin with free__"):
        sc.sample(target, sc.SGLD(1e-4), {"free__m": jnp.array(0.0)}, num_samples=5)


def test_entries_have_the_names_of_their_axes():
    """Free numbers that are fewer than the entries of a parameter, and axes without names, are numbered."""
    axes = sc.target.Axes({"w": ("row", "column"), "p": ("column",)}, {"column": ("age", "income")})
    assert list(axes.entries("w", (2, 2))) == [[0, "age"], [0, "income"], [1, "age"], [1, "income"]]
    assert list(axes.entries("p", (1,))) == [[0]]
    assert list(axes.entries("b", (1, 2))) == [[0, 0], [0, 1]]
    assert list(axes.entries("b", ())) == [[]]


def test_a_start_without_density_is_shown_with_its_parameters():
    """In the space of the user, also where chains move free numbers."""

    def prior(p):
        return jnp.where(p["spread"] < 1, 0.0, -jnp.inf) + jnp.sum(p["mean"])

    target = sc.Target(
        prior, lambda p, x: x * p["spread"], jnp.zeros(10), constraints={"spread": sc.constraints.positive}
    )
    start = {"mean": jnp.zeros(7), "spread": jnp.array(2.0)}
    with pytest.raises(ValueError, match=r"log_prior is -inf at .* position, mean = 0, 0, 0, 0, 0, ...; spread = 2: "):
        sc.sample(target, sc.SGLD(1e-3), start, num_samples=5)
