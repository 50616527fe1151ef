"""Forest cover types: 581,012 patches of forest, seven kinds of trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from scirocco.datasets.store import Arrays, DataSet, Facts, Originals, arrays_of

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz"
MEASURED, WILDERNESS, SOIL = 10, 4, 40  # columns
LODGEPOLE = 2


def _made(original: Originals) -> dict[str, Arrays]:
    import pandas as pd

    table = pd.read_csv(original(URL), header=None).to_numpy()
    measured, wilderness, soil, kind = np.split(table, np.cumsum([MEASURED, WILDERNESS, SOIL]), axis=1)
    return {"covertype": {
        "quantitative": measured.astype(np.int16), "wilderness": wilderness.argmax(axis=1).astype(np.uint8),
        "soil": soil.argmax(axis=1).astype(np.uint8), "cover_type": kind[:, 0].astype(np.uint8),
    }}  # fmt: skip


FACTS = Facts(
    "covertype",
    "a patch of 30 m x 30 m of forest in Colorado, its measurements from maps; which kind of tree covers it",
    "581,012 rows: 10 measurements, one of 4 areas, one of 40 soils; 7 cover types",
    "CC BY 4.0",
    "Blackard and Colorado State University, UCI Machine Learning Repository",
    ("covertype.npz",), (URL,), _made,
    "e9e7e3fd48ecf04d5ccfb19015c7a3d0bccd9a69fb93abe8ce6d72a70581378e",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Covertype(DataSet):
    """Measurements in their own units, codes of area and soil from 0, and the cover type from 1 to 7."""

    quantitative: np.ndarray
    wilderness: np.ndarray
    soil: np.ndarray
    cover_type: np.ndarray
    facts: Facts = field(default=FACTS, init=False)

    @property
    def lodgepole(self) -> np.ndarray:
        """Whether it is lodgepole pine, 1 or 0: the usual task with two classes."""
        return (self.cover_type == LODGEPOLE).astype(np.float32)

    def design(self) -> np.ndarray:
        """54 columns: measurements with mean 0 and sd 1, and an indicator for each area and each soil."""
        measured = self.quantitative.astype(np.float32)
        scaled = (measured - measured.mean(0)) / measured.std(0)
        codes = ((self.wilderness, WILDERNESS), (self.soil, SOIL))
        return np.hstack([scaled, *(np.eye(size, dtype=np.float32)[code] for code, size in codes)])


def load_covertype(folder: str | Path | None = None, *, download: bool = True) -> Covertype:
    """Forest cover types, 581,012 rows; from ``folder``, or as ``scirocco.datasets`` says."""
    return Covertype(**arrays_of(FACTS, folder, download=download)["covertype"])
