"""Constraints: the change of variables against derivatives, the way there and back, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scirocco import constraints
from scirocco.constraints import Constraints, interval, less_than, positive

pytest.importorskip("numpyro", reason="the bijections of simplices and matrices are NumPyro's")

SHAPES = {
    "positive": (3,), "nonnegative": (3,), "ordered": (4,), "positive_ordered": (4,), "simplex": (4,),
    "corr_cholesky": (3, 3), "lower_cholesky": (3, 3), "positive_definite": (3, 3), "zero_sum": (4,),
}  # fmt: skip
ALL = {name: (getattr(constraints, name), shape) for name, shape in SHAPES.items()} | {
    "greater_than": (constraints.greater_than(2.0), (3,)), "less_than": (less_than(-1.0), (3,)),
    "interval": (interval(-1.0, 3.0), (3,)),
}  # fmt: skip


def coordinates(name, value):
    """As many independent numbers as the constrained array has, from the array itself."""
    lower, strict = np.tril_indices(3), np.tril_indices(3, -1)
    return {
        "simplex": lambda: value[:-1], "zero_sum": lambda: value[:-1], "corr_cholesky": lambda: value[strict],
        "lower_cholesky": lambda: value[lower], "positive_definite": lambda: value[lower],
    }.get(name, lambda: value)()  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_the_determinant_is_that_of_the_derivatives(name):
    constraint, shape = ALL[name]
    size = int(np.prod(constraint.free_shape(shape)))
    with jax.enable_x64(True):
        free = np.random.default_rng(0).normal(size=constraint.free_shape(shape))

        @jax.jit
        def program(free):
            value = constraint.constrained(free)
            slopes = jax.jacfwd(lambda u: coordinates(name, constraint.constrained(u)))(free)
            return value, slopes, constraint.log_det(free, value)

        value, slopes, found = program(free)
    assert value.shape == shape
    assert constraint.contains(np.asarray(value)).all()
    expected = np.linalg.slogdet(np.asarray(slopes).reshape(size, size))[1]
    assert float(found) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_there_and_back(name):
    constraint, shape = ALL[name]
    free = np.random.default_rng(1).normal(size=(5, *constraint.free_shape(shape))).astype(np.float32)
    value = jax.jit(constraint.constrained)(free)
    assert value.shape == (5, *shape)
    np.testing.assert_allclose(jax.jit(constraint.freed)(value), free, atol=2e-4)
    assert constraint.contains(np.asarray(value)).shape == (5, *shape[: len(shape) - constraint.axes])
    hash(constraint)


@pytest.mark.parametrize("size", [1, 2, 100_000])
def test_vectors_of_any_length(size):
    """Sums and lengths in single precision, and a gradient that is finite where shares are too small for floats."""
    free = np.random.default_rng(2).normal(size=size - 1).astype(np.float32)

    @jax.jit
    def program(free):
        slope = jax.grad(lambda u: constraints.simplex.log_det(u, constraints.simplex.constrained(u)))(100 * free)
        return constraints.zero_sum.constrained(free), constraints.simplex.constrained(free), slope

    z, shares, slope = (np.asarray(a, np.float64) for a in program(free))
    assert abs(z.sum()) < 1e-6 * max(1, np.abs(z).sum())
    assert np.linalg.norm(z) == pytest.approx(np.linalg.norm(free), rel=1e-5)
    assert constraints.zero_sum.contains(z)
    assert constraints.simplex.contains(shares)
    assert np.all(np.isfinite(slope))


def test_equal_constraints_are_equal():
    assert constraints.simplex == constraints.simplex
    assert hash(constraints.simplex) == hash(constraints.simplex)
    assert constraints.simplex != constraints.ordered
    assert interval(0, 1) == interval(0.0, 1.0) != interval(0.0, 2.0)
    assert Constraints.of({"a": constraints.simplex}) == Constraints.of({"a": constraints.simplex})


def test_parameters_by_their_paths():
    found = Constraints.of({"a": positive, "deep": {"b": interval(0.0, 1.0)}})
    position = {"a": jnp.array([0.0, 1.0]), "deep": {"b": jnp.array(0.0), "c": jnp.array(-3.0)}}
    params, log_det = found.constrain(position)
    np.testing.assert_allclose(params["a"], [1.0, np.e], rtol=1e-6)
    assert float(params["deep"]["b"]) == 0.5
    assert float(params["deep"]["c"]) == -3.0
    assert float(log_det) == pytest.approx(1.0 + np.log(0.25))
    assert found.constrained_names(position) == ["a", "deep.b"]
    back = found.free(params)
    for name in ("a",):
        np.testing.assert_allclose(back[name], position[name], atol=1e-6)


def test_numpyro_constraints_are_taken_as_they_are():
    from numpyro.distributions import constraints as theirs

    found = Constraints.of({"a": theirs.positive, "b": theirs.simplex, "c": theirs.unit_interval})
    params, log_det = found.constrain({"a": jnp.array(1.0), "b": jnp.zeros(2), "c": jnp.array(0.0)})
    assert float(params["a"]) == pytest.approx(np.e)
    assert params["b"].shape == (3,)
    assert np.isfinite(log_det)
    assert found.at(("b",)) == constraints.simplex  # whose bijection serves long vectors too
    assert str(found.at(("c",))) == "unit_interval"


@pytest.mark.parametrize(
    ("given", "params", "error", "words"),
    [
        ({"s": positive}, {"m": 1.0}, ValueError, "constraints name s .positive., which is not among"),
        ({"theta": positive}, 1.0, ValueError, "one array without names: give the constraint itself, constraints=pos"),
        ({"s": positive}, {"s": -1.0}, ValueError, "s is not positive, or at the border of it: -1"),
        ({"s": positive}, {"s": 0.0}, ValueError, "s is not positive"),
        ({"s": positive}, {"s": np.nan}, ValueError, "s is not positive"),
        ({"s": interval(0, 1)}, {"s": 1.0}, ValueError, r"s is not interval\(0, 1\)"),
        ({"s": constraints.simplex}, {"s": np.array([0.5, 0.6])}, ValueError, "s is not simplex"),
        ({"s": constraints.simplex}, {"s": 1.0}, ValueError, "needs arrays with 1 axes"),
        ({"s": constraints.simplex}, {"s": np.array([0.0, 1.0])}, ValueError, "s is not simplex, or at the border"),
        ({"s": constraints.simplex}, {"s": np.ones((3, 0))}, ValueError, "cannot be simplex: it has no entries"),
        ({"s": constraints.zero_sum}, {"s": np.array([0.5, 0.6])}, ValueError, "s is not zero_sum"),
        ({"s": constraints.ordered}, {"s": np.array([1.0, 0.0])}, ValueError, "s is not ordered_vector"),
        ({"s": constraints.corr_cholesky}, {"s": np.ones((2, 3))}, ValueError, "cannot be corr_cholesky"),
        ({"s": positive}, {"s": 1}, TypeError, "s has dtype int32; sampled parameters must be floating"),
    ],
)
def test_a_start_that_does_not_obey_is_refused(given, params, error, words):
    with pytest.raises(error, match=words):
        Constraints.of(given).check(params)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Constraints.of({"s": "positive"}), TypeError, "such as scirocco.constraints.positive"),
        (lambda: interval(1, 0), ValueError, "in order"),
        (lambda: interval("a", 1), ValueError, "numbers"),
        (lambda: less_than(np.inf), ValueError, "finite"),
        (lambda: interval(np.zeros(2), 1), ValueError, "numbers"),
    ],
)
def test_what_is_no_constraint_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_directions_go_to_manifolds():
    from numpyro.distributions import constraints as theirs

    with pytest.raises(ValueError, match=r"manifolds.Sphere\(\)"):
        Constraints.of({"a": theirs.sphere})
    with pytest.raises(ValueError, match="no bijection"):
        Constraints.of({"a": theirs.positive_integer})
