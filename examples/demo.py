"""Two jobs in one page: topics of a real corpus, and a regression on a million rows.

The corpus is on every machine that can run this: the docstrings of the installed scientific Python packages. Two chains
of topics say what each topic is, with intervals, and which topics both have found; held-out documents say how well they
predict. The regression is Bayesian logistic regression on a million rows made on the spot, from minibatches with
automatic settings; its summary stands beside the coefficients that made the data. Two reports and two pictures go to
``results/demo``.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import scirocco as sc

mpl.use("Agg")

OUTPUT = Path("results") / "demo"
PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "xarray", "jax")
SHORTEST = 300  # characters of a docstring worth reading
TOPICS, HELD_OUT, DESCRIBED = 20, 500, 1000
ROWS, COLUMNS = 1_000_000, 8


def docstrings() -> Iterator[tuple[str, str, str]]:
    """Package, name and text of public functions and classes, read from the sources: nothing is imported."""
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            continue
        root = Path(found.origin).parent
        for path in sorted(root.rglob("*.py")):
            if any(
                part in ("tests", "externals") or part.startswith("test_") for part in path.parts[len(root.parts) :]
            ):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in others' strings
                tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    text = ast.get_docstring(node, clean=False) or ""
                    if len(text) > SHORTEST:
                        yield package, f"{package}.{path.stem}.{node.name}", text


def topics() -> None:
    """Topics of the docstrings."""
    packages, names, texts = (list(column) for column in zip(*docstrings(), strict=True))
    counter = CountVectorizer(stop_words="english", min_df=20, max_df=0.3, token_pattern=r"[a-z]{3,}")
    order = np.random.default_rng(0).permutation(len(texts))
    counts = counter.fit_transform(texts)[order]
    words = counter.get_feature_names_out()
    print(f"\nTopics of {len(texts):,} docstrings, {counts.sum():,} tokens, {len(words):,} words", flush=True)
    train, test = counts[HELD_OUT:], counts[:HELD_OUT]
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the chains do not agree on is printed below
        model = sc.LDA(TOPICS, n_chains=2, max_seconds=8, random_state=0, verbose=True).fit(train)
    print(f"{model.n_iter_:.0f} passes of two chains in {time.perf_counter() - began:.0f} s (compiling included)\n")
    shared = model.agreement_.reproduced
    for k, best in model.top_words(5, words).groupby("topic"):
        named = ", ".join(f"{w} {m:.3f} [{low:.3f}, {high:.3f}]" for _, w, m, low, high in best[:3].to_numpy())
        print(f"{k:2d} {'both chains' if shared[k] else 'one chain  '}  {named}  {' '.join(best['word'][3:])}")
    print(f"\n{model.agreement_}")
    print(
        f"held-out perplexity {model.perplexity(test):.0f}; by the frequencies of words alone "
        f"{model.unigram_perplexity(test):.0f}"
    )
    axes = sc.plots.topics(model, np.argsort(~shared, kind="stable")[:9], n_words=6, vocabulary=words)
    axes[0].figure.savefig(OUTPUT / "topics.png", dpi=120)
    some = slice(HELD_OUT, HELD_OUT + DESCRIBED)
    described = {"by": [packages[k] for k in order[some]], "names": [names[k] for k in order[some]]}
    title = "What docstrings are about"
    model.report(OUTPUT / "topics.html", counts[some], **described, vocabulary=words, held_out=test, title=title)


def log_prior(weights: Any) -> Any:
    """Standard normal."""
    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights: Any, example: Any) -> Any:
    """Bernoulli with a logit link, for one example."""
    x, y = example
    return y * (x @ weights) - jax.nn.softplus(x @ weights)


def regression() -> None:
    """A million rows, minibatches of a thousand."""
    rng = np.random.default_rng(1)
    true = rng.normal(size=COLUMNS).astype(np.float32)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-x @ true))).astype(np.float32)
    print(f"\nLogistic regression on {ROWS:,} rows, from minibatches of 1,000", flush=True)
    trace = sc.sample(
        sc.Target(log_prior, log_likelihood, (x, y)), sc.SGLD("auto"), jnp.zeros(COLUMNS), batch_size=1000,
        num_samples=1000, seed=0, path=OUTPUT / "run",
    )  # fmt: skip
    summary = trace.summary()
    summary.table.insert(0, "true", true)
    print(summary)
    axis = sc.plots.intervals(trace.intervals(0.95) - true[:, None])
    axis.set_xlabel("posterior mean and 95 % interval, minus the truth")
    axis.figure.savefig(OUTPUT / "coefficients.png", dpi=120)
    trace.report(OUTPUT / "regression.html", title="Logistic regression on a million rows")


def main() -> None:
    """Both."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    began = time.perf_counter()
    topics()
    regression()
    print(f"\n{time.perf_counter() - began:.0f} s in all. Pictures: topics.png and coefficients.png in {OUTPUT};")
    print(f"the run, with draws and checkpoint, in {OUTPUT / 'run'}.")
    print("To look at in a browser, without a network:")
    for name in ("topics.html", "regression.html"):
        print(f"  {(OUTPUT / name).resolve().as_uri()}")


if __name__ == "__main__":
    main()
