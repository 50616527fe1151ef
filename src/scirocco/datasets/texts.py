"""Bags of words: 20 newsgroups, and pages of Wikipedia."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from scirocco.datasets.msweb import matrix_of
from scirocco.datasets.store import Arrays, DataSet, Facts, Originals, arrays_of, text_of

URL = "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz"
DOCUMENTS = {"train": 11_314, "test": 7_532}  # of the archive
LEAST_TOKENS = 10
SUBJECT = re.compile(r"^subject:(.*)$", re.IGNORECASE | re.MULTILINE)


def _newsgroups(original: Originals) -> dict[str, Arrays]:
    """Counts as those of the experiments were made, but for a few stop words; shuffled."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from scirocco.corpora.documents import Documents
    from scirocco.corpora.text import Tokenizer, build_vocabulary, counted

    posts = list(_posts(original(URL)))
    found = {part: sum(own == part for own, _, _ in posts) for part in DOCUMENTS}
    if found != DOCUMENTS:
        raise ValueError(f"the archive of newsgroups20 must have {DOCUMENTS} documents; it has {found}")
    texts, groups = [text for _, _, text in posts], sorted({group for _, group, _ in posts})
    tokenizer = Tokenizer(stop_words=ENGLISH_STOP_WORDS)
    words = build_vocabulary(texts, tokenizer, max_words=20_000)
    counts = Documents.joined(list(counted(texts, tokenizer, words))).matrix()
    order = np.random.default_rng(0).permutation(len(posts))
    order = order[np.asarray(counts.sum(axis=1)).ravel()[order] >= LEAST_TOKENS]
    counts = counts[order]
    label = np.array([groups.index(posts[d][1]) for d in order], np.uint8)
    test = np.array([posts[d][0] == "test" for d in order], np.uint8)
    return {"newsgroups20": {
        "data": counts.data.astype(np.uint16), "indices": counts.indices.astype(np.int32),
        "indptr": counts.indptr.astype(np.int64), "shape": np.array(counts.shape, np.int64), "label": label,
        "test": test, "words": np.array(words), "groups": np.array(groups),
    }}  # fmt: skip


def _posts(path: Path) -> Iterator[tuple[str, str, str]]:
    """Part, group and text of each post: its subject, and what comes after the header."""
    with tarfile.open(path, "r:gz") as archive:
        for member in sorted(archive, key=lambda m: m.name):
            parts = member.name.split("/")
            file = archive.extractfile(member) if member.isfile() and len(parts) == 3 else None
            if file is None:
                continue
            header, _, body = file.read().decode("latin-1").replace("\r\n", "\n").partition("\n\n")
            subject = SUBJECT.search(header)
            yield parts[0].removeprefix("20news-bydate-"), parts[1], f"{subject[1] if subject else ''}\n{body}"


NEWSGROUPS = Facts(
    "newsgroups", "a post to one of 20 groups of the Usenet, without its header but for the subject; which group",
    "18,568 documents x 20,000 words, 2,176,449 tokens; 11,159 to learn from, 7,409 later ones to be predicted; 20 "
    "groups",
    "public posts, no formal licence", "Lang; the version by date of Rennie", ("newsgroups20.npz",), (URL,),
    _newsgroups,
)  # fmt: skip
WIKIPEDIA = Facts(
    "wikipedia", "a page of the English Wikipedia, and how often it has each of the words of Hoffman's vocabulary",
    "151,000 documents x 7,702 words, 35,106,159 tokens; shuffled, the last 1,000 are to be predicted",
    "CC BY-SA 3.0", "Wikipedia's authors; the vocabulary of onlineldavb (Hoffman, Blei and Bach, 2010)",
    ("wikipedia.npz",),
    instead="no source offers these counts: make such a file of texts of your own with sc.corpora, or take newsgroups",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Counts(DataSet):
    """Documents x words; the words, and of newsgroups the group of each document and which are later ones."""

    counts: sp.csr_array
    facts: Facts
    vocabulary: list[str] | None = None
    label: np.ndarray | None = None
    groups: list[str] | None = None
    test: np.ndarray | None = None


def load_newsgroups(folder: str | Path | None = None, *, download: bool = True) -> Counts:
    """Posts to 20 groups, 18,568 documents; from ``folder``, or as ``scirocco.datasets`` says.

    Counts of downloaded posts are made here, and differ a little from those that the experiments were reported with.
    """
    stored = arrays_of(NEWSGROUPS, folder, download=download)["newsgroups20"]
    words, groups = (
        list(map(str, stored[name])) if name in stored else text_of(file, folder)
        for name, file in (("words", "newsgroups20.vocab.txt"), ("groups", "newsgroups20.labels.txt"))
    )
    return Counts(matrix_of(stored), NEWSGROUPS, words, stored.get("label"), groups, stored.get("test"))


def load_wikipedia(folder: str | Path | None = None) -> Counts:
    """Pages of Wikipedia, 151,000 documents, from ``folder`` or the one that ``SCIROCCO_DATA`` names."""
    stored = arrays_of(WIKIPEDIA, folder, download=False)["wikipedia"]
    return Counts(matrix_of(stored), WIKIPEDIA, text_of("wikipedia.vocab.txt", folder))
