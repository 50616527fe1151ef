"""The experiments in their short mode: what can be asserted at that length, the printed claims and the picture.

One test runs one experiment and looks at everything, so that parallel workers never run the same chains twice.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments_support import holds

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_the_thermostat_finds_the_noise_of_the_double_well_and_fixed_friction_does_not(play):
    module, found, claims = play("double_well")
    assert holds(claims, "SGNHT holds the kinetic energy")
    assert holds(claims, "friction above B cools")
    assert holds(claims, "friction below B boils")
    assert not holds(claims, "'xi quickly converges to B'")  # xi ~ N(1, 1): this must fail at any length
    assert found["SGNHT"].friction.std() == pytest.approx(1.0, abs=0.15)
    assert max(module.variation(found["SGNHT"])) < 0.15
    assert min(module.variation(found["xi = 10"]) + module.variation(found["xi = 0.1"])) > 0.4


@pytest.mark.slow
def test_the_mean_of_a_normal_needs_a_thermostat_at_large_steps(play):
    module, found, claims = play("normal_mean")
    assert [claim for claim in claims if not claim.holds] == []  # at h = 0.01 every criterion can be met
    for (method, h, a), chains in found.items():
        sd = module.deviation(chains).mean()
        assert sd == pytest.approx(0.1 if method == "SGNHT" else module.law(h, a), rel=0.06)


@pytest.mark.slow
def test_the_thermostat_is_more_accurate_on_mean_and_precision(play):
    module, found, claims = play("normal_gamma")
    assert holds(claims, "SGNHT is more accurate")
    assert holds(claims, "no chain crosses")
    assert not holds(claims, "the gradient printed")  # the misprint of the source
    for run in found.values():
        assert run.mean == pytest.approx(module.EXACT["gamma"].mean(), abs=0.05)
    assert found["SGHMC", 0.01, 1.0].tau == pytest.approx(7.3, rel=0.35)
    assert found["SGNHT", 0.01, 1.0].tau == pytest.approx(11.6, rel=0.35)


@pytest.mark.slow
def test_small_probabilities_are_sampled_by_scir_and_not_by_sgrld(play):
    module, found, claims = play("sparse_boxplot")
    assert [claim for claim in claims if not claim.holds] == []
    assert pytest.approx([-16.2, -6.2, -3.2], abs=0.05) == module.EXACT
    assert module.quantiles(found["SGRLD"]) == pytest.approx([-5.2, -3.9, -2.9], abs=0.4)
    assert module.below(found["SCIR"]) == pytest.approx(0.5, abs=0.1)
    assert module.below(found["SGRLD"]) < 0.03


@pytest.mark.slow
def test_scir_is_nearer_a_sparse_posterior_than_sgrld_and_alike_near_a_dense_one(play):
    module, found, claims = play("ks_distance")
    assert [claim for claim in claims if not claim.holds] == []
    for n in module.sizes(found):
        assert found["sparse", "SCIR-CV", n].median < found["sparse", "SCIR", n].median
        assert found["dense", "SCIR-CV", n].median < found["dense", "SCIR", n].median
        assert module.ratio(found, "sparse", n) > 2 * module.ratio(found, "dense", n)
    for target in module.COUNTS:  # the best of seven flatters
        assert found[target, "exact", module.SIZE].median < module.once(found[target, "exact", module.SIZE]) - 0.002


@pytest.mark.slow
def test_control_variates_take_the_noise_of_minibatches_off_what_is_seen_often(play):
    module, found, claims = play("control_variate_boxplots")
    assert holds(claims, "control variates bring omega_1")
    assert holds(claims, "they do nothing")
    assert holds(claims, "beyond the source")
    assert not holds(claims, "form (7)")  # b_hat < 0 in a third of the minibatches
    assert module.missed(100) == pytest.approx(0.347, abs=0.001)
    assert module.refusal().startswith("a minibatch gave a_hat <= 1")
    assert found["exact"].omega.std(axis=(0, 1)) == pytest.approx(module.LAW.std(), rel=0.06)


@pytest.mark.slow
def test_the_printed_variance_of_control_variates_leaves_out_most_of_it_before_stationarity(play):
    module, found, claims = play("variance_curves")
    failed = [claim.claim for claim in claims if not claim.holds]
    assert [claim.split(" (")[0] for claim in failed if not claim.startswith("(21)")] == [
        "and so it is for every M from 1 to 60, as the figure shows it",
        "the alternative form is more accurate than the main form",
    ]
    assert not holds(claims, "(21) is the variance")
    for case in found:
        assert np.abs(module.scores(found, case, module.total(*case))).max() < 4
    assert module.settled(np.array([True] * 20 + [False] + [True] * 39)) == 22


@pytest.mark.slow
def test_topics_from_a_stream_go_on_to_improve_by_scir_and_settle_by_sgrld(play, monkeypatch):
    module, found, claims = play("lda_stream")
    assert holds(claims, "SCIR falls below where SGRLD settles")
    assert holds(claims, "SCIR can stand beside collapsed Gibbs")
    assert found.curves["SCIR"].mean[-1] < 1.04 * found.gibbs[-1]
    assert found.curves["SGRLD"].mean[-1] > 1.06 * found.gibbs[-1]
    for curve in found.curves.values():
        assert np.array_equal(curve.documents, module.BATCH * curve.steps)
        assert found.gibbs[-1] < curve.perplexity[:, -1].min()  # which keeps every document
        assert curve.perplexity[:, -1].max() < 0.55 * found.unigram
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* wikipedia\.npz"):
        module.texts("full", 100, 10, 5)


@pytest.mark.slow
def test_control_variates_for_topics_do_no_more_than_smaller_steps(play):
    module, found, claims = play("lda_control_variate")
    for panel, ends in (("by iterations", found.after_iterations), ("by documents", found.after_documents)):
        assert holds(claims, f"{panel}: SCIR is below SGRLD")
        assert ends("SCIR-CV").mean() == pytest.approx(ends("SCIR").mean(), rel=0.05)  # two seeds cannot tell
        assert ends("SCIR, tuned").mean() < ends("SCIR-CV").mean() < 1.1 * ends("SCIR, tuned").mean()
        assert ends("SGRLD, tuned").mean() < 0.8 * ends("SGRLD").mean()
    read = found.last * (50 + 400 // module.EVERY)  # with the documents of the centre
    assert {curve.documents[-1] for curve in found.curves.values()} == {read}
    assert found.fine < 2 * found.unigram  # all these topics are large: no a just above 1


@pytest.mark.slow
def test_a_thermostat_cools_the_topics_that_fixed_friction_leaves_hot(play, monkeypatch):
    module, found, claims = play("lda_thermostat")
    assert holds(claims, "that of SGHMC is usually higher")
    hot, cool = (found.seeds[method] for method in module.SAMPLERS)
    assert min(run.kinetic for run in hot) > 2 * max(run.kinetic for run in cool)
    for method in module.SAMPLERS:
        assert found.grid[found.chosen[method]] is found.seeds[method][0]
        assert found.ends(method).max() < 0.75 * found.unigram
    assert all(run.single[0] > found.unigram > run.single[-1] for run in [*hot, *cool])
    chain = module.sampler("SGNHT", 0.1, 4e-5).sampler
    assert (chain.step_size**2, chain.diffusion * chain.step_size) == pytest.approx((4e-5, 0.1))
    lost = module.Run(np.inf, np.inf, hot[0].single, np.inf)  # a chain that diverged
    claims = module.check(found._replace(grid={key: lost if key[0] == "SGHMC" else r for key, r in found.grid.items()},
                                         seeds={**found.seeds, "SGHMC": [lost, lost]}))  # fmt: skip
    assert holds(claims, "with a = 0.01 and the largest eta SGHMC diverges")
    assert holds(claims, "with the chosen settings SGNHT is better")
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* newsgroups20\.npz"):
        module.texts("full", 5)


@pytest.mark.slow
def test_the_sweeps_of_control_variates_are_counted_as_the_data_grow(play, monkeypatch):
    module, found, claims = play("lda_growing_data")
    assert len(claims) == 4 * len(found.sizes) + 5
    for size in found.sizes:
        plain, controlled, halved, saga = (found.curves[size, method] for method in module.METHODS)
        assert np.array_equal(controlled.documents, halved.documents)
        assert halved.at(found.switch).mean() > 1.1 * controlled.at(found.switch).mean()  # half as far by then
        assert np.array_equal(plain.documents, module.BATCH * plain.steps)
        assert np.array_equal(saga.documents, module.BATCH * saga.steps + size)
        later = np.maximum(controlled.steps - found.switch, 0)
        assert np.array_equal(controlled.documents, module.BATCH * (controlled.steps + later) + size * (later > 0))
        assert controlled.documents[-1] == plain.documents[-1]
        for curve in (plain, controlled, saga):
            assert curve.perplexity[:, -1].max() < found.unigram < curve.perplexity[:, 0].min()
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* wikipedia\.npz"):
        module.texts("full", 100, 10, 5)


def test_the_measures_of_error_know_the_answer(load):
    common = load("common")
    noise = np.random.default_rng(0).normal(size=200_000)
    chain = np.empty_like(noise)
    chain[0] = noise[0]
    for k in range(1, chain.size):
        chain[k] = 0.8 * chain[k - 1] + noise[k]
    assert common.autocorrelation_time(noise) == pytest.approx(1, abs=0.05)
    assert common.autocorrelation_time(chain) == pytest.approx(1.8 / 0.2, rel=0.08)
    edges, draws = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5, 1.5, 7.0])
    assert common.total_variation(draws, edges, np.array([0.5, 0.25])) == pytest.approx(0)
    assert common.total_variation(draws, edges, np.array([0.5, 0.5])) == pytest.approx(0.25)
    assert common.density_rmse(draws, edges, np.array([0.5, 0.45])) == pytest.approx(0.2 / np.sqrt(2))


def test_a_subset_has_no_row_twice_and_the_noise_of_the_formula(load):
    module = load("normal_mean")
    draw = module.common.Subsets().bind(module.SIZE, module.SIZE, module.BATCH, None, ring=True)
    data = jnp.asarray(module.X, jnp.float32)
    batches = jax.vmap(lambda key: draw.draw(key, (), 0, data)[1])(jax.random.split(jax.random.key(0), 20_000))
    assert all(np.unique(rows).size == module.BATCH for rows in np.asarray(batches.indices[:200]))
    gradients = -np.asarray(batches.data).sum(axis=1) * module.SIZE / module.BATCH
    assert gradients.var() == pytest.approx(module.NOISE, rel=0.05)
