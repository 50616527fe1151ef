"""What every part must do, as functions that raise ``AssertionError`` with the reason: for the library's tests and
yours.

    from scirocco.conformance import check_sampler
    check_sampler(MySampler(step_size=1e-3))

They look at the protocol, at pytrees and compilation, at dtypes, at descriptions and at resuming; not at the law, which
needs a test of its own (CONTRIBUTING says how).
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Batching
from scirocco.core.keys import Use, fold
from scirocco.core.trees import inner, zeros_like
from scirocco.counts.codes import Codes
from scirocco.counts.estimators import CountEstimator
from scirocco.counts.minibatches import InMemory
from scirocco.estimators import Estimator
from scirocco.manifolds import Euclidean, Sphere
from scirocco.run.describe import describe, is_opaque, rebuild
from scirocco.run.resume import resume
from scirocco.run.trace import Trace
from scirocco.samplers import SGLD, Sampler
from scirocco.simplex import SCIRCV, Counts, SimplexSampler, Weights
from scirocco.target import Target
from scirocco.verbs.sample import sample
from scirocco.verbs.sample_dirichlet import sample_dirichlet
from scirocco.verbs.tune import kernel

ROWS = np.random.default_rng(0).normal(1.0, 1.0, (60, 2)).astype(np.float32)


def _log_prior(params: Any) -> Any:
    return -0.5 * jnp.sum(params["a"] ** 2) - 0.5 * params["b"] ** 2


def _log_likelihood(params: Any, row: Any) -> Any:
    return -0.5 * jnp.sum((row - params["a"] - params["b"]) ** 2)


TARGET = Target(_log_prior, _log_likelihood, ROWS)
START = {"a": jnp.zeros(2), "b": jnp.zeros(())}
RUN: dict[str, Any] = {"burn_in": 3, "thin": 2, "batch_size": 6, "chains": 2, "seed": 4, "progress": False}
CURVED = Target(_log_prior, _log_likelihood, ROWS, manifold={"a": Sphere()})
ON_CURVE = {"a": jnp.array([0.6, 0.8]), "b": jnp.zeros(())}


class _Quadratic:
    """The gradient of |p|^2 / 2, with what a kernel's gradient offers beside it."""

    def __call__(self, position: Any) -> Any:
        return position

    def anchored(self) -> tuple[Any, Any]:
        return zeros_like(START), zeros_like(START)

    def difference(self, start: Any, end: Any) -> Any:
        return (inner(end, end) - inner(start, start)) / 2

    def deviations(self, position: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), position)


def check_sampler(sampler: Sampler, *, bad: dict[str, Any] | None = None) -> None:
    """A gradient sampler. ``bad`` are settings that it must refuse, by name; a negative step size always is one."""
    assert isinstance(sampler, Sampler), "it must inherit from scirocco.samplers.Sampler"
    _check_part(sampler)
    _check_settings(sampler, {"step_size": -1.0} | (bad or {}))
    for dtype in (jnp.float32, jnp.float16):
        start = jax.tree.map(lambda leaf, d=dtype: leaf.astype(d), START)
        state = sampler.init(jax.random.key(0), start)
        assert hasattr(state, "position") and hasattr(state, "step"), "a state has .position and .step"  # noqa: PT018
        once = jax.jit(lambda part, key, state: part.step(key, state, _Quadratic()))
        after, info = once(sampler, jax.random.key(1), state)
        _same_shapes(state, after, "a step must keep the shapes and dtypes of its state")
        again, _ = once(sampler, jax.random.key(1), state)
        assert _equal(after, again), "a step must be a function of its arguments"
        assert jnp.ndim(info.gradient_norm) == 0 == jnp.ndim(info.step_size), "a step reports scalars"
        assert all(jnp.ndim(v) == 0 for v in sampler.stats(after).values()), "stats are scalars"
    if sampler.law_known:
        like = jax.tree.map(lambda leaf: np.ones(leaf.shape), START)
        settled = sampler.settled(sampler.init(jax.random.key(0), START), like, like)
        for method in ("stationary_variance", "injected_noise", "drift_scale"):
            found = getattr(sampler, method)(settled, like, *((like,) if method == "stationary_variance" else ()))
            assert _structure(found) == _structure(START), f"{method} must answer for each parameter"
    # A step that needs all data gets all.
    rows: dict[str, Any] = {"report": False} | ({"batch_size": None} if sampler.full_data else {})
    rows["burn_in"] = max(RUN["burn_in"], sampler.warm_up)
    flat = _check_resume(lambda **options: sample(TARGET, sampler, START, **options | rows))
    if sampler.geodesic:
        _check_geodesic(sampler, rows, flat)


