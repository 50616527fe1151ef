"""``sample_dirichlet``: the posterior of the probabilities of categories, from minibatches of observations.

    z_i ~ Categorical(omega),    omega ~ Dirichlet(prior),    so that    omega | z ~ Dirichlet(prior + counts)

Here the posterior is known, which makes it the proving ground of the simplex samplers. They also take streams of codes
too long to count, and the same engine shows how a model of counts runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.batches import Arrays, MemoryMapped, Stream
from scirocco.batches.base import batch_rows
from scirocco.checks import positive_array, real_array, require_count, require_run, require_seed
from scirocco.diagnostics.bias import BiasReport
from scirocco.run import checkpoint
from scirocco.run.describe import describe, is_opaque, rebuild
from scirocco.run.finish import begin, empty_folder, go_on
from scirocco.run.recording import Recording
from scirocco.run.runner import Chunk, Progressed
from scirocco.run.store import Variables
from scirocco.run.trace import Trace
from scirocco.simplex import SCIR, SCIRCV, Exact, SimplexSampler, Weights
from scirocco.simplex.base import step_size_at
from scirocco.simplex.observations import Observations, Stratified, StreamedObservations, require_codes
from scirocco.simplex.scir_cv import estimate_variance
from scirocco.theory import EstimateLaw, stationary_moments

KIND = "dirichlet"
DRAW_BYTES = 16 * 2**20  # of draws that a chunk may hold before it hands them over
START_BATCH = 1000  # observations that the starting points are made from
SPARSE = 8  # this many categories to an observation of the minibatch make lazy updates worth it
LAWS = 200  # components whose law is computed exactly for the bias report; the others are interpolated


@dataclass
class ChainsState:
    """The weights of each chain, all after the same number of steps."""

    step: int
    chains: list[Weights]


class SimplexEngine:
    """Several chains of a simplex sampler on one set of observations."""

    def __init__(
        self, observations: Observations, sampler: SimplexSampler, prior: np.ndarray, *, chains: int, seed: int,
        recording: Recording, collect: Callable[[np.ndarray], Any] | bool | None, threads: int | None,
    ) -> None:  # fmt: skip
        self.observations, self.sampler, self.prior = observations, sampler, prior
        self.chains, self.seed, self.recording, self.threads = chains, seed, recording, threads
        self.collect = collect
        example = self._collected(prior / prior.sum())
        self.variables: Variables = {name: (value.shape, value.dtype) for name, value in example.items()}
        size = sum(value.nbytes for value in example.values()) * chains
        self.capacity = int(np.clip(DRAW_BYTES // max(1, size), 1, 10_000))

    def _collected(self, omega: np.ndarray) -> dict[str, np.ndarray]:
        if self.collect is False:
            return {}
        if not callable(self.collect):
            return {"omega": omega}
        value = self.collect(omega)
        named = value if isinstance(value, dict) else {"value": value}
        return {name: np.asarray(v) for name, v in named.items()}

    # Starting.

    def _blank(self, chain: int) -> Weights:
        return Weights(self.prior, seed=self.seed, path=(0, chain), threads=self.threads)

    def init(self, initial: np.ndarray | None) -> ChainsState:
        """Chains that start where the user says, or at draws given a first, small part of the data."""
        chains = []
        for chain in range(self.chains):
            weights = self._blank(chain)
            if initial is None:
                seen = min(max(START_BATCH, self.observations.batch_size), self.observations.resident)
                counts = self.observations.larger(chain, 0, seen)
                theta = np.zeros_like(weights.theta)
                weights.transition(theta, weights.prior + counts.T, 0.0, 1.0)
                weights.replace(theta)
            else:
                weights.replace(initial[:, None])
            self.sampler.start(weights)
            if isinstance(self.sampler, SCIRCV) and self.sampler.recentre_every is None:
                known = self._known_counts()
                self.sampler.recentre(weights, known, self.observations.fraction)
            chains.append(weights)
        return ChainsState(0, chains)

    def _known_counts(self) -> np.ndarray:
        given = self.sampler.centre  # type: ignore[attr-defined]
        if given is None:
            return self.observations.total()
        centre = positive_array("centre", given)
        if centre.shape != self.prior.shape:
            raise ValueError(f"centre must have one entry for each of {self.prior.size} categories; got {centre.shape}")
        if np.any(centre < self.prior):
            raise ValueError("centre must not lie below the prior: it is the prior plus the counts of all data")
        return (centre - self.prior)[None]

    # Advancing.

    def advance(self, state: ChainsState, until: int) -> Chunk:
        """Run towards step ``until``; stops earlier when draws must be handed over, or a chain is not finite."""
        new = ChainsState(state.step, [weights.copy() for weights in state.chains])
        draws: dict[str, list[np.ndarray]] = {name: [] for name in self.variables}
        reference = np.zeros((self.chains, self.prior.size))
        first, second = np.zeros_like(reference), np.zeros_like(reference)
        made, finite = 0, True
        while new.step < until and made < self.capacity and finite:
            for chain, weights in enumerate(new.chains):
                self._step(chain, new.step, weights)
                finite &= bool(np.isfinite(weights.totals.sum()))
            new.step += 1
            if finite and self.recording.is_draw(new.step):
                omega = np.stack([self.sampler.recorded(weights)[0] for weights in new.chains])
                reference = omega if not made else reference
                deviation = omega - reference
                first += deviation
                second += np.square(deviation)
                made += 1
                for name, values in self._each(omega).items():
                    draws[name].append(values)
        kept = {
            name: np.stack(draws[name], axis=1) if made else np.empty((self.chains, 0, *shape), dtype)
            for name, (shape, dtype) in self.variables.items()
        }
        return Chunk(new, kept, made, {"omega": reference}, {"omega": first}, {"omega": second}, finite)

    def _each(self, omega: np.ndarray) -> dict[str, np.ndarray]:
        """What is stored of a draw, (chain, ...) by name."""
        if self.collect is None:
            return {"omega": omega}
        each = [self._collected(row.copy()) for row in omega]  # theirs to change
        return {name: np.stack([values[name] for values in each]) for name in self.variables}

    def _step(self, chain: int, step: int, weights: Weights) -> None:
        sampler = self.sampler
        if isinstance(sampler, SCIRCV) and sampler.centre_due(step):
            counts = self.observations.larger(chain, step, sampler.centre_batch)
            sampler.recentre(weights, counts, self.observations.fraction)
        sampler.step(weights, self.observations.counts(chain, step))

    def locate(self, state: ChainsState, bad: int) -> tuple[Chunk, str]:
        """The stretch before the step that failed, repeated, and what happened then."""
        chunk = self.advance(state, bad - 1)
        h = step_size_at(getattr(self.sampler, "step_size", np.nan), bad - 1)
        return chunk, (
            f"a weight is no longer finite after step {bad:,} (step size {h:.3g}). Try a smaller step_size, a larger "
            "batch_size, or SCIR, whose weights cannot diverge"
        )

    # Keeping and reporting.

    def pack(self, state: ChainsState) -> dict[str, np.ndarray]:
        """The arrays of all chains."""
        packed = {f"{c}/{name}": a for c, weights in enumerate(state.chains) for name, a in weights.pack().items()}
        return packed | {"step": np.array(state.step), "prior": self.prior}

    def unpack(self, arrays: dict[str, np.ndarray]) -> ChainsState:
        """The inverse of ``pack``."""
        chains = [self._blank(chain) for chain in range(self.chains)]
        for c, weights in enumerate(chains):
            weights.unpack(checkpoint.part(arrays, str(c)))
        return ChainsState(int(arrays["step"]), chains)

    def probe(self, progressed: Progressed) -> dict[str, np.ndarray]:
        """Nothing to measure: the law of these samplers is known."""
        return {}

    def report(self, progressed: Progressed) -> BiasReport | None:
        """How far the sampled sds are from the posterior's, by the law of the sampler."""
        sampler, observed = self.sampler, self.observations
        if not isinstance(sampler, SCIR | SCIRCV) or isinstance(observed.way, Stratified):
            return None
        if progressed.moments.count < 2 or observed.fraction == 1:
            return None
        size, n = observed.size, observed.batch_size
        last = max(progressed.step - 1, 0)
        steps = np.linspace(min(self.recording.burn_in, last), last, 50).astype(int)
        sizes = np.array([step_size_at(sampler.step_size, int(step)) for step in steps])
        h = float(sizes[-1])
        count = observed.typical()[0]
        parameter, share = self.prior + count, count / size
        omega = parameter / parameter.sum()
        # Noise of plain components, as far as it sums to zero, leaves the total alone; that of control variates is
        # small and taken as independent.
        plain = np.ones(share.size, bool)
        noise = float(np.mean(np.tanh(sizes / 2))) * size**2 / n
        noise *= 1.0 if observed.way == "with_replacement" else (size - n) / max(1, size - 1)
        centre = progressed.state.chains[0].centre
        extra = noise * share * (1 - share)
        if isinstance(sampler, SCIRCV) and centre is not None:
            plain = centre[:, 0] <= 1
            extra = np.where(plain, extra, self._controlled_extra(sampler, count, centre[:, 0], h))
        among = share[plain].sum()
        total = extra[~plain].sum() + noise * among * (1 - among)
        with_total = np.where(plain, noise * share * (1 - among), extra)
        with np.errstate(invalid="ignore"):  # of infinite variances
            added = extra - 2 * omega * with_total + omega**2 * total
            ratio = 1 + added / np.maximum(parameter * (1 - omega), np.finfo(float).tiny)
            part = np.where(np.isinf(extra), 1.0, np.maximum(extra, 0) / (np.maximum(extra, 0) + parameter))
        error = np.where(np.isnan(ratio), np.inf, np.sqrt(np.maximum(ratio, 0)) - 1)
        return BiasReport({"omega": part}, {"omega": error}, h, exact_steps=True)

    def _controlled_extra(self, sampler: SCIRCV, count: np.ndarray, centre: np.ndarray, h: float) -> np.ndarray:
        """Squared error beyond the posterior variance with a control variate: its law, and that of its centre.

        Exact laws of some of the components, interpolated in the counts where they are many. A centre a_c moves the
        mean by a (a_c - 1)/(a - 1) - a: a fixed one by its own error, one that is renewed after a time T by the noise
        of its batch, of which the chain follows the share 1 - (1 - e^-T)/T.
        """
        size, n = self.observations.size, self.observations.batch_size
        pairs, which = np.unique(np.stack([self.prior, np.round(count)]), axis=1, return_inverse=True)
        if pairs.shape[1] > LAWS:
            grid = np.unique(np.round(np.quantile(count, np.linspace(0, 1, LAWS))))
            pairs, which = np.stack([np.full(grid.size, np.median(self.prior)), grid]), np.array([], int)
        excess = np.array([self._excess(sampler, size, int(c), n, float(p), h) for p, c in pairs.T])
        extra = excess[which.reshape(-1)] if which.size else np.interp(count, pairs[1], excess)
        parameter = self.prior + count
        pulled = np.square(parameter / np.maximum(parameter - 1, 1e-9))
        if sampler.recentre_every is None:
            return extra + pulled * np.square(np.where(centre > 1, centre - parameter, 0.0))
        seen = sampler.centre_from == "seen"  # weights (1 - r)^k r, r = 1/l: as many minibatches as (2 - r)/r
        wanted = n * (2 * sampler.recentre_every - 1) if seen else sampler.centre_batch
        batch = batch_rows(min(wanted, size), size)
        lasting = sampler.recentre_every * h
        followed = 1 + np.expm1(-lasting) / lasting
        return extra + pulled * followed * estimate_variance(count[:, None], batch / size)[:, 0]

    @staticmethod
    def _excess(sampler: SCIRCV, size: int, count: int, n: int, prior: float, h: float) -> float:
        law = EstimateLaw.hypergeometric(size, min(count, size), n, prior)
        form: Any = sampler.form
        try:
            mean, variance = (float(m) for m in stationary_moments(law, h, form))
        except ValueError:  # too rare for a control variate: its components have none
            return 0.0
        return variance - law.mean + (mean - law.mean) ** 2


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
    batching: str | Stratified = "independent",
    lazy: bool | None = None,
    initial: Any = None,
    chains: int = 4,
    seed: int = 0,
    collect: Callable[[np.ndarray], Any] | bool | None = None,
    path: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: bool | None = None,
    threads: int | None = None,
) -> Trace:
    """Sample the probabilities of categories from minibatches of observed category codes.

    Args:
        data: a vector of codes 0, 1, ..., in memory, memory-mapped, or a ``batches`` source of one column.
        prior: the Dirichlet parameter, one number or one for each category.
        sampler: ``SCIRCV(step_size=0.1)`` by default, which counts the data once, or another of ``simplex``.
        batch_size: observations of a minibatch, a count or a fraction of N. By default 1 % of N, but 100 to 10,000.
        num_samples: draws to keep from each chain, after ``burn_in`` steps, one every ``thin`` steps.
        categories: how many there are; by default the length of the prior, or what occurs in the data.
        batching: "independent" samples, "shuffled" epochs, "with_replacement", or ``simplex.Stratified(labels)``.
        lazy: leave categories that a minibatch does not touch until they are read (same law, other random numbers); by
            default when they are many. Recording reads everything: combine with ``thin``.
        initial: unnormalised weights to start all chains from; by default draws given a first part of the data.
        chains: independent chains.
        seed: the only source of randomness: the same seed gives the same draws, whatever the threads.
        collect: what to store of each draw: a function of omega, None for omega itself, False for nothing (the
            streaming moments are kept in any case).
        path: a folder for draws and checkpoints, for ``scirocco.resume(path, data)``; in memory without it.
        checkpoint_seconds: time between checkpoints.
        progress: show a bar; by default on a terminal or in a notebook.
        threads: of the transitions of many categories; all cores by default.

    >>> import numpy as np, scirocco as sc
    >>> codes = np.repeat([0, 1, 2], [700, 290, 10])
    >>> trace = sc.sample_dirichlet(codes, 0.1, sc.SCIR(step_size=0.02), batch_size=100, num_samples=500, thin=10)
    >>> trace.posterior["omega"].shape
    (4, 500, 3)
    >>> bool(abs(trace.mean["omega"][0] - 0.7) < 0.02)
    True
    """
    require_run(num_samples, burn_in, thin, chains, checkpoint_seconds, collect)
    sampler = SCIRCV(step_size=0.1) if sampler is None else sampler
    if not isinstance(sampler, SimplexSampler):
        raise TypeError(f"sampler must be SCIR, SCIRCV or another of simplex; got {type(sampler).__name__}")
    if lazy is not None and not isinstance(lazy, bool):
        raise TypeError(f"lazy must be True, False or None; got {lazy!r}")
    if isinstance(batching, Stratified) and getattr(sampler, "remove_bias", False):
        raise ValueError("remove_bias knows simple random minibatches only: stratified ones have another bias")
    folder = empty_folder(path)
    source, alpha = _source(data, prior, categories)
    settings = {
        "num_samples": int(num_samples), "burn_in": int(burn_in), "thin": int(thin), "chains": int(chains),
        "batch_size": _batch_size(batch_size, source, sampler), "seed": require_seed(seed), "lazy": lazy,
        "batching": "stratified" if isinstance(batching, Stratified) else batching,
    }  # fmt: skip
    engine = _engine(source, alpha, sampler, settings, batching, collect, threads)
    try:
        start = None if initial is None else _initial(initial, alpha)
        progressed = Progressed(engine.init(start))
        meta = {
            "kind": KIND,
            "settings": settings,
            "parts": {
                "sampler": describe(sampler), "collect": _collect_name(collect), "variables": _outlined(engine),
            },
            "data": engine.observations.fingerprint() if folder is not None else None,
        }  # fmt: skip
        return begin(engine, progressed, meta, folder, checkpoint_seconds=checkpoint_seconds, progress=progress)
    finally:
        engine.observations.close()


