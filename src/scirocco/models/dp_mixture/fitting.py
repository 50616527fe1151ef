"""``DirichletProcessMixture.fit``: engines for the chains, the run, and what the model keeps of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.seeds import Purpose, generator
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus
from scirocco.counts.passes import SEARCH_SHARE
from scirocco.counts.settling import Settling
from scirocco.models.count_model import SamplerChoice
from scirocco.models.dp_mixture import numeric
from scirocco.models.dp_mixture.draws import MEMBER_DRAWS, MixtureDraws
from scirocco.models.dp_mixture.engine import (
    BASE,
    COLUMNS,
    CONCENTRATION,
    COUNTS,
    DENSITY,
    LABELS,
    MOMENTS,
    NUMBER,
    SIZES,
    MixtureChain,
    MixtureEngine,
)
from scirocco.models.dp_mixture.gibbs import Blocked, Collapsed
from scirocco.models.dp_mixture.partition import DirichletProcess, FiniteMixtures, PartitionLaw
from scirocco.models.dp_mixture.resident import ResidentMixture, RowShardMaker, Table
from scirocco.models.dp_mixture.rows import entries_in, values_of
from scirocco.models.dp_mixture.search import MOVING, RANDOM_CLUSTERS, Start
from scirocco.models.dp_mixture.slice_sampler import SliceSampler
from scirocco.models.fit_location import SHARDS, FitLocation
from scirocco.run.rounds import Rounds
from scirocco.run.trace import Trace
from scirocco.simplex import SCIR, SCIRCV, SGRLD, Exact, SimplexSampler

if TYPE_CHECKING:
    from scirocco.models.dp_mixture.estimator import DirichletProcessMixture

IN_MEMORY: dict[str, type[Collapsed]] = {"collapsed": Collapsed, "gibbs": Blocked}
# Components and sticks; step sizes are those of Baker et al. (2018), whose SGRLD has twice ours.
STICKS: dict[str, tuple[SimplexSampler, SimplexSampler]] = {
    "slice": (Exact(), Exact()),
    "scir": (SCIR(0.1), SCIR(0.1)),
    "scir_cv": (SCIRCV(0.1, recentre_every=20, centre_from="seen"), SCIR(0.1)),
    "sgrld": (SGRLD(0.0005), SGRLD(0.0025)),
}
STREAM_BATCH = 1000  # rows of a minibatch of the stochastic samplers
DRAW_BYTES, MOST_DRAWS, FEWEST_DRAWS = 2**28, 100, 10  # of draws; how many if that is not said
TYPICAL_CLUSTERS = 50
STATISTICS = (SIZES, COUNTS, MOMENTS)
VIEW_SHARE = 0.1  # of the time, for what is read off the draws; a draw's memberships take about a pass
FIXED = {  # what has the same shape in every draw
    "labels": LABELS, "number": NUMBER, "concentration": CONCENTRATION, "base": BASE, "log_density": DENSITY,
}  # fmt: skip


def fit_mixture(model: DirichletProcessMixture, rows: Documents, choice: SamplerChoice, location: FitLocation) -> None:
    """Run the chains of a model and set its fitted attributes."""
    seed, threads = location.seed(model.random_state), model._workers(model.n_chains)[1]
    makers = [partial(make_chain, model, rows, choice, seed, number, threads) for number in range(model.n_chains)]
    run_chains(model, rows, rows.fingerprint(), entries_in(rows), makers, choice, location, seed)


def fit_resident_mixture(
    model: DirichletProcessMixture, table: Table, choice: SamplerChoice, location: FitLocation
) -> None:
    """The same with rows on the workers of a cluster, which meet in the folder of the run."""
    seed, threads = location.seed(model.random_state), model._workers(model.n_chains)[1]
    law = model.encoding_.law(model._base)
    with location.meeting() as meeting:
        shards = meeting.cluster.shards
        if isinstance(table.origin, Corpus):
            meeting.require_seen(table.origin.path.absolute())
        source = table.source(meeting.folder, shards)

        def make(number: int, rounds: Rounds) -> MixtureChain:
            table.store(source, shards)
            start = make_chain(model, table.sample, choice, seed, number, threads)
            assert isinstance(start, Blocked)
            return ResidentMixture(rounds, start, table.sample.size / table.size)

        makers = [
            partial(
                make, number,
                meeting.rounds(number, RowShardMaker(source, law, table.size, shards, table.every, seed, number)),
            )
            for number in range(model.n_chains)
        ]  # fmt: skip
        data = table.origin.fingerprint() | {SHARDS: shards}
        run_chains(model, table.sample, data, table.entries, makers, choice, location, seed)


def run_chains(
    model: DirichletProcessMixture, rows: Documents, data: dict[str, Any], entries: int,
    makers: Sequence[Callable[[], MixtureChain]], choice: SamplerChoice, location: FitLocation, seed: int,
) -> None:  # fmt: skip
    """Chains of data with a fingerprint; their draws have labels of ``rows``, and a pass looks at so many entries."""
    numbers = numeric.MOMENTS * values_of(rows).shape[1]
    draws = model.n_draws
    if draws is None:  # the runner may hold twice as many; of clusters nobody knows the number
        size = 8 * model.n_chains * (rows.size + TYPICAL_CLUSTERS * (rows.width + numbers))
        draws = int(np.clip(DRAW_BYTES // size, FEWEST_DRAWS, MOST_DRAWS))
    free = model.max_iter is None and model.max_seconds is None
    passes = Settling(model.n_chains, model._passes, entries) if free else model._passes
    engines = [
        MixtureEngine(
            make, number, draws=draws, passes=passes, rows=rows.size, features=rows.width,
            columns=values_of(rows).shape[1], entries=entries, kept=keeps(model, choice),
        )
        for number, make in enumerate(makers)
    ]  # fmt: skip
    data = data | {"features": model.encoding_.fingerprint()}
    seconds = None if model.max_seconds is None else (1 - VIEW_SHARE) * model.max_seconds
    trace = location.run(
        engines, model, data, seed=seed, sampler=choice.name, seconds=seconds, workers=model._workers(model.n_chains)[0]
    )
    keep(model, trace, kept=keeps(model, choice))
    model._settling = passes if isinstance(passes, Settling) else None
    made = sum(float(leaf["passes"]) for leaf in trace.leaves.values())
    most = int(np.clip(VIEW_SHARE * made, 1, MEMBER_DRAWS))
    model._found.made["membership"] = model._found.membership(model._snapshots, rows, model._threads, most)


def keeps(model: DirichletProcessMixture, choice: SamplerChoice) -> bool:
    """Whether counts are those of all allocations: by default where the sampler is exact then."""
    if model.allocations == "auto":
        return choice.name in IN_MEMORY or choice.name == "slice"
    return bool(model.allocations == "kept")


def make_chain(
    model: DirichletProcessMixture, rows: Documents, choice: SamplerChoice, seed: int, number: int, threads: int
) -> MixtureChain:
    """The sampler of one chain at its start."""
    law, counted = model.encoding_.law(model._base), model.encoding_.counted
    start = Start.of(model.start).compact
    common: dict[str, Any] = {"seed": seed, "chain": number, "threads": threads}
    searched: dict[str, Any] = {
        "learn_base": model._base_way, "moves": model.split_merge, "start": start,
        "search_passes": SEARCH_SHARE * model._passes / (1 + MOVING) if model.search else 0.0,
    }  # fmt: skip
    if choice.name in IN_MEMORY:
        return IN_MEMORY[choice.name](
            rows, law, counted, partition_law(model), batch_size=model.batch_size, **common, **searched
        )
    sampler, sticks = STICKS[choice.name] if choice.given is None else (choice.given, choice.given)
    sticks = sticks if model.stick_sampler is None else model.stick_sampler
    kept, first, labels = keeps(model, choice), None, start.labels
    if model.search or start.name == "sequential":
        first = Collapsed(rows, law, counted, partition_law(model), **common, **searched)
    elif labels is None:
        clusters = 1 if start.name == "one" else min(RANDOM_CLUSTERS, rows.size)
        labels = generator(seed, Purpose.MIXTURE_SEARCH, number, 0).integers(0, clusters, rows.size)
    return SliceSampler(
        rows, law, partition_law(model), sampler=sampler, stick_sampler=sticks, kept=kept,
        batch_size=model.batch_size or (None if kept else STREAM_BATCH), start=None if first is not None else labels,
        first=first, **common,
    )  # fmt: skip


def partition_law(model: DirichletProcessMixture, concentration: float | None = None) -> PartitionLaw:
    """The law of partitions of a model, with the ``concentration`` of a draw or as it starts."""
    learnt = model.concentration is None
    begin = 1.0 if model.concentration is None else float(model.concentration)
    value = begin if concentration is None else concentration
    if model._prior == "mfm":
        return FiniteMixtures(value)
    return DirichletProcess(value, model.concentration_prior if learnt else None)


def keep(model: DirichletProcessMixture, trace: Trace, *, kept: bool) -> None:
    """The fitted attributes; ``kept`` says whether counts are those of all allocations."""
    model.trace_ = trace
    fixed: dict[str, Any]
    if trace.chains:
        fixed = {field: trace.posterior[name].values for field, name in FIXED.items()}
        ragged = {name: [list(chain) for chain in trace.ragged[name]] for name in STATISTICS if name in trace.ragged}
        columns = trace.posterior[COLUMNS].values if COLUMNS in trace.posterior else None
    else:
        warnings.warn(
            "fit stopped before the sampler began: the partition is that of the search for a start, without "
            "uncertainty. Give it more time (the first fit also compiles)",
            stacklevel=6,
        )
        found = trace.leaves[0]
        fixed = {field: found[name][None, None] for field, name in FIXED.items()}
        ragged = {name: [[found[name]]] for name in STATISTICS if name in found}
        columns = found[COLUMNS][None, None] if COLUMNS in found else None
    model._keep(MixtureDraws.made_of(fixed | ragged, columns, kept=kept))
    model.n_iter_ = max(float(leaf["passes"]) for leaf in trace.leaves.values())
