"""``sample_shards``: the data in shards, each sampled on its own, the draws combined, and the answer certified.

    p(theta | x) ~ prod_s p_s(theta),    p_s(theta) = p(theta)^(1/S) p(x_s | theta)

Shard s has every S-th row from row s on. Its chains are groups of one run: they take turns or run side by side, have
checkpoints, and ``resume`` goes on with them. A mean that minibatches move by e sds of a subposterior, which is sqrt(S)
times as wide as the posterior, is moved by e sqrt(S) sds of the posterior if all shards are moved alike: the limit of
``step_size="auto"`` is divided by sqrt(S).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from scirocco.batches import Batching
from scirocco.combine import METHODS
from scirocco.combine.certificate import Certificate, certify
from scirocco.combine.diagnosis import Diagnosis, diagnose
from scirocco.core.checks import require_choice, require_count, require_run, require_seed
from scirocco.core.interrupt import Interrupt
from scirocco.core.parts import name_of
from scirocco.core.program import Given
from scirocco.core.types import Array, Key, Params
from scirocco.estimators import Estimator
from scirocco.gradient.engine import is_function
from scirocco.run.describe import describe, part_again
from scirocco.run.folder import RunFolder, group_folders
from scirocco.run.resume import Again, Resumer
from scirocco.run.trace import Trace
from scirocco.samplers.base import Sampler, automatic
from scirocco.sampling import (
    Parts,
    Prepared,
    engines_of,
    prepare,
    require_same_data,
    require_target,
    require_warm_up,
    run_engines,
)
from scirocco.target import Target

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Sharded:
    """Draws of the shards, combined by ``method``; ``certificate`` says how far to trust them."""

    trace: Trace
    """The run: chains of all shards, one shard after the other."""
    shards: int
    target: Target
    method: str
    like: Params
    seed: int = 0

    def shard(self, number: int) -> xr.Dataset:
        """The draws of one shard."""
        if not 0 <= number < self.shards:
            raise ValueError(f"number must lie between 0 and {self.shards - 1}; got {number}")
        chains = self.trace.posterior.sizes["chain"] // self.shards
        return self.trace.posterior.isel(chain=slice(number * chains, (number + 1) * chains))

    @cached_property
    def draws(self) -> xr.Dataset:
        """Draws of the posterior of all data, as ``method`` combines them."""
        return self.combined(self.method)

    def combined(self, method: str | Callable[[Any], Any]) -> xr.Dataset:
        """The same by another method: a name, or a function of the draws of the shards."""
        if not callable(method):
            require_choice("method", method, METHODS)
        function: Callable[[Any], Any] = method if callable(method) else METHODS[method]
        found: xr.Dataset = function([self.shard(number) for number in range(self.shards)])
        return found

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Whether the shards overlap, and what else speaks against combining them."""
        return diagnose([self.shard(number) for number in range(self.shards)])

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

    def __str__(self) -> str:
        return f"{self.diagnosis}\n{self.method}: {self.certificate}"


def sample_shards(
    target: Target,
    sampler: Sampler,
    initial: Params | Callable[[Key], Params],
    *,
    shards: int = 8,
    method: str = "consensus",
    num_samples: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
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
    require_run(num_samples, burn_in, thin, chains, checkpoint_seconds, None, max_seconds)
    require_warm_up(sampler, burn_in)
    require_count("shards", shards, least=2)
    require_count("workers", workers)
    require_choice("method", method, METHODS)
    if not target.geometry.flat:
        raise ValueError("parameters on a manifold cannot be combined: averages of points would lie off it")
    if shards > target.size:
        raise ValueError(f"shards must not be more than rows: {shards} of {target.size} rows are empty")
    meta = {
        "resumer": name_of(ShardsResumer),
        "settings": {
            "num_samples": int(num_samples), "burn_in": int(burn_in), "thin": int(thin), "chains": int(chains),
            "group_size": int(chains), "batch_size": batch_size, "seed": require_seed(seed), "max_seconds": max_seconds,
            "shards": int(shards), "method": method,
        },
        "parts": {
            "sampler": describe(sampler), "estimator": describe(estimator), "batching": describe(batching),
            "initial": {"opaque": "function"} if is_function(initial) else describe(initial, keep=True),
        },
    }  # fmt: skip
    parts = Parts(sampler, estimator, batching, (), initial, None)
    with Interrupt():
        if path is None:
            return _run(target, parts, meta, None, checkpoint_seconds, progress, workers)
        folder = RunFolder(path)
        folder.require_free()
        with folder:
            meta["data"] = target.source.fingerprint()
            folder.write(meta)
            return _run(target, parts, meta, folder, checkpoint_seconds, progress, workers)


def _run(
    target: Target, parts: Parts, meta: dict[str, Any], folder: RunFolder | None, checkpoint_seconds: float,
    progress: bool | None, workers: int,
) -> Sharded:  # fmt: skip
    settings = meta["settings"]
    count = settings["shards"]
    wishes = automatic(getattr(parts.sampler, "step_size", None))
    if wishes is not None:
        strict = replace(wishes, sd_error=wishes.sd_error / np.sqrt(count))
        parts = parts._replace(sampler=replace(parts.sampler, step_size=strict))
    begun = folder is not None and bool(group_folders(folder.path))
    known = meta.get("shards", [{}] * count)
    prepared: list[Prepared] = []
    for number in range(count):
        found = prepare(shard_of(target, number, count), parts, settings, known[number], begun, progress)
        prepared.append(found)
    if not begun:
        meta["shards"] = [found.facts for found in prepared]
    engines = [
        engine
        for number, found in enumerate(prepared)
        for engine in engines_of(found, settings, first=number * settings["chains"], report=None)
    ]
    trace = run_engines(engines, meta, folder, checkpoint_seconds, progress, workers)
    return Sharded(trace, count, target, settings["method"], engines[0].example, settings["seed"])


def shard_of(target: Target, number: int, count: int) -> Target:
    """The posterior of every ``count``-th row from row ``number`` on, with its share of the prior."""
    return Target(
        Given(_shared_prior, target.log_prior, count), target.log_likelihood, target.source.shard(number, count),
        target.batched, target.manifold,
    )  # fmt: skip


def _shared_prior(log_prior: Callable[[Params], Any], count: int, params: Params) -> Array:
    value = log_prior(params)
    if not isinstance(value, int | float | np.ndarray | np.generic | jax.Array):
        raise TypeError(
            f"log_prior must return the log density of the prior, of which every shard gets a share; got {value!r}"
        )
    return jnp.asarray(value) / count


class ShardsResumer(Resumer):
    """Goes on with a run of ``sample_shards``."""

    def __call__(self, path: Path, meta: dict[str, Any], target: Any, y: Any, again: Again) -> Sharded:
        """From the target of all data, given again."""
        if y is not None:
            raise ValueError("a run of sample_shards takes its target and nothing else: leave y out")
        again.refuse("sample_shards", "threads", "blocks", "collect")
        require_target(target)
        require_same_data(path, meta, target)
        recorded = meta["parts"]
        initial, shapes = again.initial, False
        if initial is None:
            shapes = bool(group_folders(path)) and "parameters" in recorded
            initial = part_again("start", recorded["parameters" if shapes else "initial"], None, "initial")
        parts = Parts(
            part_again("sampler", recorded["sampler"], again.sampler),
            part_again("estimator", recorded["estimator"], again.estimator),
            part_again("batching", recorded["batching"], again.batching), (), initial, None, shapes_only=shapes,
        )  # fmt: skip
        with RunFolder(path) as folder:
            return _run(target, parts, meta, folder, again.checkpoint_seconds, again.progress, again.workers)
