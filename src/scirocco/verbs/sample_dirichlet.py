"""``sample_dirichlet``: the posterior of the probabilities of categories, from minibatches of observations.

    z_i ~ Categorical(omega),    omega ~ Dirichlet(prior),    so that    omega | z ~ Dirichlet(prior + counts)

Here the posterior is known, which makes it the proving ground of the simplex samplers. They also take streams of codes
too long to count, and the same engine shows how a model of counts runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scirocco.batches import Arrays, MemoryMapped, Strata, Stream
from scirocco.batches.base import batch_rows
from scirocco.bias.dirichlet import dirichlet_report
from scirocco.core.checks import positive_array, real_array, require_choice, require_collect, require_count
from scirocco.core.interrupt import interruptible
from scirocco.core.parts import name_of
from scirocco.counts.codes import COUNTED_AT_ONCE, CodeBlocks, Codes, compact, fingerprint, require_codes
from scirocco.counts.engine import DirichletEngine
from scirocco.counts.estimators import CentredCounts, CountEstimator, chosen_estimator
from scirocco.counts.minibatches import WAYS, FromDisk, InMemory, Minibatches
from scirocco.run.crew import Crew
from scirocco.run.describe import describe, part_again, rebuild
from scirocco.run.description import CodeSettings, Description, Parts, RunOptions, TunedParts
from scirocco.run.folder import RunFolder
from scirocco.run.progress import waiting
from scirocco.run.recording import Recording
from scirocco.run.resume import GivenParts, Resumer
from scirocco.run.runner import run
from scirocco.run.trace import Trace
from scirocco.samplers.base import automatic
from scirocco.simplex import SCIR, SCIRCV, Exact, SimplexSampler, Weights
from scirocco.tuning.simplex import Observed, thin_for, tune_simplex

NAMES: dict[str, SimplexSampler] = {"scir_cv": SCIRCV("auto"), "scir": SCIR("auto"), "exact": Exact()}
SPARSE = 8  # this many categories to an observation of the minibatch make lazy updates worth it


@interruptible
def sample_dirichlet(
    data: Any,
    prior: Any = 1.0,
    sampler: SimplexSampler | str | None = None,
    *,
    batch_size: int | float | None = None,
    num_samples: int = 1000,
    burn_in: int = 1000,
    thin: int | None = None,
    categories: int | None = None,
    batching: str | Strata = "independent",
    estimator: str | CountEstimator = "plain",
    lazy: bool | None = None,
    initial: Any = None,
    chains: int = 4,
    seed: int = 0,
    collect: Callable[[np.ndarray], Any] | bool | None = None,
    max_seconds: float | None = None,
    path: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
    threads: int | None = None,
    workers: int = 1,
    report: bool = True,
    executor: Executor | None = None,
) -> Trace:
    """Sample the probabilities of categories from minibatches of observed category codes.

    Parameters
    ----------
    data
        A vector of codes 0, 1, ..., in memory, memory-mapped, or a ``batches`` source of one column.
    prior : default 1.0
        The Dirichlet parameter, one number or one for each category.
    sampler : SimplexSampler or str, optional
        One of ``simplex``, or its name: "scir_cv", the default, which counts the data once, "scir", both with
        ``step_size="auto"``; "exact". The step size is then the largest at which no posterior sd is off by more
        than 5 %; ``SCIR(Auto(sd_error=0.02))`` asks for another limit (``trace.tuning`` says what was found).
    batch_size : int or float, optional
        Observations of a minibatch, a count or a fraction of N. By default 1 % of N, but 100 to 10,000; with
        ``step_size="auto"`` all data in memory, which are then counted once, and of data on disk more than 1 %, if
        fewer would have to take many more steps.
    num_samples : int, default 1000
        Draws to keep from each chain, after ``burn_in`` steps, one every ``thin`` steps.
    thin : int, optional
        By default 1; with ``step_size="auto"`` as many as keep the Monte Carlo error of every category small enough
        for its mean and sd to be used, by the law of omega, at most 200.
    categories : int, optional
        How many there are; by default the length of the prior, or what occurs in the data.
    batching : str or Strata, default "independent"
        "independent" samples, "shuffled" epochs, "with_replacement", or ``batches.Strata(labels)``.
    estimator : str or CountEstimator, default "plain"
        How counts are estimated: "plain"; for samplers on natural parameters also "control_variate" and "saga",
        which know all counts after one pass. ``SCIRCV`` has its own.
    lazy : bool, optional
        Leave categories that a minibatch does not touch until they are read (same law, other random numbers); by
        default when they are many. Recording reads everything: combine with ``thin``.
    initial : optional
        Unnormalised weights to start all chains from; by default draws given a first part of the data.
    chains : int, default 4
        Independent chains.
    seed : int, default 0
        The only source of randomness: the same seed gives the same draws, whatever the threads.
    collect : callable or bool, optional
        What to store of each draw: a function of omega, None for omega itself, False for nothing (the streaming
        moments are kept in any case).
    max_seconds : float, optional
        A budget of time, after which the run stops with what it has; compiling does not count.
    path : str or Path, optional
        A folder for draws and checkpoints, for ``scirocco.resume(path, data)``; in memory without it.
    checkpoint_seconds : float, default 30.0
        Time between checkpoints.
    progress : bool, optional
        Show a bar; by default on a terminal or in a notebook.
    threads : int, optional
        Of the transitions of many categories; all cores by default.
    workers : int, default 1
        Chains that run at the same time, each in a thread; pays where steps are long.
    report : bool, default True
        Say how far the sampled law is from the posterior (``trace.bias``).
    executor : concurrent.futures.Executor, optional
        Its workers advance the chains, each a task: threads, processes, or a cluster's.

    Examples
    --------
    >>> import numpy as np, scirocco as sc
    >>> codes = np.repeat([0, 1, 2], [700, 290, 10])
    >>> trace = sc.sample_dirichlet(codes, 0.1, sc.SCIR(step_size=0.02), batch_size=100, num_samples=500, thin=10)
    >>> trace.posterior["omega"].shape
    (4, 500, 3)
    >>> bool(abs(trace.mean["omega"][0] - 0.7) < 0.02)
    True
    >>> sc.sample_dirichlet(codes, 0.1, "scir_cv").verdict().kind
    'use it'
    """
    options = RunOptions(max_seconds, checkpoint_seconds, progress, workers, threads, report)
    require_collect(collect)
    sampler = _named(sampler)
    if lazy is not None and not isinstance(lazy, bool):
        raise TypeError(f"lazy must be True, False or None; got {lazy!r}")
    open_ = automatic(getattr(sampler, "step_size", None)) is not None
    if isinstance(batching, Strata) and getattr(sampler, "remove_bias", False):
        raise ValueError("remove_bias knows simple random minibatches only: stratified ones have another bias")
    if isinstance(batching, Strata) and open_:
        raise ValueError(f"a step size is found for simple random minibatches only: give a number in {sampler!r}")
    way = "stratified" if isinstance(batching, Strata) else batching
    if way is batching:
        require_choice("batching", way, WAYS)
    settings = CodeSettings(seed, chains, num_samples, burn_in, thin, 1, None, lazy, way)
    chosen = chosen_estimator(estimator, sampler)
    source, alpha = _source(data, prior, categories)
    if not open_ or batch_size is not None:
        settings = replace(settings, batch_size=_batch_size(batch_size, source, sampler))
    start = None if initial is None else _initial(initial, alpha)
    parts = CodeParts(source, alpha, sampler, chosen, batching, collect, start)
    description = Description(name_of(DirichletResumer), settings, options, parts.described())
    given = GivenParts(sampler, batching=batching, collect=collect if callable(collect) else None)
    crew = Crew.of(executor, data, given, workers=workers)
    if path is None and crew is None:
        return _run(parts, description, None)
    with RunFolder.new(path, crew) as folder:
        return _run(parts, description, folder)


def _named(sampler: Any) -> SimplexSampler:
    """The sampler that the user gave or named."""
    if sampler is None:
        return NAMES["scir_cv"]
    if isinstance(sampler, str):
        if sampler == "sgrld":
            raise ValueError("no law says which step size would do for SGRLD: give sc.SGRLD(step_size=...)")
        require_choice("sampler", sampler, tuple(NAMES))
        return NAMES[sampler]
    if not isinstance(sampler, SimplexSampler):
        names = ", ".join(NAMES)
        raise TypeError(f"sampler must be {names}, SCIR, SCIRCV or another of simplex; got {type(sampler).__name__}")
    if automatic(getattr(sampler, "step_size", None)) is not None and not isinstance(sampler, SCIR | SCIRCV):
        raise ValueError(f"no law says which step size would do for {type(sampler).__name__}: give a number")
    return sampler


class CodeParts(NamedTuple):
    """What a run is made of."""

    source: Any
    prior: np.ndarray
    sampler: SimplexSampler
    estimator: CountEstimator
    batching: Any
    collect: Any
    initial: np.ndarray | None

    def described(self) -> Parts:
        """For the description of the run."""
        return Parts(
            describe(self.sampler), describe(self.estimator), collect=_collect_name(self.collect),
            initial=describe(self.initial, keep=True), prior=describe(self.prior, keep=True),
        )  # fmt: skip


class DirichletResumer(Resumer):
    """Goes on with a run of ``sample_dirichlet``."""

    kind = "sample_dirichlet"
    threaded = True

    def __call__(self, path: Path, description: Description, data: Any, y: Any, given: GivenParts) -> Trace:
        """From the codes, given again."""
        if y is not None:
            raise ValueError("a run of sample_dirichlet takes its codes and nothing else: leave y out")
        given.refuse(self.kind, "blocks", "initial")
        settings, recorded, batching = description.settings, description.parts, given.batching
        assert isinstance(settings, CodeSettings)
        collect = _collect_name(given.collect)
        if recorded.collect != collect and "function" in (recorded.collect, collect):
            raise ValueError(f"the run had collect={recorded.collect}: give the same")
        if isinstance(batching, str) and batching != settings.batching:
            raise ValueError(f"the run had batching={settings.batching!r}; got {batching!r}")
        if settings.batching == "stratified" and not isinstance(batching, Strata):
            raise ValueError("the run was stratified: give its labels again as batching=sc.batches.Strata(labels)")
        source, alpha = _source(data, rebuild(recorded.prior), None)
        sampler = part_again("sampler", recorded.sampler, given.sampler)
        if isinstance(sampler, SCIRCV) and given.estimator is None:
            estimator = chosen_estimator("plain", sampler)  # made of the sampler, which may be given again
        else:
            again = None if given.estimator is None else chosen_estimator(given.estimator, sampler)
            estimator = part_again("estimator", recorded.estimator, again)
        parts = CodeParts(
            source, alpha, sampler, estimator, batching if isinstance(batching, Strata) else settings.batching,
            given.collect if callable(given.collect) else recorded.collect, rebuild(recorded.initial),
        )  # fmt: skip
        with given.folder(path) as folder:
            return _run(parts, description, folder)


def _run(parts: CodeParts, description: Description, folder: RunFolder | None) -> Trace:
    """One group for each chain, from their start or from their checkpoints."""
    source, alpha, way = parts.source, parts.prior, parts.batching
    if isinstance(source, Stream) and way not in ("independent", "shuffled"):
        raise ValueError("data on disk comes in shuffled blocks: leave batching alone")
    if parts.estimator.remembers and not (isinstance(source, np.ndarray) and way in ("independent", "shuffled")):
        raise ValueError(
            f"estimator={parts.estimator!r} remembers observations: it needs data in memory, each row drawn once"
        )
    if folder is not None:
        present = fingerprint(source, way)
        if description.data not in ({}, present):
            raise ValueError(f"the data differs from that of the run in {folder.path}")
        description = replace(description, data=present)
    parts, description = _tuned(parts, description, folder)
    settings, options, estimator = description.settings, description.options, parts.estimator
    assert isinstance(settings, CodeSettings)
    n, seed = int(settings.batch_size or 0), settings.seed
    chains = range(settings.chains) if folder is None else folder.chains(settings)
    lazy = alpha.size > SPARSE * n if settings.lazy is None else bool(settings.lazy)
    lazy = lazy and isinstance(parts.sampler, SCIR | SCIRCV)
    minibatches: dict[int, Minibatches]
    if isinstance(source, Stream):
        if n > source.resident_rows:
            rows = f"the rows of a resident block, {source.resident_rows}"
            raise ValueError(f"batch_size must be at most {rows}; got {n}: use a larger block_bytes")
        blocks = {chain: CodeBlocks(source, alpha.size, seed=seed, chain=chain) for chain in chains}
        minibatches = {chain: FromDisk(own, n, seed=seed, chain=chain) for chain, own in blocks.items()}
    else:
        codes = compact(source)
        minibatches = {c: InMemory(codes, n, way, seed=seed, chain=c, part=COUNTED_AT_ONCE) for c in chains}
    try:
        if folder is not None:
            folder.write(description)
        engines = [
            DirichletEngine(
                minibatches[chain], parts.sampler, estimator, alpha, lazy=lazy, chain=chain, seed=seed,
                collect=parts.collect, recording=Recording(settings.burn_in, settings.thin or 1),
                num_samples=settings.num_samples, initial=parts.initial, threads=options.threads,
                report=dirichlet_report if options.report else None,
            )
            for chain in chains
        ]  # fmt: skip
        return run(engines, description, folder)
    finally:
        for own in minibatches.values():
            own.close()


def _tuned(
    parts: CodeParts, description: Description, folder: RunFolder | None
) -> tuple[CodeParts, Description]:  # fmt: skip
    """Find a step size that was left open, unless a run that goes on has it."""
    sampler, settings = parts.sampler, description.settings
    wishes = automatic(getattr(sampler, "step_size", None))
    assert isinstance(settings, CodeSettings)
    if wishes is None:
        return parts, replace(description, settings=replace(settings, thin=settings.thin or 1))
    assert isinstance(sampler, SCIR | SCIRCV)
    if description.tuned:
        found = rebuild(description.tuned[0].report)
    else:
        if folder is not None:
            folder.write(description)  # counting a stream takes a while: what is killed meanwhile starts again
        rows = _batch_size(settings.batch_size, parts.source, sampler)
        with waiting("looking for a step size", description.options.progress):
            observed = _observed(parts, sampler, rows, settings.seed)
            found = tune_simplex(sampler, wishes, observed, rows, free_batch=settings.batch_size is None)
        if settings.thin is None:
            draws = settings.num_samples * settings.chains
            settings = replace(settings, thin=thin_for(found.step_size, observed.prior + observed.count, draws))
    sampler = replace(sampler, step_size=found.step_size)
    tuned = TunedParts(describe(found), describe(sampler), None, None, None, found.batch_size)
    settings = replace(settings, batch_size=found.batch_size)
    estimator = parts.estimator
    if isinstance(estimator, CentredCounts):
        estimator = CentredCounts(sampler)  # type: ignore[arg-type]
    return parts._replace(sampler=sampler, estimator=estimator), replace(description, settings=settings, tuned=(tuned,))


def _observed(parts: CodeParts, sampler: SCIR | SCIRCV, rows: int, seed: int) -> Observed:
    """The counts of all data, or an estimate from a part of a stream that the sampler would not count either."""
    source, alpha = parts.source, parts.prior
    if not isinstance(source, Stream):
        count = np.bincount(source, minlength=alpha.size).astype(float)
        at_once = parts.batching != "with_replacement" and (isinstance(sampler, SCIR) or sampler.counts_all)
        return Observed(count, alpha, parts.batching, counted=True, most=len(source), at_once=at_once)
    blocks = CodeBlocks(source, alpha.size, seed=seed, chain=0)
    try:
        codes = Codes(FromDisk(blocks, rows, seed=seed, chain=0), Weights(alpha), lazy=False)
        counted = isinstance(sampler, SCIRCV) and sampler.counts_all
        count = codes.total() if counted else codes.typical()
        most = min(source.resident_rows, source.size)
        return Observed(count, alpha, "shuffled", counted=counted, most=most, at_once=False)
    finally:
        blocks.close()


def _source(data: Any, prior: Any, categories: int | None) -> tuple[Any, np.ndarray]:
    """Codes or a stream of them, and the prior of every category."""
    alpha = positive_array("prior", prior)
    if alpha.ndim > 1:
        raise ValueError(f"prior must be a number or a vector; got shape {alpha.shape}")
    if categories is not None:
        require_count("categories", categories, least=2)
        if alpha.ndim and alpha.size != categories:
            raise ValueError(f"prior must have one entry for each of {categories} categories; got {alpha.size}")
    size = categories if categories is not None else (alpha.size if alpha.ndim else None)
    if isinstance(data, np.memmap):
        data = MemoryMapped(data)
    if isinstance(data, Arrays):
        data = data.arrays
    if isinstance(data, Stream):
        if size is None:
            raise ValueError("categories must be given for data on disk when the prior is one number")
        return data, np.broadcast_to(alpha, (size,)).copy()
    codes = require_codes(data, size)
    size = max(2, int(codes.max()) + 1) if size is None else size
    return codes, np.broadcast_to(alpha, (size,)).copy()


def _batch_size(batch_size: int | float | None, source: Any, sampler: SimplexSampler) -> int:
    size = source.size if isinstance(source, Stream) else len(source)
    if batch_size is None:
        batch_size = size if isinstance(sampler, Exact) else min(size, int(np.clip(size // 100, 100, 10_000)))
    return batch_rows(batch_size, size)


def _initial(initial: Any, alpha: np.ndarray) -> np.ndarray:
    weights = real_array("initial", initial)
    if weights.shape != alpha.shape or not np.all(np.isfinite(weights)) or np.any(weights < 0) or not weights.sum() > 0:
        raise ValueError(
            f"initial must be {alpha.size} weights, none negative and not all zero; got {np.shape(initial)}, "
            f"smallest {np.min(weights, initial=np.inf):g}, sum {weights.sum():g}"
        )
    return weights


def _collect_name(collect: Any) -> Any:
    return "function" if callable(collect) else collect
