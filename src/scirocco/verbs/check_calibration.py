"""``check_calibration``: whether a sampler, run as it was run, finds what data were simulated from.

    theta' ~ p(theta | y),    y' ~ p(y' | theta'),    theta_1, theta_2, ... ~ p(theta | y, y')

If all is right theta' is one more draw of p(theta | y, y'), and its rank among the others is uniform (posterior SBC:
Säilynoja, Schmitt, Bürkner and Vehtari 2025). The prior may be improper, and what is checked is the part of the
parameter space where the data are. The log likelihood of all rows is looked at beside the parameters: it sees errors in
many directions at once (Modrák et al. 2023).

The data of a repeat are more, N + N' rows, and its posterior is narrower by s = sqrt(N / (N + N')). A step size of the
user's own would do more harm there than it did in the run. So the sampler moves theta / s (``Preconditioned``), and
minibatches are the same share of the data: then discretisation error and gradient noise are, relative to the posterior,
what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from signal import SIGTERM
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from scirocco.batches import Arrays, Batching, Strata, Weighted
from scirocco.batches.base import check_rows, leading_size
from scirocco.core.checks import require_count, require_finite
from scirocco.core.clock import Clock
from scirocco.core.executors import Portable, require_executor, submit
from scirocco.core.interrupt import Interrupt, interruptible
from scirocco.core.keys import as_key
from scirocco.core.parts import name_of
from scirocco.core.seeds import Purpose, generator, key_words
from scirocco.core.trees import named_leaves
from scirocco.core.types import Array, Data, Key, Params
from scirocco.diagnostics.calibration import LIKELIHOOD, Calibration, rank_among
from scirocco.estimators import Estimator
from scirocco.gradient.blocks import Block, split
from scirocco.run.convergence import ess
from scirocco.run.describe import is_opaque, part_again, rebuild
from scirocco.run.description import Description, RunOptions, StepSettings, Stop
from scirocco.run.progress import Progress
from scirocco.run.trace import LEAST_DRAWS, Trace, label_of
from scirocco.samplers.base import Sampler, automatic
from scirocco.samplers.preconditioned import Preconditioned, Scale
from scirocco.samplers.rescaled import Rescaled
from scirocco.target import Target, require_target
from scirocco.verbs.sample import sample
from scirocco.verbs.tune import tune

MOST_COORDINATES = 50
WORTH = 200  # independent draws of a repeat: ranks among more would be finer than any number of repeats can tell
LEAST_SAMPLES = 50  # of a chain, from which its autocorrelation can be told
MOST_DRAWS = 400  # of a repeat that are looked at

Place: TypeAlias = tuple[str, tuple[int, ...]]
"""A coordinate: the name of a variable and an index into it."""


@interruptible
def check_calibration(
    target: Target,
    trace: Trace,
    simulate: Callable[[Params, Key], Data],
    *,
    repeats: int = 100,
    quantities: Callable[[Params], dict[str, Any]] | None = None,
    data_sets: int = 1,
    sampler: Sampler | None = None,
    num_samples: int | None = None,
    burn_in: int | None = None,
    thin: int | None = None,
    batch_size: int | float | None = None,
    estimator: Estimator | None = None,
    batching: Batching | None = None,
    blocks: Sequence[Block] = (),
    chains: int | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
    progress: bool | None = None,
    workers: int = 1,
    executor: Executor | None = None,
) -> Calibration:
    """Check a run of ``sample`` by simulated data: does the sampler find the parameters that they come from?

    Ctrl-C keeps the repeats that are done.

    Parameters
    ----------
    target : Target
        The posterior that was sampled, its data in memory.
    trace : Trace
        The run, all parameters stored. Truths are some of its draws.
    simulate : callable
        A function of parameters and a random key that draws data from the likelihood: the same pytree of arrays as
        the target's, with any number of rows, always the same; the number of rows that there are is a good one. For
        a regression on X it returns ``(X, new_y)``.
    repeats : int, default 100
        Data sets to simulate and sample. The answer says what size of error so many can see.
    quantities : callable, optional
        A function of the parameters that returns named scalars, to be checked as well.
    data_sets : int, default 1
        Simulated data sets that are added in a repeat. With more of them smaller errors are seen.
    sampler : Sampler, optional
        Another sampler, used as it is. By default that of the run with its settings, in units of the narrower
        posterior; with ``step_size="auto"`` each repeat finds its own. A run with settings for each parameter, or
        with bounds, as ``ZigZag`` has, needs it.
    num_samples : int, optional
        Draws of each chain of a repeat; by default as many of those of the run as are worth 200.
    burn_in : int, optional
        Of each repeat; that of the run by default.
    thin : int, optional
        Likewise.
    batch_size : int or float, optional
        By default the share of the data that it was in the run; with a ``sampler`` that of ``sample``.
    estimator : Estimator, optional
        That of the run by default; with a ``sampler`` that of ``sample``.
    batching : Batching, optional
        The same; of a run with ``Weighted`` or ``Strata`` it must be given, for all rows.
    blocks : sequence of Block, optional
        Those of the run, if it had any, given again.
    chains : int, optional
        As many as in the run by default.
    seed : int, default 0
        The only source of randomness.
    max_seconds : float, optional
        No repeat but the first begins after that; compiling does not count.
    progress : bool, optional
        Show a progress bar; by default on a terminal or in a notebook.
    workers : int, default 1
        Repeats at the same time, each in a thread. The answer does not depend on it.
    executor : concurrent.futures.Executor, optional
        Its workers make the repeats, each a task.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, scirocco as sc
    >>> x = jax.random.normal(jax.random.key(0), (50,))
    >>> target = sc.Target(lambda m: -m**2 / 2, lambda m, row: -(row - m) ** 2 / 2, x)
    >>> trace = sc.sample(target, sc.GMC(0.1, leapfrog_steps=12), jnp.array(0.0), num_samples=100, burn_in=10)
    >>> found = sc.check_calibration(target, trace, lambda m, key: m + jax.random.normal(key, (50,)), repeats=25)
    >>> found.names, found.ranks.shape, found.verdict().good
    (('theta', 'log likelihood'), (25, 2), True)
    """
    known, settings = _looked_at(target, trace)
    require_count("repeats", repeats)
    require_count("data_sets", data_sets)
    for name, function in (("simulate", simulate), ("quantities", quantities or _named)):
        if not callable(function):
            raise TypeError(f"{name} must be a function; got {type(function).__name__}")
    options = RunOptions(max_seconds=max_seconds, progress=progress, workers=workers)
    if (made := len(trace.chains) * trace.count) < repeats:
        raise ValueError(f"repeats must not be more than the draws of the trace, {made}; got {repeats}")
    if known.parts.blocks != [list(block.names) for block in blocks]:
        raise ValueError(f"the run had blocks for {known.parts.blocks}: give the same blocks")
    run_sampler = None if is_opaque(known.parts.sampler) else rebuild(known.parts.sampler)
    for one in (run_sampler, sampler):
        _require_temperature_one(one)
    like = _form(trace, known, target)
    places, note = _places(like)
    worth = float(np.nanmin(ess(_columns(trace.posterior, places)))) if trace.count >= LEAST_DRAWS else 1.0
    if worth < repeats:
        note = "\n".join(filter(None, [note, f"(truths are not independent: the run is worth {worth:.0f} draws)"]))
    enough = -(-WORTH * trace.count // max(1, int(worth)))
    own = {"num_samples": int(np.clip(enough, min(LEAST_SAMPLES, settings.num_samples), settings.num_samples))}
    given = {"num_samples": num_samples, "burn_in": burn_in, "thin": thin, "chains": chains}
    settings = replace(settings, seed=seed, **own | {k: v for k, v in given.items() if v is not None})
    truths, starts = _some_draws(trace, like, repeats, settings.seed)
    first = _entry(truths, 0)
    simulation = Simulation(target, simulate, data_sets, settings.seed)
    rows = simulation.checked(first)
    ratio = rows / target.size
    parts: dict[str, Any] = {"sampler": sampler, "estimator": estimator, "batching": batching, "batch_size": batch_size}
    position, held = split(first, blocks)
    position = target.free(held=tuple(held or ())).freed(position)
    if sampler is None:
        parts = _of_run(known, parts, target, position, rows)
    named = _named(quantities, first)
    labels = [label_of(trace.posterior, *place) for place in places]
    names = (*labels, *named, LIKELIHOOD)
    if len(set(names)) < len(names):
        raise ValueError(f"quantities must have names of their own, none of {[*labels, LIKELIHOOD]}; got {named}")
    clock = Clock(options.max_seconds)
    parts["blocks"] = tuple(blocks)
    repeat = Repeat(simulation, truths, starts, quantities, places, settings, parts, rows)
    done, failures, stopped = _all(repeat, repeats, clock, options, executor)
    ranks, independent = (np.array([done[number][k] for number in sorted(done)]) for k in (0, 1))
    return Calibration(
        trace, names, ranks, independent, ratio, repeats, sampler is None, _is_exact(parts["sampler"]), tuple(failures),
        stopped, clock.used, note, settings.thin or 1, target.geometry.without(held or ()).dimension(position),
    )  # fmt: skip


def _looked_at(target: Target, trace: Trace) -> tuple[Description, StepSettings]:
    """The description of a run of ``sample`` on this target; what is none is refused."""
    require_target(target)
    if not isinstance(trace, Trace):
        raise TypeError(
            f"trace must be a scirocco.Trace, from sample; got {type(trace).__name__}. Models are not checked: write "
            "the posterior as a Target and sample it"
        )
    known = trace.description
    if known is None or known.of_model or type(known.settings) is not StepSettings:
        raise ValueError(
            "trace must be that of a run of sample: runs of models, of shards, of sample_dirichlet, and draws without "
            "a description are not checked"
        )
    if target.random:
        raise ValueError(
            "the likelihood is random: ranks of its joint value would be those of chance; check a target "
            "whose likelihood is a function of parameters and rows alone"
        )
    if not isinstance(target.source, Arrays):
        raise ValueError(
            "target must have its data in memory, as every repeat adds simulated rows to it: check a target with a "
            "part of the rows, and a run on it"
        )
    if known.data and known.data != target.source.fingerprint():
        raise ValueError("target has other data than the run of the trace had")
    return known, known.settings


def _form(trace: Trace, known: Description, target: Target) -> Params:
    """Parameters of the form that the run had, which its draws must have too."""
    if known.parts.collect is not None:
        raise ValueError("trace must have all parameters: sample without collect=")
    if is_opaque(known.parts.parameters):
        raise ValueError("the parameters of the run must be arrays in dicts, lists and tuples, and nothing else")
    like = rebuild(known.parts.parameters)
    if target.change:  # the run has the shapes of the free numbers
        seen = jax.eval_shape(target.change.parameters, like)
        seen = {name: seen[name] for name in like} if isinstance(like, dict) else seen  # not what follows from others
        like = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), seen)
    wanted = {name: np.shape(leaf) for name, leaf in named_leaves(like).items()}
    stored = {str(name): values.shape[2:] for name, values in trace.posterior.data_vars.items()}
    if target.change:
        stored = {name: shape for name, shape in stored.items() if name in wanted}
    if wanted != stored:
        raise ValueError(f"trace must have the parameters {wanted}; it has {stored}")
    return like


def _some_draws(trace: Trace, like: Params, repeats: int, seed: int) -> tuple[Params, Params]:
    """Truths, evenly spread over the run in an order of chance, and starts, both along a leading axis."""
    rng, total = generator(seed, Purpose.CALIBRATION_TRUTHS), len(trace.chains) * trace.count
    even = rng.permutation(np.linspace(0, total - 1, repeats).round().astype(int))
    found = []
    for rows in (even, rng.integers(total, size=repeats)):
        chain, draw = (xr.DataArray(part, dims="repeat") for part in divmod(rows, trace.count))
        chosen = trace.posterior.isel(chain=chain, draw=draw)
        leaves = [chosen[name].values for name in named_leaves(like)]
        found.append(jax.tree.unflatten(jax.tree.structure(like), leaves))
    return found[0], found[1]


def _entry(tree: Params, number: int) -> Params:
    return jax.tree.map(lambda leaf: leaf[number], tree)


def _require_temperature_one(sampler: Sampler | None) -> None:
    temperature = 1.0 if sampler is None else sampler.temperature
    if not callable(temperature) and np.any(np.asarray(temperature) != 1):
        raise ValueError(
            f"{type(sampler).__name__} has temperature={temperature!r}: calibration is that of the posterior itself, "
            "at temperature 1"
        )


def _of_run(
    known: Description, given: dict[str, Any], target: Target, position: Params, rows: int
) -> dict[str, Any]:  # fmt: skip
    """What is not given as it was in the run, for a posterior that so many more rows make narrower."""
    drawn, more = known.parts.batching, target.size + rows
    for kind in (Strata, Weighted):
        if given["batching"] is None and isinstance(drawn, dict) and drawn.get("type") == name_of(kind):
            raise ValueError(
                f"the run drew its minibatches by {kind.__name__}, which knows its {target.size} rows and not the "
                f"simulated ones: give batching=, for {more} rows"
            )
    names = ("sampler", "estimator", "batching")
    parts = {n: part_again(n, getattr(known.parts, n), None) if given[n] is None else given[n] for n in names}
    parts["sampler"] = _narrower(parts["sampler"], position, target, float(np.sqrt(target.size / more)))
    batch, share = getattr(known.settings, "batch_size", None), given["batch_size"]
    assert batch is not None, "a run knows its minibatches"
    return {**parts, "batch_size": batch / target.size if share is None else share}


def _narrower(sampler: Sampler, position: Params, target: Target, scale: float) -> Sampler:
    """The sampler in units of the narrower posterior; one that finds its units itself as it is."""
    if automatic(sampler.step_size) is not None or sampler.warm_up:
        return sampler
    if not target.geometry.flat:
        return Rescaled(sampler, jax.tree.map(lambda leaf: np.full((1,) * np.ndim(leaf), scale, np.float32), position))
    suits = f"give sampler=, one whose settings suit a posterior that is {scale:.2g} times as wide"
    if isinstance(sampler.step_size, dict | list | tuple) or np.ndim(sampler.step_size):
        raise ValueError(f"the run has a step size for each parameter: {suits}")
    if _by_parameter(sampler, np.shape(position) if isinstance(position, np.ndarray) else ()):
        raise ValueError(f"the run has settings of {type(sampler).__name__} for each parameter: {suits}")
    if sampler.exact_minibatches:
        raise ValueError(f"the run has bounds of {type(sampler).__name__} for its own data: {suits}, and more data")
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(position))
    return Preconditioned(sampler, Scale(np.full(size, scale, np.float32)))


def _by_parameter(setting: Any, shape: tuple[int, ...]) -> bool:
    """Whether a setting, or one inside it, has the form of the parameters, which are a vector to ``Preconditioned``."""
    if is_dataclass(setting):
        return any(_by_parameter(getattr(setting, f.name), shape) for f in fields(setting))
    return isinstance(setting, dict | list | tuple) or (len(shape) > 1 and np.shape(setting) == shape)


def _is_exact(sampler: Sampler) -> bool:
    """Whether it has the posterior for its law."""
    return (sampler.full_data or sampler.exact_minibatches) and not callable(sampler.temperature)


# Simulated data.


@dataclass(frozen=True, eq=False)
class Simulation:
    """Data of a target and simulated ones."""

    target: Target
    simulate: Callable[[Params, Key], Data]
    data_sets: int
    seed: int

    def checked(self, truth: Params) -> int:
        """The rows of simulated data, which the likelihood must know."""
        data = self(truth, 0)
        value = self.augmented(data, prior=False).log_posterior(truth)
        if not np.isfinite(value):
            raise ValueError(f"log_likelihood is {value} where data were simulated from: simulate does not follow it")
        return leading_size(data)

    def __call__(self, truth: Params, number: int) -> Data:
        """The data of a repeat, in the dtypes of the target's."""
        keys = [as_key(key_words(self.seed, Purpose.CALIBRATION_DATA, number, k)) for k in range(self.data_sets)]
        parts = [self._looked_at(self.simulate(truth, key)) for key in keys]
        return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)

    def _looked_at(self, data: Data) -> Data:
        example = self.target.source.example
        got, want = (str(jax.tree.structure(tree)) for tree in (data, example))
        if got != want:
            raise ValueError(f"simulate must return data with the structure of the target's, {want}; got {got}")
        data = jax.tree.map(np.asarray, data)
        check_rows(data, "simulate")
        try:
            leading_size(data)
        except ValueError as error:
            raise ValueError(f"simulate: {error}") from None
        like = named_leaves(example, bare="data")
        for name, array in named_leaves(data, bare="data").items():
            shape, dtype = like[name].shape, like[name].dtype
            if array.shape[1:] != shape:
                raise ValueError(f"simulate: rows of {name} must have the shape {shape}; got {array.shape[1:]}")
            if not np.can_cast(array.dtype, dtype, "same_kind"):
                raise TypeError(f"simulate: {name} must be {dtype}, as in the data; got {array.dtype}")
        return jax.tree.map(lambda array, row: array.astype(row.dtype), data, example)

    def augmented(self, data: Data, *, prior: bool = True) -> Target:
        """The posterior of the data and simulated ones; without the prior their likelihood."""
        target = self.target
        assert isinstance(target.source, Arrays), "data in memory"
        both = jax.tree.map(lambda old, new: np.concatenate([old.astype(new.dtype), new]), target.source.arrays, data)
        log_prior = target.log_prior if prior else _no_prior
        return replace(target, log_prior=log_prior, data=both)


