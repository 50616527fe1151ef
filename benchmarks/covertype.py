"""Seconds until posterior means and sds are right: logistic regression on covertype, 581,012 x 54, prior N(0, 1).

    python benchmarks/covertype.py --make-reference 1500 covertype_reference.npz
    python benchmarks/covertype.py --reference covertype_reference.npz --budget 600 [--only scirocco blackjax-nuts]

Right: all 54 posterior means within 0.1 posterior sd and all 54 sds within 5 % of a long run of NUTS. The moments of
all draws so far are looked at on a geometric grid of times; what counts is the first time from which on every later
look is right too. "not within" the budget is a result.

Each contestant runs in a process of its own on one core, one after the other. Clocks start when libraries are imported
and data is in memory, and include compilation. scirocco gets nothing else: it looks for mode, curvature and step size
on the clock, in the steps of ``sc.sample`` (``tune``, then the engine; without the bias report at the end, and piece by
piece so that there are times to report). Peers get more than their users would have, all of it before their clocks
start: the mode, found by ``sc.find_mode``, to start from; a log density that is a difference from the one at the mode,
whose sum in float32 is off by 0.0001 and not by 0.02; and where a row says so the inverse Hessian at the mode as the
first mass matrix. BlackJAX' SGLD runs in a compiled loop, with its own control variates at the mode, once for
each of a few step sizes, of which the best counts. On a machine that others use too, ``--cpu`` counts the seconds of
computing of each process instead of those on the wall; on a core of one's own the two are nearly the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gradient_engine import Logistic

import scirocco as sc
from scirocco.gradient.engine import GradientEngine
from scirocco.optimise.curvature import hessian
from scirocco.run.recording import Recording

MEAN_LIMIT, SD_LIMIT = 0.1, 0.05
CHAINS, BURN_IN, PIECE = 4, 1000, 2000  # of scirocco; steps between two looks at the clock
WARMUP = 500  # of NUTS: half of the usual, which would leave less of the budget for draws
SUBSAMPLE, BLOCKS = 1000, 100  # of HMCECS
GROWTH = 1.1  # from one look at the moments to the next
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Record:
    """Moments of all draws so far, and their values at times on a geometric grid, on disk as they come."""

    def __init__(self, path: Path, budget: float, clock: Callable[[], float]) -> None:
        self.path, self.budget, self.clock = path, budget, clock
        self.facts: dict[str, Any] = {"note": "", "compiling": 0.0, "first": None, "draws": 0}
        self.looks: list[tuple[float, np.ndarray, np.ndarray]] = []
        self.next = 1.0
        self.began = 0.0

    def start(self, centre: np.ndarray) -> None:
        """Start the clock. Sums are those of deviations from ``centre``, for the sake of their accuracy."""
        self.centre = np.asarray(centre, np.float64)
        self.sums = np.zeros((2, self.centre.size))
        jax.block_until_ready(jnp.zeros(1) + 1)  # JAX is up
        jax.monitoring.register_event_duration_secs_listener(self._compiled)
        self.save()
        self.began = self.clock()
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        """A warm-up is one compiled loop, which nothing else would end in time."""
        while self.seconds < 1.02 * self.budget + 5:
            time.sleep(0.5)
        self.save()
        os._exit(0)

    def _compiled(self, event: str, seconds: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            self.facts["compiling"] += seconds

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self.clock() - self.began

    @property
    def running(self) -> bool:
        """Whether there is time left."""
        return self.seconds < self.budget

    def add(self, draws: Any) -> None:
        """Take note of new draws, (draw, parameter)."""
        deviation = np.asarray(draws, np.float64) - self.centre
        if not len(deviation):
            return
        if self.facts["first"] is None:
            self.facts["first"] = self.seconds
        self.facts["draws"] += len(deviation)
        self.sums += deviation.sum(axis=0), (deviation**2).sum(axis=0)
        if self.seconds >= self.next:
            self.look()

    def look(self) -> None:
        """Write down the moments of all draws so far."""
        count = self.facts["draws"]
        if count > 1:
            first, second = self.sums
            variance = (second - first**2 / count) / (count - 1)
            self.looks.append((self.seconds, self.centre + first / count, np.sqrt(np.maximum(variance, 0))))
            self.next = GROWTH * self.seconds
        self.save()

    def save(self) -> None:
        """Write what is known so far; the new file takes the old one's place at once."""
        times, means, sds = zip(*self.looks, strict=True) if self.looks else ((), (), ())
        fresh = self.path.with_suffix(".new.npz")
        np.savez(fresh, times=times, means=means, sds=sds, facts=json.dumps(self.facts))
        fresh.replace(self.path)


