"""Communities of a network: assignments against all combinations, a planted network, the law of small steps."""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

import scirocco as sc

PATH = Path(__file__).parents[2] / "examples" / "communities.py"
SPEC = importlib.util.spec_from_file_location("communities", PATH)
example = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(example)


def test_assignments_are_the_sum_over_all_combinations():
    rng = np.random.default_rng(0)
    pairs = example.Pairs.of(np.array([[0, 2], [1, 3]]), 4)
    pi, beta, delta = rng.dirichlet(np.ones(3), 4), rng.random(3), 0.07
    found = example.assigned(pairs, pi, beta, delta)
    for row in range(pairs.size):
        i, j, linked = (column[row] for column in pairs)
        rate = np.where(np.eye(3, dtype=bool), beta, delta)
        joint = np.outer(pi[i], pi[j]) * (rate if linked else 1 - rate)
        np.testing.assert_allclose(found.likelihood[row], joint.sum())
        joint /= joint.sum()
        np.testing.assert_allclose(found.first[row], joint.sum(axis=1))
        np.testing.assert_allclose(found.second[row], joint.sum(axis=0))
        np.testing.assert_allclose(found.both[row], np.diag(joint))


def test_counts_of_a_minibatch_stand_for_all_pairs():
    """Links count once, pairs without one as often as they are left out."""
    rng = np.random.default_rng(1)
    edges = np.argwhere(np.triu(rng.random((12, 12)) < 0.2, 1))
    pairs = example.Pairs.of(edges, 12)
    chain = example.Chain(pairs, 12, 3, sc.SCIR(0.1), others=20)
    batch = chain.minibatches.at(0)
    assert batch.data.linked.sum() == pairs.linked.sum()
    counts, strengths = (local.count(batch)[1] for local in (chain.memberships, chain.strengths))
    assert counts.shape == (3, 12)
    np.testing.assert_allclose(counts.sum(), 2 * pairs.size)  # each pair counts for both of its ends
    assert strengths.sum() < pairs.size
    sums = [chain.memberships.count(chain.minibatches.at(step))[1] for step in range(400)]
    whole = example.assigned(pairs, *chain.point, chain.delta)
    exact = np.zeros((12, 3))
    np.add.at(exact, pairs.first, whole.first)
    np.add.at(exact, pairs.second, whole.second)
    z = (np.mean(sums, axis=0) - exact.T) / (np.std(sums, axis=0) / np.sqrt(len(sums)))
    assert np.max(np.abs(z)) < 4.75


@pytest.mark.parametrize("sampler", [sc.SCIR(1.0), sc.SGRLD(0.01)])
def test_planted_communities_are_found(sampler):
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(3), 15)
    rate = np.where(group[:, None] == group, 0.6, 0.02)
    pairs = example.Pairs.of(np.argwhere(np.triu(rng.random((45, 45)) < rate, 1)), 45)
    known, held = example.split(pairs, 0)
    assert known.size + held.size == pairs.size
    assert held.linked.mean() == 0.5
    chain = example.Chain(known, 45, 3, sampler, others=int(known.linked.sum()), seed=1)
    likelihoods = np.array(list(chain.predictions(held, 300, 150)))
    assert example.perplexity(likelihoods) < 2.0  # by the density alone 2.6, by the planted rates 1.7
    home = chain.point[0].argmax(axis=1)
    assert [len(set(home[group == k])) for k in range(3)] == [1, 1, 1]
    assert len(set(home)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sc.SCIR, sc.SGRLD])
def test_small_steps_have_the_posterior_of_all_assignments(kind):
    """Three nodes, two communities: memberships and strengths are integrated out by hand, assignments summed."""
    pairs, alpha = example.Pairs.of(np.array([[0, 1], [1, 2]]), 3), 0.8
    chain = example.Chain(pairs, 3, 2, kind(0.02), others=1, alpha=alpha, seed=3)
    delta = chain.delta
    weights, values = [], []
    for z in product(range(2), repeat=6):
        first, second = np.array(z[:3]), np.array(z[3:])
        counts = np.full((3, 2), alpha)
        np.add.at(counts, (pairs.first, first), 1)
        np.add.at(counts, (pairs.second, second), 1)
        inside = np.ones((2, 2))  # (no, yes) of each community
        same = first == second
        np.add.at(inside, (first[same], pairs.linked[same].astype(int)), 1)
        outside = np.where(pairs.linked[~same], delta, 1 - delta)
        log = (
            gammaln(counts).sum() - gammaln(counts.sum(1)).sum() + gammaln(inside).sum() - gammaln(inside.sum(1)).sum()
        )
        weights.append(np.exp(log) * outside.prod())
        pi, beta = counts / counts.sum(axis=1, keepdims=True), inside[:, 1] / inside.sum(axis=1)
        values.append([beta.sum(), (pi[0] * pi[1]).sum(), (pi[0] * pi[2]).sum()])
    exact = np.average(values, axis=0, weights=weights)  # nodes are independent given the assignments
    found = []
    for _ in range(40_000):
        chain.step()
        pi, beta = chain.point
        found.append([beta.sum(), (pi[0] * pi[1]).sum(), (pi[0] * pi[2]).sum()])
    pieces = np.array(found[2000:]).reshape(20, -1, 3).mean(axis=1)
    se = pieces.std(axis=0, ddof=1) / np.sqrt(len(pieces))
    assert np.all(se < 0.03)
    bias = 0.01 if kind is sc.SCIR else 0.03  # of steps of 0.02
    assert np.all(np.abs(pieces.mean(axis=0) - exact) < 4.75 * se + bias), (pieces.mean(axis=0), exact, se)


def test_the_table(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "networks.npz", small_edges=np.argwhere(np.triu(rng.random((30, 30)) < 0.2, 1)), small_n=30)
    monkeypatch.setenv("SCIROCCO_DATA", str(tmp_path))
    example.main(["--networks", "small", "--communities", "2", "--steps", "20", "--seeds", "2"])
    printed = capsys.readouterr().out
    assert "30 nodes" in printed
    assert printed.count("perplexity") == 3
    assert "nan" not in printed
    monkeypatch.delenv("SCIROCCO_DATA")
    with pytest.raises(SystemExit, match="2"):
        example.main([])
    assert "set SCIROCCO_DATA" in capsys.readouterr().err
