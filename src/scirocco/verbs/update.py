"""``update``: a posterior when rows have joined, from where it was.

    p(theta | old rows, new rows) is near p(theta | old rows), the nearer the fewer are new

So the mean of the earlier run is near the new mode, and inside the typical set: Newton's steps from there, a pass over
the data each, are all of the search; curvature, noise and step size are measured anew. The draws are those of a run on
all rows, no approximation of what the earlier one knew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from scirocco.batches import Arrays, Batching, Source
from scirocco.batches.base import known_rows
from scirocco.core.interrupt import interruptible
from scirocco.core.parts import part_named
from scirocco.core.trees import named_leaves
from scirocco.core.types import Params
from scirocco.estimators import Estimator
from scirocco.gradient.blocks import Block
from scirocco.run.describe import part_again, rebuild
from scirocco.run.description import Description, RunOptions, StepSettings
from scirocco.run.trace import Trace
from scirocco.samplers.base import Sampler, at, automatic
from scirocco.target import Target, require_target
from scirocco.verbs.choose import choose
from scirocco.verbs.sample import GradientParts, GradientResumer, begin


@interruptible
def update(
    before: Trace | str | Path,
    target: Target,
    sampler: Sampler | None = None,
    *,
    num_samples: int | None = None,
    burn_in: int | None = None,
    thin: int | None = None,
    batch_size: int | float | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    blocks: Sequence[Block] = (),
    chains: int | None = None,
    seed: int | None = None,
    collect: Callable[[Params], Any] | bool | None = None,
    max_seconds: float | None = None,
    path: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
    workers: int = 1,
    report: bool = True,
) -> Trace:
    """Sample the posterior given more rows, from where an earlier run has come to.

    ``trace.moved(before)`` says how far the posterior has moved, in sds of then.

    Parameters
    ----------
    before : Trace or str or Path
        The earlier run of ``sample`` or ``update``, a trace or its folder. It is left as it is.
    target : Target
        The posterior of all rows: those of the earlier run first, then the new ones.
    sampler : Sampler, optional
        By default that of the earlier run; one that was chosen by the cost of gradients is chosen again.
    num_samples, burn_in, chains, seed, estimator, batching
        By default those of the earlier run.
    thin, batch_size
        Likewise, but found anew where tuning finds them.
    blocks, collect
        Functions are given again, as for ``resume``.
    max_seconds, path, checkpoint_seconds, progress, workers, report
        As for ``sample``; ``path`` is a new folder.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np, scirocco as sc
    >>> x = np.random.default_rng(0).normal(2.0, 1.0, 3000).astype(np.float32)
    >>> def target(rows):
    ...     return sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, rows)
    >>> before = sc.sample(target(x[:2000]), sc.SGLD(step_size="auto"), jnp.array(0.0), num_samples=500)
    >>> trace = sc.update(before, target(x))
    >>> bool(abs(trace.mean["theta"] - x.mean()) < 0.01), trace.description.notes
    (True, ('goes on from a run on 2,000 rows: 1,000 have joined',))
    """
    if not isinstance(before, Trace | str | Path):
        raise TypeError(f"before must be a trace or its folder; got {type(before).__name__}")
    known = before if isinstance(before, Trace) else Trace.load(before)
    description = known.description
    if description is None or part_named(description.resumer) is not GradientResumer:
        raise TypeError("update goes on from a run of sample: of a model call partial_fit, of other runs start again")
    require_target(target)
    joined = _require_more(description, target)
    recorded = description.parts
    choice = None
    settings = _settings(description, num_samples, burn_in, thin, batch_size, chains, seed)
    names = [name for block in blocks for name in block.names]
    if sampler is None and not description.choice:
        sampler = part_again("sampler", recorded.sampler, None)
    if estimator is None:
        estimator = part_again("estimator", recorded.estimator, None)
    if batching is None:
        batching = part_again("batching", recorded.batching, None)
    if recorded.blocks != [list(block.names) for block in blocks]:
        raise ValueError(f"the earlier run had blocks for {recorded.blocks}: give blocks for the same")
    if collect is None and recorded.collect == "function":
        raise ValueError("the earlier run stored what a collect function returned: give one, collect=")
    temperature = 1.0 if sampler is None else at(sampler.temperature, 0)
    initial = _mean(known, description, target, temperature, names)
    if sampler is None:
        open_ = batch_size is None and estimator is None and batching is None and not blocks
        choice = choose(target, initial, settings, open_=open_)
        sampler = choice.sampler
    if automatic(getattr(sampler, "step_size", None)) is None:
        settings = replace(settings, thin=settings.thin or _steps(description).thin)
    parts = GradientParts(
        sampler, estimator, batching, tuple(blocks), initial,
        recorded.collect if collect is None and recorded.collect is False else collect, gradients=recorded.gradients,
        near=True,
    )  # fmt: skip
    options = RunOptions(max_seconds, checkpoint_seconds, progress, workers, report=report)
    return begin(target, parts, settings, options, path, choice=choice, notes=(joined,))


def _require_more(description: Description, target: Target) -> str:
    """Reject rows that are not the old ones and more; otherwise what there is to say of them."""
    known, source = description.data, target.source
    assert isinstance(source, Source)
    rows = known_rows(known)
    if rows is None:
        raise ValueError("the earlier run does not say what its data were: start again with sample")
    if known == source.fingerprint():
        raise ValueError(f"the {rows:,} rows are those of the earlier run: resume it for more draws")
    target.axes.require_same(description.coords)
    if target.size < rows:
        raise ValueError(f"the earlier run had {rows:,} rows, and {target.size:,} are given: give all, old ones first")
    if not source.extends(known):
        now = source._fingerprint(rows) if isinstance(source, Arrays) else known
        other = ", ".join(sorted(name for name in {*known, *now} if known.get(name) != now.get(name)))
        raise ValueError(
            f"the earlier run had {rows:,} rows, and the first {rows:,} of the {target.size:,} given are not the same, "
            f"or stand elsewhere (in memory or on disk), or in other columns{other and f' (other: {other})'}: give all "
            "rows, the old ones first; for other data start again with sample"
        )
    return f"goes on from a run on {rows:,} rows: {target.size - rows:,} have joined"


def _steps(description: Description) -> StepSettings:
    settings = description.settings
    assert isinstance(settings, StepSettings), "a run of gradients is counted in steps"
    return settings


def _settings(
    description: Description, num_samples: int | None, burn_in: int | None, thin: int | None,
    batch_size: int | float | None, chains: int | None, seed: int | None,
) -> StepSettings:  # fmt: skip
    """Those of the earlier run but for what is given; what tuning found is left open again."""
    known = _steps(description)
    tuned = bool(description.tuned or description.choice)
    given = {"num_samples": num_samples, "burn_in": burn_in, "chains": chains, "seed": seed}
    changed = {name: value for name, value in given.items() if value is not None}
    if chains is not None:
        changed["group_size"] = chains
    rows = None if tuned else known.batch_size
    if thin is None and not tuned:
        thin = known.thin
    return replace(known, **changed, thin=thin, batch_size=rows if batch_size is None else batch_size)


def _mean(trace: Trace, description: Description, target: Target, temperature: Any, held: Sequence[str]) -> Params:
    """The mean of the free numbers of the earlier run, as parameters."""
    if not trace.count:
        raise ValueError("the earlier run has no draws: start again with sample")
    means = trace.moments.free().pooled()[0]
    example = rebuild(description.parts.parameters)
    leaves = [jnp.asarray(means[name], leaf.dtype) for name, leaf in named_leaves(example).items()]
    position = jax.tree.unflatten(jax.tree.structure(example), leaves)
    if not target.geometry.flat:
        position = target.geometry.nearest(position)
    return target.free(temperature, held).to_parameters.parameters(position)
