"""Topics have no order: chains are aligned before they are compared or averaged."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment


def align(reference: np.ndarray, topics: np.ndarray) -> np.ndarray:
    """The order of ``topics`` that matches those of ``reference`` best, by the Hellinger affinity of their words."""
    affinity = np.sqrt(reference) @ np.sqrt(topics).T
    return np.asarray(linear_sum_assignment(-affinity)[1])
