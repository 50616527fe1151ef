"""What models of other libraries must be for minibatches: a prior that knows no rows, and rows that stand apart."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 64  # that are compared with each other
PLACES = 3  # parameters at which they are
NEAR = 1e-4  # relative difference of log densities that is rounding


def require_apart(together: Any, alone: Any) -> None:
    """Refuse log likelihoods of rows, of a minibatch, that are others when a row is by itself."""
    together, alone = np.asarray(together), np.asarray(alone)
    near = NEAR * (1 + np.max(np.abs(together[np.isfinite(together)]), initial=0.0))
    if not np.allclose(together, alone, rtol=NEAR, atol=near, equal_nan=True):
        raise ValueError(
            "the likelihood of a row depends on the other rows of its minibatch, as with batch normalisation or a "
            "model of a time series: it is no sum over rows"
        )
