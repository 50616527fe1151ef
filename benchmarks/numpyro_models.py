"""NumPyro models people know, from minibatches and by NumPyro's own NUTS: the same posterior, and seconds for both.

    python benchmarks/numpyro_models.py [--rows 10000 100000 1000000] [--nuts 10000] [--models hierarchical ...]
    python benchmarks/numpyro_models.py --parquet 10000000 [--models hierarchical ...]

Each model is given to ``Target.from_numpyro`` as it is and sampled with ``sc.sample(target)``, nothing else set:
seconds from the model to the draws, compiling included. NUTS has 2 chains one after the other, 500 steps of adaptation
and 1,000 draws, its default settings, up to ``--nuts`` rows; beyond, its seconds are an estimate (marked ~): the
measured time of one of its gradients on all rows times the leapfrog steps that it took on the largest data it ran on.
Compared are medians and half the width of the central 68 % of every coordinate, which heavy tails have too: the worst
difference of the former in units of the latter, the range of the latter over NUTS's; and what the verdict says.

With ``--parquet`` the rows are written to a file, row group by row group, and sampled from there: seconds, and the most
memory that the process had. Truth is then what the rows were simulated from.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model

import scirocco as sc

ADAPTATION, DRAWS, CHAINS = 500, 1000, 2
SETTINGS: dict[str, Any] = {}  # of ``sc.sample``
GROUPS, COLUMNS = 50, 10
TIMES = 5
PART = 500_000  # rows of a row group

Rows = dict[str, np.ndarray]


def hierarchical(x: Any, group: Any, y: Any) -> None:
    """Varying intercepts, logistic regression."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
    with numpyro.plate("groups", GROUPS):
        alpha = numpyro.sample("alpha", dist.Normal(mu, tau))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=alpha[group] + x @ beta), obs=y)