# The contestants.


def target_of(problem: Logistic) -> sc.Target:
    """The posterior for scirocco."""
    return sc.Target(problem.log_prior, problem.log_likelihood, (problem.x, problem.y))


def scirocco(problem: Logistic, record: Record, sampler: Any) -> None:
    """What ``sc.sample`` does, with a look at the clock now and then."""
    record.start(np.zeros(problem.x.shape[1]))
    tuned = sc.tune(target_of(problem), sampler, problem.initial, batch_size=problem.batch)
    record.facts["note"] = str(tuned.report)
    engine = GradientEngine(tuned.kernel, tuned.initial, chains=CHAINS, recording=Recording(BURN_IN, 1))
    engine.start()
    while record.running:
        chunk = engine.advance(engine.step + PIECE)
        if not chunk.finite:
            record.facts["note"] += "\n  diverged"
            break
        record.add(chunk.draws["theta"].reshape(-1, record.centre.size))


def mode_of(problem: Logistic) -> np.ndarray:
    """The mode that scirocco finds too."""
    return np.asarray(sc.find_mode(target_of(problem), problem.initial))


def log_density(problem: Logistic, mode: np.ndarray) -> Callable[[Any], Any]:
    """The log posterior minus that at the mode: small terms, whose sum is accurate in float32."""
    x, y, start = jnp.asarray(problem.x), jnp.asarray(problem.y), jnp.asarray(mode)
    logits = x @ start
    before = jax.nn.softplus(logits)

    def difference(w: Any) -> Any:
        d = w - start
        change = x @ d
        likelihood = jnp.sum(y * change - (jax.nn.softplus(logits + change) - before))
        return likelihood - jnp.sum(d * (start + d / 2))

    return difference


def inverse_hessian(problem: Logistic, mode: np.ndarray) -> np.ndarray:
    """The covariance of the normal law at the mode."""
    return np.linalg.inv(hessian(target_of(problem), jnp.asarray(mode)))


def blackjax_nuts(problem: Logistic, record: Record, hint: bool) -> None:
    """NUTS with window adaptation of a dense mass matrix."""
    import blackjax

    mode = mode_of(problem)
    mass = jnp.asarray(inverse_hessian(problem, mode), jnp.float32) if hint else None
    density = log_density(problem, mode)
    record.start(mode)
    adaptation = blackjax.window_adaptation(
        blackjax.nuts, density, is_mass_matrix_diagonal=False, initial_inverse_mass_matrix=mass
    )
    key = jax.random.key(0)
    (state, parameters), _ = jax.block_until_ready(adaptation.run(key, jnp.asarray(mode), WARMUP))
    record.facts["note"] = f"warm-up {record.seconds:.0f} s, step size {float(parameters['step_size']):.3g}"
    step = jax.jit(blackjax.nuts(density, **parameters).step)
    while record.running:
        key, now = jax.random.split(key)
        state, _ = step(now, state)
        record.add(state.position[None])


def numpyro_nuts(problem: Logistic, record: Record, hint: bool) -> None:
    """NUTS with a dense mass matrix."""
    from numpyro.infer import NUTS

    mode = mode_of(problem)
    mass = jnp.asarray(inverse_hessian(problem, mode), jnp.float32) if hint else None
    density = log_density(problem, mode)
    record.start(mode)
    kernel = NUTS(potential_fn=lambda w: -density(w), dense_mass=True, inverse_mass_matrix=mass)
    _in_pieces(record, kernel, jnp.asarray(mode), 5, ())


