"""Bags of words on disk.

A corpus is a folder with a Zarr v3 group ``corpus.zarr`` and a file ``vocabulary.txt``, one word a line:

| array | type | what it holds |
| --- | --- | --- |
| ``starts`` | int64, documents + 1 | document d has entries starts[d] to starts[d + 1] |
| ``words`` | int32 | the word of each entry: a line of the vocabulary, from 0 |
| ``numbers`` | int32 | how often it occurs |

and the attributes ``format``, ``documents``, ``tokens`` and ``vocabulary`` (its size), written last: a folder without
them is the rest of a writing that was interrupted, and is written over. Chunks end with a checksum (the codec crc32c),
and every chunk of a part that is read must exist: damage is an error that names the file, never other documents.
Reading holds one block of documents at a time. The folder may be one of an object store, which fsspec reads.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scirocco.core.checks import require_count
from scirocco.core.places import place
from scirocco.corpora.documents import Documents

FORMAT = 1
CHUNK = 2**18  # entries
BLOCK_ENTRIES = 2**20
REMEDY = "restore it from a copy, or delete the folder and write the corpus again"


class Corpus:
    """A corpus on disk, read in blocks of documents.

    ``path`` is a folder, or an address such as "s3://bucket/name" with the ``storage_options`` of fsspec's file system.
    ``block_entries`` is about how many entries (8 bytes each) a block has in memory.
    """

    def __init__(
        self, path: str | Path, *, block_entries: int = BLOCK_ENTRIES, storage_options: Mapping[str, Any] | None = None
    ) -> None:  # fmt: skip
        self.path = place(path, storage_options)
        stored = self.path / "corpus.zarr"
        if not stored.is_dir():
            raise FileNotFoundError(f"{self.path} holds no corpus: corpus.zarr is missing")
        looked = stored / "zarr.json"
        try:
            group = _group(self.path, "r")
            facts: dict[str, Any] = dict(group.attrs)
            arrays: list[Any] = []
            for name in ("starts", "words", "numbers"):
                looked = stored / name / "zarr.json"
                arrays.append(group[name])
                _ = arrays[-1].shape, arrays[-1].chunks  # a group in its place has none
        except Exception as error:  # Zarr has no common class for what a damaged description raises
            raise ValueError(f"{looked} is damaged or not part of a corpus: {error}; {REMEDY}") from error
        self._starts, self._words, self._numbers = arrays
        if facts.get("format") != FORMAT:
            found = facts.get("format")
            raise ValueError(f"{self.path} is damaged, or its writing was interrupted: format {found}, not {FORMAT}")
        try:
            self.size, self.tokens, self.width = (int(facts[n]) for n in ("documents", "tokens", "vocabulary"))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{stored / 'zarr.json'} is damaged: no valid attribute {error}; {REMEDY}") from error
        if self._starts.shape != (self.size + 1,) or self._words.shape != self._numbers.shape:
            raise ValueError(f"{self.path} is damaged: its arrays do not fit each other")
        if len(self.vocabulary) != self.width:
            raise ValueError(
                f"{self.path} is damaged: vocabulary.txt has {len(self.vocabulary)} words, not {self.width}"
            )
        entries = max(1, self._words.shape[0])
        self.block_size = int(np.clip(block_entries * self.size // entries, 1, max(1, self.size)))

    @property
    def vocabulary(self) -> list[str]:
        """The words."""
        try:
            return (self.path / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path} is damaged: vocabulary.txt cannot be read, {error}") from error

    def fingerprint(self) -> dict[str, Any]:
        """What tells this corpus from another, for resuming: sizes, and how often each word occurs."""
        counts = zlib.crc32(np.ascontiguousarray(self.word_counts(), np.float64).data)
        return {"documents": self.size, "tokens": self.tokens, "words": self.width, "word counts": counts}

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.block_size)

    def read(self, begin: int, end: int) -> Documents:
        """Documents ``begin`` to ``end``."""
        starts = self._part("starts", self._starts, begin, end + 1)
        if starts[0] < 0 or np.any(np.diff(starts) < 0) or starts[-1] > self._words.shape[0]:
            raise ValueError(f"{self.path} is damaged: documents {begin} to {end} have no valid borders")
        words = self._part("words", self._words, starts[0], starts[-1])
        numbers = self._part("numbers", self._numbers, starts[0], starts[-1])
        if words.size and not (words.min() >= 0 and words.max() < self.width and numbers.min() > 0):
            raise ValueError(f"{self.path} is damaged: documents {begin} to {end} have words outside the vocabulary")
        return Documents(starts - starts[0], words, numbers, self.width)

    def _part(self, name: str, array: Any, begin: int, end: int) -> np.ndarray:
        """Entries ``begin`` to ``end`` of an array; Zarr reads a missing chunk as -1 without a word."""
        folder, width = self.path / "corpus.zarr" / name / "c", array.chunks[0]
        chunks = [folder / str(k) for k in range(begin // width, -(-end // width) if end > begin else 0)]
        try:
            entries = np.asarray(array[begin:end])
        except Exception as error:  # of a checksum, of Zstandard, of the file system: no common class
            bad = next((c for c in chunks if not _readable(array, int(c.name))), folder)
            raise ValueError(f"{self.path} is damaged: {bad} cannot be read, {error}; {REMEDY}") from error
        if entries.size and entries.min() < 0:
            lost = next((chunk for chunk in chunks if not chunk.is_file()), None)
            if lost is not None:
                raise ValueError(f"{self.path} is damaged: {lost} is missing; {REMEDY}")
        return entries

    @property
    def _borders(self) -> np.ndarray:
        return np.linspace(0, self.size, self.blocks + 1).astype(int)

    @property
    def block_sizes(self) -> np.ndarray:
        """Documents of each block: equal, or nearly."""
        return np.diff(self._borders)

    def block(self, number: int) -> Documents:
        """Block ``number``, from 0."""
        return self.read(*map(int, self._borders[number : number + 2]))

    def __iter__(self) -> Iterator[Documents]:
        """All blocks in order."""
        return (self.block(number) for number in range(self.blocks))

    def word_counts(self) -> np.ndarray:
        """How often each word occurs, in one pass."""
        return sum((block.word_counts() for block in self), start=np.zeros(self.width))

    def load(self) -> Documents:
        """Everything, for corpora that fit in memory."""
        return self.read(0, self.size)

    def __repr__(self) -> str:
        return f"<Corpus: {self.size:,} documents, {self.tokens:,} tokens, {self.width:,} words, in {self.path}>"


def _readable(array: Any, chunk: int) -> bool:
    try:
        array[chunk * array.chunks[0] : (chunk + 1) * array.chunks[0]]
    except Exception:
        return False
    return True


def _group(folder: Any, mode: Any) -> Any:
    """The Zarr group of a corpus."""
    import zarr

    return zarr.open_group(
        str(folder / "corpus.zarr"), mode=mode, storage_options=getattr(folder, "storage_options", None)
    )  # fmt: skip


def _is_whole(folder: Any) -> bool:
    """Whether a folder's corpus was written to its end."""
    try:
        return "format" in _group(folder, "r").attrs
    except (KeyError, ValueError, OSError):
        return False