def horseshoe(x: Any, y: Any) -> None:
    """A linear regression some of whose coefficients are zero; centred, as data that say much want it."""
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    local = numpyro.sample("local", dist.HalfCauchy(1).expand([COLUMNS]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    beta = numpyro.sample("beta", dist.Normal(0, tau * local).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def noncentred_horseshoe(x: Any, y: Any) -> None:
    """The same by products of scales and standard normal numbers, which lie on a curved ridge."""
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    local = numpyro.sample("local", dist.HalfCauchy(1).expand([COLUMNS]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    beta = numpyro.deterministic("beta", tau * local * z)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def negative_binomial(x: Any, exposure: Any, y: Any) -> None:
    """Counts with an offset and more variance than a Poisson law has."""
    intercept = numpyro.sample("intercept", dist.Normal(0, 2))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
    concentration = numpyro.sample("concentration", dist.Gamma(2, 1))
    with numpyro.plate("rows", len(y)):
        mean = exposure * jnp.exp(intercept + x @ beta)
        numpyro.sample("y", dist.NegativeBinomial2(mean, concentration), obs=y)


def ordered_logit(x: Any, y: Any) -> None:
    """Five ordered classes."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
    steps = dist.transforms.OrderedTransform()
    cuts = numpyro.sample("cuts", dist.TransformedDistribution(dist.Normal(0, 2).expand([4]), steps))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.OrderedLogistic(x @ beta, cuts), obs=y)


def mixture(y: Any) -> None:
    """Three normal components in order."""
    weights = numpyro.sample("weights", dist.Dirichlet(2 * jnp.ones(3)))
    steps = dist.transforms.OrderedTransform()
    means = numpyro.sample("means", dist.TransformedDistribution(dist.Normal(0, 3).expand([3]), steps))
    scales = numpyro.sample("scales", dist.LogNormal(0, 0.5).expand([3]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, scales)), obs=y)


def regressors(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and a linear predictor of which half of the coefficients are zero."""
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    return x, x @ np.where(np.arange(COLUMNS) % 2, 0, np.linspace(0.8, -0.8, COLUMNS))


ALPHA = np.random.default_rng(1).normal(-0.5, 0.7, GROUPS)


def data_of(name: str, rows: int, part: int = 0) -> Rows:
    """Simulated from the model with parameters of its own, the same in all parts."""
    rng = np.random.default_rng(part)
    x, eta = regressors(rng, rows)
    if name == "hierarchical":
        group = rng.integers(GROUPS, size=rows)
        eta = eta + ALPHA[group]
        y = rng.random(rows) < 1 / (1 + np.exp(-eta))
        return {"x": x, "group": group.astype(np.int32), "y": y.astype(np.int32)}
    if "horseshoe" in name:
        return {"x": x, "y": (eta + rng.normal(size=rows)).astype(np.float32)}
    if name == "negative_binomial":
        exposure = rng.uniform(0.5, 2, rows).astype(np.float32)
        rate = exposure * np.exp(0.3 + 0.5 * eta) * rng.gamma(2, 1 / 2, rows)
        return {"x": x, "exposure": exposure, "y": rng.poisson(rate).astype(np.int32)}
    if name == "ordered_logit":
        return {"x": x, "y": np.searchsorted([-1.5, -0.5, 0.5, 1.5], eta + rng.logistic(size=rows)).astype(np.int32)}
    part = rng.choice(3, rows, p=[0.3, 0.5, 0.2])
    return {"y": rng.normal(np.array([-3.0, 0.0, 4.0])[part], np.array([0.8, 1.0, 1.5])[part]).astype(np.float32)}


MODELS: dict[str, Callable[..., None]] = {
    f.__name__: f for f in (hierarchical, horseshoe, negative_binomial, ordered_logit, mixture, noncentred_horseshoe)
}


class Answer(NamedTuple):
    """Medians and half widths of all coordinates, and the seconds they took."""

    median: np.ndarray
    width: np.ndarray
    seconds: float

    @classmethod
    def of(cls, draws: dict[str, np.ndarray], seconds: float) -> Answer:
        """From draws (draw, ...) by name."""
        flat = np.concatenate([draws[name].reshape(len(draws[name]), -1) for name in sorted(draws)], axis=1)
        low, median, high = np.quantile(flat, (0.16, 0.5, 0.84), axis=0)
        return cls(median, (high - low) / 2, seconds)


TRUE: dict[str, dict[str, Any]] = {
    "hierarchical": {"alpha": ALPHA},
    "horseshoe": {"sigma": 1.0},
    "noncentred_horseshoe": {"sigma": 1.0},
    "negative_binomial": {"intercept": 0.3, "concentration": 2.0},
    "ordered_logit": {"cuts": [-1.5, -0.5, 0.5, 1.5]},
    "mixture": {"weights": [0.3, 0.5, 0.2], "means": [-3.0, 0.0, 4.0], "scales": [0.8, 1.0, 1.5]},
}


def written(name: str, rows: int, folder: Path) -> Path:
    """A Parquet file of so many rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, writer = folder / f"{name}.parquet", None
    for part, start in enumerate(range(0, rows, PART)):
        columns = data_of(name, min(PART, rows - start), part)
        arrays = {
            key: pa.array(v) if v.ndim == 1 else pa.FixedSizeListArray.from_arrays(pa.array(v.ravel()), v.shape[1])
            for key, v in columns.items()
        }
        table = pa.table(arrays)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def from_disk(name: str, rows: int) -> str:
    """A line on a model whose rows are in a file."""
    with tempfile.TemporaryDirectory() as folder:
        source = sc.batches.Parquet(written(name, rows, Path(folder)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        began = time.perf_counter()
        trace = sc.sample(sc.Target.from_numpyro(MODELS[name], source), progress=False, **SETTINGS)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    off = [(trace.mean[key] - value) / np.sqrt(trace.variance[key]) for key, value in TRUE[name].items()]
    z = np.concatenate([np.ravel(part) for part in off])
    return (
        f"{name:21}{rows:10,}{seconds:9.1f} s, memory {before:.1f} GB before, {peak:.1f} GB at most; {z.size} true "
        f"values {np.sqrt(np.mean(z**2)):.2f} sds off in the quadratic mean, at most {np.max(np.abs(z)):.1f}; "
        f"{trace.verdict().kind}"
    )


def ours(model: Callable[..., None], rows: Rows) -> tuple[Answer, str, list[str]]:
    """From minibatches; the verdict; the names of what was sampled."""
    began = time.perf_counter()
    trace = sc.sample(sc.Target.from_numpyro(model, rows), progress=False, **SETTINGS)
    seconds = time.perf_counter() - began
    found = trace.posterior.data_vars.items()
    draws = {str(name): values.values.reshape(-1, *values.shape[2:]) for name, values in found}
    return Answer.of(draws, seconds), trace.verdict().kind, list(draws)


def theirs(model: Callable[..., None], rows: Rows, names: Sequence[str]) -> tuple[Answer, int]:
    """By NUTS, and the leapfrog steps of all chains, adaptation included as far as it says."""
    kernel = NUTS(model)
    run = MCMC(
        kernel, num_warmup=ADAPTATION, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential",
        progress_bar=False,
    )  # fmt: skip
    began = time.perf_counter()
    run.run(jax.random.key(0), **rows, extra_fields=("num_steps",))
    draws = {name: np.asarray(run.get_samples()[name], np.float64) for name in names}
    seconds = time.perf_counter() - began
    steps = int(np.sum(run.get_extra_fields()["num_steps"]) * (ADAPTATION + DRAWS) / DRAWS)
    return Answer.of(draws, seconds), steps


def gradient_seconds(model: Callable[..., None], rows: Rows) -> float:
    """The time of one gradient of NumPyro's potential on all rows, the least of a few."""
    start, potential, *_ = initialize_model(jax.random.key(0), model, model_kwargs=rows)
    gradient = jax.jit(jax.grad(potential))
    place = start.z
    jax.block_until_ready(gradient(place))
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        jax.block_until_ready(gradient(place))
        times.append(time.perf_counter() - began)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--nuts", type=int, default=10_000, help="rows up to which NUTS is run")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--parquet", type=int, help="rows of a file from which to sample instead")
    given = parser.parse_args(arguments)
    if given.parquet:
        for name in given.models:
            print(from_disk(name, given.parquet), flush=True)
        return
    print(
        f"{'model':21}{'rows':>10}{'seconds':>9}{'NUTS':>9}{'ratio':>7}  median     width over NUTS's  verdict",
        flush=True,
    )
    for name in given.models:
        steps = 0
        for rows in given.rows:
            data = data_of(name, rows)
            found, verdict, names = ours(MODELS[name], data)
            if rows <= given.nuts:
                exact, steps = theirs(MODELS[name], data, names)
                shift = np.max(np.abs(found.median - exact.median) / exact.width)
                ratio = found.width / exact.width
                off, about = f"{shift:8.2f}   {ratio.min():.2f} to {ratio.max():.2f}", ""
                nuts = exact.seconds
            else:
                nuts, about, off = steps * gradient_seconds(MODELS[name], data), "~", ""
            seconds = f"{found.seconds:9.1f}{about + format(nuts, '.0f'):>9}{nuts / found.seconds:7.1f}"
            print(f"{name:21}{rows:10,}{seconds}  {off:24} {verdict}", flush=True)


if __name__ == "__main__":
    main()