def numpyro_ecs(problem: Logistic, record: Record, degree: int) -> None:
    """HMC with energy conserving subsampling, Taylor's proxy at the mode, and the inverse Hessian to begin with."""
    import numpyro
    from numpyro import distributions
    from numpyro.infer import HMCECS, NUTS

    size, columns = problem.x.shape
    mode = mode_of(problem)
    mass = jnp.asarray(inverse_hessian(problem, mode), jnp.float32)
    x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)

    def model(x: Any, y: Any) -> None:
        w = numpyro.sample("w", distributions.Normal(0, 1).expand([columns]).to_event(1))
        with numpyro.plate("rows", size, subsample_size=SUBSAMPLE):
            rows, classes = numpyro.subsample(x, event_dim=1), numpyro.subsample(y, event_dim=0)
            numpyro.sample("y", distributions.Bernoulli(logits=rows @ w), obs=classes)

    record.start(mode)
    inner = NUTS(model, dense_mass=True, inverse_mass_matrix={("w",): mass})
    proxy = HMCECS.taylor_proxy({"w": jnp.asarray(mode)}, degree=degree)
    kernel = HMCECS(inner, num_blocks=BLOCKS, proxy=proxy)
    _in_pieces(record, kernel, {"w": jnp.asarray(mode)}, 50, (x, y))


def _in_pieces(record: Record, kernel: Any, start: Any, piece: int, arguments: tuple[Any, ...]) -> None:
    """A run of NumPyro's, ``piece`` draws at a time; ``MCMC.run`` would compile anew for each piece."""
    state = kernel.init(jax.random.key(0), WARMUP, start, arguments, {})

    @jax.jit
    def advance(state: Any, arguments: tuple[Any, ...]) -> Any:
        def one(state: Any, _: None) -> Any:
            state = kernel.sample(state, arguments, {})
            return state, state.z["w"] if isinstance(state.z, dict) else state.z

        return jax.lax.scan(one, state, None, length=piece)

    done = 0
    while record.running:
        state, draws = jax.block_until_ready(advance(state, arguments))
        done += piece
        if done == WARMUP:
            record.facts["note"] = f"warm-up {record.seconds:.0f} s"
        elif done > WARMUP:
            record.add(draws)
        else:
            record.facts["note"] = f"{done} of {WARMUP} steps of warm-up in {record.seconds:.0f} s"


def blackjax_sgld(problem: Logistic, record: Record, step_size: float) -> None:
    """SGLD with BlackJAX' own control variates at the mode, in a compiled loop."""
    import blackjax

    size, mode = len(problem.y), jnp.asarray(mode_of(problem))
    data = (jnp.asarray(problem.x), jnp.asarray(problem.y))
    record.start(np.asarray(mode))
    plain = blackjax.sgmcmc.gradients.grad_estimator(problem.log_prior, problem.log_likelihood, size)
    sgld = blackjax.sgld(blackjax.sgmcmc.gradients.control_variates(plain, mode, data))

    @jax.jit
    def loop(key: Any, position: Any, data: Any) -> Any:
        def step(position: Any, key: Any) -> Any:
            pick, now = jax.random.split(key)
            rows = jax.random.randint(pick, (problem.batch,), 0, size)
            position = sgld.step(now, position, jax.tree.map(lambda a: a[rows], data), step_size)
            return position, position

        return jax.lax.scan(step, position, jax.random.split(key, PIECE))

    key, position = jax.random.key(0), sgld.init(mode)
    while record.running:
        key, now = jax.random.split(key)
        position, draws = loop(now, position, data)
        if not np.all(np.isfinite(position)):
            record.facts["note"] = "diverged"
            break
        record.add(draws)


# The name on the command line: the name in the table, the function, and its settings, of which the best one counts.
CONTESTANTS: dict[str, tuple[str, Callable[..., None], tuple[Any, ...]]] = {
    "scirocco": ("scirocco, underdamped Langevin", scirocco, (sc.UnderdampedLangevin(step_size="auto"),)),
    "scirocco-sgld": ("scirocco, SGLD", scirocco, (sc.SGLD(step_size="auto"),)),
    "blackjax-nuts": ("BlackJAX NUTS", blackjax_nuts, (False,)),
    "blackjax-nuts-hessian": ("BlackJAX NUTS, given the Hessian", blackjax_nuts, (True,)),
    "numpyro-nuts": ("NumPyro NUTS", numpyro_nuts, (False,)),
    "numpyro-nuts-hessian": ("NumPyro NUTS, given the Hessian", numpyro_nuts, (True,)),
    "numpyro-ecs": ("NumPyro HMCECS, given the Hessian", numpyro_ecs, (2,)),
    "blackjax-sgld": ("BlackJAX SGLD, best step", blackjax_sgld, (3e-7, 1e-6, 3e-6)),  # stable up to 8e-6
}