def _no_prior(params: Params) -> Array:
    del params
    return jnp.float32(0)


# Quantities.


def _places(like: Params) -> tuple[list[Place], str]:
    """Coordinates, an even selection if there are very many."""
    every = [(name, index) for name, leaf in named_leaves(like).items() for index in np.ndindex(np.shape(leaf))]
    if len(every) <= MOST_COORDINATES:
        return every, ""
    chosen = np.linspace(0, len(every) - 1, MOST_COORDINATES).round().astype(int)
    return [every[k] for k in chosen], f"({MOST_COORDINATES} of {len(every):,} coordinates, evenly spread)"


def _columns(posterior: xr.Dataset, places: Sequence[Place]) -> np.ndarray:
    """Draws of coordinates, (chain, draw, coordinate)."""
    values = {name: posterior[name].values for name in dict(places)}
    return np.stack([np.moveaxis(values[name], (0, 1), (-2, -1))[index] for name, index in places], axis=-1)


def _named(quantities: Callable[[Params], dict[str, Any]] | None, params: Params) -> list[str]:
    """The names of the user's own quantities, each of which is a number."""
    if quantities is None:
        return []
    try:
        found = jax.eval_shape(quantities, params)
    except Exception as error:
        error.add_note("scirocco: this happened when quantities was first evaluated")
        raise
    scalars = isinstance(found, dict) and all(getattr(value, "shape", None) == () for value in found.values())
    if not scalars or not all(isinstance(name, str) for name in found):
        raise ValueError(f"quantities must return a dict of named scalars; it returned {found}")
    return sorted(found)


