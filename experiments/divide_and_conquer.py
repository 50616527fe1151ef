"""Divide and conquer against stochastic gradients: Figures 2.4.1 to 2.4.4 of Baker's thesis (2019), section 2.4.2.

Data is cut into S = 20 shards; draws of their posteriors, by NUTS, are combined by consensus, KDEMC and Weierstrass.
Against them stand SGLD and SGHMC (L = 3 gradient steps an iteration) on minibatches of 50. The measure is the
Kullback-Leibler divergence from a NUTS run on all data, in 10 repetitions on the same data. Four kinds of posteriors:

    heavy tails    x ~ Student's t in the plane around theta, N = 800, flat prior
    two modes      x ~ N(theta_1, I)/2 + N(theta_2, I)/2 in the plane, N = 10,000, wide priors
    warped         x ~ N(theta_1 + theta_2^2, sigma_x), theta ~ N(0, sigma_theta), N = 800
    normal         x ~ N(theta, Sigma) in d dimensions, N = 800, flat prior

The source claims. Heavy tails: all methods are equipped for it; KDEMC and SGLD are the poorest, SGHMC the best, closely
followed by consensus and Weierstrass. Two modes: consensus has one mode between them, KDEMC is better but has one too,
Weierstrass is not much better; SGLD and SGHMC explore both, SGLD is best. Warped: consensus fails, KDEMC
underestimates the tails, Weierstrass is better than KDEMC and worse than SGLD and SGHMC. Dimension: KDEMC fails,
consensus is very good, Weierstrass much better than KDEMC. In all: stochastic gradients are robust to the shape, and
the cost of SGHMC is not worth it. Beside them here: ``swiss``, and consensus and swiss reweighted by their certificates
(``sc.combine.certify``), and whether the certificates saw every failure.

The divergence is the estimate from distances to nearest neighbours (Wang, Kulkarni and Verdu 2009, the fifth one), of
the truth from the answer, 2,000 draws each: of the two directions the one that sees a missed mode. Of answers that are
too narrow it is too low, by half or so. That of a second NUTS run is the floor; what lies above it is the 'excess', and
an answer fails if it is more than 0.1.

What differs: the source does not print the data's parameters. Here nu = 3 and the scale [[1, 0.5], [0.5, 1]]; means (0,
0) and (0.2, 0.2), whose posterior has modes that overlap, as the source says of its own (the density between them is
0.56 of that at the modes; at (0.3, 0.3) SGLD crosses only with steps at which other directions are three times too
wide), and priors N(0, 10); theta = (0.5, 0), sigma_x = 2, sigma_theta = 1; Sigma with correlations 0.5^|i - j|. Step
sizes of SGLD and SGHMC are the best of a grid by the divergence in a run of its own, as in the source. It gives every
method as many iterations; here SGLD and SGHMC have 100,000 after 2,000, every 50th kept, because NUTS on the shards
looks at 10 to 300 million rows and SGLD, with them, at 5 million (with 10,000 iterations they did not get around in
posteriors with two modes or a bend). KDEMC and Weierstrass, which the source tunes as well, choose their widths
themselves, are ours, and differ from those of the source (see docs/guides/combine.md). NUTS is BlackJAX's
in place of Stan's, with 2 x 1,000 draws a shard. Short mode has 2 repetitions, a fifth of the draws, two dimensions.
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
from scipy.spatial import cKDTree

import scirocco as sc

SHARDS, BATCH, NEIGHBOUR, FAILS, APART = 20, 50, 5, 0.1, 0.2
SHARED, REWEIGHTED = ("consensus", "kdemc", "weierstrass", "swiss"), ("consensus, reweighted", "swiss, reweighted")
STOCHASTIC = ("SGLD", "SGHMC")
METHODS, SOURCE = (*SHARED, *REWEIGHTED, *STOCHASTIC), ("consensus", "kdemc", "weierstrass", *STOCHASTIC)
COLOUR = dict(zip(METHODS, (*COLOURS[:3], COLOURS[3], COLOURS[0], COLOURS[3], "#e69f00", "#56b4e9"), strict=True))
# In units of the narrowest direction: h of SGLD over its variance, h of SGHMC over its sd.
GRID = {"SGLD": (0.003, 0.01, 0.03, 0.1, 0.3), "SGHMC": (0.01, 0.03, 0.1, 0.3, 0.8)}
MODES: dict[str, Any] = {
    "tiny": {"repetitions": 1, "draws": 100, "thin": 1, "dimensions": (2,), "warm_up": 100},
    "short": {"repetitions": 2, "draws": 400, "thin": 5, "dimensions": (2, 10), "warm_up": 1_000},
    "full": {"repetitions": 10, "draws": 2_000, "thin": 50, "dimensions": (2, 5, 10, 20), "warm_up": 1_000},
}


class Problem(NamedTuple):
    """A posterior, where chains start, a function of a key, and how much longer the NUTS run must be."""

    target: sc.Target
    start: Callable[[Any], Any]
    effort: int = 1


class Verdicts(NamedTuple):
    """What the certificates of a method's answers say, one a repetition."""

    k_hat: np.ndarray
    trusted: np.ndarray
    reliable: np.ndarray


