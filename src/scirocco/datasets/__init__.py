"""Real data sets that the experiments use: from the original source, with a cache, or from a folder.

    rows = sc.datasets.load_covertype()
    rows.design(), rows.lodgepole, rows.facts.licence

Every ``load_...`` takes a ``folder``; without one ``SCIROCCO_DATA`` names it. Such a folder is the only place that is
looked at. Without either, data are downloaded and kept in the user's cache folder. ``KNOWN`` says what there is.
"""

from collections.abc import Callable
from pathlib import Path

from scirocco.core.checks import require_choice
from scirocco.datasets import covertype, mnist, movielens, msweb, networks, texts
from scirocco.datasets.covertype import Covertype, load_covertype
from scirocco.datasets.mnist import Digits, load_mnist
from scirocco.datasets.movielens import Ratings, load_movielens
from scirocco.datasets.msweb import Visits, load_msweb
from scirocco.datasets.networks import Network, load_network
from scirocco.datasets.store import DataSet, Facts
from scirocco.datasets.texts import Counts, load_newsgroups, load_wikipedia

KNOWN: dict[str, Facts] = {
    facts.name: facts
    for facts in (
        covertype.FACTS, mnist.FACTS, *movielens.SIZES.values(), msweb.FACTS, texts.NEWSGROUPS, texts.WIKIPEDIA,
        *networks.NETWORKS.values(),
    )
}  # fmt: skip
"""What there is, by name."""

__all__ = [
    "KNOWN",
    "Counts",
    "Covertype",
    "DataSet",
    "Digits",
    "Facts",
    "Network",
    "Ratings",
    "Visits",
    "load",
    "load_covertype",
    "load_mnist",
    "load_movielens",
    "load_msweb",
    "load_network",
    "load_newsgroups",
    "load_wikipedia",
]


def load(name: str, folder: str | Path | None = None) -> DataSet:
    """A data set by its name in ``KNOWN``."""
    require_choice("name", name, KNOWN)
    if name in networks.NETWORKS:
        return load_network(name, folder)
    if name.startswith("movielens-"):
        return load_movielens(name.removeprefix("movielens-"), folder)
    loaders: dict[str, Callable[..., DataSet]] = {
        "covertype": load_covertype, "mnist": load_mnist, "msweb": load_msweb, "newsgroups": load_newsgroups,
        "wikipedia": load_wikipedia,
    }  # fmt: skip
    return loaders[name](folder)
