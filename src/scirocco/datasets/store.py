"""Where data sets are: a folder that the user names, or the original source and a cache of what it had.

The files of a folder are NumPy's archives, such as ``covertype.npz``; the original files may stand in their place. What
comes from an original file is compared with the data as they were seen when this was written: the digest is that of
the arrays, not of the file. What was downloaded is kept in the user's cache folder, in the same layout.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
from platformdirs import user_cache_dir

FOLDER = "SCIROCCO_DATA"
Arrays = dict[str, np.ndarray]
Originals = Callable[[str], Path]
"""The file of a URL, here."""


@dataclass(frozen=True)
class Facts:
    """What there is to know of a data set."""

    name: str
    about: str
    """What a row is, and what one wants to know of it."""
    shape: str
    licence: str
    source: str
    """Who made it, and where it is described."""
    files: tuple[str, ...]
    """In a folder."""
    originals: tuple[str, ...] = ()
    """Where the original files are; none where nobody offers data in this form."""
    made: Callable[[Originals], dict[str, Arrays]] | None = field(default=None, repr=False)
    """The arrays of the files, by the names of these without suffix, from the original files."""
    digest: str | None = None
    """Of the arrays; None where they are counted from texts and may differ a little."""
    instead: str = ""
    """What to do without the files, where there are no originals."""


class DataSet:
    """Arrays, and ``facts`` about them, which are what is shown."""

    facts: Facts

    def __repr__(self) -> str:
        facts = self.facts
        return f"<{facts.name}: {facts.shape}; {facts.licence}; {facts.source}>"


def arrays_of(facts: Facts, folder: str | Path | None = None, *, download: bool = True) -> dict[str, Arrays]:
    """The arrays of each file of a data set, by name without suffix.

    From ``folder``, or the one that ``SCIROCCO_DATA`` names: such a folder is the only place that is looked at. Without
    one from the cache, where what is not there is downloaded first, unless ``download`` is False.
    """
    named = folder or os.environ.get(FOLDER)
    if named:
        place = Path(named)
        if _complete(facts, place):
            return _read(facts, place)
        if facts.made is not None and all((place / file_name(url)).is_file() for url in facts.originals):
            return _verified(facts, facts.made(lambda url: place / file_name(url)))
        raise FileNotFoundError(_missing(facts, f"{place} has no"))
    place = cache_folder()
    if _complete(facts, place):
        return _read(facts, place)
    if facts.made is None or not download:
        raise FileNotFoundError(_missing(facts, "there is no"))
    return _downloaded(facts, place)


def text_of(name: str, folder: str | Path | None = None) -> list[str] | None:
    """The lines of a text file beside the arrays; None where there is none."""
    place = Path(folder or os.environ.get(FOLDER) or cache_folder()) / name
    return place.read_text(encoding="utf-8").splitlines() if place.is_file() else None


def cache_folder() -> Path:
    """Where downloaded data are kept."""
    wanted = os.environ.get("SCIROCCO_CACHE", "")
    own = wanted if wanted.lower() != "off" else ""
    return Path(own or user_cache_dir("scirocco", appauthor=False)) / "data"


def file_name(url: str) -> str:
    """What the file of a URL is called."""
    return Path(urlparse(url).path).name


def digest_of(found: Mapping[str, Arrays]) -> str:
    """SHA-256 of arrays with their names, types and shapes."""
    total = hashlib.sha256()
    for file in sorted(found):
        for name in sorted(found[file]):
            array = found[file][name]
            total.update(f"{file}/{name} {array.dtype.newbyteorder('=').str[1:]} {array.shape}\n".encode())
            total.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return total.hexdigest()


def _complete(facts: Facts, folder: Path) -> bool:
    return all((folder / file).is_file() for file in facts.files)


def _read(facts: Facts, folder: Path) -> dict[str, Arrays]:
    found = {}
    for file in facts.files:
        if file.endswith(".npz"):
            try:
                with np.load(folder / file, allow_pickle=False) as stored:
                    found[file.removesuffix(".npz")] = dict(stored)
            except (OSError, ValueError) as error:
                raise ValueError(f"{folder / file} is damaged or no archive of arrays: {error}") from error
    return found


def _verified(facts: Facts, found: dict[str, Arrays]) -> dict[str, Arrays]:
    if facts.digest is not None and digest_of(found) != facts.digest:
        raise ValueError(
            f"the original files of {facts.name} are not those that are known: the SHA-256 of their arrays is "
            f"{digest_of(found)}, not {facts.digest}"
        )
    return found


def _downloaded(facts: Facts, place: Path) -> dict[str, Arrays]:
    """From the original source, into the cache."""
    import pooch

    assert facts.made is not None, "there is a way from the original files"
    pooch.get_logger().setLevel("ERROR")  # which would warn that a file has no checksum: its arrays have
    print(f"scirocco: {facts.name} from {urlparse(facts.originals[0]).netloc}; {facts.licence}", file=sys.stderr)
    kept = place / "originals"
    try:
        here = {url: Path(pooch.retrieve(url, None, fname=file_name(url), path=kept)) for url in facts.originals}
    except Exception as error:  # requests and pooch have many
        why = f" (downloading from {urlparse(facts.originals[0]).netloc} failed: {type(error).__name__})"
        raise FileNotFoundError(_missing(facts, "there is no", why)) from error
    try:
        found = _verified(facts, facts.made(here.__getitem__))
    except Exception:
        for path in here.values():  # another try begins anew
            path.unlink(missing_ok=True)
        raise
    for name, arrays in found.items():
        half = place / f".{name}.{os.getpid()}.npz"
        np.savez_compressed(half, **arrays)  # type: ignore[arg-type]
        half.replace(place / f"{name}.npz")
    return found


def _missing(facts: Facts, begin: str, why: str = "") -> str:
    files = " and ".join(facts.files)
    where = f"{FOLDER} or the argument folder names the folder that holds {files}"
    way = facts.instead or f"or these original files: {', '.join(facts.originals)}"
    return f"{begin} {files}{why}: {where}; {way}"