@partial(jax.jit, static_argnums=0)
def _evaluated(quantities: Callable[[Params], dict[str, Any]], draws: Params) -> dict[str, Array]:
    return jax.vmap(quantities)(draws)


# Repeats.

Ranks: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Of all quantities, and among how many draws."""


@dataclass(frozen=True, eq=False)
class Repeat:
    """One repeat by its number: simulated data, draws, ranks."""

    simulation: Simulation
    truths: Params
    starts: Params
    quantities: Callable[[Params], dict[str, Any]] | None
    places: list[Place]
    settings: StepSettings
    parts: dict[str, Any]
    rows: int
    """Of simulated data, always as many."""

    def __call__(self, number: int) -> Ranks:
        """The ranks of a truth."""
        truth, rng = _entry(self.truths, number), generator(self.settings.seed, Purpose.CALIBRATION_REPEAT, number)
        data = self.simulation(truth, number)
        if (rows := leading_size(data)) != self.rows:
            raise ValueError(f"simulate must return as many rows each time: {self.rows} at first, then {rows}")
        target = self.simulation.augmented(data)
        trace = self._sampled(target, _entry(self.starts, number), int(rng.integers(2**31)))
        if trace.stopped is not None:
            raise KeyboardInterrupt
        kept = np.linspace(0, trace.count - 1, min(trace.count, -(-MOST_DRAWS // len(trace.chains)))).round()
        posterior = trace.posterior.isel(draw=kept.astype(int))
        found = [rank_among(*column, rng) for column in self._values(posterior, truth, data)]
        return np.array([rank for rank, _ in found]), np.array([count for _, count in found])

    def _sampled(self, target: Target, initial: Params, seed: int) -> Trace:
        """A run as that of the trace was; that the posterior has no other modes was for that run to find out."""
        settings, parts = self.settings, self.parts
        if automatic(parts["sampler"].step_size) is not None:
            tuned = tune(target, initial=initial, seed=seed, look_elsewhere=False, **parts)
            found = {name: getattr(tuned, name) for name in ("sampler", "estimator", "batch_size")}
            initial, parts = tuned.initial, {**parts, **found, "batching": tuned.kernel.batching}
        return sample(
            target, initial=initial, num_samples=settings.num_samples, burn_in=settings.burn_in, thin=settings.thin,
            chains=settings.chains, seed=seed, report=False, progress=False, **parts,
        )  # fmt: skip

    def _values(self, posterior: xr.Dataset, truth: Params, data: Data) -> list[tuple[float, np.ndarray]]:
        """Each quantity of the truth, and of the draws (chain, draw)."""
        shape = posterior.sizes["chain"], posterior.sizes["draw"]
        names = named_leaves(truth)
        columns = _columns(posterior, self.places)
        found = [
            (float(names[name][index]), columns[..., k]) for k, (name, index) in enumerate(self.places)
        ]  # fmt: skip
        leaves = [posterior[name].values.reshape(-1, *np.shape(leaf)) for name, leaf in names.items()]
        draws = jax.tree.unflatten(jax.tree.structure(truth), leaves)
        if self.quantities is not None:
            both = jax.tree.map(lambda leaf, own: np.concatenate([leaf, own[None]]), draws, truth)
            for name, values in sorted(_evaluated(self.quantities, both).items()):
                array = np.asarray(values, np.float64)
                require_finite(f"quantities: {name}", array)
                found.append((float(array[-1]), array[:-1].reshape(shape)))
        likelihoods = self.simulation.augmented(data, prior=False).log_posteriors(draws, truth)
        require_finite("log_likelihood at the draws", likelihoods)
        return [*found, (0.0, likelihoods.reshape(shape))]


def _all(
    repeat: Repeat, count: int, clock: Clock, options: RunOptions, executor: Executor | None
) -> tuple[dict[int, Ranks], list[str], Stop | None]:  # fmt: skip
    """All repeats, or those that were over before the time was, with what went wrong."""
    done: dict[int, Ranks] = {}
    diverged: list[FloatingPointError] = []
    turns: dict[Future[Portable[Ranks]], int] = {}
    begun = 0
    sent: Portable[Callable[[int], Ranks]] = Portable(repeat)
    workers = options.workers if executor is None else count
    with (
        Interrupt() as interrupt,
        Progress(options.progress) as bar,
        ThreadPoolExecutor(options.workers, thread_name_prefix="scirocco-repeats") as threads,
    ):
        pool = threads if executor is None else require_executor(executor)
        while True:
            # In threads the first one is alone: it compiles what the others run.
            free = (workers if done or diverged or executor is not None else 1) - len(turns)
            while free > 0 and begun < count and not interrupt.asked and not (begun and clock.over):
                turns[submit(pool, sent, begun)] = begun
                begun, free = begun + 1, free - 1
            if not turns:
                break
            for turn in wait(turns, timeout=0.1, return_when=FIRST_COMPLETED)[0]:
                number = turns.pop(turn)
                try:
                    done[number] = turn.result().value
                except CancelledError:
                    continue
                except FloatingPointError as error:
                    diverged.append(error)
                except KeyboardInterrupt:
                    if not interrupt.asked:
                        raise
            if executor is not None and (interrupt.asked or clock.over):
                for turn in turns:
                    turn.cancel()
            share = max(len(done) / count, clock.share)
            bar.update("calibration", len(done), count, "repeats", share=share, draws=len(done), seconds=clock.used)
    if not done:
        raise diverged[0] if diverged else KeyboardInterrupt
    return done, [str(error) for error in diverged], _ended(len(done) + len(diverged), count, interrupt, clock)


def _ended(ended: int, count: int, interrupt: Interrupt, clock: Clock) -> Stop | None:
    """Why not all repeats were made."""
    if ended == count:
        return None
    place = f"after {ended} of {count} repeats"
    if interrupt.asked:
        kind, verb = ("terminated", "ended") if interrupt.request == SIGTERM else ("interrupted", "interrupted")
        return Stop(kind, f"{verb} {place}")  # type: ignore[arg-type]
    return Stop("budget", f"the time budget of {clock.budget:g} s was used up {place}")
