"""Weights, components and priors given the statistics of all clusters, whoever holds the rows.

    (pi_1, ..., pi_t, rest) ~ Dirichlet(n_1, ..., n_t, alpha),    theta_k ~ p(theta | rows of k)

The rest is broken into sticks Beta(1, alpha) with components from the prior until what is left is below all slices.
This draws the Dirichlet process given the partition, whatever the order of its clusters; sticks in the order of labels
mix worse and need moves that switch labels. For a mixture of finite mixtures the number K of components is drawn given
the partition, and weights from Dirichlet(gamma + n_k), those of K - t empty components among them
(Fruehwirth-Schnatter et al. 2021).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.models.dp_mixture.base_measure import learnt_base
from scirocco.models.dp_mixture.clusters import Statistics
from scirocco.models.dp_mixture.density import Law
from scirocco.models.dp_mixture.engine import MixtureChain
from scirocco.models.dp_mixture.numeric import drawn_parameters, fixed_number, given_profiles
from scirocco.models.dp_mixture.partition import FiniteMixtures
from scirocco.simplex.exact import draw_gammas


class Components(NamedTuple):
    """Weights and parameters by slot; slots without weight have none."""

    weights: np.ndarray
    proportions: np.ndarray  # feature x slot
    rates: np.ndarray  # of Poisson rows, otherwise 0
    columns: np.ndarray  # priors of columns of numbers
    profiles: np.ndarray  # column x number x slot


class GivenClusters(MixtureChain):
    """A chain that draws parameters given its ``clusters``; ``counted`` features are those of training."""

    seed: int
    chain: int
    key: np.ndarray
    threads: int | None
    counted: np.ndarray
    given_law: Law
    """As it was before the base measure was learnt."""
    learn_base: str | None
    kept = True  # allocations are, and counts with them

    @abstractmethod
    def next_call(self) -> int:
        """The number of the next stream of random numbers."""

    @property
    def finite(self) -> bool:
        """Whether the number of components is: then there are no slices."""
        return isinstance(self.partition, FiniteMixtures)

    def statistics(self) -> Statistics:
        """Of the clusters, in the order of ``labels``."""
        return self.clusters.statistics()

    def draw_components(
        self, rng: np.random.Generator, least_slice: Callable[[np.ndarray], float]
    ) -> Components:  # fmt: skip
        """Given the clusters; ``least_slice`` is that of all rows, given the weights of the clusters."""
        clusters = self.clusters
        if self.finite:
            weights = self._finite_weights(rng)
        else:
            used = clusters.used
            masses = rng.gamma(np.append(clusters.tables.sizes[used], self.partition.concentration))
            weights = np.zeros(clusters.slots)
            weights[used] = masses[:-1] / masses.sum()
            weights = self._with_sticks(rng, weights, masses[-1] / masses.sum(), least_slice(weights))
        return Components(weights, *self._parameters(weights), clusters.law.columns, self._profiles(rng, weights))

    def _with_sticks(self, rng: np.random.Generator, weights: np.ndarray, rest: float, least: float) -> np.ndarray:
        """Weights with empty slots for new components, broken off the rest until it is below all slices."""
        sticks = []
        while rest >= least and rest > 0:
            stick = rest * rng.beta(1.0, self.partition.concentration)
            sticks.append(stick)
            rest -= stick
        return self._placed(weights, np.array(sticks))

    def _finite_weights(self, rng: np.random.Generator) -> np.ndarray:
        """The number of components and their weights given the partition."""
        used, sizes, gamma = self.clusters.used, self.clusters.tables.sizes, self.partition.concentration
        numbers, chance = self.partition.component_numbers(int(sizes.sum()), used.size)
        empty = int(rng.choice(numbers, p=chance)) - used.size
        masses = rng.gamma(np.append(sizes[used] + gamma, np.full(empty, gamma)))
        masses /= masses.sum()
        weights = np.zeros(self.clusters.slots)
        weights[used] = masses[: used.size]
        return self._placed(weights, masses[used.size :])

    def _placed(self, weights: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Weights of new components in empty slots."""
        clusters = self.clusters
        clusters.make_room(clusters.number + new.size + 1)
        found = np.zeros(clusters.slots)
        found[: weights.size] = weights
        found[np.flatnonzero(clusters.tables.sizes == 0)[: new.size]] = new
        return found

    def _parameters(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the components that have weight, feature x slot, and their rates if they have some."""
        tables, law = self.clusters.tables, self.clusters.law
        slots = np.flatnonzero(weights)
        theta = draw_gammas(self.key, self.next_call(), law.base[:, None] + tables.counts[:, slots], self.threads)
        theta[~self.counted] = 0.0
        proportions, rates = np.zeros((law.base.size, weights.size)), np.zeros(weights.size)
        if not law.base.size:
            return proportions, rates
        starts = np.flatnonzero(np.r_[True, np.diff(law.group[self.counted]) != 0])
        totals = np.maximum(np.add.reduceat(theta[self.counted], starts, axis=0), 1e-300)
        proportions[:, slots] = theta / totals[law.group]
        if law.rate:
            rates[:] = 1.0  # of slots without weight, where it does not matter
            rates[slots] = totals[0] / (law.rate + tables.sizes[slots])
        return proportions, rates

    def _profiles(self, rng: np.random.Generator, weights: np.ndarray) -> np.ndarray:
        """Parameters of columns of numbers drawn for the components that have weight, (column, number, slot)."""
        tables, columns = self.clusters.tables, self.clusters.law.columns
        profiles, slots = np.zeros(tables.profiles.shape), np.flatnonzero(weights)
        if len(columns):
            profiles[:, :, slots] = given_profiles(columns, drawn_parameters(rng, columns, tables.moments[:, :, slots]))
        return profiles

    def learn(self, size: int) -> None:
        """The concentration and the base measure, given the clusters of ``size`` rows."""
        call = self.next_call()
        rng = generator(self.seed, Purpose.MIXTURE_PRIORS, self.chain, call)
        self.partition.learn(rng, size, self.clusters.number)
        if self.learn_base is not None:
            self.clusters.law = learnt_base(
                self.clusters.law, self.given_law, self.clusters.tables, self.counted, self.learn_base, key=self.key,
                step=call, rng=rng, threads=self.threads,
            )  # fmt: skip
        if not fixed_number(self.clusters.law.columns):
            self.clusters.learn_columns(rng)
