"""``sample``, ``resume``, ``kernel`` and ``tune``: the ways to run a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from scirocco.batches import Batching
from scirocco.batches.base import batch_rows
from scirocco.blocks import Block
from scirocco.chain import Kernel
from scirocco.checks import require_count, require_run, require_seed
from scirocco.engine import Engine, is_function
from scirocco.estimators import Estimator
from scirocco.run import checkpoint
from scirocco.run.describe import describe, is_opaque, outline, rebuild
from scirocco.run.finish import begin, empty_folder, go_on
from scirocco.run.progress import waiting
from scirocco.run.recording import Recording
from scirocco.run.runner import Progressed
from scirocco.run.trace import Trace
from scirocco.samplers.base import Sampler, automatic
from scirocco.target import Target
from scirocco.types import Key, Params

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
) -> Kernel:
    """One chain step by step, for loops of your own and chains too big to keep.

    >>> import jax, jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> kernel = sc.kernel(target, sc.SGLD(step_size=0.01), batch_size=5)
    >>> state = kernel.init(jax.random.key(0), jnp.array(0.0))
    >>> state, info = kernel.step(jax.random.key(1), state)
    >>> state.position.shape, int(state.step)
    ((), 1)
    """
    return Kernel(
        target, sampler, batch_size=_batch_size(target, batch_size), estimator=estimator, batching=batching,
        blocks=blocks, seed=require_seed(seed),
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

    rows = batch_rows(_batch_size(target, batch_size), target.size)
    first = initial(jax.random.key(seed)) if is_function(initial) else initial
    free = estimator is None and batching is None
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
    path: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
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
        gradients: store an estimate of grad U with each draw, from a minibatch of its own, for ``trace.zero_variance``.
        path: a folder for draws and checkpoints; draws stay in memory without it.
        checkpoint_seconds: time between checkpoints.
        progress: show a progress bar; by default on a terminal or in a notebook.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> trace = sc.sample(target, sc.SGLD(step_size=0.01), jnp.array(4.0), num_samples=500, batch_size=5, chains=2)
    >>> dict(trace.posterior.sizes)
    {'chain': 2, 'draw': 500}
    """
    require_run(num_samples, burn_in, thin, chains, checkpoint_seconds, collect)
    folder = empty_folder(path)
    settings: dict[str, Any] = {
        "batch_size": batch_size, "estimator": estimator, "batching": batching, "blocks": blocks, "seed": seed
    }  # fmt: skip
    tuned = None
    if automatic(getattr(sampler, "step_size", None)) is not None:
        with waiting("looking for a step size", progress):
            tuned = tune(target, sampler, initial, **settings)
        bound, initial, sampler, estimator = tuned.kernel, tuned.initial, tuned.sampler, tuned.estimator
        batching = bound.batching
    else:
        bound = kernel(target, sampler, **settings)
    try:
        recording = Recording.of(burn_in, thin, sampler)
        engine = Engine(bound, initial, chains=chains, recording=recording, collect=collect, gradients=gradients)
        progressed = Progressed(engine.init())
        meta = {
            "settings": {
                "num_samples": int(num_samples), "burn_in": int(burn_in), "thin": int(thin), "chains": int(chains),
                "batch_size": bound.batch_size, "seed": bound.seed,
            },
            "parts": _described(engine, sampler, estimator, batching, collect),
            "data": target.source.fingerprint() if folder is not None else None,
            "tuning": tuned.report.to_json() if tuned else None,
        }  # fmt: skip
        return begin(engine, progressed, meta, folder, checkpoint_seconds=checkpoint_seconds, progress=progress)
    finally:
        bound.close()


