"""``kernel`` and ``tune``: chains step by step, and the search for a step size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from scirocco.batches import Batching, RandomBlocks, Shards
from scirocco.batches.base import batch_rows
from scirocco.core.checks import require_budget, require_seed
from scirocco.core.clock import OutOfTimeError, limited
from scirocco.core.forked import refuse_after_fork
from scirocco.core.interrupt import interruptible
from scirocco.core.types import Params
from scirocco.estimators import Estimator
from scirocco.gradient.blocks import Block
from scirocco.gradient.engine import is_function
from scirocco.gradient.kernel import Kernel
from scirocco.samplers.base import Sampler, automatic
from scirocco.target import Target, require_target

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
    refuse_after_fork()
    return Kernel(
        target, sampler, batch_size=_batch_size(target, sampler, batch_size), estimator=estimator, batching=batching,
        blocks=blocks, seed=require_seed(seed), chains=chains,
    )  # fmt: skip


@interruptible
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
    look_elsewhere: bool = True,
    near: bool = False,
    max_seconds: float | None = None,
    path: str | Path | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> Tuned:
    """Find the step size of a sampler with ``step_size="auto"``, as ``sample`` does before it runs.

    Returns the ``kernel`` (with its ``sampler``, ``estimator`` and ``batch_size``), the ``initial`` position at the
    mode, and a ``report`` on what was chosen and why. ``Auto(sd_error=0.02)`` in place of "auto" sets the limit.
    Without an ``estimator`` the plain gradient or control variates are chosen by their noise. ``look_elsewhere`` asks
    for searches for other modes, from around the mode, or from starts of ``initial`` if it is a function of a key.
    ``near`` says that ``initial`` is near the mode or among the draws, as the mean of an earlier run is, so that the
    long way there is left out. When ``max_seconds`` are over, compiling left out, tuning ends with what it has, which
    ``report.unfinished`` says; where that is nothing to sample with, with a ``TimeoutError``. In a folder ``path`` the
    rounds of a warm-up are kept, so that a search that was killed goes on after the last of them; ``show`` is told of
    each.

    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(1000.0) % 7)
    >>> tuned = sc.tune(target, sc.SGLD(step_size="auto"), jnp.array(0.0), batch_size=100)
    >>> tuned.report.estimator, bool(0.1 < tuned.report.step_size < 0.2)
    ('ControlVariate of second order', True)
    """
    from scirocco.tuning.automatic import tune_kernel
    from scirocco.tuning.rounds import Rounds

    refuse_after_fork()
    if automatic(getattr(sampler, "step_size", None)) is None:
        raise ValueError(f'tune finds a step size that is left open, step_size="auto"; got {sampler!r}')

    drawn = RandomBlocks() if batching is None and isinstance(target.source, Shards) else batching

    def make(rows: int, drawn: Batching | None = drawn) -> Kernel:
        return Kernel(
            target, sampler, batch_size=rows, estimator=estimator, batching=drawn, blocks=blocks,
            seed=require_seed(seed), untuned=True,
        )  # fmt: skip

    rows = batch_rows(_batch_size(target, sampler, batch_size), target.size)
    freed = target.free(getattr(sampler, "temperature", 1.0), [name for block in blocks for name in block.names]).freed
    first = freed(initial(jax.random.key(seed)) if is_function(initial) else initial)
    free = estimator is None and batching is None
    starts = (lambda key: freed(initial(key))) if is_function(initial) else None
    require_budget(max_seconds)
    try:
        with limited(max_seconds):
            return tune_kernel(
                make, rows, first, free=free, free_batch=batch_size is None, look_elsewhere=look_elsewhere,
                starts=starts, making=Rounds(None if path is None else Path(path), show), near=near,
            )  # fmt: skip
    except OutOfTimeError:
        raise OutOfTimeError(
            f"the {max_seconds:.3g} s for tuning were over before there was anything to sample with: give more "
            "seconds, an initial position nearer to the posterior, or a step size"
        ) from None


def _batch_size(target: Target, sampler: Sampler, batch_size: int | float | None) -> int | float:
    if batch_size is not None:
        return batch_size
    require_target(target)
    return target.size if getattr(sampler, "full_data", False) else default_batch_size(target)


def default_batch_size(target: Target) -> int:
    """1 % of the rows, but 100 to 1,000."""
    return min(target.size, int(np.clip(target.size // 100, 100, 1000)))
