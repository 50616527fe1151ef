"""What may be given as a corpus: texts, records with a field of text, counts; read once, to a corpus on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scirocco.command_line.outcome import WrongCall
from scirocco.corpora import Corpus, Tokenizer, corpus_from_text, write_corpus
from scirocco.corpora.text import RECORDS, read_field, read_texts, suffix_of

if TYPE_CHECKING:
    import pandas as pd

COUNTS = ".npz"
LISTED = (".txt", *RECORDS, COUNTS)
STORED = "corpus.zarr"
LOOKED_AT = 1000  # records, before a run


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files, and the folders of texts, that are meant; of one kind."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise WrongCall(f"there is no {path}")
        found += _in_folder(path) if path.is_dir() else [path]
    kinds = sorted({suffix_of(path) for path in found})
    if len(kinds) > 1:
        raise WrongCall(
            f"a corpus is of one kind: got {', '.join(kind or 'folders' for kind in kinds)}; name the files"
        )
    return found


def _in_folder(folder: Path) -> list[Path]:
    """A corpus on disk as it is; folders with text files, each a document; or the files of records or counts."""
    if (folder / STORED).is_dir():
        return [folder]
    inner = sorted(path for path in folder.rglob("*") if path.is_file() and suffix_of(path) in LISTED)
    texts = sorted({path.parent for path in inner if suffix_of(path) == ".txt" and not _names_words(path)})
    others = [path for path in inner if suffix_of(path) != ".txt"]
    if texts and others:
        raise WrongCall(f"{folder} has text files and others ({others[0].name}): name those that are meant")
    if not texts and not others:
        raise WrongCall(f"{folder} has no documents: files with the suffixes {', '.join(LISTED)} are read")
    return texts or others


def _names_words(path: Path) -> bool:
    return path.name == "vocabulary.txt" or path.name.endswith(".vocab.txt")


def has_fields(paths: Sequence[Path]) -> bool:
    """Whether documents are records, with other fields beside the text."""
    return suffix_of(paths[0]) in RECORDS


def document_names(paths: Sequence[Path], field: str | None) -> list[str] | None:
    """A name for each document: a ``field`` of records, or the file of a text; None where there is neither."""
    if field is not None:
        return list(map(str, read_field(paths, field)))
    if not paths[0].is_dir() or (paths[0] / STORED).is_dir():
        return None
    texts = [file for folder in paths for file in sorted(folder.iterdir()) if suffix_of(file) == ".txt"]
    return [f"{file.parent.name}/{file.name}" if len(paths) > 1 else file.name for file in texts]


def groups_of(paths: Sequence[Path], field: str) -> pd.Series:
    """A ``field`` of all records, as numbers where all are, such as years, which have an order."""
    import pandas as pd

    values = pd.Series([str(value) for value in read_field(paths, field)], name=field)
    numbers = pd.to_numeric(values, errors="coerce")
    return numbers if numbers.astype(str).equals(values) else values  # and "007" stays as it is


def require_fields(paths: Sequence[Path], *fields: str | None) -> None:
    """Refuse a field that records do not have, before a run at whose end it would be looked for."""
    for path, field in product(paths, filter(None, fields)):
        try:
            first = list(islice(read_field([path], field), LOOKED_AT))
        except ValueError as error:
            raise WrongCall(str(error)) from None
        if first and all(value is None for value in first):
            raise WrongCall(f"{path} has no field {field!r} in its first {len(first):,} records")


def corpus_of(
    folder: Path, paths: Sequence[Path], *, field: str, stop_words: str, ngrams: int, **limits: Any
) -> Corpus:  # fmt: skip
    """The corpus on disk: that which was given, or one written to ``folder``, unless a whole one is there."""
    if (paths[0] / STORED).is_dir():
        if len(paths) > 1:
            raise WrongCall("give one corpus")
        return Corpus(paths[0])
    if (folder / STORED).is_dir():
        try:
            return Corpus(folder)
        except ValueError:  # its writing was interrupted
            pass
    if suffix_of(paths[0]) == COUNTS:
        return write_corpus(folder, blocks_of(paths), _vocabulary(paths))
    for path in paths:
        if has_fields([path]):
            _require_field(path, field)
    tokenizer = Tokenizer(stop_words=_stop_words(stop_words), ngrams=ngrams)
    return corpus_from_text(folder, list(paths), field=field, tokenizer=tokenizer, **limits)


def _require_field(path: Path, field: str) -> None:
    try:
        next(read_texts([path], field=field), None)
    except ValueError as error:
        other = "; --field names another" if repr(field) in str(error) else ""  # else the file is no table, no text
        raise WrongCall(f"{error}{other}") from None


def _stop_words(given: str) -> frozenset[str]:
    """Those of English, none, or those of a file, one a line."""
    if given == "none":
        return frozenset()
    if given == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        # what the tokenizer leaves of "don't" and the like
        return frozenset(ENGLISH_STOP_WORDS) | {"don", "didn", "doesn", "isn", "wasn", "aren", "couldn", "wouldn"}
    if not Path(given).is_file():
        raise WrongCall(f"--stop-words is 'english', 'none' or a file with a word a line; there is no {given}")
    return frozenset(Path(given).read_text(encoding="utf-8").split())


def blocks_of(paths: Sequence[Path]) -> Iterator[Any]:
    """Sparse matrices that SciPy or the data sets have stored, documents x words."""
    import numpy as np
    import scipy.sparse as sp

    for path in paths:
        try:
            with np.load(path, allow_pickle=False) as stored:
                parts = (stored["data"].astype(np.int64), stored["indices"], stored["indptr"])
                yield sp.csr_array(parts, shape=tuple(stored["shape"]))
        except (KeyError, ValueError, OSError) as error:
            raise WrongCall(f"{path} holds no sparse matrix of counts (scipy.sparse.save_npz): {error}") from None


def _vocabulary(paths: Sequence[Path]) -> Any:
    """The words beside the counts, one a line; without them their numbers."""
    import numpy as np

    first = paths[0]
    for place in (first.with_suffix(".vocab.txt"), first.with_name("vocabulary.txt")):
        if place.is_file():
            return place.read_text(encoding="utf-8").splitlines()
    try:
        with np.load(first, allow_pickle=False) as stored:
            return int(stored["shape"][1])
    except (KeyError, ValueError, OSError, IndexError) as error:
        raise WrongCall(f"{first} holds no sparse matrix of counts (scipy.sparse.save_npz): {error}") from None
