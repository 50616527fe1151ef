"""Whether predictive intervals cover what they say, and how sharp they are.

coverage    the share of rows whose outcome lies in the central interval of a level, beside the mean width of it
CRPS        E |x - y| - E |x - x'| / 2 over draws x, x' of the predictive law and the outcome y (Gneiting and
            Raftery 2007): in the units of y, smaller is better, for right and sharp laws
ECE         of classes: the mean distance of the predicted probability of the most likely class from how often it is
            right, over bins of that probability
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scirocco.core.checks import numbers, require_count

if TYPE_CHECKING:
    import pandas as pd

LEVELS = (0.5, 0.8, 0.9, 0.95)
FINE = np.linspace(0.02, 0.98, 49)  # levels of the picture
DOUBT = 3.0  # standard errors


@dataclass(frozen=True)
class PredictiveCheck:
    """Coverage and width by level, and the mean CRPS."""

    levels: np.ndarray
    coverage: np.ndarray
    width: np.ndarray
    crps: float
    rows: int

    @property
    def error(self) -> np.ndarray:
        """The standard error of the coverage of so many rows, were it right."""
        return np.sqrt(self.levels * (1 - self.levels) / self.rows)

    @property
    def calibrated(self) -> bool:
        """Whether coverage is right at every level, as far as so many rows can tell."""
        return bool(np.all(np.abs(self.coverage - self.levels) <= DOUBT * self.error + 1 / self.rows))

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the coverage of so many rows lies if it is right."""
        return self.levels - DOUBT * self.error, self.levels + DOUBT * self.error

    def table(self, levels: tuple[float, ...] = LEVELS) -> pd.DataFrame:
        """The coverage and the mean width of central intervals."""
        import pandas as pd

        at = [int(np.argmin(np.abs(self.levels - level))) for level in levels]
        columns = {"coverage": self.coverage[at], "standard error": self.error[at], "width": self.width[at]}
        return pd.DataFrame(columns, index=[f"{self.levels[k]:.0%}" for k in at])

    def plot(self, ax: Any = None) -> Any:
        """Coverage against level: see ``plots.coverage``."""
        from scirocco import plots

        return plots.coverage(self, ax=ax)

    def __str__(self) -> str:
        said = "as they say" if self.calibrated else "NOT as they say"
        return f"predictive intervals cover {said}; mean CRPS {self.crps:.4g}\n{self.table().to_string()}"

    __repr__ = __str__


def check_predictions(draws: Any, observed: Any) -> PredictiveCheck:
    """Compare draws of the predictive law, (draw, row), with what was observed, (row,).

    >>> rng = np.random.default_rng(0)
    >>> check_predictions(rng.normal(size=(500, 2000)), rng.normal(size=2000)).calibrated
    True
    >>> check_predictions(0.7 * rng.normal(size=(500, 2000)), rng.normal(size=2000)).calibrated
    False
    """
    x, y = numbers("draws", draws).astype(np.float64), numbers("observed", observed).astype(np.float64)
    if x.ndim != 2 or y.shape != x.shape[1:] or len(x) < 2 or not y.size:
        raise ValueError(f"draws must have the shape (draw, row), observed (row,); got {x.shape} and {y.shape}")
    levels = np.union1d(FINE, LEVELS)
    low, high = (np.quantile(x, (1 + sign * levels) / 2, axis=0) for sign in (-1, 1))
    coverage = ((low <= y) & (y <= high)).mean(axis=1)
    ordered = np.sort(x, axis=0)
    count = len(x)
    weights = (2 * np.arange(1, count + 1) - count - 1) / (count * (count - 1))  # E |x - x'| / 2 by order
    crps = np.abs(x - y).mean(axis=0) - weights @ ordered
    return PredictiveCheck(levels, coverage, (high - low).mean(axis=1), float(crps.mean()), y.size)


def expected_calibration_error(probabilities: Any, labels: Any, bins: int = 15) -> float:
    """ECE of predicted probabilities, (row, class), for the codes of the classes that were observed.

    >>> float(expected_calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1]).round(3))
    0.4
    """
    p, y = numbers("probabilities", probabilities).astype(np.float64), numbers("labels", labels)
    require_count("bins", bins)
    if p.ndim != 2 or y.shape != p.shape[:1] or not y.size:
        raise ValueError(f"probabilities must have the shape (row, class), labels (row,); got {p.shape} and {y.shape}")
    if np.any(p < 0) or not np.allclose(p.sum(axis=1), 1, atol=1e-3):
        raise ValueError("probabilities must be positive and sum to 1 in each row")
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    at = np.minimum((sure * bins).astype(int), bins - 1)
    size = np.maximum(np.bincount(at, minlength=bins), 1)
    gap = np.abs(np.bincount(at, sure, bins) - np.bincount(at, right, bins)) / size
    return np.float64(np.sum(gap * np.bincount(at, minlength=bins)) / y.size)
