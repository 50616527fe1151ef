"""``sample_dirichlet``: the posterior of the probabilities of categories, from minibatches of observations.

    z_i ~ Categorical(omega),    omega ~ Dirichlet(prior),    so that    omega | z ~ Dirichlet(prior + counts)

Here the posterior is known, which makes it the proving ground of the simplex samplers. They also take streams of codes
too long to count, and the same engine shows how a model of counts runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.batches import Arrays, MemoryMapped, Strata, Stream
from scirocco.batches.base import batch_rows
from scirocco.bias.dirichlet import dirichlet_report
from scirocco.core.checks import positive_array, real_array, require_count, require_run, require_seed
from scirocco.core.interrupt import Interrupt
from scirocco.core.parts import name_of
from scirocco.counts.codes import COUNTED_AT_ONCE, CodeBlocks, compact, fingerprint, require_codes
from scirocco.counts.engine import DirichletEngine
from scirocco.counts.estimators import CountEstimator, chosen_estimator
from scirocco.counts.minibatches import FromDisk, InMemory, Minibatches
from scirocco.run.describe import describe, part_again, rebuild
from scirocco.run.folder import RunFolder
from scirocco.run.recording import Recording
from scirocco.run.resume import Again, Resumer
from scirocco.run.runner import run
from scirocco.run.trace import Trace
from scirocco.simplex import SCIR, SCIRCV, Exact, SimplexSampler

SPARSE = 8  # this many categories to an observation of the minibatch make lazy updates worth it


def sample_dirichlet(
    data: Any,
    prior: Any = 1.0,
    sampler: SimplexSampler | None = None,
    *,
    batch_size: int | float | None = None,
    num_samples: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
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
) -> Trace:
    """Sample the probabilities of categories from minibatches of observed category codes.

    Args:
        data: a vector of codes 0, 1, ..., in memory, memory-mapped, or a ``batches`` source of one column.
        prior: the Dirichlet parameter, one number or one for each category.
        sampler: ``SCIRCV(step_size=0.1)`` by default, which counts the data once, or another of ``simplex``.
        batch_size: observations of a minibatch, a count or a fraction of N. By default 1 % of N, but 100 to 10,000.
        num_samples: draws to keep from each chain, after ``burn_in`` steps, one every ``thin`` steps.
        categories: how many there are; by default the length of the prior, or what occurs in the data.
        batching: "independent" samples, "shuffled" epochs, "with_replacement", or ``batches.Strata(labels)``.
        estimator: how counts are estimated: "plain"; for samplers on natural parameters also "control_variate" and
            "saga", which know all counts after one pass. ``SCIRCV`` has its own.
        lazy: leave categories that a minibatch does not touch until they are read (same law, other random numbers); by
            default when they are many. Recording reads everything: combine with ``thin``.
        initial: unnormalised weights to start all chains from; by default draws given a first part of the data.
        chains: independent chains.
        seed: the only source of randomness: the same seed gives the same draws, whatever the threads.
        collect: what to store of each draw: a function of omega, None for omega itself, False for nothing (the
            streaming moments are kept in any case).
        max_seconds: a budget of time, after which the run stops with what it has; compiling does not count.
        path: a folder for draws and checkpoints, for ``scirocco.resume(path, data)``; in memory without it.
        checkpoint_seconds: time between checkpoints.
        progress: show a bar; by default on a terminal or in a notebook.
        threads: of the transitions of many categories; all cores by default.
        workers: chains that run at the same time, each in a thread; pays where steps are long.

    >>> import numpy as np, scirocco as sc
    >>> codes = np.repeat([0, 1, 2], [700, 290, 10])
    >>> trace = sc.sample_dirichlet(codes, 0.1, sc.SCIR(step_size=0.02), batch_size=100, num_samples=500, thin=10)
    >>> trace.posterior["omega"].shape
    (4, 500, 3)
    >>> bool(abs(trace.mean["omega"][0] - 0.7) < 0.02)
    True
    """
    require_run(num_samples, burn_in, thin, chains, checkpoint_seconds, collect, max_seconds)
    require_count("workers", workers)
    sampler = SCIRCV(step_size=0.1) if sampler is None else sampler
    if not isinstance(sampler, SimplexSampler):
        raise TypeError(f"sampler must be SCIR, SCIRCV or another of simplex; got {type(sampler).__name__}")
    if lazy is not None and not isinstance(lazy, bool):
        raise TypeError(f"lazy must be True, False or None; got {lazy!r}")
    if isinstance(batching, Strata) and getattr(sampler, "remove_bias", False):
        raise ValueError("remove_bias knows simple random minibatches only: stratified ones have another bias")
    chosen = chosen_estimator(estimator, sampler)
    source, alpha = _source(data, prior, categories)
    start = None if initial is None else _initial(initial, alpha)
    meta = {
        "resumer": name_of(DirichletResumer),
        "settings": {
            "num_samples": int(num_samples), "burn_in": int(burn_in), "thin": int(thin), "chains": int(chains),
            "batch_size": _batch_size(batch_size, source, sampler), "seed": require_seed(seed), "lazy": lazy,
            "batching": "stratified" if isinstance(batching, Strata) else batching, "max_seconds": max_seconds,
            "threads": threads, "workers": workers,
        },
        "parts": {
            "sampler": describe(sampler), "estimator": describe(chosen), "collect": _collect_name(collect),
            "prior": describe(alpha, keep=True), "initial": describe(start, keep=True),
        },
    }  # fmt: skip
    with Interrupt():
        if path is None:
            return _run(
                source, alpha, sampler, chosen, meta, batching, collect, start, None, checkpoint_seconds, progress
            )
        folder = RunFolder(path)
        folder.require_free()
        with folder:
            return _run(
                source, alpha, sampler, chosen, meta, batching, collect, start, folder, checkpoint_seconds, progress
            )


class DirichletResumer(Resumer):
    """Goes on with a run of ``sample_dirichlet``."""

    def __call__(self, path: Path, meta: dict[str, Any], data: Any, y: Any, again: Again) -> Trace:
        """From the codes, given again."""
        if y is not None:
            raise ValueError("a run of sample_dirichlet takes its codes and nothing else: leave y out")
        again.refuse("sample_dirichlet", "blocks", "initial")
        settings, parts, batching = meta["settings"], meta["parts"], again.batching
        if parts["collect"] != _collect_name(again.collect) and "function" in (
            parts["collect"], _collect_name(again.collect)
        ):  # fmt: skip
            raise ValueError(f"the run had collect={parts['collect']}: give the same")
        if isinstance(batching, str) and batching != settings["batching"]:
            raise ValueError(f"the run had batching={settings['batching']!r}; got {batching!r}")
        if settings["batching"] == "stratified" and not isinstance(batching, Strata):
            raise ValueError("the run was stratified: give its labels again as batching=sc.batches.Strata(labels)")
        if again.threads is not None:
            settings["threads"] = again.threads
        source, alpha = _source(data, rebuild(parts["prior"]), None)
        way = batching if isinstance(batching, Strata) else settings["batching"]
        collect = again.collect if callable(again.collect) else parts["collect"]
        sampler = part_again("sampler", parts["sampler"], again.sampler)
        if isinstance(sampler, SCIRCV) and again.estimator is None:
            estimator = chosen_estimator("plain", sampler)  # made of the sampler, which may be given again
        else:
            given = None if again.estimator is None else chosen_estimator(again.estimator, sampler)
            estimator = part_again("estimator", parts["estimator"], given)
        with RunFolder(path) as folder:
            return _run(
                source, alpha, sampler, estimator, meta, way, collect, rebuild(parts["initial"]), folder,
                again.checkpoint_seconds, again.progress,
            )  # fmt: skip


def _run(
    source: Any, alpha: np.ndarray, sampler: SimplexSampler, estimator: CountEstimator, meta: dict[str, Any], way: Any,
    collect: Any, initial: np.ndarray | None, folder: RunFolder | None, checkpoint_seconds: float,
    progress: bool | None,
) -> Trace:  # fmt: skip
    """One group for each chain, from their start or from their checkpoints."""
    settings = meta["settings"]
    n, seed, chains = settings["batch_size"], settings["seed"], range(settings["chains"])
    lazy = alpha.size > SPARSE * n if settings["lazy"] is None else bool(settings["lazy"])
    lazy = lazy and isinstance(sampler, SCIR | SCIRCV)
    if estimator.remembers and (isinstance(source, Stream) or isinstance(way, Strata) or way == "with_replacement"):
        raise ValueError(
            f"estimator={estimator!r} remembers observations: it needs data in memory, each row drawn once"
        )
    minibatches: list[Minibatches]
    if isinstance(source, Stream):
        if way not in ("independent", "shuffled"):
            raise ValueError("data on disk comes in shuffled blocks: leave batching alone")
        if n > source.resident_rows:
            rows = f"the rows of a resident block, {source.resident_rows}"
            raise ValueError(f"batch_size must be at most {rows}; got {n}: use a larger block_bytes")
        blocks = [CodeBlocks(source, alpha.size, seed=seed, chain=chain) for chain in chains]
        minibatches = [FromDisk(own, n, seed=seed, chain=chain) for chain, own in enumerate(blocks)]
    else:
        codes = compact(source)
        minibatches = [InMemory(codes, n, way, seed=seed, chain=chain, part=COUNTED_AT_ONCE) for chain in chains]
    try:
        if folder is not None:
            present = fingerprint(source, way)
            if meta.setdefault("data", present) != present:
                raise ValueError(f"the data differs from that of the run in {folder.path}")
            folder.write(meta)
        engines = [
            DirichletEngine(
                minibatches[chain], sampler, estimator, alpha, lazy=lazy, chain=chain, seed=seed, collect=collect,
                recording=Recording(settings["burn_in"], settings["thin"]), num_samples=settings["num_samples"],
                initial=initial, threads=settings["threads"], report=dirichlet_report,
            )
            for chain in chains
        ]  # fmt: skip
        return run(
            engines, meta, folder, max_seconds=settings["max_seconds"], checkpoint_seconds=checkpoint_seconds,
            progress=progress, workers=settings["workers"],
        )  # fmt: skip
    finally:
        for own in minibatches:
            own.close()


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
