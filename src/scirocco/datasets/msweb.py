"""Visits to microsoft.com: who saw which of its areas in a week of February 1998."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from scirocco.datasets.store import Arrays, DataSet, Facts, Originals, arrays_of, text_of

PLACE = "https://archive.ics.uci.edu/ml/machine-learning-databases/anonymous/anonymous-msweb"
PARTS = {"msweb_train": f"{PLACE}.data", "msweb_test": f"{PLACE}.test"}


def _made(original: Originals) -> dict[str, Arrays]:
    return {name: _visits(original(url)) for name, url in PARTS.items()}


def _visits(path: Path) -> Arrays:
    """Lines ``A`` name an area, ``C`` begins a user, ``V`` is a visit of the user to an area."""
    areas: list[int] = []
    users: list[list[int]] = []
    with path.open(encoding="latin-1", newline="") as lines:
        for line in csv.reader(lines):
            if line and line[0] == "A":
                areas.append(int(line[1]))
            elif line and line[0] == "C":
                users.append([])
            elif line and line[0] == "V":
                users[-1].append(int(line[1]))
    column = {area: k for k, area in enumerate(sorted(areas))}
    rows = [sorted({column[area] for area in visited}) for visited in users]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    indices = np.array([k for row in rows for k in row], np.int32)
    shape = np.array([len(users), len(areas)], np.int64)
    return {"data": np.ones(indices.size, np.uint8), "indices": indices, "indptr": starts, "shape": shape}


FACTS = Facts(
    "msweb", "a user of microsoft.com, and which areas of it he or she saw in a week of February 1998",
    "32,711 x 294 with 98,654 visits to learn from, 5,000 x 294 with 15,191 visits to be predicted; all 0 or 1",
    "CC BY 4.0", "Breese, Heckerman and Kadie (1998), Anonymous Microsoft Web Data, UCI Machine Learning Repository",
    ("msweb_train.npz", "msweb_test.npz"), tuple(PARTS.values()), _made,
    "f7cca82a60155236d09045d04c9616800aebce76393e77c592aed04f348248af",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Visits(DataSet):
    """Users x areas, 0 or 1; the names of the areas if the folder has them."""

    train: sp.csr_array
    test: sp.csr_array
    areas: list[str] | None
    facts: Facts = FACTS


def matrix_of(stored: Arrays) -> sp.csr_array:
    """The matrix of counts in a file, of a type that counts on."""
    return sp.csr_array((stored["data"].astype(np.int64), stored["indices"], stored["indptr"]), tuple(stored["shape"]))


def load_msweb(folder: str | Path | None = None, *, download: bool = True) -> Visits:
    """Visits to a web site, 37,711 users; from ``folder``, or as ``scirocco.datasets`` says."""
    found = arrays_of(FACTS, folder, download=download)
    lines = text_of("msweb_areas.txt", folder)
    areas = None if lines is None else [line.split("\t")[1] for line in lines]
    return Visits(matrix_of(found["msweb_train"]), matrix_of(found["msweb_test"]), areas)
