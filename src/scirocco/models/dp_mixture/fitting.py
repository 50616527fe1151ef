"""``DirichletProcessMixture.fit``: engines for the chains, the run, and what the model keeps of it."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from scirocco.corpora.documents import Documents
from scirocco.models.dp_mixture.engine import BASE, CONCENTRATION, COUNTS, LABELS, NUMBER, SIZES, MixtureEngine
from scirocco.models.dp_mixture.memory import Blocked, Collapsed
from scirocco.models.dp_mixture.partition import DirichletProcess, FiniteMixtures, PartitionLaw
from scirocco.models.dp_mixture.results import Found
from scirocco.models.home import Home
from scirocco.run.trace import Trace

KINDS: dict[str, type[Collapsed]] = {"collapsed": Collapsed, "gibbs": Blocked}
SEARCH_SHARE = 0.4  # of the passes, at most
LABEL_BYTES, MOST_DRAWS, FEWEST_DRAWS = 2**28, 100, 10  # of the draws of labels; how many if that is not said


def fit_mixture(model: Any, rows: Documents, kind: Any, home: Home) -> None:
    """Run the chains of a model and set its fitted attributes."""
    seed = home.seed(model.random_state)
    workers = min(model.n_chains, model._threads)
    threads = max(1, model._threads // workers)
    draws = model.n_draws
    if draws is None:  # the runner may hold twice as many
        draws = int(np.clip(LABEL_BYTES // (8 * model.n_chains * rows.size), FEWEST_DRAWS, MOST_DRAWS))
    engines = [
        MixtureEngine(
            partial(make_chain, model, rows, kind, seed, number, threads), number, draws=draws, passes=model.max_iter,
            rows=rows.size, features=rows.width, entries=rows.words.size,
        )
        for number in range(model.n_chains)
    ]  # fmt: skip
    trace = home.run(
        engines, model, rows.fingerprint(), seed=seed, sampler=kind, seconds=model.max_seconds, workers=workers
    )
    keep(model, engines, trace)


def make_chain(model: Any, rows: Documents, kind: str, seed: int, number: int, threads: int) -> Any:
    """The sampler of one chain at its start."""
    law = model.encoding_.law(model.base)
    return KINDS[kind](
        rows, law, model.encoding_.counted, partition_law(model), seed=seed, chain=number,
        learn_base=model._base_way, batch_size=model.batch_size, moves=model.split_merge, threads=threads,
        start=model.start, search_passes=SEARCH_SHARE * model.max_iter if model.search else 0.0,
    )  # fmt: skip


def partition_law(model: Any, concentration: float | None = None) -> PartitionLaw:
    """The law of partitions of a model, with the ``concentration`` of a draw or as it starts."""
    learnt = model.concentration is None
    value = concentration if concentration is not None else 1.0 if learnt else float(model.concentration)
    if model.n_components_prior == "mfm":
        return FiniteMixtures(value)
    return DirichletProcess(value, model.concentration_prior if learnt else None)


def keep(model: Any, engines: list[MixtureEngine], trace: Trace) -> None:
    """The fitted attributes."""
    model.trace_ = trace
    sampled = [engine.chains.start for engine in engines if engine.second_half.records]
    if sampled:
        ragged = trace.ragged
        known = trace.posterior
        if known.sizes["chain"] > len(sampled):  # on disk there is room for chains that have recorded nothing
            known = known.isel(chain=sampled)
            ragged = {name: type(r)(r.lengths[sampled], [r.values[c] for c in sampled]) for name, r in ragged.items()}
        fixed = {name: known[name].values for name in (LABELS, NUMBER, CONCENTRATION, BASE)}
        sizes, counts = ([list(chain) for chain in ragged[name]] for name in (SIZES, COUNTS))
        found = Found(fixed[LABELS], fixed[NUMBER], fixed[CONCENTRATION], fixed[BASE], sizes, counts)
    else:
        warnings.warn(
            "fit stopped before the sampler began: the partition is that of the search for a start, without "
            "uncertainty. Give it more time (the first fit also compiles)",
            stacklevel=5,
        )
        chain = engines[0].chain
        chain.search.finish()
        number, concentration = float(chain.clusters.number), float(chain.partition.concentration)
        size, count = chain.statistics()
        found = Found(
            chain.labels()[None, None], np.array([[number]]), np.array([[concentration]]),
            chain.clusters.law.base[None, None], [[size]], [[count]],
        )  # fmt: skip
    model._keep(found)
    model.n_iter_ = max(engine.work[0] for engine in engines)
