"""Checks of arguments that all engines share. Each error names the argument, what was given and what is allowed."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

import numpy as np

MOST_COUNTED = 2**63 - 1  # of what is counted: the largest number that compiled code holds


def require_count(name: str, value: object, least: int = 1, most: int = MOST_COUNTED) -> None:
    """Reject what is not a whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    if value > most:
        limit = "2^63 - 1" if most == MOST_COUNTED else f"{most:,}"
        raise ValueError(f"{name} must be a whole number of at most {limit}; got {value!r}")


def require_collect(collect: object) -> None:
    """Reject what says nothing of what to store of a draw."""
    if collect is not None and collect is not False and not callable(collect):
        raise TypeError(f"collect must be a function of what is sampled, None or False; got {collect!r}")


def require_budget(max_seconds: object) -> None:
    """Reject a time that is not positive."""
    if max_seconds is None:
        return
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, int | float) or not max_seconds > 0:
        raise ValueError(f"max_seconds must be positive; got {max_seconds!r}")


def require_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Reject a name that is not on the list."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def require_flag(name: str, value: object) -> None:
    """Reject what is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def require_seed(seed: object) -> int:
    """A seed as an int."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be a whole number from 0 to 2^31 - 1; got {seed!r}")
    return int(seed)


def require_unmasked(name: str, value: Any) -> None:
    """Reject masked entries, which would be taken for data; those of arrays in lists too."""
    if isinstance(value, list | tuple):
        for entry in value:
            if isinstance(entry, list | tuple | np.ma.MaskedArray):
                require_unmasked(name, entry)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        count = int(np.ma.getmaskarray(value).sum())
        raise ValueError(f"{name} has masked entries ({count} of {value.size}): fill them or drop them")


def numbers(name: str, value: Any) -> np.ndarray:
    """A value as a plain array of booleans, integers or floats: the gate that all numbers from outside come through.

    Masked entries, complex numbers, text and dates are refused, also inside arrays of objects; objects that are numbers
    become float64.
    """
    require_unmasked(name, value)
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and not any(isinstance(entry, NO_NUMBERS) for entry in array.flat):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be a number or an array of numbers; got {type(value).__name__}") from None
    # NumPy takes the small floats of accelerators, such as bfloat16, for raw bytes.
    if array.dtype.kind not in "biuf" and not (array.dtype.kind == "V" and np.can_cast(array.dtype, np.float64)):
        found = type(value).__name__ if array.dtype.kind == "O" or not array.ndim else f"dtype {array.dtype}"
        others = KINDS.get(array.dtype.kind, "objects")
        raise TypeError(f"{name} must be a number or an array of numbers, not {others}; got {found}")
    return array


KINDS = {"c": "complex ones", "U": "text", "S": "text", "M": "dates", "m": "times"}
NO_NUMBERS = (str, bytes, complex, np.datetime64, np.timedelta64, np.ma.MaskedArray)  # what float() would take


def real_array(name: str, value: Any, *, least: float = -np.inf, open_end: bool = False) -> np.ndarray:
    """A value as a float64 array, finite and not below ``least`` (above it with ``open_end``)."""
    array = numbers(name, value).astype(np.float64, copy=False)
    # Two quick passes for good arrays, which most are; NaN makes both comparisons false.
    low, high = (array.min(), array.max()) if array.size else (np.inf, 0.0)
    if not (high < np.inf and -np.inf < low and (low > least if open_end else low >= least)):
        good = np.isfinite(array) & ((array > least) if open_end else (array >= least))
        allowed = "finite" if least == -np.inf else f"finite and {'greater than' if open_end else 'at least'} {least:g}"
        where = np.unravel_index(int(np.argmin(good)), array.shape)
        place = f" at {list(map(int, where))}" if array.ndim else ""
        raise ValueError(f"{name} must be {allowed}; got {array[where]:g}{place}")
    return array


def real_number(name: str, value: Any, *, least: float = -np.inf, open_end: bool = False) -> float:
    """One finite number, not below ``least`` (above it with ``open_end``)."""
    array = real_array(name, value, least=least, open_end=open_end)
    if array.ndim:
        raise ValueError(f"{name} must be one number; got an array of shape {array.shape}")
    return float(array)


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


def import_pyarrow(module: str) -> Any:
    """A module of PyArrow, which only those need who read its files."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError("reading Parquet and Arrow files needs pyarrow: pip install 'scirocco[parquet]'") from None
