"""Overlapping communities of a network: a model of your own on the counts engine.

    pi_i ~ Dirichlet(alpha),    beta_k ~ Beta(1, 1),    for all pairs i < j of nodes:
    z_ij ~ pi_i,    z_ji ~ pi_j,    y_ij ~ Bernoulli(beta_k) if z_ij = z_ji = k, else Bernoulli(delta)

The mixed-membership stochastic blockmodel (Airoldi et al. 2008) in its assortative form, which Li, Ahn and Welling
(2016) sample by SGRLD. Memberships and strengths are ``Weights`` that any simplex sampler moves. What is written here
is the ``LocalStep``: the expected assignments of the pairs of a minibatch, which has all links and a few of the many
pairs without one.

    python examples/communities.py [--networks usair netscience] [--communities 10] [--steps 2000]

needs SCIROCCO_DATA, the folder with networks.npz. A twentieth of the links and as many other pairs are kept back: one
half of them chooses each sampler's step size, the other is reported, as perplexity of the mean prediction of the draws.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import scirocco as sc
from scirocco.batches import Strata
from scirocco.counts.estimators import PlainCounts
from scirocco.counts.local import LocalStep
from scirocco.counts.minibatches import InMemory, Minibatch
from scirocco.simplex import SimplexSampler, Weights

HELD_OUT = 0.05  # of the links
SAMPLERS = {
    "SCIR": [sc.SCIR(h) for h in (3.0, 1.0, 0.3, 0.1)],
    "SGRLD": [sc.SGRLD(h) for h in (1e-1, 1e-2, 1e-3, 1e-4)],
}


class Pairs(NamedTuple):
    """Pairs of nodes, and whether they are linked: what a minibatch is made of."""

    first: np.ndarray
    second: np.ndarray
    linked: np.ndarray

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.first)

    def take(self, rows: Any) -> Pairs:
        """Some of them."""
        return Pairs(*(column[rows] for column in self))

    @classmethod
    def of(cls, edges: np.ndarray, nodes: int) -> Pairs:
        """All pairs of a network of so many nodes."""
        first, second = (ends.astype(np.int32) for ends in np.triu_indices(nodes, 1))
        linked = np.zeros((nodes, nodes), bool)
        linked[edges[:, 0], edges[:, 1]] = linked[edges[:, 1], edges[:, 0]] = True
        return cls(first, second, linked[first, second])


class Assigned(NamedTuple):
    """The expected assignments of some pairs, pairs x communities."""

    first: np.ndarray  # of z_ij
    second: np.ndarray  # of z_ji
    both: np.ndarray  # of z_ij = z_ji = k
    likelihood: np.ndarray


def assigned(pairs: Pairs, pi: np.ndarray, beta: np.ndarray, delta: float) -> Assigned:
    """Given memberships, nodes x communities, and strengths; the K^2 assignments of a pair sum up in K terms."""
    mine, yours = pi[pairs.first], pi[pairs.second]
    linked = pairs.linked[:, None]
    inside, outside = np.where(linked, beta, 1 - beta), np.where(linked, delta, 1 - delta)
    likelihood = outside[:, 0] + np.sum(mine * yours * (inside - outside), axis=1)
    scale = 1 / likelihood[:, None]
    return Assigned(
        mine * (outside + yours * (inside - outside)) * scale, yours * (outside + mine * (inside - outside)) * scale,
        mine * yours * inside * scale, likelihood,
    )  # fmt: skip


class Memberships(LocalStep):
    """Counts of the assignments of each node."""

    def __init__(self, chain: Chain, weights: Weights) -> None:
        self.chain, self.weights, self.minibatches = chain, weights, chain.minibatches

    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[None, np.ndarray]:
        """Communities x nodes."""
        found, pairs, nodes = self.chain.assigned(batch), batch.data, self.weights.rows

        def summed(ends: np.ndarray, values: np.ndarray) -> np.ndarray:
            return sp.csr_array((batch.scale, (ends, np.arange(pairs.size))), (nodes, pairs.size)) @ values

        return None, (summed(pairs.first, found.first) + summed(pairs.second, found.second)).T


class Strengths(LocalStep):
    """Counts of pairs within each community, without a link and with one."""

    def __init__(self, chain: Chain, weights: Weights) -> None:
        self.chain, self.weights, self.minibatches = chain, weights, chain.minibatches

    def count(self, batch: Minibatch, at: Any = None, *, survey: bool = False) -> tuple[None, np.ndarray]:
        """(no, yes) x communities."""
        both, linked = self.chain.assigned(batch).both * np.asarray(batch.scale)[:, None], batch.data.linked
        return None, np.stack([both[~linked].sum(axis=0), both[linked].sum(axis=0)])


class Chain:
    """One chain: every minibatch has all links and ``others`` pairs without one."""

    def __init__(
        self, pairs: Pairs, nodes: int, communities: int, sampler: SimplexSampler, *, others: int, alpha: float = 0.1,
        seed: int = 0,
    ) -> None:  # fmt: skip
        links = int(pairs.linked.sum())
        self.delta = 0.1 * links / pairs.size
        strata = Strata(pairs.linked.astype(int), rows=(min(others, pairs.size - links), links))
        self.minibatches = InMemory(pairs, links + others, strata, seed=seed, chain=0)
        self.sampler, self.estimator = sampler, PlainCounts()
        start = np.random.default_rng(seed).gamma(1.0, 1.0, (nodes, communities))
        self.memberships = Memberships(self, Weights(alpha, nodes, communities, initial=start, seed=seed, path=(0,)))
        likely = np.tile([1.0, 1.0], (communities, 1))
        self.strengths = Strengths(self, Weights(1.0, communities, 2, initial=likely, seed=seed, path=(1,)))
        self.blocks = [(local, sampler.start(local.weights)) for local in (self.memberships, self.strengths)]
        self.steps = 0
        self._latest: tuple[Minibatch, Assigned] | None = None

    @property
    def point(self) -> tuple[np.ndarray, np.ndarray]:
        """The present memberships and strengths."""
        return self.memberships.weights.proportions(), self.strengths.weights.proportions()[:, 1]

    def assigned(self, batch: Minibatch) -> Assigned:
        """Both blocks count the same assignments before either moves."""
        if self._latest is None or self._latest[0] is not batch:
            self._latest = batch, assigned(batch.data, *self.point, self.delta)
        return self._latest[1]

    def step(self) -> None:
        """One minibatch: counts of both blocks, then a step of both."""
        batch = self.minibatches.at(self.steps)
        counts = [self.estimator.counts(local, batch, {}) for local, _ in self.blocks]
        for (local, state), made in zip(self.blocks, counts, strict=True):
            self.sampler.step(local.weights, made, state)
        self.steps += 1

    def predictions(self, pairs: Pairs, steps: int, burn_in: int, every: int = 10) -> Iterator[np.ndarray]:
        """The likelihood of what is known of some pairs, draw by draw."""
        for number in range(steps):
            self.step()
            if number >= burn_in and number % every == 0:
                yield assigned(pairs, *self.point, self.delta).likelihood


def perplexity(likelihoods: np.ndarray) -> float:
    """Of pairs whose likelihoods, draws x pairs, are averaged over the draws."""
    return float(np.exp(-np.log(np.mean(likelihoods, axis=0)).mean()))


def split(pairs: Pairs, seed: int) -> tuple[Pairs, Pairs]:
    """Pairs for the chain, and pairs that are kept back: links and as many others, in an order of chance."""
    rng = np.random.default_rng(seed)
    linked, other = (np.flatnonzero(pairs.linked == value) for value in (True, False))
    n = max(2, round(HELD_OUT * len(linked)))
    chosen = np.concatenate([rng.choice(linked, n, replace=False), rng.choice(other, n, replace=False)])
    left = np.ones(pairs.size, bool)
    left[chosen] = False
    return pairs.take(np.flatnonzero(left)), pairs.take(rng.permutation(chosen))


def main(argv: list[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["usair", "netscience"])
    parser.add_argument("--communities", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(argv)
    folder = os.environ.get("SCIROCCO_DATA")
    if not folder:
        parser.exit(2, "set SCIROCCO_DATA to the folder that has networks.npz\n")
    data = np.load(Path(folder) / "networks.npz")
    for name in options.networks:
        nodes = int(data[f"{name}_n"])
        pairs = Pairs.of(data[f"{name}_edges"], nodes)
        density = pairs.linked.mean()
        print(f"{name}: {nodes:,} nodes, {pairs.linked.sum():,} links; K = {options.communities}")
        print(f"  {'density alone':<24} perplexity {np.exp(-np.log([density, 1 - density]).mean()):8.2f}")
        for kind, samplers in SAMPLERS.items():
            rows = [tried(pairs, nodes, options, samplers, seed) for seed in range(options.seeds)]
            found = np.array([row.reported for row in rows])
            se = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
            chosen = ", ".join(f"{row.step_size:g}" for row in rows)
            print(
                f"  {kind:<8} h = {chosen:<14} perplexity {found.mean():8.2f} +- {se:.2f}, "
                f"{np.mean([row.seconds for row in rows]):.1f} s a run",
                flush=True,
            )


class Tried(NamedTuple):
    """What came of the step sizes of a sampler."""

    step_size: float
    reported: float
    seconds: float


def tried(pairs: Pairs, nodes: int, options: Any, samplers: list[Any], seed: int) -> Tried:
    """The step size that is best on one half of what was kept back, and its perplexity on the other."""
    known, held = split(pairs, seed)
    half = held.size // 2
    runs = []
    for sampler in samplers:
        began = time.perf_counter()
        chain = Chain(known, nodes, options.communities, sampler, others=int(known.linked.sum()), seed=seed)
        likelihoods = np.array(list(chain.predictions(held, options.steps, options.steps // 2)))
        runs.append((likelihoods, time.perf_counter() - began, float(sampler.step_size)))
    likelihoods, seconds, step_size = min(runs, key=lambda run: perplexity(run[0][:, :half]))
    return Tried(step_size, perplexity(likelihoods[:, half:]), seconds)


if __name__ == "__main__":
    main()
