"""Checks of arguments that all engines share. Each error names the argument, what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np


def require_count(name: str, value: object, least: int = 1) -> None:
    """Reject what is not a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")


def require_flag(name: str, value: object) -> None:
    """Reject what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def require_collect(collect: object) -> None:
    """Reject what says nothing of what to store of a draw."""
    if collect is not None and collect is not False and not callable(collect):
        raise TypeError(f"collect must be a function of what is sampled, None or False; got {collect!r}")


def require_budget(max_seconds: object) -> None:
    """Reject a time that is not positive."""
    if max_seconds is not None and (not isinstance(max_seconds, int | float) or not max_seconds > 0):
        raise ValueError(f"max_seconds must be positive; got {max_seconds!r}")


def require_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Reject a name that is not on the list."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def require_seed(seed: object) -> int:
    """A seed as an int."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be a whole number from 0 to 2^31 - 1; got {seed!r}")
    return int(seed)


def real_array(name: str, value: Any, *, least: float = -np.inf, open_end: bool = False) -> np.ndarray:
    """A value as a float64 array, finite and not below ``least`` (above it with ``open_end``)."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers; got {type(value).__name__}") from None
    # Two quick passes for good arrays, which most are; NaN makes both comparisons false.
    low, high = (array.min(), array.max()) if array.size else (np.inf, 0.0)
    if not (high < np.inf and -np.inf < low and (low > least if open_end else low >= least)):
        good = np.isfinite(array) & ((array > least) if open_end else (array >= least))
        allowed = "finite" if least == -np.inf else f"finite and {'greater than' if open_end else 'at least'} {least:g}"
        where = np.unravel_index(int(np.argmin(good)), array.shape)
        place = f" at {list(map(int, where))}" if array.ndim else ""
        raise ValueError(f"{name} must be {allowed}; got {array[where]:g}{place}")
    return array


def positive_array(name: str, value: Any) -> np.ndarray:
    """A value as a float64 array, finite and positive."""
    return real_array(name, value, least=0.0, open_end=True)


def require_finite(name: str, array: np.ndarray) -> None:
    """Reject draws with NaN or infinities, with the place of the first one."""
    good = np.isfinite(array)
    if not good.all():
        where = np.unravel_index(int(np.argmin(good)), array.shape)
        raise ValueError(
            f"{name} must be finite; {good.size - int(good.sum())} of {good.size} entries are NaN or infinite, "
            f"the first at {list(map(int, where))}"
        )
