"""``sample``: the posterior of a target, from minibatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scirocco.batches import Arrays, Batching, Shards, Spread, Tours
from scirocco.bias.gradient import gradient_report
from scirocco.core.checks import require_collect, require_flag
from scirocco.core.clock import Clock
from scirocco.core.interrupt import interruptible
from scirocco.core.parts import name_of
from scirocco.core.types import Key, Params
from scirocco.estimators import Estimator
from scirocco.gradient.blocks import Block
from scirocco.gradient.devices import Home, homes
from scirocco.gradient.engine import GradientEngine, is_function
from scirocco.gradient.kernel import Kernel
from scirocco.run import checkpoint
from scirocco.run.crew import Crew
from scirocco.run.describe import describe, is_opaque, outline, part_again, rebuild
from scirocco.run.description import (
    Description,
    ModelSettings,
    Parts,
    RunOptions,
    StepSettings,
    TunedParts,
)
from scirocco.run.folder import RunFolder, all_begun, tuning_folder
from scirocco.run.progress import waiting
from scirocco.run.recording import Recording
from scirocco.run.resume import GivenParts, Resumer
from scirocco.run.runner import DivergenceError, run
from scirocco.run.trace import Trace
from scirocco.run.trace_verdict import cut_short
from scirocco.run.verdict import MOST_THIN, SHARE_OF_ERROR, draws_for
from scirocco.samplers.base import Sampler, automatic
from scirocco.target import Target, require_target
from scirocco.tuning.report import OVERFLOW
from scirocco.verbs.choose import Choice, choose
from scirocco.verbs.tune import kernel, tune

TUNING, LEAST_SECONDS = 0.5, 1e-3  # of a budget, at most, for tuning; and the seconds that it has in any case


@interruptible
def sample(
    target: Target,
    sampler: Sampler | None = None,
    initial: Params | Callable[[Key], Params] = None,
    *,
    num_samples: int = 1000,
    burn_in: int = 1000,
    thin: int | None = None,
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
    report: bool = True,
    executor: Executor | None = None,
    devices: Any = None,
) -> Trace:
    """Sample a posterior from minibatches.

    Parameters
    ----------
    target : Target
        The posterior.
    sampler : Sampler, optional
        The dynamics, such as ``SGLD(step_size=1e-5)``, or ``SGLD(step_size="auto")``: see ``tune``. Without one the
        cost of gradients decides: ``NUTS`` on all data, or ``UnderdampedLangevin(step_size="auto")``.
    initial : pytree or callable, optional
        Where the chains start, any pytree; or a function of a random key, for dispersed starts. With
        ``step_size="auto"`` the search for the mode starts there, and chains start around the mode.
    num_samples : int, default 1000
        Draws to keep from each chain.
    burn_in : int, default 1000
        Steps before the first of them.
    thin : int, optional
        Steps from draw to draw. By default 1; with ``step_size="auto"`` as many as keep the Monte Carlo error of
        every parameter small enough for its mean and sd to be used, as far as tuning can tell, at most 200.
    batch_size : int or float, optional
        Rows of a minibatch, a count or a fraction of N. By default 1 % of N, but 100 to 1,000 rows.
    estimator : Estimator, optional
        ``Plain()`` by default, ``ControlVariate()``, ``SAGA()`` or ``SVRG()``; with ``step_size="auto"`` the less
        noisy of the first two by default.
    batching : Batching, optional
        How rows are drawn: ``batches.Shuffled()``, ``Sweeps()``, ``RandomBlocks()``, ``WithReplacement()`` or
        ``Weighted(p)``; by default what the sampler prefers, mostly the first.
    blocks : sequence of Block, optional
        The user's own updates for some of the parameters.
    chains : int, default 4
        Independent chains, run side by side.
    seed : int, default 0
        The only source of randomness: the same seed gives the same draws, bit for bit.
    collect : callable or bool, optional
        What to store of each draw: a function of the parameters, None for all of them, False for nothing (the
        streaming moments are kept in any case).
    gradients : bool, default False
        Store an estimate of grad U with each draw, from a minibatch of its own, for
        ``postprocess.trace_zero_variance``.
    max_seconds : float, optional
        A budget of time for all of it, after which it stops with what it has; compiling does not count. Tuning has
        at most half of it, and where it is cut short the verdict says so.
    path : str or Path, optional
        A folder for draws and checkpoints; draws stay in memory without it.
    checkpoint_seconds : float, default 30.0
        Time between checkpoints.
    progress : bool, optional
        Show a progress bar; by default on a terminal or in a notebook.
    group_size : int, optional
        Chains that advance together in one program; all by default, 1 of those that travel. The draws of a group depend
        on the seed and on the numbers of its chains, not on the other groups.
    workers : int, default 1
        Groups that run at the same time, each in a thread.
    report : bool, default True
        Measure how far the sampled law is from the posterior (``trace.bias``), for about a tenth of the work.
    executor : concurrent.futures.Executor, optional
        Its workers advance the groups of chains, each a task: threads, processes, or a cluster's. Give ``group_size``
        too, since one group is one task. Tuning stays here.
    devices : int, sequence of jax.Device or jax.sharding.Mesh, optional
        Accelerators: groups of chains side by side, one on each, by default as many groups as devices. Of a mesh with
        axes "chains" and "rows" each group has a row of devices, which share the rows of its minibatches.

    Examples
    --------
    >>> import jax.numpy as jnp, scirocco as sc
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, x: -(x - m)**2 / 2, jnp.arange(10.0))
    >>> trace = sc.sample(target, sc.SGLD(step_size=0.01), jnp.array(4.0), num_samples=500, batch_size=5, chains=2)
    >>> dict(trace.posterior.sizes)
    {'chain': 2, 'draw': 500}
    """
    clock = Clock()
    if initial is None and isinstance(target, Target):
        initial = target.change.start
    if initial is None:
        raise TypeError("initial must be given: where the chains start, any pytree, or a function of a random key")
    travels = isinstance(target, Target) and isinstance(target.source, Shards) and isinstance(batching, Tours | None)
    if travels and group_size not in (None, 1) and target.executor_at(0) is not None:
        raise ValueError(f"each chain is on a shard of its own: group_size must be 1; got {group_size}")
    found = homes(devices)
    if found and (executor is not None or travels):
        raise ValueError("devices are those of this process, and its data in one piece: leave executor and Shards out")
    size = (1 if travels else -(-chains // max(1, len(found)))) if group_size is None else group_size
    if found and found[0].rows > 1:
        batching = batching or Spread(found[0].rows)
        if batching != Spread(found[0].rows):
            raise ValueError(f"rows on {found[0].rows} devices are drawn by Spread({found[0].rows}); got {batching!r}")
    workers = max(workers, len(found))
    settings = StepSettings(seed, chains, num_samples, burn_in, thin, size, batch_size)
    choice = None
    if sampler is None:
        open_ = batch_size is None and estimator is None and batching is None and not blocks
        choice = choose(target, initial, settings, open_=open_)
        sampler = choice.sampler
    parts = GradientParts(
        sampler, estimator, batching, tuple(blocks), initial, collect, gradients=gradients, homes=found
    )
    options = RunOptions(max_seconds, checkpoint_seconds, progress, workers, report=report)
    return begin(target, parts, settings, options, path, choice=choice, clock=clock, executor=executor)


class GradientParts(NamedTuple):
    """What a run is made of."""

    sampler: Any
    estimator: Any
    batching: Any
    blocks: tuple[Block, ...]
    initial: Any
    collect: Any = None
    shapes_only: bool = False  # ``initial`` has no values: they are in the checkpoints
    gradients: bool = False  # stored with the draws
    free: bool = False  # ``initial`` is a position of the chains, found by tuning
    homes: tuple[Home, ...] = ()  # devices of this call
    near: bool = False  # ``initial`` is near the mode or among the draws, as the mean of an earlier run is

    def described(self) -> Parts:
        """For the description of the run."""
        return Parts(
            describe(self.sampler), describe(self.estimator), describe(self.batching),
            "function" if callable(self.collect) else self.collect, [list(block.names) for block in self.blocks],
            {"opaque": "function"} if is_function(self.initial) else describe(self.initial, keep=True),
            gradients=self.gradients, near=self.near,
        )  # fmt: skip

    def given(self, *, own: bool = True) -> GivenParts:
        """For a worker; the sampler unless it was chosen for the user."""
        sampler = self.sampler if own else None
        return GivenParts(
            sampler, self.estimator, self.batching, self.blocks, self.collect if callable(self.collect) else None
        )  # fmt: skip

    @classmethod
    def again(cls, recorded: Parts, given: GivenParts, begun: bool) -> GradientParts:
        """Those of a run that goes on, from its description and from what was given again."""
        initial, shapes = given.initial, False
        if initial is None:
            shapes = begun and recorded.parameters is not None  # then the values are in the checkpoints
            initial = part_again("start", recorded.parameters if shapes else recorded.initial, None, "initial")
        return cls(
            part_again("sampler", recorded.sampler, given.sampler),
            part_again("estimator", recorded.estimator, given.estimator),
            part_again("batching", recorded.batching, given.batching),
            given.blocks, initial, given.collect if callable(given.collect) else recorded.collect,
            shapes_only=shapes, gradients=recorded.gradients, near=recorded.near,
        )  # fmt: skip


def begin(
    target: Target, parts: GradientParts, settings: StepSettings, options: RunOptions, path: str | Path | None, *,
    resumer: str | None = None, model: ModelSettings | None = None, choice: Choice | None = None,
    notes: tuple[str, ...] = (), clock: Clock | None = None, executor: Executor | None = None,
) -> Trace:  # fmt: skip
    """A new run, of its own or the fit of a ``model``, with which ``resumer`` goes on; ``notes`` are for its reader.

    ``clock`` has gone since the call whose budget it is.
    """
    clock = clock or Clock()
    require_collect(parts.collect)
    require_flag("gradients", parts.gradients)
    require_warm_up(parts.sampler, settings.burn_in)
    description = Description(
        resumer or name_of(GradientResumer), settings, options, parts.described(), model=model,
        choice="" if choice is None else choice.reason,
    )  # fmt: skip
    if isinstance(target, Target):
        notes, data = (*target.notes, *notes), target.source.fingerprint()
        description = replace(description, coords=target.axes.coords, notes=notes, data=data)
    crew = Crew.of(executor, target, parts.given(own=choice is None), workers=options.workers)
    if path is None and crew is None:
        return _run(target, parts, description, None, clock, choice)
    require_target(target)
    with RunFolder.new(path, crew) as folder:
        folder.write(description)
        return _run(target, parts, description, folder, clock, choice)


def _run(
    target: Target, parts: GradientParts, description: Description, folder: RunFolder | None, clock: Clock,
    choice: Choice | None = None,
) -> Trace:  # fmt: skip
    begun = folder is not None and all_begun(folder.path, description.settings)
    known = description.tuned[0] if begun and description.tuned else None
    prepared = prepare(target, parts, description, known, folder, clock)
    if choice is not None and prepared.found is not None:
        other = choice.reconsidered(rebuild(prepared.found.report).steps_per_draw)
        if other is not None:  # from where tuning has come to
            own = prepared.parts._replace(sampler=other.sampler, estimator=None, batching=None)
            prepared = Prepared(target, own, None)
            changed = replace(description.parts, sampler=describe(other.sampler))
            description = replace(description, parts=changed, choice=other.reason)
    description = with_thin(description, [prepared])
    chains = range(description.settings.chains) if folder is None else folder.chains(description.settings)
    engines = engines_of(prepared, description, chains)
    settings = replace(_stepped(description), batch_size=engines[-1].kernel.batch_size)
    tuned = description.tuned if prepared.found is None else (prepared.found,)
    description = replace(description, settings=settings, tuned=tuned)
    try:
        return run_engines(engines, description, folder, clock)
    except DivergenceError as error:
        if any(rebuild(own.report).overflows for own in tuned):
            error.add_note(OVERFLOW)
        for finding in cut_short(error.trace):
            error.add_note(f"{finding.text}; next: {error.trace.verdict().action}")
        raise


class Prepared(NamedTuple):
    """A target with parts whose step size is known."""

    target: Any
    parts: GradientParts
    batch_size: Any
    kernel: Kernel | None = None  # of the search for a step size
    found: TunedParts | None = None  # by that search


def prepare(
    target: Target, parts: GradientParts, description: Description, known: TunedParts | None,
    folder: RunFolder | None, clock: Clock, number: int = 0, count: int = 1,
) -> Prepared:  # fmt: skip
    """Tune, if that is wanted and not done; ``known`` is what a run that goes on has of it.

    Of ``count`` posteriors this is the one with this ``number``.
    """
    settings = _stepped(description)
    if automatic(getattr(parts.sampler, "step_size", None)) is None:
        return Prepared(target, parts, settings.batch_size)
    if known is not None and not any(map(is_opaque, (known.sampler, known.estimator, known.batching, known.initial))):
        return Prepared(target, _with(parts, known), known.batch_size)
    seconds = description.options.max_seconds
    if seconds is not None:
        seconds = max(TUNING * seconds - clock.used, LEAST_SECONDS) / (count - number)
    travels = isinstance(target.source, Shards) and isinstance(parts.batching, Tours | None)
    with waiting("looking for a step size", description.options.progress) as show:
        tuned = tune(  # of chains that travel as if minibatches were of all shards: what legs add the report says
            target, parts.sampler, parts.initial, estimator=parts.estimator,
            batching=None if travels else parts.batching,
            blocks=parts.blocks, seed=settings.seed, batch_size=settings.batch_size,
            look_elsewhere=not (description.of_model or parts.near),  # models know what their modes mean
            near=parts.near, max_seconds=seconds,
            path=None if folder is None else tuning_folder(folder.path, number), show=show,
        )  # fmt: skip
    batching = (parts.batching or Tours()) if travels else tuned.kernel.batching
    parts = parts._replace(
        sampler=tuned.sampler, estimator=tuned.estimator, batching=batching, initial=tuned.position, free=True
    )
    found = TunedParts(
        describe(tuned.report), describe(tuned.sampler), describe(tuned.estimator), describe(batching),
        outline(tuned.position), tuned.batch_size,
    )  # fmt: skip
    return Prepared(target, parts, tuned.batch_size, tuned.kernel, found)


def with_thin(description: Description, prepared: Sequence[Prepared]) -> Description:
    """The description with the steps from draw to draw, if they were left open: by the slowest of the posteriors.

    More steps than two for each effective draw would be for nothing.
    """
    settings = _stepped(description)
    if settings.thin is not None:
        return description
    reports: list[Any] = [rebuild(own.found.report) for own in prepared if own.found is not None]
    if not reports:
        return replace(description, settings=replace(settings, thin=1))
    pace = max(report.steps_per_draw for report in reports)
    draws = settings.num_samples * settings.chains // len(prepared)
    wanted = draws_for(reports[0].parameters, SHARE_OF_ERROR) / draws
    thin = int(np.clip(np.ceil(pace * min(wanted, 2.0)), 1, MOST_THIN))
    return replace(description, settings=replace(settings, thin=thin))


def _with(parts: GradientParts, known: TunedParts) -> GradientParts:
    names = ("sampler", "estimator", "batching", "initial")
    return parts._replace(free=True, **{name: rebuild(getattr(known, name)) for name in names})


def _stepped(description: Description) -> StepSettings:
    settings = description.settings
    assert isinstance(settings, StepSettings), "a run of gradients is counted in steps"
    return settings


def engines_of(
    prepared: Prepared, description: Description, chains: range, *, report: bool = True
) -> list[GradientEngine]:  # fmt: skip
    """Groups of the chains with these numbers, all of one posterior."""
    target, parts, settings = prepared.target, prepared.parts, _stepped(description)
    report = report and description.options.report
    bound = prepared.kernel
    engines: list[GradientEngine] = []
    for start in range(0, len(chains), settings.group_size):
        # Data in memory is shared by all groups; of data on disk each reads its own blocks.
        if bound is None or not isinstance(target.source, Arrays):
            if bound is not None and not engines:
                bound.close()  # of the search
            bound = kernel(
                target, parts.sampler, estimator=parts.estimator, batching=parts.batching, blocks=parts.blocks,
                chains=settings.group_size, seed=settings.seed, batch_size=prepared.batch_size,
            )  # fmt: skip
        engines.append(
            GradientEngine(
                bound, parts.initial, chains=chains[start : start + settings.group_size],
                recording=Recording.of(settings.burn_in, settings.thin or 1, parts.sampler), collect=parts.collect,
                gradients=parts.gradients, num_samples=settings.num_samples, shapes_only=parts.shapes_only,
                free=parts.free, report=gradient_report if report else None,
                home=parts.homes[len(engines) % len(parts.homes)] if parts.homes else None,
            )
        )  # fmt: skip
    return engines


def run_engines(
    engines: list[GradientEngine], description: Description, folder: RunFolder | None, clock: Clock
) -> Trace:  # fmt: skip
    """To the end, from the start or from checkpoints."""
    try:
        known, now = description.variables, engines[0].variables
        if known and known != now:
            raise ValueError(f"the run stored {_shapes(known)}; collect now returns {_shapes(now)}")
        parts = replace(description.parts, parameters=outline(engines[0].example))
        return run(engines, replace(description, parts=parts), folder, clock)
    finally:
        if folder is not None and all_begun(folder.path, description.settings):
            for kept in folder.path.glob("tuning-*"):  # its result is in the description of the run
                checkpoint.remove(kept)
        for engine in engines:
            engine.kernel.close()


def _shapes(variables: Any) -> str:
    return ", ".join(f"{name} {v.dtype}{list(v.shape)}" for name, v in variables.items() if v.role == "draw")


class GradientResumer(Resumer):
    """Goes on with a run of ``sample``."""

    kind = "sample"

    def __call__(self, path: Path, description: Description, target: Any, y: Any, given: GivenParts) -> Trace:
        """From the target, given again."""
        if y is not None:
            raise ValueError("a run of sample takes its target and nothing else: leave y out")
        require_same_data(path, description, target)
        recorded = description.parts
        if recorded.collect == "function" and not callable(given.collect):
            raise ValueError("the run stored what a collect function returned: give the same function as collect=")
        if recorded.collect != "function" and callable(given.collect):
            raise ValueError("the run had no collect function: resume it without collect=")
        if recorded.blocks != [list(block.names) for block in given.blocks]:
            raise ValueError(f"the run had blocks for {recorded.blocks}: give the same blocks")
        parts = GradientParts.again(recorded, given, all_begun(path, description.settings))
        with given.folder(path) as folder:
            return _run(target, parts, description, folder, Clock())


def require_warm_up(sampler: object, burn_in: int) -> None:
    """Reject a burn-in that is over before the sampler has its law."""
    steps = getattr(sampler, "warm_up", 0)
    if burn_in < steps:
        raise ValueError(
            f"burn_in must be at least {steps}, the steps in which {type(sampler).__name__} adapts; got {burn_in}"
        )


def require_same_data(path: Path | None, description: Description, target: Any) -> None:
    """Reject what is no target, and data that is not that of the run."""
    require_target(target)
    known, present = description.data, target.source.fingerprint()
    if known and known != present:  # a trace of a run without a folder knows nothing of its data
        names = [n for n in {*known, *present} if known.get(n) != present.get(n)]
        changes = "; ".join(f"{n} was {known.get(n)}, is {present.get(n)}" for n in sorted(names))
        raise ValueError(f"the data differs from that of the run in {path}: {changes}")
