"""Handwritten digits: 70,000 pictures."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from scirocco.datasets.store import Arrays, DataSet, Facts, Originals, arrays_of

PLACE = "https://ossci-datasets.s3.amazonaws.com/mnist/"  # a mirror: the first source answers no more
FILES = {
    "x_train": "train-images-idx3-ubyte.gz", "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz", "y_test": "t10k-labels-idx1-ubyte.gz",
}  # fmt: skip


def _made(original: Originals) -> dict[str, Arrays]:
    return {"mnist": {name: _bytes(original(PLACE + file)) for name, file in FILES.items()}}


def _bytes(path: Path) -> np.ndarray:
    """An array of the IDX format: a word with the number of axes in its last byte, their sizes, the entries."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape[0], -1).squeeze()


FACTS = Facts(
    "mnist", "a picture of a handwritten digit, 28 x 28 grey values in a row; which digit it is",
    "60,000 x 784 pixels from 0 to 255 to learn from, 10,000 x 784 to be predicted; 10 digits",
    "CC BY-SA 3.0", "LeCun, Cortes and Burges", ("mnist.npz",), tuple(PLACE + file for file in FILES.values()), _made,
    "6251907f8f35e9da3af0d33f7fa1e5283748119d444bcbc62930863134e2ce02",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Digits(DataSet):
    """Pixels as bytes, and digits."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    facts: Facts = field(default=FACTS, init=False)


def load_mnist(folder: str | Path | None = None, *, download: bool = True) -> Digits:
    """Handwritten digits, 70,000 pictures; from ``folder``, or as ``scirocco.datasets`` says."""
    return Digits(**arrays_of(FACTS, folder, download=download)["mnist"])