# The reference.


def stein_moments(phi: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance from draws and grad U there, with control variates of zero mean (Stein's identity).

    E[g] = 0 and E[phi g'] = I, so phi - g and phi phi' - sym(phi g') + I have the means of phi and phi phi'; where the
    law is N(0, I), g = phi and they do not vary at all.
    """
    mean = (phi - slopes).mean(axis=0)
    cross = phi.T @ slopes / len(phi)
    second = phi.T @ phi / len(phi) - (cross + cross.T) / 2 + np.eye(phi.shape[1])
    return mean, second - np.outer(mean, mean)


def make_reference(seconds: float, path: Path) -> None:
    """NUTS in coordinates whitened by the Hessian at the mode, its moments corrected by exact gradients."""
    import blackjax

    problem = Logistic()
    mode = mode_of(problem)
    lower = np.linalg.cholesky(inverse_hessian(problem, mode))
    scale, density = jnp.asarray(lower, jnp.float32), log_density(problem, mode)
    nuts = blackjax.nuts(
        lambda phi: density(jnp.asarray(mode) + scale @ phi), step_size=0.7, inverse_mass_matrix=jnp.ones(len(mode))
    )
    step, state, key = jax.jit(nuts.step), nuts.init(jnp.zeros(len(mode))), jax.random.key(0)
    draws, slopes = [], []
    state, _ = step(key, state)  # compiled
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        key, now = jax.random.split(key)
        state, _ = step(now, state)
        draws.append(np.asarray(state.position, np.float64))
        slopes.append(-np.asarray(state.logdensity_grad, np.float64))
    if len(draws) < 200:
        sys.exit(f"{len(draws)} draws in {seconds:g} s are too few for a reference: give it more time")
    skip = min(50, len(draws) // 10)
    phi, slope = np.array(draws[skip:]), np.array(slopes[skip:])

    def moments(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = stein_moments(phi[rows], slope[rows])
        return mode + lower @ mean, np.sqrt(np.einsum("ij,jk,ik->i", lower, covariance, lower))

    (mean, sd), half = moments(slice(None)), len(phi) // 2
    parts = moments(slice(0, half)), moments(slice(half, None))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, mean=mean, sd=sd, draws=len(phi))
    print(
        f"{len(phi):,} draws; the halves differ by {np.max(np.abs(parts[0][1] / parts[1][1] - 1)):.2%} of an sd and, in"
    )
    print(f"means, by {np.max(np.abs(parts[0][0] - parts[1][0]) / sd):.3f} sd at most: errors are about half of that")


# The table.


def child(name: str, number: int, path: Path, budget: float, cpu: bool) -> None:
    """Run one setting of a contestant in this process."""
    _, function, settings = CONTESTANTS[name]
    clock = time.process_time if cpu else time.perf_counter
    record = Record(path, budget, clock)
    function(Logistic(), record, settings[number])
    record.look()


def run(name: str, number: int, options: argparse.Namespace) -> Path | None:
    """The same in a process of its own on one core; the file it leaves, unless it failed."""
    path = Path(tempfile.mkdtemp()) / "record.npz"
    command = [sys.executable, __file__, "--child", name, str(number), str(path), "--budget", str(options.budget)]
    command += ["--core", str(options.core), *(["--cpu"] if options.cpu else [])]
    threads = {"XLA_FLAGS": ONE_THREAD, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | threads, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"  {name} failed: {(done.stderr.strip() or str(done.returncode)).splitlines()[-1]}", flush=True)
        return None
    return path


def judge(path: Path, reference: Any) -> dict[str, Any]:
    """Seconds until all looks are right, how many they are, and the worst errors at the last one."""
    found = np.load(path)
    facts = json.loads(str(found["facts"]))
    if not len(found["times"]):
        return facts | {"seconds": np.inf, "looks": 0, "mean": np.inf, "sd": np.inf}
    mean = np.max(np.abs(found["means"] - reference["mean"]) / reference["sd"], axis=1)
    sd = np.max(np.abs(found["sds"] / reference["sd"] - 1), axis=1)
    wrong = np.flatnonzero(~((mean <= MEAN_LIMIT) & (sd <= SD_LIMIT)))
    first = wrong[-1] + 1 if len(wrong) else 0
    seconds = float(found["times"][first]) if first < len(mean) else np.inf
    return facts | {"seconds": seconds, "looks": len(mean) - first, "mean": mean[-1], "sd": sd[-1]}


def table(reference: Any, options: argparse.Namespace) -> None:
    """Run contestants one after the other and print what they reached."""
    budget, clock = options.budget, "of computing" if options.cpu else "on the wall"
    print(f"logistic regression, 581,012 x 54: seconds {clock} until all means are within {MEAN_LIMIT} sd and all sds")
    print(f"within {SD_LIMIT:.0%} of NUTS, and stay so to the end of {budget:g} s; one core; compilation included")
    heads = (
        f"{'seconds':>14s} {'looks':>5s} {'ratio':>6s} {'mean':>6s} {'sd':>6s} {'draws':>10s} {'first':>6s} {'XLA':>5s}"
    )
    print(f"  {'':33s} {heads}", flush=True)
    notes, own = [], np.inf
    for name in options.only:
        label, _, settings = CONTESTANTS[name]
        paths = [run(name, number, options) for number in range(len(settings))]
        results = [(judge(path, reference), s) for path, s in zip(paths, settings, strict=True) if path is not None]
        if not results:
            continue
        best, setting = min(results, key=_rank)
        seconds = best["seconds"]
        own = seconds if name == "scirocco" else own
        reached = f"{seconds:.1f}" if np.isfinite(seconds) else f"not within {budget:g}"
        ratio = f"{seconds / own:.1f}" if np.isfinite(seconds) else f"> {budget / own:.1f}"
        first = f"{best['first']:.1f}" if best["first"] is not None else "none"
        errors = f"{best['mean']:6.3f} {best['sd']:6.1%}" if np.isfinite(best["sd"]) else f"{'-':>6s} {'-':>6s}"
        print(
            f"  {label:33s} {reached:>14s} {best['looks']:5d} {ratio if np.isfinite(own) else '':>6s} "
            f"{errors} {best['draws']:10,d} {first:>6s} {best['compiling']:5.1f}",
            flush=True,
        )
        notes.append(f"{label}{f' (the best of {settings}: {setting})' if len(settings) > 1 else ''}: {best['note']}")
    print("looks: how many, to the end, were right; ratio: to the first row; mean, sd: worst errors at the end, in sds")
    print("and relative; first: seconds to the first draw after warm-up; XLA: seconds on the wall in its compiler")
    print("\n".join(notes))


def _rank(result: tuple[dict[str, Any], Any]) -> tuple[float, float]:
    """By the time needed; among those that did not make it by the errors at the end."""
    found = result[0]
    return found["seconds"], max(found["mean"] / MEAN_LIMIT, found["sd"] / SD_LIMIT)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark, make a reference, or be one of the contestants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, help="an .npz file with mean and sd")
    parser.add_argument("--make-reference", nargs=2, metavar=("SECONDS", "FILE"))
    parser.add_argument("--budget", type=float, default=600.0, help="seconds for each contestant")
    parser.add_argument("--only", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    parser.add_argument("--core", type=int, default=cores[-1], help="the one that contestants run on")
    parser.add_argument("--cpu", action="store_true", help="count seconds of computing, not those on the wall")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {options.core})
        child(options.child[0], int(options.child[1]), Path(options.child[2]), options.budget, options.cpu)
    elif options.make_reference:
        make_reference(float(options.make_reference[0]), Path(options.make_reference[1]))
    elif options.reference:
        table(np.load(options.reference), options)
    else:
        parser.error("give --reference FILE, or make one with --make-reference SECONDS FILE")


if __name__ == "__main__":
    main()
