"""``sample``, ``kernel`` and ``tune``: the ways to run a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from scirocco.batches import Arrays, Batching
from scirocco.batches.base import batch_rows
from scirocco.bias.gradient import gradient_report
from scirocco.core.checks import require_count, require_run, require_seed
from scirocco.core.interrupt import Interrupt
from scirocco.core.parts import name_of
from scirocco.core.types import Key, Params
from scirocco.estimators import Estimator
from scirocco.gradient.blocks import Block
from scirocco.gradient.engine import GradientEngine, is_function
from scirocco.gradient.kernel import Kernel
from scirocco.run import store
from scirocco.run.describe import describe, is_opaque, outline, part_again, rebuild
from scirocco.run.folder import RunFolder, group_folders
from scirocco.run.progress import waiting
from scirocco.run.recording import Recording
from scirocco.run.resume import Again, Resumer
from scirocco.run.runner import run
from scirocco.run.trace import Trace
from scirocco.samplers.base import Sampler, automatic
from scirocco.target import Target

if TYPE_CHECKING:
    from scirocco.tuning.automatic import Tuned


def kernel(
    target: Target,
    sampler: Sampler,
    *,
    batch_size: int | float | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    blocks: Sequence[Block] = (),
    seed: int = 0,
    chains: int = 1,
) -> Kernel:
    """One chain step by step, for loops of your own and chains too big to keep.

    ``chains`` is how many share the memory for data from disk.

    >>> import jax, jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> kernel = sc.kernel(target, sc.SGLD(step_size=0.01), batch_size=5)
    >>> state = kernel.init(jax.random.key(0), jnp.array(0.0))
    >>> state, info = kernel.step(jax.random.key(1), state)
    >>> state.position.shape, int(state.step)
    ((), 1)
    """
    return Kernel(
        target, sampler, batch_size=_batch_size(target, sampler, batch_size), estimator=estimator, batching=batching,
        blocks=blocks, seed=require_seed(seed), chains=chains,
    )  # fmt: skip


def tune(
    target: Target,
    sampler: Sampler,
    initial: Params,
    *,
    batch_size: int | float | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    blocks: Sequence[Block] = (),
    seed: int = 0,
) -> Tuned:
    """Find the step size of a sampler with ``step_size="auto"``, as ``sample`` does before it runs.

    Returns the ``kernel`` (with its ``sampler``, ``estimator`` and ``batch_size``), the ``initial`` position at the
    mode, and a ``report`` on what was chosen and why. ``Auto(sd_error=0.02)`` in place of "auto" sets the limit.
    Without an ``estimator`` the plain gradient or control variates are chosen by their noise.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(1000.0) % 7)
    >>> tuned = sc.tune(target, sc.SGLD(step_size="auto"), jnp.array(0.0), batch_size=100)
    >>> tuned.report.estimator, bool(0.1 < tuned.report.step_size < 0.2)
    ('ControlVariate of second order', True)
    """
    from scirocco.tuning.automatic import tune_kernel

    if automatic(getattr(sampler, "step_size", None)) is None:
        raise ValueError(f'tune finds a step size that is left open, step_size="auto"; got {sampler!r}')

    def make(rows: int, drawn: Batching | None = batching) -> Kernel:
        return Kernel(
            target, sampler, batch_size=rows, estimator=estimator, batching=drawn, blocks=blocks,
            seed=require_seed(seed), untuned=True,
        )  # fmt: skip

    rows = batch_rows(_batch_size(target, sampler, batch_size), target.size)
    first = initial(jax.random.key(seed)) if is_function(initial) else initial
    free = estimator is None and batching is None
    with Interrupt():
        return tune_kernel(make, rows, first, free=free, free_batch=batch_size is None)


def sample(
    target: Target,
    sampler: Sampler,
    initial: Params | Callable[[Key], Params],
    *,
    num_samples: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
    batch_size: int | float | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    blocks: Sequence[Block] = (),
    chains: int = 4,
    seed: int = 0,
    collect: Callable[[Params], Any] | bool | None = None,
    gradients: bool = False,
    max_seconds: float | None = None,
    path: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
    group_size: int | None = None,
    workers: int = 1,
    facts: dict[str, Any] | None = None,
) -> Trace:
    """Sample a posterior from minibatches.

    Args:
        target: the posterior.
        sampler: the dynamics, such as ``SGLD(step_size=1e-5)``, or ``SGLD(step_size="auto")``: see ``tune``.
        initial: where the chains start, any pytree; or a function of a random key, for dispersed starts. With
            ``step_size="auto"`` the search for the mode starts there, and chains start around the mode.
        num_samples: draws to keep from each chain.
        burn_in: steps before the first of them.
        thin: steps from draw to draw.
        batch_size: rows of a minibatch, a count or a fraction of N. By default 1 % of N, but 100 to 1,000 rows.
        estimator: ``Plain()`` by default, ``ControlVariate()``, ``SAGA()`` or ``SVRG()``; with ``step_size="auto"`` the
            less noisy of the first two by default.
        batching: how rows are drawn: ``batches.Shuffled()`` by default, ``WithReplacement()`` or ``Weighted(p)``.
        blocks: the user's own updates for some of the parameters.
        chains: independent chains, run side by side.
        seed: the only source of randomness: the same seed gives the same draws, bit for bit.
        collect: what to store of each draw: a function of the parameters, None for all of them, False for nothing (the
            streaming moments are kept in any case).
        gradients: store an estimate of grad U with each draw, from a minibatch of its own, for
            ``postprocess.trace_zero_variance``.
        max_seconds: a budget of time, after which the run stops with what it has; compiling does not count.
        path: a folder for draws and checkpoints; draws stay in memory without it.
        checkpoint_seconds: time between checkpoints.
        progress: show a progress bar; by default on a terminal or in a notebook.
        group_size: chains that advance together in one program; all by default. The draws of a group depend on the seed
            and on the numbers of its chains, not on the other groups.
        workers: groups that run at the same time, each in a thread.
        facts: what else to keep in the description of the run, ``trace.meta``, as JSON.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> trace = sc.sample(target, sc.SGLD(step_size=0.01), jnp.array(4.0), num_samples=500, batch_size=5, chains=2)
    >>> dict(trace.posterior.sizes)
    {'chain': 2, 'draw': 500}
    """
    require_run(num_samples, burn_in, thin, chains, checkpoint_seconds, collect, max_seconds)
    require_warm_up(sampler, burn_in)
    size = chains if group_size is None else group_size
    require_count("group_size", size)
    require_count("workers", workers)
    meta = {
        "resumer": name_of(GradientResumer),
        "settings": {
            "num_samples": int(num_samples), "burn_in": int(burn_in), "thin": int(thin), "chains": int(chains),
            "group_size": int(size), "batch_size": batch_size, "seed": require_seed(seed), "max_seconds": max_seconds,
        },
        "parts": {
            "sampler": describe(sampler), "estimator": describe(estimator), "batching": describe(batching),
            "collect": "function" if callable(collect) else collect, "blocks": [list(b.names) for b in blocks],
            "initial": {"opaque": "function"} if is_function(initial) else describe(initial, keep=True),
            "gradients": bool(gradients),
        },
        **(facts or {}),
    }  # fmt: skip
    parts = Parts(sampler, estimator, batching, tuple(blocks), initial, collect)
    with Interrupt():
        if path is None:
            return _run(target, parts, meta, None, checkpoint_seconds, progress, workers)
        folder = RunFolder(path)
        folder.require_free()
        require_target(target)
        with folder:
            meta["data"] = target.source.fingerprint()
            folder.write(meta)
            return _run(target, parts, meta, folder, checkpoint_seconds, progress, workers)


class Parts(NamedTuple):
    """What a run is made of."""

    sampler: Any
    estimator: Any
    batching: Any
    blocks: tuple[Block, ...]
    initial: Any
    collect: Any
    shapes_only: bool = False  # ``initial`` has no values: they are in the checkpoints


class Prepared(NamedTuple):
    """A target with parts whose step size is known."""

    target: Target
    parts: Parts
    batch_size: Any
    kernel: Kernel | None = None  # of the search for a step size
    facts: dict[str, Any] = {}  # noqa: RUF012 - what the description of the run keeps of that search


def prepare(
    target: Target, parts: Parts, settings: dict[str, Any], known: dict[str, Any], begun: bool, progress: bool | None
) -> Prepared:
    """Tune, if that is wanted and not done; ``known`` is what the description of the run has of it."""
    if automatic(getattr(parts.sampler, "step_size", None)) is None:
        return Prepared(target, parts, settings["batch_size"])
    if begun and not is_opaque(known.get("tuned", {"opaque": "nothing"})):
        found = {name: rebuild(value) for name, value in known["tuned"].items()}
        parts = parts._replace(
            sampler=found["sampler"], estimator=found["estimator"], batching=found["batching"], initial=found["initial"]
        )
        return Prepared(target, parts, found["batch_size"])
    with waiting("looking for a step size", progress):
        tuned = tune(
            target, parts.sampler, parts.initial, estimator=parts.estimator, batching=parts.batching,
            blocks=parts.blocks, seed=settings["seed"], batch_size=settings["batch_size"],
        )  # fmt: skip
    batching = tuned.kernel.batching
    parts = parts._replace(sampler=tuned.sampler, estimator=tuned.estimator, batching=batching, initial=tuned.initial)
    record = {
        "sampler": describe(tuned.sampler), "estimator": describe(tuned.estimator), "batching": describe(batching),
        "initial": outline(tuned.initial), "batch_size": tuned.batch_size,
    }  # fmt: skip
    return Prepared(target, parts, tuned.batch_size, tuned.kernel, {"tuning": describe(tuned.report), "tuned": record})


def engines_of(
    prepared: Prepared, settings: dict[str, Any], gradients: bool = False, first: int = 0, report: Any = gradient_report
) -> list[GradientEngine]:
    """The groups of a run's chains, numbered from ``first`` on."""
    target, parts = prepared.target, prepared.parts
    bound = prepared.kernel
    engines: list[GradientEngine] = []
    for start in range(0, settings["chains"], settings["group_size"]):
        # Data in memory is shared by all groups; of data on disk each reads its own blocks.
        if bound is None or not isinstance(target.source, Arrays):
            if bound is not None and not engines:
                bound.close()  # of the search
            bound = kernel(
                target, parts.sampler, estimator=parts.estimator, batching=parts.batching, blocks=parts.blocks,
                chains=settings["group_size"], seed=settings["seed"], batch_size=prepared.batch_size,
            )  # fmt: skip
        numbers = range(first + start, first + min(start + settings["group_size"], settings["chains"]))
        engines.append(
            GradientEngine(
                bound, parts.initial, chains=numbers,
                recording=Recording.of(settings["burn_in"], settings["thin"], parts.sampler), collect=parts.collect,
                gradients=gradients, num_samples=settings["num_samples"], shapes_only=parts.shapes_only, report=report,
            )
        )  # fmt: skip
    return engines


