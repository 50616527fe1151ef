"""Where data lies: in a file or folder of this machine, or at an address of an object store, read through fsspec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


def is_address(path: object) -> bool:
    """Whether this is text such as s3://bucket/name."""
    return isinstance(path, str) and ADDRESS.match(path) is not None


def place(path: Any, storage_options: Mapping[str, Any] | None = None) -> Any:
    """A ``Path`` of this machine, or what has its methods at an address; the options are for fsspec's file system."""
    if hasattr(path, "storage_options"):
        return path  # it is one already
    if isinstance(path, str) and path.startswith("file://"):
        path = path.removeprefix("file://")
    if not is_address(path):
        if storage_options:
            raise ValueError(f"storage_options are for addresses such as s3://bucket/name; got the path {path}")
        return Path(path)
    try:
        from upath import UPath
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"an address such as {path} needs fsspec: pip install 'scirocco[remote]', and the package of the store, "
            "such as s3fs or gcsfs",
            name="upath",
        ) from None
    found = UPath(path, **(storage_options or {}))
    _ = found.fs  # which says what is missing
    return found


def refuse_address(name: str, path: object) -> None:
    """Reject an address where a folder is needed whose files can be locked and renamed."""
    if is_address(path) and not str(path).startswith("file://"):
        raise ValueError(
            f"{name} must be a folder of a file system, because a run locks and renames its files; got the address "
            f"{path}: give a folder that all machines mount, and copy it to the store when the run has ended"
        )