class Found(NamedTuple):
    """Of one posterior: excess divergences of each method (repetition,), certificates, the draws of the first
    repetition and those of the truth, the floor, and how wide answers are (sds over the truth's, worst coordinate)."""

    excess: dict[str, np.ndarray]
    verdicts: dict[str, Verdicts]
    draws: dict[str, np.ndarray]
    truth: np.ndarray
    floor: float
    width: dict[str, np.ndarray]

    def median(self, method: str) -> float:
        """Of the excess."""
        return float(np.median(self.excess[method]))


Results = dict[str, Found]


# The posteriors.


def heavy_tails() -> Problem:
    """The location of a bivariate t law."""
    rng, freedom = np.random.default_rng(1), 3.0
    scale = np.array([[1.0, 0.5], [0.5, 1.0]])
    x = rng.multivariate_normal(np.zeros(2), scale, 800) / np.sqrt(rng.chisquare(freedom, (800, 1)) / freedom)
    precision = jnp.asarray(np.linalg.inv(scale), jnp.float32)

    def log_likelihood(theta: Any, x: Any) -> Any:
        gap = x - theta
        return -(freedom + 2) / 2 * jnp.log1p(gap @ precision @ gap / freedom)

    return Problem(sc.Target(flat, log_likelihood, x.astype(np.float32)), lambda key: jax.random.normal(key, (2,)))


