"""``scirocco demo``: two jobs in a minute, topics of a real corpus and a regression on a million rows.

The corpus is on every machine that can run this: the docstrings of the scientific Python packages that scirocco needs.
The regression is Bayesian logistic regression on rows made on the spot, from minibatches with automatic settings.
"""

from __future__ import annotations

import ast
import importlib.util
import json as json_of_python
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from scirocco.command_line.job import PAGE, begin
from scirocco.command_line.options import Json, Quiet, examples
from scirocco.command_line.outcome import INTERRUPTED, WrongCall, code_of, print_json, say, show_table, verdict_facts
from scirocco.command_line.topics import Topics

EXAMPLES = examples("demo", "demo --out tour --rows 100000")
PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "xarray", "jax")
SHORTEST = 300  # characters of a docstring worth reading
COLUMNS, BATCH, DRAWS = 8, 1000, 1000


def docstrings(packages: tuple[str, ...] = PACKAGES) -> Iterator[dict[str, str]]:
    """Of public functions and classes, read from the sources: nothing is imported."""
    for package in packages:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            continue
        root = Path(found.origin).parent
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root).parts
            if any(part in ("tests", "externals") or part.startswith("test_") for part in inner):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in others' strings
                tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    text = ast.get_docstring(node, clean=False) or ""
                    if len(text) > SHORTEST:
                        yield {"name": f"{package}: {node.name}", "package": package, "text": text}


def log_prior(weights: Any) -> Any:
    """Standard normal."""
    import jax.numpy as jnp

    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights: Any, example: Any) -> Any:
    """Bernoulli with a logit link, for one example."""
    import jax

    x, y = example
    return y * (x @ weights) - jax.nn.softplus(x @ weights)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for both results; new or empty.", metavar="DIR")]
    = Path("scirocco-demo"),
    max_seconds: Annotated[float, typer.Option(min=1, metavar="S", help="For the topics.")] = 15.0,
    rows: Annotated[int, typer.Option(min=1000, help="Of the regression.")] = 1_000_000,
    json: Json = False, quiet: Quiet = False,
) -> int:  # fmt: skip
    """Topics of a corpus, and a regression on a million rows.

    The corpus is on your machine: the documentation of scientific Python. Under a minute; with --json two lines.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise WrongCall(f"{out} is not empty: give another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    corpus = out / "docstrings.jsonl"
    with corpus.open("w", encoding="utf-8") as lines:
        lines.writelines(json_of_python.dumps(entry) + "\n" for entry in docstrings())
    if not json:
        say("Topics of the docstrings of scientific Python", "")
    job = Topics(
        corpus=[str(corpus.resolve())], topics=20, title="name", by="package", min_documents=20, max_share=0.3,
        max_seconds=max_seconds,
    )  # fmt: skip
    code = begin(job, out / "topics", as_json=json, quiet=quiet)
    if code == INTERRUPTED:
        return code
    return max(code, _regression(out / "regression", rows, as_json=json, quiet=quiet))


def _regression(folder: Path, rows: int, *, as_json: bool, quiet: bool) -> int:
    """Coefficients of a regression whose truth is known."""
    import jax.numpy as jnp
    import numpy as np

    import scirocco as sc

    rng = np.random.default_rng(1)
    true = rng.normal(size=COLUMNS).astype(np.float32)
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ true))).astype(np.float32)
    if not as_json:
        say("", f"Logistic regression on {rows:,} rows, from minibatches of {BATCH:,}", "")
    trace = sc.sample(
        sc.Target(log_prior, log_likelihood, (x, y)), sc.SGLD("auto"), jnp.zeros(COLUMNS), batch_size=BATCH,
        num_samples=DRAWS, seed=0, path=folder / "run", progress=not quiet,
    )  # fmt: skip
    trace.report(folder / PAGE, title=f"Logistic regression on {rows:,} rows")
    verdict, table = trace.verdict(), trace.summary().table
    if as_json:
        print_json({"command": "demo", "folder": folder, **verdict_facts(verdict), "true": true, "mean": table["mean"]})
        return code_of(verdict)
    say(verdict, "")
    known = zip(table.index, true, table["mean"], table["sd"], strict=True)
    show_table(["coefficient", "true", "mean", "sd"], ([name, *map(float, values)] for name, *values in known))
    say("", f"Pages to look at: {folder.parent / 'topics' / PAGE} and {folder / PAGE}")
    return code_of(verdict)