def _check_geodesic(sampler: Sampler, rows: dict[str, Any], flat: Trace) -> None:
    """On a manifold: points stay there, and a product of flat spaces is flat space."""
    trace = _check_resume(lambda **options: sample(CURVED, sampler, ON_CURVE, **options | rows), data=CURVED)
    length = np.sum(np.asarray(trace.posterior["a"]) ** 2, axis=-1)
    assert np.allclose(length, 1, atol=1e-5), "steps must stay on the manifold of the target"
    assert np.ptp(np.asarray(trace.posterior["a"])) > 0, "steps must move on the manifold of the target"
    named = Target(_log_prior, _log_likelihood, ROWS, manifold={"a": Euclidean(), "b": Euclidean()})
    product = sample(named, sampler, START, num_samples=30, **RUN | rows)
    for name in flat.posterior:
        same = np.array_equal(flat.posterior[name], product.posterior[name])
        assert same, "on a product of Euclidean spaces the draws must be those of flat space"


def check_estimator(estimator: Estimator) -> None:
    """Check a gradient estimator: its state, its unbiasedness on all data, resuming."""
    assert isinstance(estimator, Estimator), "it must inherit from scirocco.estimators.Estimator"
    _check_part(estimator)
    bound = kernel(TARGET, SGLD(1e-3), batch_size=1.0, estimator=estimator)
    position, held = bound.start(START)
    state, blank = (getattr(bound.estimator, m)(TARGET, position, held) for m in ("init", "blank"))
    _same_shapes(state, blank, "blank must have the structure, shapes and dtypes of init")
    batch = bound.draw.fresh(jax.random.key(0), bound.data_at(0))
    place = jax.tree.map(lambda leaf: leaf + 0.3, position)
    gradient, after = jax.jit(
        lambda part, s: dataclasses.replace(bound.program, estimator=part).estimate(
            jax.random.key(1), s, place, held, batch
        )
    )(estimator, state)
    _same_shapes(state, after, "an estimate must keep the shapes and dtypes of the state")
    for name, exact in TARGET.full_gradient(place, held).items():
        message = f"on all data the estimate must be the gradient; of {name} it is {gradient[name]}, not {exact}"
        assert np.allclose(gradient[name], exact, rtol=1e-3, atol=1e-3), message
    _check_resume(lambda **options: sample(TARGET, SGLD(1e-3), START, estimator=estimator, report=False, **options))


def check_batching(batching: Batching, *, batch_size: int = 6) -> None:
    """Check a way of drawing minibatches, on data with 60 rows."""
    assert isinstance(batching, Batching), "it must inherit from scirocco.batches.Batching"
    _check_part(batching, example=False)
    order = batching.order(len(ROWS), batch_size, 0)
    bound = kernel(TARGET, SGLD(1e-3), batch_size=batch_size, batching=batching)
    data, draw = bound.data_at(0), jax.jit(lambda part, key, s, n: part.draw(key, s, n, data))
    state, sums = bound.draw.init(jax.random.key(0)), []
    for number in range(400):
        after, batch = draw(bound.draw, fold(jax.random.key(1), Use.MINIBATCH, number), state, jnp.int32(number))
        _same_shapes(state, after, "a draw must keep the shapes and dtypes of its state")
        stored = ROWS if order is None else ROWS[order]
        rows = np.concatenate([stored, stored[: bound.draw.wrap]])[np.asarray(batch.indices)]
        assert np.array_equal(rows, batch.data), "indices must name the rows of the minibatch"
        weights = np.broadcast_to(np.asarray(batch.weights), (batch_size,))
        sums.append(weights @ np.asarray(batch.data, np.float64))
        state = after
    error = (np.mean(sums, axis=0) - ROWS.sum(axis=0, dtype=np.float64)) / (np.std(sums, axis=0) / np.sqrt(400))
    assert np.all(np.abs(error) < 5), f"weighted sums must be unbiased; they are off by {error} standard errors"
    fixed = {"batch_size": batch_size, "report": False}
    _check_resume(lambda **o: sample(TARGET, SGLD(1e-3), START, batching=batching, **o | fixed))


def check_simplex_sampler(sampler: SimplexSampler, *, resumes: bool = True, bad: dict[str, Any] | None = None) -> None:
    """Check a simplex sampler; ``resumes=False`` for one that ``sample_dirichlet`` does not take."""
    assert isinstance(sampler, SimplexSampler), "it must inherit from scirocco.simplex.SimplexSampler"
    _check_part(sampler)
    _check_settings(sampler, bad or {})
    found = []
    for copies in (False, True):
        weights = Weights(0.5, rows=2, categories=4, seed=3)
        state = sampler.start(weights)
        values = np.array([[6.0, 3.0, 1.0, 0.0], [1.0, 1.0, 5.0, 3.0]])
        centre = sampler.centre_at(weights, values, 0.5) if isinstance(sampler, SCIRCV) else None
        counts = Counts(values, exact=not resumes, centre=centre)
        for _ in range(3):
            sampler.step(weights, counts, state)
            if copies:
                weights, state = weights.copy(), {name: array.copy() for name, array in state.items()}
        found.append(sampler.recorded(weights, centre))
        assert np.allclose(found[-1].sum(axis=1), 1), "what is recorded lies on the simplex"
    assert np.array_equal(found[0], found[1]), "all that changes must stand in the weights and the state"
    if resumes:
        codes = np.random.default_rng(0).integers(0, 4, 60)
        _check_resume(lambda **o: sample_dirichlet(codes, 0.5, sampler, **o), data=codes)


