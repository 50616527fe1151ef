"""SGHMC against SGNHT on two tasks of machine learning: section 5.2 of Ding et al. (2014), Figure 3, Tables 2 and 3.

A Bayesian neural network for MNIST, 784-100-10 with sigmoid units, on minibatches of 20 images, and Bayesian matrix
factorisation of the ratings of MovieLens-1M, 10 factors, on minibatches of 400. The source claims that SGNHT is more
stable when the learning rate eta is large: there SGHMC gets worse and worse and diverges, the more so with little
friction a, because it cannot handle the noise of the minibatches. A larger a slows down MovieLens and helps MNIST. The
kinetic energy per coordinate of SGNHT is always near 0.5, that of SGHMC usually higher. With settings chosen on
validation data SGNHT is better: test errors of 2.25 % and 2.15 % on MNIST, test RMSE 0.8582 and 0.8572 on MovieLens.

In the source's reformulation eta = h^2 and a = A h; so h = sqrt(eta) and A = a/h here, ``friction`` of ``sc.SGHMC`` and
``diffusion`` of ``sc.SGNHT``.

What differs: the runs are shorter. MNIST has 10,000 iterations, the first 2,000 not counted, the source 50,000 and
10,000. MovieLens has 6,000, the first 2,000 not counted, the source 100,000 and 20,000: that is 3 passes over the data
in place of 50. Every 400th draw after burn-in goes into the posterior predictive average, 20 and 10 draws. The grid is
run from one seed and the chosen settings from three. A validation set of 20,000 ratings replaces the five-fold
cross-validation. The precision of a rating is 3; those of the weights have the laws Gamma(1, 300) on MovieLens and
Gamma(1, 1) on MNIST. The source does not say what it had. Precisions are drawn at every iteration. Minibatches are
independent for both samplers. Chains start at small random weights. The third data set, Netflix, is not to be had; the
fourth row is ``lda_thermostat.py``. A chain that leaves the finite numbers has an infinite error. Full mode reads
``mnist.npz`` and ``ml1m.npz`` in the folder named by SCIROCCO_DATA. Short mode takes the digits of scikit-learn for
MNIST, with larger eta because there are fewer rows, and leaves out the ratings.

What came out: on MNIST much is as claimed. But at equal a = 0.01 and eta up to 4e-7 the two samplers are hardly to be
told apart: the chosen settings differ in eta, which validation errors of 3.14 % and 3.15 % decided for SGHMC, and so
'with the chosen settings SGNHT is better' is not about the samplers alone. On MovieLens with a = 0.01 the runs are too
short for the thermostat. It settles within about (A + B)/h steps (docs/reference/conventions.md), some 200,000 with
the B that the kinetic energy of SGHMC suggests; its own kinetic energy is still above 2, and at the largest eta, the
best in Table 3, it diverges too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import jax
import jax.numpy as jnp
import numpy as np
from common import COLOURS, INK, Claim

import scirocco as sc
from scirocco.batches import RandomBlocks
from scirocco.gradient.blocks import split

TAU = 3.0  # the precision of a rating
SAMPLERS = {"SGHMC": sc.SGHMC, "SGNHT": sc.SGNHT}
SETTING = {"SGHMC": "friction", "SGNHT": "diffusion"}  # what A is called
MNIST, RATINGS = "MNIST", "MovieLens"
ETAS = (2e-7, 4e-7, 6e-7, 8e-7)
MODES: dict[str, Any] = {
    "tiny": {"seeds": 2, "tasks": {
        MNIST: {"hidden": 4, "batch": 20, "frictions": (0.001, 0.01), "etas": (1e-5, 4e-5), "steps": 40, "burn_in": 20,
                "thin": 10},
        RATINGS: {"factors": 2, "batch": 40, "frictions": (0.01, 0.1), "etas": (1e-5, 4e-5), "steps": 40,
                  "burn_in": 20, "thin": 10}}},
    "short": {"seeds": 2, "tasks": {  # one task is what compiles in short time
        MNIST: {"hidden": 10, "batch": 20, "frictions": (0.001, 0.01), "etas": (1e-5, 4e-5), "steps": 400,
                "burn_in": 200, "thin": 20}}},
    "full": {"seeds": 3, "tasks": {
        MNIST: {"hidden": 100, "batch": 20, "frictions": (0.001, 0.01), "etas": ETAS, "steps": 10_000,
                "burn_in": 2000, "thin": 400},
        RATINGS: {"factors": 10, "batch": 400, "frictions": (0.01, 0.1), "etas": ETAS, "steps": 6000,
                  "burn_in": 2000, "thin": 400}}},
}  # fmt: skip
PRINTED = {MNIST: {"SGHMC": (0.01, 2e-7), "SGNHT": (0.01, 2e-7)}, RATINGS: {"SGNHT": (0.01, 8e-7)}}  # Table 3
HELPS = {MNIST: True, RATINGS: False}  # whether the source finds a larger a better
COLOUR = dict(zip(SAMPLERS, COLOURS, strict=False))
DIGITS = {MNIST: 2, RATINGS: 4}
MEASURE = {MNIST: "test error, %", RATINGS: "test RMSE"}


class Task(NamedTuple):
    """A posterior with its Gibbs block and start; predictions of a draw, and their loss, on data to be predicted."""

    target: sc.Target
    block: Any
    start: Callable[[Any], Any]
    predict: Callable[[Any, Any], Any]
    loss: Callable[[np.ndarray, np.ndarray], float]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    naive: float  # the test loss without any model


class Run(NamedTuple):
    """A chain: losses of the average prediction, the test loss of single draws, kinetic energy per coordinate."""

    validation: float
    test: float
    single: np.ndarray
    kinetic: float


Setting = tuple[str, float, float]  # the sampler, a, eta


class Grid(NamedTuple):
    """A task: the first seed on the whole grid, and every seed of the settings chosen by it."""

    runs: dict[Setting, Run]
    chosen: dict[str, Setting]
    seeds: dict[str, list[Run]]
    marks: np.ndarray  # iterations of the single draws
    naive: float

    def test(self, method: str, a: float) -> np.ndarray:
        """The test losses of a row of the grid, by eta."""
        return np.array([run.test for (name, b, _), run in self.runs.items() if (name, b) == (method, a)])

    def ends(self, method: str) -> np.ndarray:
        """The test losses of all seeds of the chosen setting."""
        return np.array([run.test for run in self.seeds[method]])

    @property
    def frictions(self) -> list[float]:
        """From the smallest."""
        return sorted({a for _, a, _ in self.runs})


# The two tasks.


def digits(mode: str, hidden: int) -> Task:
    """A network for images with pixels in [0, 1]: 50,000 of MNIST, or the small digits of scikit-learn."""
    if mode != "full":
        from sklearn.datasets import load_digits

        found = load_digits()
        order = np.random.default_rng(0).permutation(len(found.target))
        x, y = found.data[order] / 16, found.target[order]
        borders = 1000, 1400
    else:
        found = common.data_set(sc.datasets.load_mnist)
        x = np.concatenate([found.x_train, found.x_test]) / np.float32(255)
        y = np.concatenate([found.y_train, found.y_test])
        borders = 50_000, 60_000
    train, validation, test = zip(
        np.split(x.astype(np.float32), borders), np.split(y.astype(np.int32), borders), strict=True
    )
    model = sc.NeuralNetworkClassifier(hidden, activation="sigmoid", precision_shape=1.0, precision_rate=1.0)
    return Task(
        model.target(*train), model.precision_block(), lambda key: model.initial(key, x.shape[1], 10),
        lambda params, x: jax.nn.softmax(model.forward(params, x)),
        lambda chances, y: 100 * float(np.mean(np.argmax(chances, axis=-1) != y)), validation, test,
        100 * float(np.mean(np.argmax(np.bincount(train[1])) != test[1])),
    )  # fmt: skip


def ratings(mode: str, factors: int) -> Task:
    """Factors for ratings, 20 % of them for the test and 2 % for validation."""
    rng = np.random.default_rng(0)
    if mode != "full":
        users, items = 60, 80
        pairs = np.stack([rng.integers(users, size=5000), rng.integers(items, size=5000)], axis=1)
        p, q = rng.normal(size=(users, factors)), rng.normal(size=(items, factors))
        given = 3 + 0.5 * np.sum(p[pairs[:, 0]] * q[pairs[:, 1]], axis=1) + rng.normal(0, 0.6, len(pairs))
    else:
        found = common.data_set(sc.datasets.load_movielens, "1m")
        pairs, given = found.pairs, found.rating
        users, items = pairs.max(axis=0) + 1
    order = rng.permutation(len(given))
    borders = int(0.78 * len(given)), int(0.8 * len(given))
    train, validation, test = zip(
        np.split(pairs[order].astype(np.int32), borders), np.split(given[order].astype(np.float32), borders),
        strict=True,
    )  # fmt: skip
    model = sc.MatrixFactorization(factors, noise_precision=TAU, precision_shape=1.0, precision_rate=300.0)
    model.n_users_, model.n_items_ = int(users), int(items)
    model.mean_ = float(train[1].mean(dtype=np.float64))

    shapes = {"user_factors": (model.n_users_, factors), "item_factors": (model.n_items_, factors)}
    inner = model.target(*train)

    def shaped(params: Any) -> Any:
        # Chains carry vectors: random normals in rows of 10 take three times as long.
        return {name: jnp.reshape(value, shapes.get(name, value.shape)) for name, value in params.items()}

    def predict(params: Any, pairs: Any) -> Any:
        params, user, item = shaped(params), pairs[:, 0], pairs[:, 1]
        products = jnp.sum(params["user_factors"][user] * params["item_factors"][item], axis=1)
        return model.mean_ + products + params["user_biases"][user] + params["item_biases"][item]

    def loss(rating: np.ndarray, true: np.ndarray) -> float:
        return float(np.sqrt(np.mean((rating - true) ** 2, dtype=np.float64)))

    target = sc.Target(
        lambda params: inner.log_prior(shaped(params)), lambda params, rows: inner.log_likelihood(shaped(params), rows),
        inner.data, batched=True,
    )  # fmt: skip
    return Task(
        target, model.precision_block(), lambda key: jax.tree.map(jnp.ravel, model.initial(key)), predict, loss,
        validation, test, loss(np.float32(model.mean_), test[1]),
    )  # fmt: skip


# The experiment.


def chain_of(task: Task, method: str, *, batch: int, steps: int, thin: int) -> Callable[..., Any]:
    """A compiled chain, which takes the learning rate and the friction as arguments: every ``thin``-th draw."""
    bound = sc.kernel(
        task.target, SAMPLERS[method](1.0), batch_size=batch, blocks=[task.block], batching=RandomBlocks()
    )

    def follow(key: Any, a: Any, eta: Any, start: Any, data: Any) -> Any:
        h = jnp.sqrt(eta)
        kernel = bound.replaced(SAMPLERS[method](h, **{SETTING[method]: a / h}))
        first, key = jax.random.split(key)
        state = kernel.program.state(first, *split(start, bound.blocks), ())

        def record(state: Any, number: Any) -> tuple[Any, Any]:
            def advance(inner: Any, carry: Any) -> Any:
                state, total = carry
                state = kernel.program.transition(jax.random.fold_in(key, number * thin + inner), state, data)[0]
                return state, total + kinetic(state.sampler.momentum)

            state, total = jax.lax.fori_loop(0, thin, advance, (state, jnp.zeros(())))
            return state, (state.sampler.position, total / thin)

        return jax.lax.scan(record, state, jnp.arange(steps // thin))[1]

    compiled = jax.jit(follow)
    return lambda key, a, eta, start: compiled(key, a, eta, start, bound.data_at(0))


def kinetic(momentum: Any) -> Any:
    """Per coordinate."""
    leaves = jax.tree.leaves(momentum)
    return sum(jnp.sum(leaf**2) for leaf in leaves) / (2 * sum(leaf.size for leaf in leaves))


def measure(task: Task, draws: Any, energies: Any, predict: Callable[..., Any], burn_in: int) -> Run:
    """What a chain is worth; ``burn_in`` in draws."""
    energy = float(np.mean(np.asarray(energies)[burn_in:], dtype=np.float64))

    def score(rows: Any, truth: np.ndarray, first: int) -> tuple[float, np.ndarray]:
        made = np.asarray(predict(jax.tree.map(lambda d: d[first:], draws), rows))
        good = np.isfinite(made).reshape(len(made), -1).all(axis=1)
        single = np.array([task.loss(m, truth) if g else np.inf for m, g in zip(made, good, strict=True)])
        if not good.all():
            return np.inf, single
        return task.loss(made[burn_in - first :].mean(axis=0), truth), single

    test, single = score(*task.test, 0)
    return Run(score(*task.validation, burn_in)[0], test, single, energy if np.isfinite(energy) else np.inf)


def explore(
    task: Task, *, seeds: int, batch: int, frictions: Sequence[float], etas: Sequence[float], steps: int, burn_in: int,
    thin: int,
) -> Grid:  # fmt: skip
    """The grid from one seed, then the setting with the lowest loss on validation from the others."""
    chains = {method: chain_of(task, method, batch=batch, steps=steps, thin=thin) for method in SAMPLERS}
    predict = jax.jit(lambda draws, rows: jax.lax.map(lambda params: task.predict(params, rows), draws))

    def follow(setting: Setting, seed: int) -> Run:
        method, a, eta = setting
        start_key, key = jax.random.split(jax.random.key(seed))
        return measure(task, *chains[method](key, a, eta, task.start(start_key)), predict, burn_in // thin)

    runs = {(method, a, eta): follow((method, a, eta), 0) for method in SAMPLERS for a in frictions for eta in etas}
    chosen, again = {}, {}
    for method in SAMPLERS:
        best = min((key for key in runs if key[0] == method), key=lambda key: runs[key].validation)
        chosen[method] = best
        again[method] = [runs[best], *(follow(best, seed) for seed in range(1, seeds))]
    return Grid(runs, chosen, again, np.arange(thin, steps + 1, thin), task.naive)


def run(mode: str) -> dict[str, Grid]:
    """Each task."""
    results = {}
    for name, given in MODES[mode]["tasks"].items():
        settings = {**given}
        task = digits(mode, settings.pop("hidden")) if name == MNIST else ratings(mode, settings.pop("factors"))
        results[name] = explore(task, seeds=MODES[mode]["seeds"], **settings)
    return results


def words(setting: Setting) -> str:
    """A setting in words."""
    method, a, eta = setting
    return f"{method}, a = {a:g}, eta = {eta:.0e}"


def table(results: dict[str, Grid]) -> str:
    """The grids, then all seeds of the chosen settings."""
    parts = []
    for name, grid in results.items():
        k = DIGITS[name]
        rows = [(words(key), f"{run.validation:.{k}f}", f"{run.test:.{k}f}", f"{run.single[-1]:.{k}f}",
                 f"{run.kinetic:.3f}") for key, run in grid.runs.items()]  # fmt: skip
        header = (f"{name}, {MEASURE[name].removeprefix('test ')}", "validation", "test", "test, last draw", "kinetic")
        chosen = [f"chosen: {words(grid.chosen[m])}: test {common.spread(grid.ends(m), k)}, mean "
                  f"{grid.ends(m).mean():.{k}f}, sd {deviation(grid.ends(m)):.{k}f}" for m in SAMPLERS]  # fmt: skip
        parts += [common.columns(header, rows), *chosen, f"without any model: {grid.naive:.{k}f}", ""]
    return "\n".join(parts[:-1])


def deviation(values: np.ndarray) -> float:
    """The standard deviation over seeds; infinite if one diverged."""
    return float(values.std(ddof=1)) if np.isfinite(values).all() else np.inf


def lower(a: float, b: float) -> float:
    """By how much a lies below b; nan if both are infinite."""
    return float(b - a) if np.isfinite([a, b]).any() else np.nan


def check(results: dict[str, Grid]) -> list[Claim]:
    """The source's claims; the criteria were set before the full run."""
    claims = []
    for name, grid in results.items():
        k, (small, large) = DIGITS[name], (grid.frictions[0], grid.frictions[-1])
        rows = {(m, a): grid.test(m, a) for m in SAMPLERS for a in (small, large)}
        hmc, nht = (grid.ends(m) for m in SAMPLERS)
        kinetic = {m: np.array([run.kinetic for key, run in grid.runs.items() if key[0] == m]) for m in SAMPLERS}
        noise = float(np.linalg.norm([sd for sd in map(deviation, (hmc, nht)) if np.isfinite(sd)]))
        error = np.hypot(*(deviation(values) / np.sqrt(values.size) for values in (hmc, nht)))
        rise, best = rows["SGHMC", small], {key: values.min() for key, values in rows.items()}
        gap = {a: lower(rows["SGNHT", a][-1], rows["SGHMC", a][-1]) for a in (small, large)}
        better = all(best[m, large] < best[m, small] if HELPS[name] else best[m, small] < best[m, large]
                     for m in SAMPLERS)  # fmt: skip
        claims += [
            Claim(f"{name}: at the largest eta SGNHT is better than SGHMC, with either a (by over twice the sd of a "
                  "difference)", all(g > 2 * noise for g in gap.values()),
                  ", ".join(f"a = {a:g}: SGNHT {rows['SGNHT', a][-1]:.{k}f}, SGHMC {rows['SGHMC', a][-1]:.{k}f}"
                            for a in gap) + f"; sd {noise:.{k}f}"),
            Claim(f"{name}: and the more so with a = {small:g} than with a = {large:g} (by over twice the sd of that)",
                  bool(gap[small] > max(0.0, gap[large]) + 2 * np.sqrt(2) * noise),
                  ", ".join(f"a = {a:g}: {g:.{k}f} lower" for a, g in gap.items())
                  + f"; sd {np.sqrt(2) * noise:.{k}f}"),
            Claim(f"{name}: with a = {small:g} SGHMC gets worse and worse as eta grows (at every step of the grid; "
                  "infinite is worse)", bool(np.all((rise[1:] > rise[:-1]) | np.isinf(rise[1:]))),
                  f"by eta {common.spread(rise, k)}"),
            Claim(f"{name}: with a = {small:g} and the largest eta SGHMC diverges (infinite, or worse than no model)",
                  bool(rise[-1] > grid.naive), f"{rise[-1]:.{k}f}, no model {grid.naive:.{k}f}"),
            Claim(f"{name}: a larger a {'helps' if HELPS[name] else 'slows down'} (the best with a = {large:g} "
                  f"{'below' if HELPS[name] else 'above'} that with a = {small:g}, for both samplers)", better,
                  ", ".join(f"{m} {best[m, large]:.{k}f} against {best[m, small]:.{k}f}" for m in SAMPLERS)),
            Claim(f"{name}: the kinetic energy of SGNHT is always around 0.5 (from 0.45 to 0.55)",
                  bool(np.all(np.abs(kinetic["SGNHT"] - 0.5) < 0.05)), common.spread(kinetic["SGNHT"])),
            Claim(f"{name}: that of SGHMC is usually higher (than that of SGNHT, in more than half of the grid)",
                  bool(np.mean(kinetic["SGHMC"] > kinetic["SGNHT"]) > 0.5), common.spread(kinetic["SGHMC"])),
            Claim(f"{name}: with the chosen settings SGNHT is better (means of the seeds, by more than two standard "
                  "errors)", bool(lower(nht.mean(), hmc.mean()) > 2 * error if np.isfinite(hmc).all() else
                                  np.isfinite(nht).all()),
                  f"SGNHT {common.spread(nht, k)}, SGHMC {common.spread(hmc, k)}; difference of the means "
                  f"{lower(nht.mean(), hmc.mean()):.{k}f}, its standard error {error:.{k}f}"),
            Claim(f"{name}: the chosen settings are those of Table 3, where it can be read",
                  all(grid.chosen[m][1:] == wanted for m, wanted in PRINTED[name].items()),
                  "; ".join(words(grid.chosen[m]) + f", Table 3 has a = {a:g}, eta = {eta:.0e}"
                            for m, (a, eta) in PRINTED[name].items())),
        ]  # fmt: skip
    return claims


