"""Ratings of films by the users of MovieLens."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scirocco.core.checks import require_choice
from scirocco.datasets.store import Arrays, DataSet, Facts, Originals, arrays_of

PLACE = "https://files.grouplens.org/datasets/movielens/"
LICENCE = "research use with acknowledgement; no commercial use, no redistribution without permission (GroupLens)"
SOURCE = "Harper and Konstan (2015), GroupLens"
ABOUT = "a user, a film and the stars that the one gave the other, 1 to 5; what will others be given"


def _hundred_thousand(original: Originals) -> dict[str, Arrays]:
    user, item, rating, time = _columns(original(f"{PLACE}ml-100k.zip"), "ml-100k/u.data", b"\t")
    return {"ml100k": _ratings(user, item, rating) | {"timestamp": time.astype(np.int32)}}


def _million(original: Originals) -> dict[str, Arrays]:
    user, item, rating, _ = _columns(original(f"{PLACE}ml-1m.zip"), "ml-1m/ratings.dat", b"::")
    order = np.lexsort((item, user))
    return {"ml1m": _ratings(user[order], item[order], rating[order])}


def _columns(path: Path, member: str, separator: bytes) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        text = archive.read(member).replace(separator, b" ")
    return np.fromstring(text.decode("ascii"), np.int64, sep=" ").reshape(-1, 4).T


def _ratings(user: np.ndarray, item: np.ndarray, rating: np.ndarray) -> Arrays:
    return {
        "user": (user - 1).astype(np.int32), "item": (item - 1).astype(np.int32), "rating": rating.astype(np.uint8)
    }  # fmt: skip


SIZES = {
    "100k": Facts(
        "movielens-100k", ABOUT, "100,000 ratings, 943 users, 1,682 films", LICENCE, SOURCE, ("ml100k.npz",),
        (f"{PLACE}ml-100k.zip",), _hundred_thousand, "65e21a3b156ddfdc4796396aaac32eedbf4367329891867d917b669327c44b28",
    ),
    "1m": Facts(
        "movielens-1m", ABOUT, "1,000,209 ratings, 6,040 users, 3,706 films of 3,952 numbers", LICENCE, SOURCE,
        ("ml1m.npz",), (f"{PLACE}ml-1m.zip",), _million,
        "42ee01a3418e579c7a5dd51dd1b33b6d00b9b765e2e4b2505bbf055161d22537",
    ),
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Ratings(DataSet):
    """Users and items by their number from 0, and the stars; seconds since 1970 where they are known."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    facts: Facts
    timestamp: np.ndarray | None = None

    @property
    def pairs(self) -> np.ndarray:
        """User and item of each rating, (rating, 2)."""
        return np.stack([self.user, self.item], axis=1)


def load_movielens(size: str = "100k", folder: str | Path | None = None, *, download: bool = True) -> Ratings:
    """Ratings of films, "100k" or "1m" of them; from ``folder``, or as ``scirocco.datasets`` says.

    Of a million downloaded ratings those of a user come one after the other; a folder may have another order.
    """
    require_choice("size", size, SIZES)
    facts = SIZES[size]
    arrays = arrays_of(facts, folder, download=download)[facts.files[0].removesuffix(".npz")]
    return Ratings(**arrays, facts=facts)