def run_engines(
    engines: list[GradientEngine], meta: dict[str, Any], folder: RunFolder | None, checkpoint_seconds: float,
    progress: bool | None, workers: int,
) -> Trace:  # fmt: skip
    """To the end, from the start or from checkpoints."""
    try:
        known = store.described(engines[0].variables)
        if meta.get("variables", known) != known:
            raise ValueError(f"the run stored {meta['variables']}; collect now returns {known}")
        meta["parts"]["parameters"] = outline(engines[0].example)
        return run(
            engines, meta, folder, max_seconds=meta["settings"]["max_seconds"], checkpoint_seconds=checkpoint_seconds,
            progress=progress, workers=workers,
        )  # fmt: skip
    finally:
        for engine in engines:
            engine.kernel.close()


def _run(
    target: Target, parts: Parts, meta: dict[str, Any], folder: RunFolder | None, checkpoint_seconds: float,
    progress: bool | None, workers: int,
) -> Trace:  # fmt: skip
    begun = folder is not None and bool(group_folders(folder.path))
    prepared = prepare(target, parts, meta["settings"], meta, begun, progress)
    meta |= prepared.facts
    engines = engines_of(prepared, meta["settings"], meta["parts"]["gradients"])
    meta["settings"]["batch_size"] = engines[-1].kernel.batch_size
    return run_engines(engines, meta, folder, checkpoint_seconds, progress, workers)


