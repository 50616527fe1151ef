"""The page of a mixture: how many clusters, how large, what tells them apart, who is unsure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.report import charts
from scirocco.report.elements import Child, Element, element, number, percent
from scirocco.report.page import Page
from scirocco.report.posterior import LEVEL, add_costs, add_run, draws_block
from scirocco.report.tables import facts, table

if TYPE_CHECKING:
    import pandas as pd

    from scirocco.models.dp_mixture.readings import MixtureReadings

PROFILED, FEATURES = 24, 8  # clusters with a profile, and features of each
COMPARED = 80  # rows of the heat map
UNSURE = 12  # rows that are listed
BALL_ROWS = 50_000  # beyond, a credible ball takes long
WATCHED = ("n_clusters", "concentration", "log_density")


def add_clusters(page: Page, model: MixtureReadings) -> None:
    """All sections of a mixture. Of a stream, which forgets its rows, those that need no rows."""
    stream = model._drawn.stream
    number_of = model.cluster_numbers()
    page.add("number", "Number of clusters", *_number(model, number_of, stream=stream))
    page.add("sizes", "Sizes", sizes_table(model.cluster_sizes(level=LEVEL)))
    page.add("profiles", "Profiles", *_profiles(model))
    if not stream:
        labels = model.labels_
        page.add("pairs", "Together", *together(labels, model.co_clustering, model._fixed_seed()))
        page.add("rows", "Rows", *unsure_rows(model.membership_, labels, model.entropy()))
    values = [(name, model.posterior_[name].values.astype(np.float64)) for name in WATCHED if name in model.posterior_]
    chains = list(map(int, model.posterior_.coords["chain"].values))
    moving = [(name, own) for name, own in values if np.ptp(own) > 0]
    page.add("draws", "Draws", *draws_block(page, moving, chains, "What all draws have in common."))
    page.add("agreement", "Agreement", element("p", str(model.agreement_)))
    trace = getattr(model, "trace_", None)
    if trace is not None:
        add_run(page, trace, model)
        add_costs(page, trace)


def _number(model: MixtureReadings, found: pd.Series, *, stream: bool) -> list[Child]:
    """The posterior of the number of clusters, and how far the draws are from the one that is shown."""
    first, last = int(found.index.min()), int(found.index.max())
    values = [float(found.get(k, 0.0)) for k in range(first, last + 1)]
    shown = model.n_clusters_
    picture = charts.bars(
        values, [str(k) for k in range(first, last + 1)], "Posterior of the number of clusters", axis="clusters",
        marked=shown - first if first <= shown <= last else None,
    )  # fmt: skip
    words = f"Probability of each number of clusters. Shown below are the {shown} of a representative draw."
    parts: list[Child] = [charts.figure(picture, words)]
    if not stream and model.labels_.size <= BALL_ROWS:
        ball = model.credible_ball(level=LEVEL)
        rows: list[tuple[str, Child]] = [
            (f"{LEVEL:.0%} credible ball", f"radius {ball.radius:.2f} around the clusters shown ({model.loss})"),
            ("in it", f"draws with {ball.clusters[0]} to {ball.clusters[1]} clusters"),
        ]
        parts.append(facts(rows))
    return parts


def sizes_table(sizes: pd.DataFrame) -> Element:
    """Sizes of clusters with intervals."""
    found = sizes.reset_index(names="cluster")
    ends = (0.0, float(found["upper"].max()))
    found.insert(4, "picture", list(zip(found["mean"], found["lower"], found["upper"], strict=True)))
    found["cluster"] = found["cluster"].astype(str)
    return table(
        found, f"Rows of each cluster: posterior mean and {LEVEL:.0%} interval", name="sizes", text=("picture",),
        titles={"picture": f"{LEVEL:.0%} interval", "present": "in draws"},
        formats={"picture": lambda bar: charts.interval_bar(bar, ends), "present": percent},
    )  # fmt: skip


def _profiles(model: MixtureReadings) -> list[Child]:
    """What tells each cluster from the others."""
    found = model.profiles(FEATURES, level=LEVEL)
    every = found["cluster"].nunique()
    parts: list[Child] = []
    for k, own in found.groupby("cluster"):
        if k not in range(PROFILED):
            continue
        head = f"Cluster {k}: {own['rows'].iloc[0]:,.0f} rows, in {own['present'].iloc[0]:.0%} of the draws"
        listed = own.drop(columns=["cluster", "rows", "present"]).dropna(axis=1, how="all").astype({"feature": str})
        words = f"Features that tell cluster {k} from the rest, with {LEVEL:.0%} intervals"
        parts += [element("h3", head), table(listed, words, name=f"cluster-{k}")]
    if every > PROFILED:
        parts.append(element("p", f"The {PROFILED} largest of {every} clusters.", class_="note"))
    return parts


def together(labels: np.ndarray, co_clustering: Any, seed: int) -> list[Child]:
    """How often rows are in one cluster: a sample of rows, ordered by cluster."""
    rows = np.random.default_rng(seed).permutation(labels.size)[:COMPARED]
    rows = rows[np.argsort(labels[rows], kind="stable")]
    borders = 1 + np.flatnonzero(np.diff(labels[rows]))
    said = f"How often {rows.size} rows are in one cluster"
    words = (
        f"{rows.size} rows drawn at random, ordered by cluster, which the lines part: the stronger the colour, the "
        "more often two rows are together in the draws."
    )
    return [charts.figure(charts.heat(co_clustering(rows), said, borders=list(borders)), words)]


def unsure_rows(membership: np.ndarray, labels: np.ndarray, entropy: np.ndarray) -> list[Child]:
    """How sure rows are of their cluster, and those that are least."""
    import pandas as pd

    sure = membership.max(axis=1)
    edges = np.linspace(0, 1, 11)
    shares = np.histogram(sure, edges)[0] / sure.size
    names = [f"{edge:.1f}" for edge in edges[:-1]]
    picture = charts.bars(
        list(shares), names, "Rows by the probability of their cluster", axis="probability of its cluster, from"
    )
    least = np.argsort(-entropy, kind="stable")[:UNSURE]
    best = np.argsort(-membership[least], axis=1, kind="stable")[:, :2]
    others = membership.shape[1] - 1

    def told(row: int, k: int) -> str:
        return f"{'others' if k == others and others >= labels.max() + 1 else k}: {membership[row, k]:.2f}"

    listed = pd.DataFrame({
        "row": least, "bits": entropy[least], "most probable": list(map(told, least, best[:, 0])),
        "then": list(map(told, least, best[:, -1])),
    })  # fmt: skip
    words = (
        f"Share of the rows by how probable their cluster is; {number(float(entropy.mean()))} bits of doubt on average."
    )
    return [
        charts.figure(picture, words),
        table(listed, "The rows that are least sure", name="rows", text=("most probable", "then")),
    ]