def check_count_estimator(estimator: CountEstimator, sampler: SimplexSampler) -> None:
    """Check an estimator of counts with a simplex sampler that takes it."""
    assert isinstance(estimator, CountEstimator), "it must inherit from scirocco.counts.estimators.CountEstimator"
    _check_part(estimator, example=False)
    codes = np.random.default_rng(0).integers(0, 4, 60)
    minibatches = InMemory(codes.astype(np.int32), 6, "shuffled", seed=1, chain=0)
    local = Codes(minibatches, Weights(0.5, categories=4), lazy=False)
    state: dict[str, np.ndarray] = {}
    for _ in estimator.survey(local, state):
        pass
    found = [estimator.counts(local, minibatches.at(step), state).dense(4)[0] for step in range(10)]
    shared = np.allclose(np.mean(found, axis=0), np.bincount(codes))
    assert shared, "minibatches that share out the data must average to its counts"
    assert all(isinstance(array, np.ndarray) for array in state.values()), "the state must be arrays"
    _check_resume(lambda **o: sample_dirichlet(codes, 0.5, sampler, estimator=estimator, **o), data=codes)


def check_model(model: Any, X: Any, y: Any = None) -> None:
    """A ready model: what scikit-learn asks of an estimator is for its own checks; here runs, resuming and files."""
    arguments = (X,) if y is None else (X, y)
    whole = type(model)(**model.get_params(deep=False)).fit(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        on_disk = type(model)(**model.get_params(deep=False)).fit(*arguments, path=path)
        again = resume(path, *arguments)
        for fitted in (on_disk, again):
            assert fitted.posterior_.identical(whole.posterior_), "a fit with a path must have the same draws"
        assert type(again) is type(model), "resume must return the model"
        assert again.trace_.count == whole.trace_.count, "resume must return the whole trace"
        whole.save(Path(folder) / "model.npz")
        loaded = type(model).load(Path(folder) / "model.npz")
    for name in whole.posterior_:
        assert np.array_equal(loaded.posterior_[name], whole.posterior_[name]), "load must give back the draws"
    assert _documented(type(model)), "the class needs a docstring with an example (>>>)"


# What all parts share.


def _check_part(part: Any, *, example: bool = True) -> None:
    assert dataclasses.is_dataclass(part), "settings are the fields of a dataclass"
    assert type(part).__dataclass_params__.frozen, "settings do not change: @dataclass(frozen=True)"  # type: ignore[union-attr]
    leaves, structure = jax.tree.flatten(part)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(part), "it must survive as a pytree"
    assert _structure(again) == _structure(part), "its structure must not depend on who built it"
    description = describe(part)
    if not is_opaque(description):
        assert describe(rebuild(description)) == description, "it must survive a checkpoint"
    module = sys.modules[type(part).__module__].__doc__ or ""
    assert any(line.startswith("    ") for line in module.splitlines()), "the module's docstring has the equations"
    assert _documented(type(part)) or not example, "the class needs a docstring with an example (>>>)"


def _documented(kind: type) -> bool:
    return ">>>" in (inspect.getdoc(kind) or "")


def _check_settings(part: Any, bad: dict[str, Any]) -> None:
    for name, value in bad.items():
        if name not in {field.name for field in dataclasses.fields(part)}:
            continue
        try:
            dataclasses.replace(part, **{name: value})
        except (ValueError, TypeError) as error:
            assert name in str(error), f"the error must name the setting {name}; it says: {error}"  # noqa: PT017
        else:
            raise AssertionError(f"{name}={value!r} must be refused")


def _check_resume(run: Callable[..., Trace], data: Any = TARGET) -> Trace:
    """Check that a run of two parts has the draws of a whole one; returns the whole one."""
    whole = run(num_samples=30, **RUN)
    with tempfile.TemporaryDirectory() as folder:
        run(num_samples=12, path=Path(folder) / "run", **RUN)
        longer = resume(Path(folder) / "run", data, num_samples=30, progress=False)
        for name in whole.posterior:
            assert np.array_equal(longer.posterior[name], whole.posterior[name]), "a resumed run must be the same"
    return whole


def _structure(tree: Any) -> Any:
    return jax.tree.structure(tree)


def _same_shapes(one: Any, other: Any, message: str) -> None:
    shapes = [[(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(tree)] for tree in (one, other)]
    assert _structure(one) == _structure(other), message
    assert shapes[0] == shapes[1], f"{message}: {shapes[0]} and {shapes[1]}"


def _equal(one: Any, other: Any) -> bool:
    return all(bool(jnp.array_equal(a, b)) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