def write_corpus(
    path: str | Path, blocks: Iterable[Any], vocabulary: Sequence[str] | int, *,
    storage_options: Mapping[str, Any] | None = None,
) -> Corpus:  # fmt: skip
    """Write matrices of counts (documents x words), one after the other, as a corpus on disk.

    ``vocabulary`` names the words, or says how many there are. ``path`` and ``storage_options`` are as for ``Corpus``.

    >>> import tempfile, numpy as np
    >>> folder = tempfile.mkdtemp()
    >>> corpus = write_corpus(folder, [np.array([[2, 0, 1]]), np.array([[0, 3, 0]])], ["sun", "wind", "sand"])
    >>> corpus.size, corpus.tokens, corpus.vocabulary
    (2, 6, ['sun', 'wind', 'sand'])
    """
    from zarr.codecs import Crc32cCodec, ZstdCodec

    folder = place(path, storage_options)
    if (folder / "corpus.zarr").exists() and _is_whole(folder):
        raise FileExistsError(f"{folder} holds a corpus already; it is left alone")
    counted = isinstance(vocabulary, int | np.integer)
    if counted:
        require_count("vocabulary", vocabulary, most=2**31 - 1)
    elif isinstance(vocabulary, str):
        raise TypeError("vocabulary must be a sequence of words or their number; got one word")
    names = [str(i) for i in range(int(vocabulary))] if counted else [str(word) for word in vocabulary]  # type: ignore[arg-type, union-attr]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"words must differ from each other; {len(twice)} are there twice or more, such as {twice[0]!r}"
        )
    bad = [name for name in names if name.splitlines() != [name]]
    if bad:
        raise ValueError(f"words must be one line of text each; got {bad[0]!r}")
    folder.mkdir(parents=True, exist_ok=True)
    group = _group(folder, "w")
    arrays = {
        name: group.create_array(
            name, shape=(size,), chunks=(CHUNK,), dtype=dtype, fill_value=-1, compressors=[ZstdCodec(), Crc32cCodec()]
        )
        for name, size, dtype in (("starts", 1, "int64"), ("words", 0, "int32"), ("numbers", 0, "int32"))
    }
    arrays["starts"][:] = np.zeros(1, np.int64)
    documents, entries, tokens = 0, 0, 0
    for matrix in blocks:
        block = matrix if isinstance(matrix, Documents) else Documents.of(matrix)
        if block.width != len(names):
            raise ValueError(f"blocks must have {len(names)} columns, one for each word; got {block.width}")
        for name, values in (
            ("words", block.words),
            ("numbers", block.numbers),
            ("starts", block.starts[1:] + entries),
        ):
            arrays[name].append(values)
        documents, entries, tokens = documents + block.size, entries + len(block.words), tokens + block.tokens
    (folder / "vocabulary.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    group.attrs.update({"documents": documents, "tokens": tokens, "vocabulary": len(names), "format": FORMAT})
    return Corpus(folder)
