"""``sample_shards``: the data in shards, each sampled on its own, the draws combined, and the answer certified.

    p(theta | x) ~ prod_s p_s(theta),    p_s(theta) = p(theta)^(1/S) p(x_s | theta)

Shard s has every S-th row from row s on. Its chains are groups of one run: they take turns or run side by side, have
checkpoints, and ``resume`` goes on with them. A mean that minibatches move by e sds of a subposterior, which is sqrt(S)
times as wide as the posterior, is moved by e sqrt(S) sds of the posterior if all shards are moved alike: the limit of
``step_size="auto"`` is divided by sqrt(S).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Batching
from scirocco.combine import METHODS
from scirocco.combine.certificate import Certificate, certify
from scirocco.combine.diagnosis import Diagnosis, diagnose
from scirocco.core.checks import require_choice
from scirocco.core.clock import Clock
from scirocco.core.executors import call_each
from scirocco.core.interrupt import interruptible
from scirocco.core.parts import name_of, part_named
from scirocco.core.program import Given
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Key, Params
from scirocco.estimators import Estimator
from scirocco.run.crew import Crew
from scirocco.run.describe import is_opaque, rebuild
from scirocco.run.description import Description, RunOptions, ShardSettings
from scirocco.run.files import read_trace
from scirocco.run.folder import RunFolder, all_begun, read_description
from scirocco.run.resume import GivenParts, Resumer
from scirocco.run.trace import REPORT, Trace
from scirocco.run.trace_verdict import cut_short
from scirocco.run.verdict import LONGER, USE, Verdict, judge
from scirocco.samplers.base import Sampler, automatic
from scirocco.target import Target, require_target
from scirocco.verbs.sample import (
    GradientParts,
    Prepared,
    engines_of,
    prepare,
    require_same_data,
    require_warm_up,
    run_engines,
    with_thin,
)

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Sharded:
    """Draws of the shards, combined by ``method``; ``certificate`` says how far to trust them."""

    trace: Trace
    """The run: chains of all shards, one shard after the other, as their numbers say."""
    shards: int
    target: Target
    method: str
    like: Params
    seed: int = 0

    @classmethod
    def load(cls, path: str | Path, target: Target) -> Sharded:
        """What a run of ``sample_shards`` with ``path=`` has made so far; ``target`` is that of all data."""
        folder = Path(path)
        description = read_description(folder)
        settings = description.settings
        if not isinstance(settings, ShardSettings):
            raise ValueError(f"{folder} holds no run of sample_shards: use scirocco.Trace.load")
        require_same_data(folder, description, target)
        outline = description.parts.parameters
        if outline is None or is_opaque(outline):
            raise ValueError(f"the run in {folder} has not begun: scirocco.resume starts it again")
        trace = read_trace(folder, description)
        return cls(trace, settings.shards, target, settings.method, rebuild(outline), settings.seed)

    def _chains(self, number: int) -> list[int]:
        """The numbers of the chains of a shard that have draws."""
        settings = self.trace.description and self.trace.description.settings
        assert isinstance(settings, ShardSettings), "the trace is that of a run of shards"
        of_shard = range(number * settings.group_size, (number + 1) * settings.group_size)
        return [chain for chain in self.trace.chains if chain in of_shard]

    @property
    def missing(self) -> list[int]:
        """Shards without draws, because the run stopped early."""
        return [number for number in range(self.shards) if not self._chains(number)]

    def shard(self, number: int) -> xr.Dataset:
        """The draws of one shard."""
        if not 0 <= number < self.shards:
            raise ValueError(f"number must lie between 0 and {self.shards - 1}; got {number}")
        chains = self._chains(number)
        if not chains:
            raise ValueError(f"shard {number} has no draws yet ({self._why()})")
        return self.trace.posterior.sel(chain=chains)

    def _every_shard(self) -> list[xr.Dataset]:
        """The draws of all shards, without any of which there is no posterior of all data."""
        if self.missing:
            numbers = ", ".join(map(str, self.missing))
            raise ValueError(f"shards {numbers} of {self.shards} have no draws yet ({self._why()})")
        return [self.shard(number) for number in range(self.shards)]

    def _why(self) -> str:
        return f"{self.trace.stopped or 'nothing was sampled'}: scirocco.resume goes on with a run that has a path"

    @cached_property
    def draws(self) -> xr.Dataset:
        """Draws of the posterior of all data, as ``method`` combines them."""
        return self.combined(self.method)

    def combined(self, method: str | Callable[[Any], Any]) -> xr.Dataset:
        """The same by another method: a name, or a function of the draws of the shards."""
        if not callable(method):
            require_choice("method", method, METHODS)
        function: Callable[[Any], Any] = method if callable(method) else METHODS[method]
        found: xr.Dataset = function([self._free(draws) for draws in self._every_shard()])
        return self._mapped(found, self.target.change.parameters)

    def _free(self, draws: xr.Dataset) -> xr.Dataset:
        """Draws of the free numbers in place of parameters with constraints: averages of these obey."""
        return self._mapped(draws, self.target.change.free)

    def _mapped(self, draws: xr.Dataset, function: Callable[[Params], Params]) -> xr.Dataset:
        """A function of each draw that keeps the names of parameters."""
        if not self.target.change:
            return draws
        import xarray as xr

        names, structure = list(named_leaves(self.like)), jax.tree.structure(self.like)
        tree = jax.tree.unflatten(structure, [draws[name].values for name in names])
        found = named_leaves(jax.jit(jax.vmap(jax.vmap(function)))(tree))
        of_shards = self.trace.posterior
        dims = {n: ("chain", "draw", *(f"{n}_dim_{k}" for k in range(v.ndim - 2))) for n, v in found.items()}
        for name, value in found.items():
            if of_shards[name].shape[2:] == value.shape[2:]:
                dims[name] = tuple(map(str, of_shards[name].dims))
        made = xr.Dataset({n: (dims[n], np.asarray(v)) for n, v in found.items()})
        named = {dim: of_shards[dim] for dim in made.dims if dim in of_shards.coords and dim not in ("chain", "draw")}
        return made.assign_coords(named | {name: draws[name] for name in ("chain", "draw") if name in draws.coords})

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Whether the shards overlap, and what else speaks against combining them."""
        return diagnose([self._free(draws) for draws in self._every_shard()])

    @cached_property
    def certificate(self) -> Certificate:
        """Of ``draws``, by one pass over all data, when it is first asked for."""
        return self.certify()

    def certify(self, method: str | Callable[[Any], Any] | None = None, *, num_samples: int = 1000) -> Certificate:
        """The certificate of another method, or with another number of draws."""
        draws = self.draws if method is None else self.combined(method)
        return certify(
            self.target, draws, num_samples=num_samples, seed=self.seed, diagnosis=self.diagnosis, like=self.like
        )

    def verdict(self) -> Verdict:
        """Whether to use the combined draws, by one pass over all data; and what to do next."""
        if self.missing:
            return Verdict(LONGER, (str(self),), 'sc.resume("run", target)')
        kind, reasons, _ = judge([*self.certificate.findings(), *cut_short(self.trace)])
        if kind == USE:
            return Verdict(kind, reasons)
        fewer = f"sc.sample_shards(target, sampler, initial, shards={max(2, self.shards // 2)})"
        return Verdict(kind, reasons, "found.certificate.resampled()" if self.certificate.reliable else fewer)

    def report(self, path: str | Path, *, title: str = "") -> Path:
        """Write a page to look at and to pass on, one file that needs no network; returns its path.

        The verdict, the combined draws, what each shard says alone, what ran.
        """
        return part_named(REPORT)(self).write(path, title)

    def _repr_html_(self) -> str:
        return part_named(REPORT)(self).notebook()

    def __str__(self) -> str:
        if self.missing:
            return f"{self.shards} shards, of which {', '.join(map(str, self.missing))} have no draws ({self._why()})"
        return f"{self.diagnosis}\n{self.method}: {self.certificate}"