def resume(
    path: str | Path,
    target: Target,
    *,
    num_samples: int | None = None,
    sampler: Sampler | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    blocks: Sequence[Block] = (),
    collect: Callable[[Params], Any] | bool | None = None,
    initial: Params = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
) -> Trace:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped.

    ``target`` (for a run of ``sample_dirichlet``, its data) is given again because functions are not stored. So is any
    part that JSON cannot hold (a schedule of optax, a block, a ``collect`` function); the error says which.
    ``num_samples`` extends the run.
    """
    folder = Path(path)
    arrays, meta = checkpoint.read(folder)
    if "settings" not in meta or not checkpoint.part(arrays, "state"):
        raise ValueError(f"{folder} holds a saved trace, not a run that can go on: start it with sample(..., path=...)")
    if meta.get("kind") == "dirichlet":
        from scirocco.dirichlet import resume_dirichlet

        return resume_dirichlet(
            folder, arrays, meta, target, num_samples=num_samples, sampler=sampler, batching=batching,
            collect=collect, checkpoint_seconds=checkpoint_seconds, progress=progress,
        )  # fmt: skip
    settings, parts = meta["settings"], meta["parts"]
    if meta["data"] != target.source.fingerprint():
        raise ValueError(f"the data differs from that of the run in {folder}: {_difference(meta['data'], target)}")
    if parts["collect"] == "function" and not callable(collect):
        raise ValueError("the run stored what a collect function returned: give the same function as collect=")
    if parts["collect"] != "function" and callable(collect):
        raise ValueError("the run had no collect function: resume it without collect=")
    if parts["blocks"] != [list(block.names) for block in blocks]:
        raise ValueError(f"the run had blocks for {parts['blocks']}: give the same blocks")
    if num_samples is not None:
        require_count("num_samples", num_samples)
        settings["num_samples"] = max(settings["num_samples"], int(num_samples))
    bound = kernel(
        target,
        _part("sampler", parts, sampler),
        batch_size=settings["batch_size"],
        estimator=_part("estimator", parts, estimator),
        batching=_part("batching", parts, batching),
        blocks=blocks,
        seed=settings["seed"],
    )
    try:
        if initial is None:
            initial = _part("parameters", parts, None, argument="initial")
        recording = Recording.of(settings["burn_in"], settings["thin"], bound.sampler)
        stored = collect if callable(collect) else parts["collect"]
        engine = Engine(
            bound, initial, chains=settings["chains"], recording=recording, collect=stored,
            gradients=parts.get("gradients", False),
        )  # fmt: skip
        if _outlined(engine) != parts["variables"]:
            raise ValueError(f"the run stored {parts['variables']}; collect now returns {_outlined(engine)}")
        state = engine.unpack(checkpoint.part(arrays, "state"))
        return go_on(engine, state, arrays, meta, folder, checkpoint_seconds=checkpoint_seconds, progress=progress)
    finally:
        bound.close()


def _described(engine: Engine, sampler: Any, estimator: Any, batching: Any, collect: Any) -> dict[str, Any]:
    """The parts of a run, for its checkpoint."""
    return {
        "sampler": describe(sampler),
        "estimator": describe(estimator),
        "batching": describe(batching),
        "collect": "function" if callable(collect) else collect,
        "blocks": [list(block.names) for block in engine.kernel.blocks],
        "parameters": outline(engine.example),
        "variables": _outlined(engine),
        "gradients": bool(engine.gradients),
    }


def _outlined(engine: Engine) -> dict[str, Any]:
    return {name: [list(shape), str(dtype)] for name, (shape, dtype) in engine.variables.items()}


def _part(name: str, parts: dict[str, Any], given: Any, argument: str | None = None) -> Any:
    """A part of the run from its description, or the one given, if it is the same."""
    recorded = parts[name]
    if given is None:
        if is_opaque(recorded):
            raise ValueError(
                f"the run's {name} cannot be rebuilt from its checkpoint: give it again as {argument or name}="
            )
        return rebuild(recorded)
    if describe(given) != recorded:
        raise ValueError(f"the run had {name} {recorded}; got {describe(given)}")
    return given


def _difference(recorded: dict[str, Any], target: Target) -> str:
    present = target.source.fingerprint()
    names = [n for n in {*recorded, *present} if recorded.get(n) != present.get(n)]
    return "; ".join(f"{n} was {recorded.get(n)}, is {present.get(n)}" for n in sorted(names))


def _batch_size(target: Target, batch_size: int | float | None) -> int | float:
    if batch_size is not None:
        return batch_size
    if not isinstance(target, Target):
        raise TypeError(f"target must be a scirocco.Target; got {type(target).__name__}")
    return min(target.size, int(np.clip(target.size // 100, 100, 1000)))
