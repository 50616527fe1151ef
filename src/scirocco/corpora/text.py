"""From text files and records to a corpus on disk, in two passes that never hold more than a block.

The first pass counts in how many documents each word occurs and chooses the vocabulary; the second counts words.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from scirocco.core.checks import import_pyarrow, require_count
from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus, write_corpus

BLOCK_DOCUMENTS = 5_000
MOST_NGRAMS = 5
MOST_NAMED = 20  # columns, in messages
JSON_LINES = (".jsonl", ".ndjson")
RECORDS = (*JSON_LINES, ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class Tokenizer:
    """Words of a text: lower case, at least ``least_letters`` letters (of any script), no stop words.

    With ``ngrams=2`` also pairs of words that follow each other once stop words are gone, joined by "_", which no word
    has; with 3 triples too. Rare ones ``build_vocabulary`` leaves out, as it does rare words.

    >>> Tokenizer(stop_words={"the"})("The wind, the WIND; a sirocco!")
    ['wind', 'wind', 'sirocco']
    >>> Tokenizer(ngrams=2)("gibbs sampling works")
    ['gibbs', 'sampling', 'works', 'gibbs_sampling', 'sampling_works']
    """

    least_letters: int = 3
    lower_case: bool = True
    stop_words: Collection[str] = field(default_factory=frozenset)
    ngrams: int = 1

    def __post_init__(self) -> None:
        require_count("least_letters", self.least_letters)
        require_count("ngrams", self.ngrams, most=MOST_NGRAMS)
        object.__setattr__(self, "_pattern", re.compile(rf"[^\W\d_]{{{self.least_letters},}}"))
        object.__setattr__(self, "stop_words", frozenset(self.stop_words))

    def __call__(self, text: str) -> list[str]:
        """The words in their order, then the pairs, and so on."""
        text = text.lower() if self.lower_case else text
        words = [word for word in self._pattern.findall(text) if word not in self.stop_words]  # type: ignore[attr-defined]
        longer = ["_".join(words[i : i + n]) for n in range(2, self.ngrams + 1) for i in range(len(words) - n + 1)]
        return words + longer


def read_texts(paths: str | Path | Iterable[str | Path], *, field: str = "text") -> Iterator[str]:
    """Documents one by one: the ``field`` of each record of JSON lines, of a CSV or Parquet file (its column), or each
    line of a text file.

    A folder stands for the ``.txt`` files in it, each one document. Suffixes may be in upper case; ``.jsonl`` and
    ``.ndjson`` are JSON lines, ``.tsv`` has tabs, and ``.gz`` after any but Parquet's is unpacked.
    """
    for path in _listed(paths):
        try:
            if suffix_of(path) not in RECORDS:
                yield from _texts_of(path)
                continue
            for number, value in _values_of(path, field):
                if not isinstance(value, str):
                    raise ValueError(f"{path}, {number}, has no text in the field {field!r}")
                yield value
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text in UTF-8: {error}") from error


def read_field(paths: str | Path | Iterable[str | Path], field: str) -> Iterator[object]:
    """What else the records of ``read_texts`` say, text or numbers, one by one."""
    for path in _listed(paths):
        if suffix_of(path) not in RECORDS:
            raise ValueError(f"{path} has no fields: records are {', '.join(RECORDS)}")
        yield from (value for _, value in _values_of(path, field))


def suffix_of(path: Path) -> str:
    """In lower case, and without ``.gz``."""
    packed = path.suffix.lower() == ".gz"
    return Path(path.stem).suffix.lower() if packed else path.suffix.lower()


def _listed(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    found = [Path(paths)] if isinstance(paths, str | Path) else [Path(p) for p in paths]
    for path in found:
        if not path.exists():
            raise FileNotFoundError(f"paths must name existing files or folders; {path} does not exist")
    return found


def _lines_of(path: Path) -> Iterator[str]:
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        yield from lines


def _texts_of(path: Path) -> Iterator[str]:
    if path.is_dir():
        for file in sorted(file for file in path.iterdir() if file.suffix.lower() == ".txt"):
            yield file.read_text(encoding="utf-8")
        return
    yield from (line for line in _lines_of(path) if line.strip())


def _values_of(path: Path, field: str) -> Iterator[tuple[str, object]]:
    """A field of each record, and where it stands; None where it is empty."""
    kind = suffix_of(path)
    if kind in JSON_LINES:
        for number, line in enumerate(_lines_of(path), 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}, is not JSON: {error}") from error
            yield f"line {number}", entry.get(field) if isinstance(entry, dict) else None
        return
    for first, column in _columns_of(path, field):
        for number, value in enumerate(column, first):
            yield f"row {number}", value


def _columns_of(path: Path, field: str) -> Iterator[tuple[int, list[object]]]:
    """A column of a table in parts, each with the number of its first row."""
    first = 1
    if suffix_of(path) == ".parquet":
        parquet = import_pyarrow("pyarrow.parquet")
        try:
            file = parquet.ParquetFile(path)
        except (ValueError, OSError) as error:  # what PyArrow raises are these
            raise ValueError(f"{path} is not a table: {error}") from error
        _require_column(path, field, file.schema_arrow.names)
        for batch in file.iter_batches(BLOCK_DOCUMENTS, columns=[field]):
            yield first, batch.column(0).to_pylist()
            first += batch.num_rows
        return
    import pandas as pd

    separator = "\t" if suffix_of(path) == ".tsv" else ","
    try:
        _require_column(path, field, list(map(str, pd.read_csv(path, sep=separator, nrows=0).columns)))
        for part in pd.read_csv(
            path, sep=separator, usecols=[field], dtype=str, keep_default_na=False, chunksize=BLOCK_DOCUMENTS
        ):  # fmt: skip
            yield first, list(part[field])
            first += len(part)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path} is not a table: {error}") from error


def _require_column(path: Path, field: str, columns: list[str]) -> None:
    if field not in columns:
        more = ", ..." if len(columns) > MOST_NAMED else ""
        raise ValueError(f"{path} has no column {field!r}: it has {', '.join(map(repr, columns[:MOST_NAMED]))}{more}")


def build_vocabulary(
    texts: Iterable[str], tokenizer: Callable[[str], list[str]] | None = None, *, min_documents: int = 5,
    max_share: float = 0.5, max_words: int | None = None,
) -> list[str]:  # fmt: skip
    """Words that occur in at least ``min_documents`` and at most a share ``max_share`` of the documents, sorted.

    With ``max_words`` the most frequent of them.
    """
    require_count("min_documents", min_documents)
    if not 0 < max_share <= 1:
        raise ValueError(f"max_share must lie in (0, 1]; got {max_share!r}")
    split, documents, seen = tokenizer or Tokenizer(), 0, Counter[str]()
    if isinstance(texts, str | bytes):
        raise TypeError("texts must be a sequence of documents, each a text; got one text")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"texts must be documents, each a text; number {documents} is {text!r}")
        documents += 1
        seen.update(set(split(text)))
    kept = {word: n for word, n in seen.items() if min_documents <= n <= max_share * documents}
    if not kept:
        raise ValueError(
            f"no word is left: none of {len(seen):,} occurs in {min_documents} to {max_share:.0%} of documents"
        )
    if max_words is not None:
        require_count("max_words", max_words)
        kept = dict(sorted(kept.items(), key=lambda item: (-item[1], item[0]))[:max_words])
    return sorted(kept)


def corpus_from_text(
    path: str | Path, paths: str | Path | list[str | Path], *, field: str = "text",
    tokenizer: Callable[[str], list[str]] | None = None, vocabulary: list[str] | None = None, min_documents: int = 5,
    max_share: float = 0.5, max_words: int | None = None,
) -> Corpus:  # fmt: skip
    """Read texts or records, as ``read_texts`` does, and write them to ``path`` as a corpus.

    Words outside the vocabulary are left out; documents without words are kept, empty.
    """
    split = tokenizer or Tokenizer()
    paths = [paths] if isinstance(paths, str | Path) else list(paths)  # read twice
    if vocabulary is None:
        vocabulary = build_vocabulary(
            read_texts(paths, field=field), split, min_documents=min_documents, max_share=max_share, max_words=max_words
        )
    return write_corpus(path, counted(read_texts(paths, field=field), split, vocabulary), vocabulary)


def counted(texts: Iterable[str], split: Callable[[str], list[str]], vocabulary: list[str]) -> Iterator[Documents]:
    """The texts as counts of the words of a vocabulary, in blocks."""
    place = {word: i for i, word in enumerate(vocabulary)}
    starts, words, numbers = [0], list[int](), list[int]()
    for text in texts:
        found = Counter(place[word] for word in split(text) if word in place)
        for word in sorted(found):
            words.append(word)
            numbers.append(found[word])
        starts.append(len(words))
        if len(starts) > BLOCK_DOCUMENTS:
            yield _block(starts, words, numbers, len(vocabulary))
            starts, words, numbers = [0], [], []
    if len(starts) > 1:
        yield _block(starts, words, numbers, len(vocabulary))


def _block(starts: list[int], words: list[int], numbers: list[int], vocabulary: int) -> Documents:
    return Documents(np.array(starts), np.array(words, np.int32), np.array(numbers, np.int32), vocabulary)