def two_modes() -> Problem:
    """The two means of a mixture; they can be exchanged."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(10_000, 2)) + APART * rng.integers(2, size=(10_000, 1))

    def log_likelihood(theta: Any, x: Any) -> Any:
        return jax.nn.logsumexp(-jnp.sum((x - theta.reshape(2, 2)) ** 2, axis=-1) / 2)

    target = sc.Target(lambda theta: -jnp.sum(theta**2) / 20, log_likelihood, x.astype(np.float32))
    return Problem(target, lambda key: jax.random.normal(key, (4,)))


def warped() -> Problem:
    """A banana, in which NUTS is slow."""
    x = np.random.default_rng(3).normal(0.5, 2.0, 800)
    target = sc.Target(
        lambda theta: -jnp.sum(theta**2) / 2, lambda theta, x: -((x - theta[0] - theta[1] ** 2) ** 2) / 8,
        x.astype(np.float32),
    )  # fmt: skip
    return Problem(target, lambda key: jax.random.normal(key, (2,)), effort=10)


def normal(dimension: int) -> Problem:
    """The mean of a normal law."""
    place = np.arange(dimension)
    covariance = 0.5 ** np.abs(place[:, None] - place)
    x = np.random.default_rng(4).multivariate_normal(np.zeros(dimension), covariance, 800)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    target = sc.Target(flat, lambda theta, x: -(x - theta) @ precision @ (x - theta) / 2, x.astype(np.float32))
    return Problem(target, lambda key: jax.random.normal(key, (dimension,)))


def flat(theta: Any) -> Any:
    """No prior."""
    del theta
    return 0.0


PROBLEMS: dict[str, Callable[[], Problem]] = {"heavy tails": heavy_tails, "two modes": two_modes, "warped": warped}


# The runs.


def divergence(truth: np.ndarray, answer: np.ndarray) -> float:
    """KL(truth | answer) from the distances of the truth's draws to their neighbours in both, in the truth's units."""
    if not np.isfinite(answer).all():
        return np.inf
    scale = np.linalg.cholesky(np.linalg.inv(np.cov(truth.T)))
    p, q = truth @ scale, answer @ scale
    own = cKDTree(p).query(p, NEIGHBOUR + 1)[0][:, -1]  # each is its own nearest
    other = cKDTree(q).query(p, NEIGHBOUR)[0][:, -1]
    return float(p.shape[1] * np.mean(np.log(other / own)) + np.log(len(q) / (len(p) - 1)))


def thinned(draws: np.ndarray, count: int) -> np.ndarray:
    """So many of them, evenly."""
    return draws[np.linspace(0, len(draws) - 1, count).astype(int)]


def nuts(problem: Problem, draws: int, warm_up: int, seed: int) -> np.ndarray:
    """From all data, four chains with short steps: (draw, coordinate)."""
    trace = sc.sample(problem.target, sc.NUTS(0.1, acceptance=0.95, adaptation=warm_up // 2), problem.start,
                      num_samples=draws, thin=problem.effort, burn_in=warm_up, chains=4, seed=seed, report=False,
                      progress=False)  # fmt: skip
    theta = trace.posterior["theta"].values.astype(np.float64)
    return thinned(theta.reshape(-1, theta.shape[-1]), draws)  # chain after chain, of each every fourth draw


def combined(problem: Problem, draws: int, warm_up: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The answers of all methods from the same shards, and the certificates."""
    found = sc.sample_shards(
        problem.target, sc.NUTS(0.1, adaptation=warm_up // 2), problem.start, shards=SHARDS, num_samples=draws // 2,
        burn_in=warm_up // 2, chains=2, seed=seed, progress=False,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    answers, certificates = {}, {}
    for method in SHARED:
        answer = found.combined(method)
        certificates[method] = sc.combine.certify(problem.target, answer, num_samples=2 * draws, seed=seed)
        theta = answer["theta"].values[0].astype(np.float64)
        answers[method] = theta[rng.choice(len(theta), draws, replace=False)]
        if f"{method}, reweighted" in REWEIGHTED:
            answers[f"{method}, reweighted"] = np.asarray(certificates[method].resampled(draws), np.float64)
    return answers, certificates


def stochastic(
    problem: Problem, method: str, step: float, draws: int, thin: int, warm_up: int, chains: int, seed: int
) -> np.ndarray:
    """SGLD or SGHMC: (chain, draw, coordinate); infinite if they diverge."""
    made = {
        "SGLD": lambda: sc.SGLD(step**2),
        "SGHMC": lambda: sc.SGHMC(step, friction=0.1 / step, inner_steps=3, resample_momentum=True),
    }
    try:
        trace = sc.sample(
            problem.target, made[method](), problem.start, num_samples=draws, burn_in=2 * warm_up, thin=thin,
            batch_size=BATCH, estimator=sc.Plain(), batching=common.Subsets(), chains=chains, seed=seed, report=False,
            progress=False,
        )  # fmt: skip
    except sc.DivergenceError:
        return np.full((chains, draws, problem.start(jax.random.key(0)).size), np.inf)
    return trace.posterior["theta"].values.astype(np.float64)


def compare(problem: Problem, *, repetitions: int, draws: int, thin: int, warm_up: int) -> Found:
    """All methods on one posterior."""
    truth = nuts(problem, draws, warm_up, seed=100)
    floor = divergence(truth, nuts(problem, draws, warm_up, seed=101))
    answers: dict[str, list[np.ndarray]] = {method: [] for method in METHODS}
    certificates: dict[str, list[Any]] = {method: [] for method in SHARED}
    for seed in range(repetitions):
        made, said = combined(problem, draws, warm_up, seed)
        for method, answer in made.items():
            answers[method].append(answer)
        for method, certificate in said.items():
            certificates[method].append(certificate)
    narrowest = float(np.sqrt(np.linalg.eigvalsh(np.cov(truth.T))[0]))
    for method in STOCHASTIC:
        steps = [narrowest * (c**0.5 if method == "SGLD" else c) for c in GRID[method]]
        runs = [stochastic(problem, method, h, draws // 2, thin, warm_up, 1, seed=50)[0] for h in steps]
        tried = [divergence(truth, one) for one in runs]
        best = steps[int(np.argmin(tried))]
        answers[method] = list(stochastic(problem, method, best, draws, thin, warm_up, repetitions, seed=51))
    return Found(
        {method: np.array([divergence(truth, one) for one in found]) - floor for method, found in answers.items()},
        {method: Verdicts(*(np.array([getattr(c, name) for c in found]) for name in Verdicts._fields))
         for method, found in certificates.items()},
        {method: found[0] for method, found in answers.items()}, truth, floor,
        {method: np.array([worst(one.std(axis=0) / truth.std(axis=0)) for one in found])
         for method, found in answers.items()},
    )  # fmt: skip


def worst(ratios: np.ndarray) -> float:
    """The one that is furthest from 1."""
    return float(ratios[np.argmax(np.abs(np.log(np.maximum(ratios, 1e-6))))])


def run(mode: str) -> Results:
    """All methods on all posteriors."""
    settings = dict(MODES[mode])
    dimensions = settings.pop("dimensions")
    problems = PROBLEMS | {f"normal, {d}": (lambda d=d: normal(d)) for d in dimensions}
    if mode == "tiny":  # the smallest stands for all
        return dict.fromkeys(problems, compare(normal(2), **settings))
    results = {}
    for name, make in problems.items():
        results[name] = compare(make(), **settings)
        if mode == "full":
            print(name, {method: round(results[name].median(method), 3) for method in METHODS}, flush=True)
    return results


# The report.


def table(results: Results) -> str:
    """The excess divergence of every method, then every certificate."""
    rows = [(name, found.floor, *(f"{found.median(m):.2f} ({found.excess[m].max():.2f})" for m in METHODS))
            for name, found in results.items()]  # fmt: skip
    first = common.columns(("posterior", "floor", *METHODS), rows)
    said = []
    for name, found in results.items():
        for method, verdicts in found.verdicts.items():
            refused = ~verdicts.reliable
            said.append(
                (f"{method}, {name}", f"{found.median(method):.2f}", f"{np.median(found.width[method]):.2f}",
                 f"{np.median(verdicts.k_hat):.2f}", int(np.sum(found.excess[method] > FAILS)),
                 int(verdicts.trusted.sum()), int(np.sum(verdicts.reliable & ~verdicts.trusted)), int(refused.sum()))
            )  # fmt: skip
    header = ("answer", "excess", "sd over truth's", "k-hat", "fails", "'trust it'", "'reweighted'", "'do not trust'")
    return (
        f"median excess divergence in nats (largest), floor: a second NUTS run\n{first}\n\n"
        f"the certificates, medians and numbers of repetitions\n{common.columns(header, said)}"
    )


def check(results: Results) -> list[Claim]:
    """The source's claims; criteria fixed before the full run."""
    normals = [name for name in results if name.startswith("normal")]
    high, low = normals[-1], normals[0]

    def medians(name: str, methods: Sequence[str] = SOURCE) -> dict[str, float]:
        return {method: results[name].median(method) for method in methods}

    def words(name: str, methods: Sequence[str] = SOURCE) -> str:
        return ", ".join(f"{method} {value:.2f}" for method, value in medians(name, methods).items())

    t, modes, bent = (medians(name) for name in PROBLEMS)
    divided = SOURCE[:3]
    unseen = [
        f"{method} on {name}" for name, found in results.items() for method, verdicts in found.verdicts.items()
        if np.any((found.excess[method] > FAILS) & verdicts.trusted)
    ]  # fmt: skip
    wrong = [
        f"{method} on {name}" for name, found in results.items() for method in ("consensus", "swiss")
        if np.any((found.excess[f"{method}, reweighted"] > FAILS) & found.verdicts[method].reliable)
    ]  # fmt: skip
    needless = [
        f"{method} on {name}" for name, found in results.items() for method, verdicts in found.verdicts.items()
        if np.any((found.excess[method] <= FAILS) & ~verdicts.reliable)
    ]  # fmt: skip
    poorest = sorted(t, key=t.__getitem__)[-2:]
    tails = {method: float(np.median(results["warped"].width[method])) for method in divided}
    return [
        Claim("heavy tails: all methods are equipped for it (excess below 0.5)", max(t.values()) < 0.5,
              words("heavy tails")),
        Claim("heavy tails: KDEMC and SGLD are the poorest two of five", set(poorest) == {"kdemc", "SGLD"},
              words("heavy tails")),
        Claim("heavy tails: SGHMC is the best, consensus and Weierstrass closely behind (within 0.1)",
              min(t, key=t.__getitem__) == "SGHMC" and max(t["consensus"], t["weierstrass"]) < t["SGHMC"] + 0.1,
              words("heavy tails")),
        Claim("two modes: consensus performs poorly (the worst of five)", max(modes, key=modes.__getitem__) ==
              "consensus", words("two modes")),
        Claim("two modes: KDEMC improves on consensus and still fails", FAILS < modes["kdemc"] < modes["consensus"],
              words("two modes")),
        Claim("two modes: Weierstrass is not much better than KDEMC (at least half its excess)",
              modes["weierstrass"] > modes["kdemc"] / 2, words("two modes")),
        Claim("two modes: SGLD and SGHMC are better than all three", max(modes[m] for m in STOCHASTIC) <
              min(modes[m] for m in divided), words("two modes")),
        Claim("two modes: SGLD is the best", min(modes, key=modes.__getitem__) == "SGLD", words("two modes")),
        Claim("warped: consensus fails (the worst of five)", max(bent, key=bent.__getitem__) == "consensus",
              words("warped")),
        Claim("warped: KDEMC underestimates the tails (an sd below 0.95 of the truth's)", tails["kdemc"] < 0.95,
              f"KDEMC's sd over the truth's, worst coordinate: {tails['kdemc']:.2f}"),
        Claim("warped: Weierstrass is better than KDEMC", bent["weierstrass"] < bent["kdemc"], words("warped")),
        Claim("warped: SGLD and SGHMC are better than all three", max(bent[m] for m in STOCHASTIC) <
              min(bent[m] for m in divided), words("warped")),
        Claim(f"dimension: KDEMC fails in many dimensions (excess at {high} above 1 and above that at {low})",
              medians(high)["kdemc"] > max(1.0, medians(low)["kdemc"]), f"{words(low)}; then {words(high)}"),
        Claim("dimension: consensus is right at all dimensions (excess below 0.1)",
              all(medians(name)["consensus"] < FAILS for name in normals),
              ", ".join(f"{name[8:]}: {medians(name)['consensus']:.2f}" for name in normals)),
        Claim("dimension: Weierstrass scales much better than KDEMC (a third of its excess or less)",
              medians(high)["weierstrass"] < medians(high)["kdemc"] / 3, words(high)),
        Claim("dimension: SGLD and SGHMC work well and lose some with dimension (below 0.5 up to 10; more at the end)",
              all(medians(n)[m] < 0.5 for n in normals if int(n[8:]) <= 10 for m in STOCHASTIC)
              and all(medians(high)[m] > medians(low)[m] for m in STOCHASTIC), f"{words(low)}; then {words(high)}"),
        Claim("in all: SGLD and SGHMC are robust to the shape (excess below 0.5 on heavy tails, two modes, warped)",
              all(found[m] < 0.5 for found in (t, modes, bent) for m in STOCHASTIC),
              "; ".join(words(name, STOCHASTIC) for name in PROBLEMS)),
        Claim("in all: SGHMC is not vastly better than SGLD (nowhere less than half its excess and 0.1 below it)",
              not any(f["SGHMC"] < min(f["SGLD"] / 2, f["SGLD"] - 0.1) for f in map(medians, results)),
              "; ".join(f"{name}: {words(name, STOCHASTIC)}" for name in results)),
        Claim("beyond the source: the certificates saw every failure (no answer that fails is called 'trust it')",
              not unseen, f"not seen: {', '.join(unseen) or 'none'}"),
        Claim("beyond the source: a reweighted answer whose weights are called reliable does not fail", not wrong,
              f"fail: {', '.join(wrong) or 'none'}"),
        Claim("beyond the source: no right answer is refused", not needless,
              f"refused in some repetition: {', '.join(needless) or 'none'}"),
    ]  # fmt: skip


def draw(results: Results, path: Path) -> None:
    """Contours over the truth's, box plots of the divergence, and the divergence against the dimension."""
    figure = common.picture(3 * len(METHODS), 13)
    panels = figure.add_gridspec(5, len(METHODS))
    for row, name in enumerate(PROBLEMS):
        found = results[name]
        low, high = np.quantile(found.truth[:, :2], (0.001, 0.999), axis=0)
        bins = tuple(np.linspace(a - (b - a) / 4, b + (b - a) / 4, 70) for a, b in zip(low, high, strict=True))
        for column, method in enumerate(METHODS):
            axes = figure.add_subplot(panels[row, column])
            common.contours(axes, found.truth[:, :2], bins, INK)
            if np.isfinite(found.draws[method]).all():
                common.contours(axes, found.draws[method][:, :2], bins, COLOUR[method])
            axes.set(xlim=(bins[0][0], bins[0][-1]), ylim=(bins[1][0], bins[1][-1]))
            common.tidy(axes, f"{name}: {method}", "", "", legend=None)
    third = len(METHODS) // 4
    for number, name in enumerate(PROBLEMS):
        axes = figure.add_subplot(panels[3:, number * third : (number + 1) * third])
        values = [results[name].excess[method] for method in METHODS]
        made = axes.boxplot([np.where(np.isfinite(v), v, np.nan) for v in values], patch_artist=True)
        for box, method in zip(made["boxes"], METHODS, strict=True):
            box.set(facecolor=COLOUR[method], linewidth=0.6)
        axes.set_xticks(range(1, len(METHODS) + 1), METHODS, rotation=60, ha="right", fontsize=8)
        axes.set_yscale("symlog", linthresh=0.1)
        common.tidy(axes, name, "", "excess divergence from NUTS", legend=None)
    axes = figure.add_subplot(panels[3:, 3 * third :])
    names = [name for name in results if name.startswith("normal")]
    for method in METHODS:
        axes.plot([int(name[8:]) for name in names], [results[name].median(method) for name in names], marker="o",
                  color=COLOUR[method], linestyle="--" if method in REWEIGHTED else "-", label=method)  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.1)
    common.tidy(axes, "normal", "dimension", "median excess divergence")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    common.play(__doc__, "divide_and_conquer", run, table, check, draw, argv)


if __name__ == "__main__":
    main()
