"""A report of every kind of model, on data that scikit-learn brings, in ``results/reports``.

    python examples/reports.py [NAME ...] [--pictures docs/pictures]

``--pictures`` photographs the pages, those of ``make demo`` too, in Chromium by Playwright.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler, normalize

import scirocco as sc

OUTPUT = Path("results") / "reports"
DEMO = Path("results") / "demo"
WIDTH, HEIGHT = 1280, 1500  # of a photograph


def coefficients(path: Path) -> None:
    """Logistic regression: which measurements of cells speak for a tumour that is benign."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :10]
    X = (X - X.mean()) / X.std()
    train = np.random.default_rng(0).random(len(X)) < 0.7
    model = sc.LogisticRegression(random_state=0).fit(X[train], y[train])
    model.report(path, X[~train], y[~train], title="Benign tumours by the size and shape of cells")


def clusters(path: Path) -> None:
    """A mixture of Gaussian columns: Italian wines by what is in them."""
    X = load_wine(as_frame=True).data
    sc.DirichletProcessMixture(component="auto", random_state=0).fit(X).report(path, title="Wines of one region")


def components(path: Path) -> None:
    """Principal components of the same wines."""
    X = load_wine(as_frame=True).data
    X[:] = StandardScaler().fit_transform(X)
    sc.BayesianPCA(2, random_state=0).fit(X).report(path, title="Wines along two components")


def directions(path: Path) -> None:
    """A mixture on the sphere: handwritten digits by the direction of their pixels."""
    X, _ = load_digits(return_X_y=True)
    sc.VonMisesFisherMixture(10, random_state=0).fit(normalize(X)).report(path, title="Handwritten digits")


def network(path: Path) -> None:
    """A neural network for the digits, judged by those that it has not seen."""
    X, y = load_digits(return_X_y=True)
    model = sc.NeuralNetworkClassifier(random_state=0).fit(X[:1200] / 16, y[:1200])
    model.report(path, X[1200:] / 16, y[1200:], title="Handwritten digits, by a network")


def ratings(path: Path) -> None:
    """Matrix factorisation, of ratings drawn from its own law."""
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(300, 3)), rng.normal(size=(100, 3))
    pairs = np.stack([rng.integers(0, 300, 12_000), rng.integers(0, 100, 12_000)], axis=1)
    stars = np.einsum("rk,rk->r", users[pairs[:, 0]], items[pairs[:, 1]]) + 0.5 * rng.normal(size=len(pairs))
    model = sc.MatrixFactorization(3, random_state=0).fit(pairs[:10_000], stars[:10_000])
    model.report(path, pairs[10_000:], stars[10_000:], title="Ratings")


def shards(path: Path) -> None:
    """The mean of a table in four shards, sampled apart."""
    X = np.random.default_rng(0).normal(size=(4000, 3)).astype(np.float32)
    target = sc.Target(lambda m: -jnp.sum(m**2) / 2, lambda m, row: -jnp.sum((row - m) ** 2) / 2, X)
    sc.sample_shards(target, sc.GMC("auto"), jnp.zeros(3), shards=4).report(path)


def codes(path: Path) -> None:
    """Probabilities of categories, exactly."""
    rolled = np.random.default_rng(0).choice(6, 500, p=[0.1, 0.1, 0.2, 0.2, 0.2, 0.2])
    sc.sample_dirichlet(rolled, 1.0, "exact", categories=6, seed=0).report(path, title="A die, from 500 rolls")


MODELS: dict[str, Callable[[Path], None]] = {
    f.__name__: f for f in (coefficients, clusters, components, directions, network, ratings, shards, codes)
}


def photograph(pages: dict[str, Path], folder: Path) -> None:
    """The upper part of each page, by name."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, page in pages.items():
            tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            tab.goto(page.resolve().as_uri())
            target = folder / f"report_{name}.png"
            tab.screenshot(path=target)
            Image.open(target).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(target, optimize=True)
            tab.close()
        browser.close()


def main() -> None:
    """Those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--pictures", type=Path, help="a folder for photographs of the pages")
    given = parser.parse_args()
    if unknown := set(given.names) - set(MODELS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(MODELS)}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name in given.names or MODELS:
        MODELS[name](OUTPUT / f"{name}.html")
        print((OUTPUT / f"{name}.html").resolve().as_uri(), flush=True)
    if given.pictures is not None:
        pages = {page.parent.name: page for page in sorted(DEMO.glob("*/report.html"))}
        photograph(pages | {page.stem: page for page in sorted(OUTPUT.glob("*.html"))}, given.pictures)


if __name__ == "__main__":
    main()
