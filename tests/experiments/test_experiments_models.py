"""The experiments with networks and matrix factorisation in their short mode, as in ``test_experiments.py``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments_support import holds

import scirocco as sc
from scirocco.batches import Batch

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_control_variates_with_tiny_steps_stay_at_their_centre_in_matrix_factorisation(play, monkeypatch):
    module, found, claims = play("matrix_factorization_growing_data")
    (users,) = found.sizes
    settings = module.MODES["short"]
    n, total, marks = settings["batch"], found.ratings[users], settings["iterations"] // module.THIN
    assert holds(claims, "SGLD-CV varies less")
    assert holds(claims, "beyond the source: SGLD-CV hardly leaves its centre")
    assert holds(claims, "beyond the source: with the step sizes of SGLD, SGLD-CV varies less")
    plain, controlled, saga = (found.curves[users, m] for m in ("SGLD", "SGLD-CV", "SAGA"))
    assert np.array_equal(plain.gradients, n * module.THIN * np.arange(1, marks + 1))
    np.testing.assert_allclose(saga.gradients, total + plain.gradients[: len(saga.gradients)])
    later = controlled.gradients[marks // 4 :]
    searched = n * module.THIN * (marks // 4)
    np.testing.assert_allclose(later, searched + total + 2 * n * module.THIN * np.arange(1, len(later) + 1))
    for curve in found.curves.values():  # all have the same computation to spend
        assert curve.gradients[-1] == pytest.approx(found.budget, rel=0.02)
        assert curve.predictive[:, -1].min() > found.naive[users]
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* ml100k\.npz"):
        module.ratings("full")


def test_a_sparse_table_makes_the_same_estimates_as_saga(load):
    module = load("rating_chains")
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.integers(4, size=12), rng.integers(5, size=12)], axis=1).astype(np.int32)
    found = module.Ratings((pairs, rng.normal(size=12).astype(np.float32)), (pairs, np.zeros(12)), 4, 5)
    model = found.model(2)
    target = model.target(*found.train)

    def place(seed):
        params = model.initial(jax.random.key(seed))
        return {k: v + 0.3 for k, v in params.items() if k != "precisions"}, {"precisions": params["precisions"]}

    (position, held), (later, _) = place(0), place(1)
    chosen = np.array([3, 3, 7, 0])  # a row drawn twice enters the sum once
    rows = tuple(jnp.asarray(a[chosen]) for a in target.data)
    batch = Batch(rows, jnp.float32(3), jnp.asarray(chosen, jnp.int32))
    dense, sparse = sc.SAGA(), module.SparseSAGA(tau=3.0)
    state = dense.init(target, position, held)
    every = target.example_gradients(position, held, jax.tree.map(jnp.asarray, target.data))
    state = state._replace(table=every)  # sc.SAGA starts with the mean gradient in every row
    table = sparse.init(target, position, held)
    estimates = [
        jax.jit(lambda state, point, e=e: e.estimate(target, state, point, held, batch)) for e in (dense, sparse)
    ]
    for point in (later, position):
        (expected, state), (gradient, table) = estimates[0](state, point), estimates[1](table, point)
        for name in expected:
            np.testing.assert_allclose(gradient[name], expected[name], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(table.total[name], state.total[name], rtol=1e-4, atol=1e-4)


def test_step_sizes_follow_the_mean_squared_gradient(load):
    module = load("rating_chains")
    sampler = module.Scaled()
    state = sampler.init(jax.random.key(0), {"a": jnp.zeros(3), "b": jnp.zeros(())})
    state = state._replace(settings=module.Settings(0.1, jnp.asarray(False), 0.0))
    slopes = [{"a": jnp.full(3, 2.0), "b": jnp.asarray(5.0)}, {"a": jnp.full(3, 4.0), "b": jnp.asarray(1.0)}]
    for slope in slopes:
        state, _ = sampler.step(jax.random.key(1), state, lambda _, slope=slope: slope)
    assert state.square == pytest.approx({"a": 10.0, "b": 13.0})
    np.testing.assert_allclose(state.position["a"], -0.1 * (1 + 4 / np.sqrt(10)), rtol=1e-5)
    np.testing.assert_allclose(state.position["b"], -0.1 * (1 + 1 / np.sqrt(13)), rtol=1e-5)


@pytest.mark.slow
def test_corrected_parameters_vary_less_and_predict_better_than_the_draws_do(play):
    module, found, claims = play("matrix_factorization_zero_variance")
    assert len(claims) == 10
    for chain in found[module.LARGER]:  # the printed ones mostly drift, in 200 draws
        assert chain.remaining < 0.8
        assert chain.higher > 3  # the value at the mean is not the mean
    for chain in (chain for made in found.values() for chain in made):
        assert 0 < chain.removed < 1  # a regression with all draws can only take off


def test_the_corrections_are_exact_on_a_gaussian(load):
    module = load("matrix_factorization_zero_variance")
    rng = np.random.default_rng(0)
    shapes = {"user_factors": (4, 3), "item_factors": (5, 3), "user_biases": (4,), "item_biases": (5,)}
    mean = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    draws = {name: m + rng.normal(size=(50, *m.shape)) for name, m in mean.items()}
    slopes = {name: 2 * (draws[name] - mean[name]) for name in mean}
    made = module.corrected_parameters(draws, slopes)
    for name, value in mean.items():
        np.testing.assert_allclose(made[name], np.broadcast_to(value, made[name].shape), atol=1e-5)
    weights = {name: np.ones(shape) for name, shape in shapes.items()}
    columns = module.grouped(weights, slopes)
    assert columns.shape == (50, 8)
    sums = np.concatenate([draws["user_factors"].sum(axis=1), draws["item_factors"].sum(axis=1)], axis=1)
    np.testing.assert_allclose(module.corrected(sums[:, 4], columns), mean["item_factors"].sum(axis=0)[1], atol=1e-8)


@pytest.mark.slow
def test_a_thermostat_cools_the_network_that_fixed_friction_leaves_hot(play, monkeypatch):
    module, found, claims = play("thermostat_learning")
    (grid,) = found.values()
    assert holds(claims, "MNIST: that of SGHMC is usually higher")
    for (method, a, eta), run in grid.runs.items():
        assert run.test < 0.3 * grid.naive
        if method == "SGHMC":
            assert run.kinetic > 1.05 * grid.runs["SGNHT", a, eta].kinetic
    lost = module.Run(np.inf, np.inf, np.full(grid.marks.size, np.inf), np.inf)  # a chain that diverged
    broken = grid._replace(runs={k: lost if k[0] == "SGHMC" else r for k, r in grid.runs.items()},
                           seeds={**grid.seeds, "SGHMC": [lost, lost]})  # fmt: skip
    claims = module.check({module.MNIST: broken})
    assert holds(claims, "MNIST: with a = 0.001 and the largest eta SGHMC diverges")
    assert holds(claims, "MNIST: with a = 0.001 SGHMC gets worse and worse")
    assert holds(claims, "MNIST: with the chosen settings SGNHT is better")
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    for task, name in ((module.digits, "mnist"), (module.ratings, "ml1m")):
        with pytest.raises(SystemExit, match=rf"SCIROCCO_DATA .* {name}\.npz"):
            task("full", 10)


def test_the_ratings_of_the_thermostat_are_predicted_as_the_model_does(load):
    module = load("thermostat_learning")
    task = module.ratings("short", 2)
    params = task.start(jax.random.key(0)) | {"user_biases": jnp.arange(60.0), "item_biases": jnp.arange(80.0) / 100}
    pairs, ratings = task.test
    p, q = (np.asarray(params[name]).reshape(-1, 2) for name in ("user_factors", "item_factors"))
    expected = np.sum(p[pairs[:, 0]] * q[pairs[:, 1]], axis=1) + pairs[:, 0] + pairs[:, 1] / 100
    made = np.asarray(task.predict(params, pairs))
    np.testing.assert_allclose(made - made.mean(), expected - expected.mean(), atol=1e-4)
    rows = tuple(a[:5] for a in task.target.data)
    errors = np.asarray(task.predict(params, rows[0])) - made.mean() + expected.mean() - rows[1]
    values = np.asarray(task.target.log_likelihood(params, rows))
    np.testing.assert_allclose(values - values[0], -1.5 * (errors**2 - errors[0] ** 2), rtol=1e-3)
    assert task.loss(ratings, ratings) == 0
    assert task.naive == pytest.approx(np.std(ratings), rel=0.02)
    assert task.target.size == 3900


@pytest.mark.slow
def test_intervals_of_topics_and_documents_cover_the_truth(play):
    _, found, claims = play("lda_coverage")
    assert found.topics == 15
    assert holds(claims, "nearly all true topics are found")
    # Three corpora: 150 intervals of words and 1,500 of shares, which depend on each other.
    for kind, (low, high) in {"first words": (0.8, 0.97), "shares of documents": (0.83, 0.95)}.items():
        for name, shares in found.shares.items():
            if name.startswith(kind):
                assert low < shares.mean() < high