def resume_dirichlet(
    folder: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any], data: Any, *, num_samples: int | None,
    sampler: Any, batching: Any, collect: Any, checkpoint_seconds: float, progress: bool | None,
) -> Trace:  # fmt: skip
    """``scirocco.resume`` for a run of ``sample_dirichlet``."""
    settings, parts = meta["settings"], meta["parts"]
    if parts["collect"] != _collect_name(collect) and (parts["collect"] == "function" or callable(collect)):
        raise ValueError(f"the run had collect={parts['collect']}: give the same")
    if isinstance(batching, str) and batching != settings["batching"]:
        raise ValueError(f"the run had batching={settings['batching']!r}; got {batching!r}")
    if settings["batching"] == "stratified" and not isinstance(batching, Stratified):
        raise ValueError("the run was stratified: give its labels again as batching=sc.simplex.Stratified(labels)")
    if sampler is None and is_opaque(parts["sampler"]):
        raise ValueError("the run's sampler cannot be rebuilt from its checkpoint: give it again as sampler=")
    if sampler is not None and describe(sampler) != parts["sampler"]:
        raise ValueError(f"the run had sampler {parts['sampler']}; got {describe(sampler)}")
    if num_samples is not None:
        require_count("num_samples", num_samples)
        settings["num_samples"] = max(settings["num_samples"], int(num_samples))
    source, alpha = _source(data, checkpoint.part(arrays, "state")["prior"], None)
    way = batching if isinstance(batching, Stratified) else settings["batching"]
    stored = collect if callable(collect) else parts["collect"]
    engine = _engine(
        source, alpha, rebuild(parts["sampler"]) if sampler is None else sampler, settings, way, stored, None
    )
    try:
        if meta["data"] != engine.observations.fingerprint():
            raise ValueError(f"the data differs from that of the run in {folder}")
        state = engine.unpack(checkpoint.part(arrays, "state"))
        return go_on(engine, state, arrays, meta, folder, checkpoint_seconds=checkpoint_seconds, progress=progress)
    finally:
        engine.observations.close()


def _engine(
    source: Any, alpha: np.ndarray, sampler: SimplexSampler, settings: dict[str, Any], way: Any, collect: Any,
    threads: int | None,
) -> SimplexEngine:  # fmt: skip
    n, seed = settings["batch_size"], settings["seed"]
    lazy = alpha.size > SPARSE * n if settings["lazy"] is None else bool(settings["lazy"])
    lazy = lazy and isinstance(sampler, SCIR | SCIRCV)
    observations: Observations
    if isinstance(source, Stream):
        if way not in ("independent", "shuffled"):
            raise ValueError("data on disk comes in shuffled blocks: leave batching alone")
        observations = StreamedObservations(source, alpha.size, n, seed=seed, lazy=lazy)
    else:
        observations = Observations(source, alpha.size, n, way, seed=seed, lazy=lazy)
    recording = Recording(settings["burn_in"], settings["thin"])
    return SimplexEngine(
        observations, sampler, alpha, chains=settings["chains"], seed=seed, recording=recording, collect=collect,
        threads=threads,
    )  # fmt: skip


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


def _outlined(engine: SimplexEngine) -> dict[str, Any]:
    return {name: [list(shape), str(dtype)] for name, (shape, dtype) in engine.variables.items()}
