"""Chains that travel between shards: the posterior of one machine, as much wider as the law of their legs says."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import gaussian as g
import numpy as np
import pytest
from test_law import FRICTION, H_MOMENTUM, H_SGLD, check_law

import scirocco as sc
from scirocco.batches import Shards, Tours
from scirocco.batches.tours import Itinerary, Toured
from scirocco.integrators.langevin import INTEGRATORS
from scirocco.integrators.law import euler_variance, stationary_variance

BATCH = 10


class Sharded:
    """The rows of ``gaussian.SMALL`` in shards, alike or as different as rows sorted by their first entry are."""

    def __init__(self, sizes, steps, *, alike):
        rows, tau = g.SMALL.data, g.SMALL.tau
        rows = rows if alike else rows[np.argsort(rows[:, 0])]
        self.parts, self.steps = np.split(rows, np.cumsum(sizes)[:-1]), steps
        q = np.array(steps) / sum(steps)
        scale = np.array(sizes) / q
        slopes = np.array([n * tau * (g.SMALL.mean - p.mean(0)) for n, p in zip(scale, self.parts, strict=True)])
        self.offsets = (slopes - q @ slopes).T
        spread = np.array([n**2 / BATCH * tau**2 * p.var(0) for n, p in zip(scale, self.parts, strict=True)])
        self.within, self.between = q @ spread, q @ (slopes - q @ slopes) ** 2
        own = g.SMALL.target
        target = sc.Target(own.log_prior, own.log_likelihood, Shards(self.parts))
        self.problem = SimpleNamespace(target=target, initial=g.SMALL.initial, mean=g.SMALL.mean)

    def law(self, scheme, h, temperature):
        diffusion = temperature if scheme == "sgld" else FRICTION * temperature
        coordinates = zip(g.PRECISION, self.within, self.offsets, strict=True)
        return np.array(
            [g.toured_variance(scheme, lam, v, b, self.steps, h, FRICTION, diffusion) for lam, v, b in coordinates]
        )


EQUAL = Sharded([25, 25, 25, 25], (3, 3, 3, 3), alike=False)
RANDOM = Sharded([25, 25, 25, 25], (12, 12, 12, 12), alike=True)
UNEQUAL = Sharded([20, 30, 50], (4, 6, 10), alike=False)


@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=pytest.mark.slow), 2.0])
@pytest.mark.parametrize(
    ("shards", "scheme"),
    [
        (EQUAL, "sgld"), pytest.param(UNEQUAL, "baoab", marks=pytest.mark.slow),
        pytest.param(RANDOM, "sgld", marks=pytest.mark.slow),
        pytest.param(UNEQUAL, "sgld", marks=pytest.mark.slow),
        pytest.param(EQUAL, "baoab", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_law_of_tours(shards, scheme, temperature):
    h = H_SGLD if scheme == "sgld" else H_MOMENTUM
    samplers = {
        "sgld": sc.SGLD(h, temperature=temperature),
        "baoab": sc.UnderdampedLangevin(h, friction=FRICTION, temperature=temperature),
    }
    law = shards.law(scheme, h, temperature)
    diffusion = temperature if scheme == "sgld" else FRICTION * temperature
    unaware = [
        g.toured_variance(scheme, lam, v + b, [0.0], [1], h, FRICTION, diffusion)
        for lam, v, b in zip(g.PRECISION, shards.within, shards.between, strict=True)
    ]
    assert np.max(np.abs(law / unaware - 1)) > 0.05  # the case tells it from independent minibatches
    check_law(
        samplers[scheme], sc.Plain(), law, problem=shards.problem, batch=BATCH,
        batching=Tours(shards.steps), steps=800, burn_in=100,
    )  # fmt: skip


@pytest.mark.parametrize("shards", [EQUAL, RANDOM, UNEQUAL], ids=["equal", "random", "unequal"])
@pytest.mark.parametrize("scheme", ["sgld", "baoab"])
def test_the_law_that_reports_use(shards, scheme):
    """For legs of one length it is the sum over all pairs of a tour; for others nearly."""
    h, q = 0.3 / g.PRECISION.max() if scheme == "sgld" else H_MOMENTUM, np.array(shards.steps) / sum(shards.steps)
    for lam, b in zip(g.PRECISION, shards.offsets, strict=True):
        wanted = g.toured_variance(scheme, lam, 0.0, b, shards.steps, h, FRICTION, 0.0)
        tours, noise = Toured(shards.steps, q * b**2), q @ b**2
        if scheme == "sgld":
            found = euler_variance(np.array(lam), np.array(noise), np.array(h), 0.0, tours)
        else:
            found = stationary_variance(INTEGRATORS[scheme], lam, noise, h, FRICTION, 0.0, tours)
        assert float(found) == pytest.approx(wanted, rel=0.2 if shards is UNEQUAL else 1e-9)


def test_a_chain_that_is_slow_beside_its_tours_is_wider_by_the_same_whatever_its_curvature():
    """By S (h tau)^2 B / 6, with lags taken together where there are many."""
    h, tau, between, shards = 1e-5, 1000, 3.0, 8
    wider = shards * (h * tau) ** 2 * between / 6
    tours = Toured((tau,) * shards, np.ones(shards))
    assert tours.stride == 8
    for lam in (0.01, 0.1):
        found = euler_variance(np.array(lam), np.array(between), np.array(h), 0.0, tours)
        assert float(found) == pytest.approx(wider, rel=0.02)
        legs = g.toured_variance("sgld", lam, 0.0, [1.0, -1.0], [500, 500], h, 1.0, 0.0)
        assert legs == pytest.approx(2 * (500 * h) ** 2 / 6, rel=0.02)


def test_each_tour_is_on_each_shard_for_its_steps():
    way = Itinerary(3, (2, 5, 4))
    for chain in range(5):
        visits = [way.at(chain, step) for step in range(55)]
        for tour in range(5):
            shards = [visit.shard for visit in visits[11 * tour : 11 * tour + 11]]
            assert np.bincount(shards).tolist() == [2, 5, 4]
        for step, (here, after) in enumerate(pairwise(visits)):
            assert here.until > step
            assert here == after or here.until == step + 1
    equal = Itinerary(3, (4, 4, 4))
    assert all({equal.at(chain, step).shard for chain in range(3)} == {0, 1, 2} for step in range(50))


@pytest.mark.slow
def test_the_report_foretells_what_legs_add():
    """Observed beside true sds, of shards as different as can be."""
    shards = Sharded([50, 50], (4, 4), alike=False)
    trace = sc.sample(
        shards.problem.target, sc.SGLD(H_SGLD), g.SMALL.initial, batch_size=BATCH, batching=Tours(shards.steps),
        num_samples=5000, burn_in=500, chains=2, collect=False,
    )  # fmt: skip
    law = np.sqrt(shards.law("sgld", H_SGLD, 1.0) * g.PRECISION) - 1
    found = np.append(trace.bias.sd_error["a"], trace.bias.sd_error["b"])
    assert law[0] > 0.3
    np.testing.assert_allclose(found, law, atol=0.1)
    assert trace.bias.legs_error == pytest.approx(law[0], abs=0.15)
    assert "of that the legs between shards" in str(trace.bias)
    still = sc.sample(
        shards.problem.target, sc.SGLD(H_SGLD), g.SMALL.initial, batch_size=BATCH, batching=Tours(shards.steps),
        estimator=sc.ControlVariate(centre=g.SMALL.initial), num_samples=500, burn_in=100, chains=2,
    )  # fmt: skip
    assert still.bias.legs_error < 0.01
