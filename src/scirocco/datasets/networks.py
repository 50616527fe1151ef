"""Networks: who knows whom, who wrote with whom, which airports are connected."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scirocco.core.checks import require_choice
from scirocco.datasets.store import Arrays, DataSet, Facts, Originals, arrays_of

URL = "https://snap.stanford.edu/data/facebook_combined.txt.gz"
NODES = {
    "facebook": 4_039, "ca_grqc": 5_242, "ca_hepph": 11_203, "ca_condmat": 21_363, "netscience": 1_589, "usair": 332
}  # fmt: skip
SHAPES = {
    "facebook": "4,039 nodes, 88,234 edges", "ca_grqc": "5,242 nodes, 14,484 edges",
    "ca_hepph": "11,203 nodes, 117,618 edges, the largest component", "netscience": "1,589 nodes, 2,742 edges",
    "ca_condmat": "21,363 nodes, 91,286 edges, the largest component", "usair": "332 nodes, 2,126 edges",
}  # fmt: skip
ABOUT = {
    "facebook": "friends of ten users of Facebook, and who of them are friends",
    "ca_grqc": "authors on general relativity, joined by papers", "ca_hepph": "authors on particles, joined by papers",
    "ca_condmat": "authors on condensed matter, joined by papers",
    "netscience": "authors on networks, joined by papers", "usair": "airports in the United States, joined by flights",
}  # fmt: skip
SOURCES = dict.fromkeys(("facebook", "ca_grqc", "ca_hepph", "ca_condmat"), "Stanford's SNAP collection")
SOURCES |= {"netscience": "M. Newman", "usair": "Pajek's data sets"}


def _facebook(original: Originals) -> dict[str, Arrays]:
    text = gzip.decompress(original(URL).read_bytes()).decode("ascii")
    edges = np.sort(np.fromstring(text, np.int32, sep=" ").reshape(-1, 2), axis=1)
    edges = np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)
    return {"facebook": {"facebook_edges": edges, "facebook_n": np.array(edges.max() + 1, np.int64)}}


def _facts(name: str) -> Facts:
    own = name == "facebook"
    return Facts(
        name, ABOUT[name], SHAPES[name], "free with citation, no formal licence", SOURCES[name],
        ("facebook.npz",) if own else ("networks.npz",), (URL,) if own else (), _facebook if own else None,
        "49827d5fcba42938459d38f2d6479459d8135cf49e5bc4deeaa286d1837cdc9a" if own else None,
        "" if own else f"for {name} numbers of nodes are this file's own, and no source offers them",
    )  # fmt: skip


NETWORKS = {name: _facts(name) for name in NODES}


@dataclass(frozen=True, repr=False)
class Network(DataSet):
    """Pairs of nodes i < j, each once, by numbers from 0; and how many nodes there are."""

    edges: np.ndarray
    nodes: int
    facts: Facts


def load_network(name: str = "facebook", folder: str | Path | None = None, *, download: bool = True) -> Network:
    """A network without directions and loops; from ``folder``, or as ``scirocco.datasets`` says.

    Only "facebook" can be downloaded; a folder has them all in ``networks.npz``.
    """
    require_choice("name", name, NODES)
    facts = NETWORKS[name]
    try:
        stored = arrays_of(together(facts), folder, download=False)["networks"]
    except FileNotFoundError:
        stored = arrays_of(facts, folder, download=download)[facts.files[0].removesuffix(".npz")]
    return Network(stored[f"{name}_edges"], int(stored[f"{name}_n"]), facts)


def together(facts: Facts) -> Facts:
    """The same in the file of all networks."""
    return Facts(facts.name, facts.about, facts.shape, facts.licence, facts.source, ("networks.npz",))
