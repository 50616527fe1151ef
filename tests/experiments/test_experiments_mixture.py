"""The experiment with the Dirichlet process mixture in its short mode, as in ``test_experiments.py``."""

from __future__ import annotations

import numpy as np
import pytest
from experiments_support import holds

import scirocco as sc
from scirocco.simplex import Counts, Weights

pytest.importorskip("matplotlib", reason="the experiments need scirocco[experiments]")


@pytest.mark.slow
def test_kept_allocations_reach_the_exact_sampler_and_estimated_counts_do_not(play, monkeypatch):
    module, found, claims = play("dp_mixture")
    source, last = found.lengths
    assert len(claims) == 16
    assert holds(claims, f"after {last} steps SCIR and SGRLD are worse than the exact sampler")
    assert holds(claims, "beyond the source: kept, exact draws")
    exact = found.curves["exact"]
    assert exact.later(exact.clusters, last) == pytest.approx(6, abs=0.3)  # those of the truth
    for name, curve in found.curves.items():
        method = module.METHODS[name]
        assert curve.steps[-1] == (source if method.published else last)
        assert np.array_equal(curve.score, curve.drawn) != method.kept
        assert np.all(np.diff(curve.seconds) > 0)
        end = curve.end(curve.score, int(curve.steps[-1])).mean()
        assert (end - found.single > 5) != method.published  # with the errors of the published code little is learnt
    for name in ("kept, SCIR", "kept, exact draws"):
        curve = found.curves[name]
        assert curve.end(curve.score, last).mean() == pytest.approx(exact.end(exact.score, last).mean(), abs=0.1)
    monkeypatch.setenv("SCIROCCO_DATA", "nowhere")
    with pytest.raises(SystemExit, match=r"SCIROCCO_DATA .* msweb_train\.npz"):
        module.users("full")


def test_the_errors_of_the_published_code_are_those_two(load):
    module = load("dp_mixture")
    weights = [Weights([1.0, 2.0], rows=3, initial=[[4.0, 1.0], [2.0, 2.0], [1.0, 5.0]]) for _ in range(2)]
    counts = Counts([[3.0, 1.0], [2.0, 2.0], [0.0, 8.0]])
    for own, sampler in zip(weights, (sc.SGRLD(1e-3), module.PublishedSticks(1e-3)), strict=True):
        sampler.step(own, counts)
    right, wrong = (own.theta for own in weights)
    v = np.array([4 / 5, 1 / 2, 1 / 6])
    np.testing.assert_allclose(wrong[0], right[0])
    np.testing.assert_allclose(wrong[1] - right[1], 1e-3 * np.array([4, 4, 8]) * (1 - 2 * v), atol=1e-12)
    found = module.users("short")
    chain = module.begin(found, module.METHODS["published SCIR"], 60, 0)
    batch, table = chain.minibatches.at(0), np.zeros((found.train.width, chain.parts[1].weights.rows))
    for place, row in enumerate(batch.rows):
        table[:, chain.clusters.labels[row]] += 10 * found.train.matrix()[[place]].toarray()[0]
    np.testing.assert_allclose(chain.parts[1].count(batch)[1], table)


@pytest.mark.slow
def test_starts_of_clusters_that_are_apart_all_find_them(play):
    module, found, claims = play("dp_mixture_starts")
    assert holds(claims, "R-hat of the number of clusters is below 1.05")
    for values in (*found.plain.values(), *found.searched.values()):
        assert values[:, 1] == pytest.approx(6.2, abs=0.5)
    logs = np.concatenate([values[:, 0] for values in found.evidence.values()])
    assert np.ptp(logs) < 15  # the same mode, by different paths
    assert module.rhat(found) < 1.05