class GradientResumer(Resumer):
    """Goes on with a run of ``sample``."""

    def __call__(self, path: Path, meta: dict[str, Any], target: Any, y: Any, again: Again) -> Trace:
        """From the target, given again."""
        if y is not None:
            raise ValueError("a run of sample takes its target and nothing else: leave y out")
        again.refuse("sample", "threads")
        require_target(target)
        recorded = meta["parts"]
        require_same_data(path, meta, target)
        if recorded["collect"] == "function" and not callable(again.collect):
            raise ValueError("the run stored what a collect function returned: give the same function as collect=")
        if recorded["collect"] != "function" and callable(again.collect):
            raise ValueError("the run had no collect function: resume it without collect=")
        if recorded["blocks"] != [list(block.names) for block in again.blocks]:
            raise ValueError(f"the run had blocks for {recorded['blocks']}: give the same blocks")
        initial, shapes = again.initial, False
        if initial is None:
            shapes = bool(group_folders(path)) and "parameters" in recorded  # then the values are in the checkpoints
            initial = part_again("start", recorded["parameters" if shapes else "initial"], None, "initial")
        parts = Parts(
            part_again("sampler", recorded["sampler"], again.sampler),
            part_again("estimator", recorded["estimator"], again.estimator),
            part_again("batching", recorded["batching"], again.batching),
            again.blocks, initial, again.collect if callable(again.collect) else recorded["collect"],
            shapes_only=shapes,
        )  # fmt: skip
        with RunFolder(path) as folder:
            return _run(target, parts, meta, folder, again.checkpoint_seconds, again.progress, again.workers)


def require_target(target: object) -> None:
    """Reject what is no target."""
    if not isinstance(target, Target):
        raise TypeError(f"target must be a scirocco.Target; got {type(target).__name__}")


def require_warm_up(sampler: object, burn_in: int) -> None:
    """Reject a burn-in that is over before the sampler has its law."""
    steps = getattr(sampler, "warm_up", 0)
    if burn_in < steps:
        raise ValueError(
            f"burn_in must be at least {steps}, the steps in which {type(sampler).__name__} adapts; got {burn_in}"
        )


def require_same_data(path: Path, meta: dict[str, Any], target: Target) -> None:
    """Reject data that is not that of the run."""
    known, present = meta["data"], target.source.fingerprint()
    if known != present:
        names = [n for n in {*known, *present} if known.get(n) != present.get(n)]
        changes = "; ".join(f"{n} was {known.get(n)}, is {present.get(n)}" for n in sorted(names))
        raise ValueError(f"the data differs from that of the run in {path}: {changes}")


def _batch_size(target: Target, sampler: Sampler, batch_size: int | float | None) -> int | float:
    if batch_size is not None:
        return batch_size
    require_target(target)
    if getattr(sampler, "full_data", False):
        return target.size
    return min(target.size, int(np.clip(target.size // 100, 100, 1000)))