def draw(results: dict[str, Grid], path: Path) -> None:
    """A row for each task: the test loss over the grid, as in the source, and the way there of single draws."""
    figure = common.picture(13, 4.4 * len(results))
    panels = figure.subplots(len(results), 3, squeeze=False)
    for (name, grid), row in zip(results.items(), panels, strict=True):
        etas = sorted({eta for *_, eta in grid.runs})
        unit = 10.0 ** np.floor(np.log10(etas[0]))
        for axes, a in zip(row, grid.frictions, strict=False):
            for method in SAMPLERS:
                axes.plot(np.array(etas) / unit, grid.test(method, a), "o-", color=COLOUR[method], label=method)
                if grid.chosen[method][1] == a:
                    ends = grid.ends(method)
                    axes.plot(np.full(ends.size, grid.chosen[method][2] / unit), ends, "_", color=COLOUR[method],
                              markersize=14, label=f"{method}, all seeds of the chosen setting")  # fmt: skip
            common.tidy(axes, f"{name}, a = {a:g}", f"eta, in {unit:.0e}", MEASURE[name])
        for (method, a, eta), run in grid.runs.items():
            if eta in (etas[0], etas[-1]):
                row[-1].plot(grid.marks, run.single, color=COLOUR[method], linewidth=1.8 if eta == etas[-1] else 0.9,
                             linestyle="-" if a == grid.frictions[-1] else "--",
                             label=words((method, a, eta)))  # fmt: skip
        row[-1].axhline(grid.naive, color=INK, linestyle=":", linewidth=1, label="without any model")
        row[-1].set_yscale("log")
        row[-1].set_ylim(top=1.5 * grid.naive)
        common.tidy(row[-1], f"{name}: the way, one draw at a time", "iterations", MEASURE[name])
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "thermostat_learning", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