@interruptible
def sample_shards(
    target: Target,
    sampler: Sampler,
    initial: Params | Callable[[Key], Params],
    *,
    shards: int = 8,
    method: str = "consensus",
    num_samples: int = 1000,
    burn_in: int = 1000,
    thin: int | None = None,
    batch_size: int | float | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    chains: int = 2,
    seed: int = 0,
    max_seconds: float | None = None,
    path: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
    workers: int = 1,
    executor: Executor | None = None,
) -> Sharded:
    """Sample the posteriors of shards of the data and combine their draws.

    ``shards`` is their number, ``method`` one of ``scirocco.combine``'s, ``chains`` those of each shard; the other
    arguments are those of ``sample``, for each shard. With ``NUTS()`` or ``GMC("auto")`` every step sees a whole shard,
    and its law is exact.

    >>> import jax.numpy as jnp, numpy as np, scirocco as sc
    >>> x = np.random.default_rng(0).normal(1.0, 1.0, 4000).astype(np.float32)
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, row: -(row - m) ** 2 / 2, x)
    >>> found = sc.sample_shards(target, sc.GMC("auto"), jnp.array(0.0), shards=4, num_samples=500, burn_in=50)
    >>> found.certificate.trusted
    True
    """
    require_target(target)
    clock = Clock()
    settings = ShardSettings(
        seed, chains, num_samples, burn_in, thin, chains, batch_size, shards=shards, method=method
    )  # fmt: skip
    settings = replace(settings, chains=settings.shards * settings.group_size)
    options = RunOptions(max_seconds, checkpoint_seconds, progress, workers, report=False)
    require_warm_up(sampler, burn_in)
    require_choice("method", method, METHODS)
    if not target.geometry.flat:
        raise ValueError("parameters on a manifold cannot be combined: averages of points would lie off it")
    if shards > target.size:
        raise ValueError(f"shards must not be more than rows: {shards} of {target.size} rows are empty")
    parts = GradientParts(sampler, estimator, batching, (), initial)
    description = Description(
        name_of(ShardsResumer), settings, options, parts.described(), coords=target.axes.coords,
        notes=target.notes,
    )  # fmt: skip
    crew = Crew.of(executor, target, parts.given(), workers=workers)
    if path is None and crew is None:
        return _run(target, parts, description, None, clock)
    with RunFolder.new(path, crew) as folder:
        description = replace(description, data=target.source.fingerprint())
        folder.write(description)
        return _run(target, parts, description, folder, clock)


def _run(
    target: Target, parts: GradientParts, description: Description, folder: RunFolder | None, clock: Clock
) -> Sharded:  # fmt: skip
    settings = description.settings
    assert isinstance(settings, ShardSettings)
    count = settings.shards
    wishes = automatic(getattr(parts.sampler, "step_size", None))
    if wishes is not None:
        strict = replace(wishes, sd_error=wishes.sd_error / np.sqrt(count))
        parts = parts._replace(sampler=replace(parts.sampler, step_size=strict))
    begun = folder is not None and all_begun(folder.path, settings)
    known = description.tuned if begun and description.tuned else (None,) * count
    whole = target.free(getattr(parts.sampler, "temperature", 1.0))
    prepared: list[Prepared]
    if folder is not None and folder.crew is not None and wishes is not None and None in known:
        tuned = partial(_tuned_shard, whole, parts, description, folder.path, clock.used)
        found_there = call_each(folder.crew.executor, tuned, range(count))
        prepared = [own._replace(target=shard_of(whole, k, count)) for k, own in enumerate(found_there)]
    else:
        prepared = [
            prepare(shard_of(whole, number, count), parts, description, known[number], folder, clock, number, count)
            for number in range(count)
        ]
    found = tuple(own.found for own in prepared if own.found is not None)
    description = with_thin(replace(description, tuned=found or description.tuned), prepared)
    here = range(settings.chains) if folder is None else folder.chains(settings)
    size = settings.group_size
    engines = [
        engine
        for number, own in enumerate(prepared)
        if number * size in here
        for engine in engines_of(own, description, range(number * size, (number + 1) * size), report=False)
    ]
    trace = run_engines(engines, description, folder, clock)
    return Sharded(trace, count, target, settings.method, engines[0].example, settings.seed)


def _tuned_shard(
    whole: Target, parts: GradientParts, description: Description, path: Path, used: float, number: int
) -> Prepared:  # fmt: skip
    """In a worker: what tuning finds for a shard, without what is bound to this process."""
    assert isinstance(description.settings, ShardSettings)
    count = description.settings.shards
    target, clock = shard_of(whole, number, count), Clock(used=used)
    prepared = prepare(target, parts, description, None, RunFolder(path), clock, number, count)
    assert prepared.kernel is not None
    prepared.kernel.close()
    return prepared._replace(target=None, kernel=None)  # the driver has its own


def shard_of(target: Target, number: int, count: int) -> Target:
    """The posterior of every ``count``-th row from row ``number`` on, with its share of the prior.

    Of parameters with constraints it is the density of the free numbers that is shared, in which draws are combined.
    """
    prior = Given(_shared_prior, target.log_prior, count)
    return replace(target, log_prior=prior, data=target.source.shard(number, count))


def _shared_prior(log_prior: Callable[[Params], Any], count: int, params: Params) -> Array:
    value = log_prior(params)
    if not isinstance(value, int | float | np.ndarray | np.generic | jax.Array):
        raise TypeError(
            f"log_prior must return the log density of the prior, of which every shard gets a share; got {value!r}"
        )
    return jnp.asarray(value) / count


class ShardsResumer(Resumer):
    """Goes on with a run of ``sample_shards``."""

    kind = "sample_shards"

    def __call__(self, path: Path, description: Description, target: Any, y: Any, given: GivenParts) -> Sharded:
        """From the target of all data, given again."""
        if y is not None:
            raise ValueError("a run of sample_shards takes its target and nothing else: leave y out")
        given.refuse(self.kind, "blocks", "collect")
        require_same_data(path, description, target)
        parts = GradientParts.again(description.parts, given, all_begun(path, description.settings))
        with given.folder(path) as folder:
            return _run(target, parts, description, folder, Clock())
