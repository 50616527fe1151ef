"""Corpora on disk: writing, reading in blocks, text and JSON lines, damage, and LDA from them."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scirocco as sc
from scirocco.corpora import Corpus, Tokenizer, build_vocabulary, corpus_from_text, read_texts, write_corpus
from scirocco.corpora.text import read_field
from scirocco.counts.minibatches import FromDisk
from scirocco.models.lda.blocks import CorpusBlocks

COUNTS = np.random.default_rng(0).poisson(0.3, (200, 30))


@pytest.fixture
def stored(tmp_path):
    return write_corpus(tmp_path / "corpus", [sp.csr_matrix(COUNTS[:70]), COUNTS[70:]], [f"w{i}" for i in range(30)])


def test_what_is_written_is_read(stored):
    assert (stored.size, stored.tokens, stored.width) == (200, COUNTS.sum(), 30)
    documents = stored.load()
    back = sp.csr_matrix((documents.numbers, documents.words, documents.starts), shape=COUNTS.shape).toarray()
    assert np.array_equal(back, COUNTS)
    assert np.array_equal(stored.word_counts(), COUNTS.sum(axis=0))
    small = Corpus(stored.path, block_entries=200)
    assert small.blocks > 5
    assert sum(block.size for block in small) == 200
    assert max(len(block.words) for block in small) < 400
    assert "200 documents" in repr(small)


def test_minibatches_from_disk_share_out_the_documents(stored):
    corpus = Corpus(stored.path, block_entries=500)
    minibatches = FromDisk(CorpusBlocks(corpus, seed=1, chain=0), 30, seed=1, chain=0)
    seen = [minibatches.at(step).data for step in range(20)]  # 600 documents: three times everything
    assert {batch.size for batch in seen} == {30}
    np.testing.assert_array_equal(sum(batch.word_counts() for batch in seen), 3 * COUNTS.sum(axis=0))
    assert {block.size for block in corpus} <= {200 // corpus.blocks, 200 // corpus.blocks + 1}


@pytest.mark.parametrize("sampler", ["auto", "scir", "scir_cv"])
@pytest.mark.filterwarnings("ignore:the noise of minibatches", "ignore:there is one draw")
def test_lda_from_disk(stored, sampler):
    corpus = Corpus(stored.path, block_entries=300)
    model = sc.LDA(3, sampler=sampler, max_iter=6, batch_size=20, random_state=0).fit(corpus)
    assert model.sampler_ == ("collapsed" if sampler == "auto" else sampler)
    np.testing.assert_array_equal(model.transform(corpus), model.transform(COUNTS))
    assert model.perplexity(corpus) == model.perplexity(COUNTS)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-5)
    assert model.top_words(1)["word"][0].startswith("w")
    assert model.n_iter_ >= 6
    assert np.array_equal(model.word_counts_, COUNTS.sum(axis=0))


def test_the_same_documents_from_disk_and_memory_give_the_same_gibbs_sampler(stored):
    disk, memory = (sc.LDA(3, sampler="gibbs", max_iter=5, random_state=0).fit(x) for x in (stored, COUNTS))
    np.testing.assert_array_equal(disk.components_, memory.components_)


def test_phrases_of_neighbouring_words():
    split = Tokenizer(stop_words=["of"], ngrams=3)
    words = split("Statue of Liberty, New York")
    assert words[:4] == ["statue", "liberty", "new", "york"]
    assert words[4:] == ["statue_liberty", "liberty_new", "new_york", "statue_liberty_new", "liberty_new_york"]
    assert build_vocabulary(["new york", "new york", "york"], Tokenizer(ngrams=2), min_documents=2, max_share=1.0) == [
        "new", "new_york", "york",
    ]  # fmt: skip
    assert Tokenizer(ngrams=3)("alone") == ["alone"]
    for ngrams in (0, 6, True):
        with pytest.raises(ValueError, match="ngrams must be a whole number"):
            Tokenizer(ngrams=ngrams)


def test_texts(tmp_path):
    lines = tmp_path / "a.txt"
    lines.write_text("The wind blows\n\nThe sand, the SAND!\n", encoding="utf-8")
    json_lines = tmp_path / "b.jsonl"
    json_lines.write_text(json.dumps({"text": "Wind über sand"}) + "\n", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "c.txt").write_text("wind\nand rain", encoding="utf-8")
    assert list(read_texts([lines, json_lines, folder])) == [
        "The wind blows\n", "The sand, the SAND!\n", "Wind über sand", "wind\nand rain"
    ]  # fmt: skip
    split = Tokenizer(stop_words=["the", "and"])
    assert split("The SAND, über 3 a_b") == ["sand", "über"]
    assert build_vocabulary(read_texts([lines, json_lines, folder]), split, min_documents=2, max_share=0.8) == [
        "sand",
        "wind",
    ]
    corpus = corpus_from_text(
        tmp_path / "corpus", [lines, json_lines, folder], tokenizer=split, min_documents=1, max_share=1.0
    )
    assert corpus.vocabulary == sorted(["blows", "rain", "sand", "wind", "über"])
    assert corpus.size == 4
    assert corpus.tokens == 9
    once = corpus_from_text(tmp_path / "once", iter([lines]), min_documents=1, max_share=1.0)
    assert once.size == 2
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"latin.txt is not text in UTF-8"):
        list(read_texts(tmp_path / "latin.txt"))
    given = corpus_from_text(tmp_path / "given", lines, vocabulary=["sand", "sea"])
    assert given.load().lengths.tolist() == [0, 2]  # the first document has no word of the vocabulary and is kept


def test_records(tmp_path):
    """A field of JSON lines, a column of a table, packed or not; what looks like a missing entry is a text."""
    table = pd.DataFrame({"text": ["wind, and sand", "NA", "rain\nand wind"], "year": [1999, 2000, 2001]})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "a.tsv.gz", index=False, sep="\t")
    table.to_parquet(tmp_path / "a.parquet")
    table.to_json(tmp_path / "a.jsonl.gz", orient="records", lines=True)
    for name in ("a.csv", "a.tsv.gz", "a.parquet", "a.jsonl.gz"):
        assert list(read_texts(tmp_path / name)) == list(table["text"]), name
        assert list(map(int, read_field(tmp_path / name, "year"))) == [1999, 2000, 2001]
    (tmp_path / "a.txt").write_text("wind")
    (tmp_path / "half.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:50])
    for path, field, words in (
        ("a.csv", "body", r"a\.csv has no column 'body': it has 'text', 'year'"),
        ("a.parquet", "body", r"a\.parquet has no column 'body'"),
        ("a.parquet", "year", r"a\.parquet, row 1, has no text in the field 'year'"),
        ("half.parquet", "text", r"half\.parquet is not a table"),
    ):
        with pytest.raises(ValueError, match=words):
            list(read_texts(tmp_path / path, field=field))
    with pytest.raises(ValueError, match=r"a\.txt has no fields: records are \.jsonl"):
        list(read_field([tmp_path / "a.txt"], "year"))


@pytest.mark.parametrize("name", ["b.JSONL", "b.NDJSON", "b.ndjson", "b.Jsonl"])
def test_suffixes_in_upper_case_are_suffixes(tmp_path, name):
    (tmp_path / name).write_text(json.dumps({"text": "wind"}) + "\n", encoding="utf-8")
    assert list(read_texts(tmp_path / name)) == ["wind"]
    (tmp_path / "A.TXT").write_text("sand", encoding="utf-8")
    assert list(read_texts(tmp_path)) == ["sand"]


def test_blocks_of_many_texts(tmp_path, monkeypatch):
    from scirocco.corpora import text

    monkeypatch.setattr(text, "BLOCK_DOCUMENTS", 7)
    lines = tmp_path / "a.txt"
    lines.write_text("".join(f"word{'abc'[i % 3] * 3} common\n" for i in range(50)), encoding="utf-8")
    corpus = corpus_from_text(tmp_path / "corpus", lines, min_documents=1, max_share=1.0)
    assert corpus.size == 50
    assert corpus.load().lengths.tolist() == [2] * 50


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: Corpus(p / "none"), "holds no corpus"),
        (lambda p: write_corpus(p / "x", [np.ones((2, 3), int)], 4), "blocks must have 4 columns"),
        (lambda p: write_corpus(p / "x", [np.ones((2, 2), int)], ["a", "b\nc"]), "one line of text each"),
        (lambda p: write_corpus(p / "x", [np.ones((2, 2), int)], ["a\n", "b"]), "one line of text each"),
        (lambda p: list(read_texts(p / "none.txt")), "does not exist"),
        (lambda p: build_vocabulary(["one two"], min_documents=5), "no word is left"),
        (lambda p: build_vocabulary(["one two"], max_share=0.0), "max_share must lie"),
        (lambda p: Tokenizer(least_letters=0), "least_letters must be"),
    ],
)
def test_bad_input(tmp_path, call, words):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        call(tmp_path)


@pytest.mark.parametrize("array", ["starts", "words", "numbers"])
def test_damage_in_a_chunk_is_noticed_and_its_file_is_named(tmp_path, monkeypatch, array):
    """A changed byte, a cut file, a missing one: never other documents than those that were written."""
    from scirocco.corpora import store

    monkeypatch.setattr(store, "CHUNK", 64)  # several chunks of each array
    corpus = write_corpus(tmp_path / "corpus", [COUNTS], 30)
    chunk = corpus.path / "corpus.zarr" / array / "c" / "2"
    whole = chunk.read_bytes()
    for place in range(len(whole)):  # every byte, the checksum's own too
        chunk.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=rf"corpus is damaged: .*{array}/c/2 cannot be read.*restore it"):
            Corpus(corpus.path).load()
    chunk.write_bytes(whole[:-7])
    with pytest.raises(ValueError, match=rf"{array}/c/2 cannot be read"):
        Corpus(corpus.path).load()
    chunk.unlink()
    with pytest.raises(ValueError, match=rf"{array}/c/2 is missing; restore it"):
        Corpus(corpus.path).load()
    chunk.write_bytes(whole)
    assert np.array_equal(Corpus(corpus.path).load().word_counts(), COUNTS.sum(axis=0))


@pytest.mark.parametrize("place", ["zarr.json", "words/zarr.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", '{"zarr_format": 3}', '{"zarr_format": 3, "node_type": "group"}'])
def test_a_damaged_description_is_one_error(stored, place, text):
    (stored.path / "corpus.zarr" / place).write_text(text)
    with pytest.raises(ValueError, match=r"damaged"):
        Corpus(stored.path)


def test_damage_is_named(tmp_path, stored):
    import zarr

    with pytest.raises(FileExistsError, match="holds a corpus already"):
        write_corpus(stored.path, [COUNTS], 30)
    group = zarr.open_group(str(stored.path / "corpus.zarr"), mode="a")
    group["words"][5] = 99
    with pytest.raises(ValueError, match="words outside the vocabulary"):
        Corpus(stored.path).load()
    group["words"][5] = 0
    chunk = stored.path / "corpus.zarr" / "words" / "c" / "0"
    whole = chunk.read_bytes()
    for damaged in (None, whole[: len(whole) // 2]):  # missing, or cut
        chunk.unlink() if damaged is None else chunk.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            Corpus(stored.path).load()
    chunk.write_bytes(whole)
    names = stored.path / "vocabulary.txt"
    text = names.read_text()
    names.write_text("one\n")
    with pytest.raises(ValueError, match=r"vocabulary.txt has 1 words, not 30"):
        Corpus(stored.path)
    names.write_text(text)
    group.attrs["format"] = 7
    with pytest.raises(ValueError, match="damaged, or its writing was interrupted"):
        Corpus(stored.path)
    del group.attrs["format"]  # as an interrupted writing leaves it
    assert write_corpus(stored.path, [COUNTS], np.int64(30)).size == 200
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "good"}\nnot json\n', encoding="utf-8")
    with pytest.raises(ValueError, match="line 2, is not JSON"):
        list(read_texts(bad))
    bad.write_text('{"body": "good"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="no text in the field 'text'"):
        list(read_texts(bad))


def test_a_vocabulary_is_made_of_texts():
    with pytest.raises(TypeError, match=r"texts must be documents, each a text; number 0 is 1"):
        build_vocabulary([1, 2])
    with pytest.raises(TypeError, match="got one text"):
        build_vocabulary("one text")


def test_what_is_no_corpus_is_said(tmp_path):
    counts = np.ones((2, 3), int)
    with pytest.raises(ValueError, match=r"words must differ from each other; 1 are there twice or more, such as 'a'"):
        write_corpus(tmp_path / "a", [counts], ["a", "b", "a"])
    with pytest.raises(TypeError, match="vocabulary must be a sequence of words or their number; got one word"):
        write_corpus(tmp_path / "b", [counts], "abc")
    with pytest.raises(ValueError, match=r"vocabulary must be a whole number of at most 2,147,483,647"):
        write_corpus(tmp_path / "c", [counts], 2**63)
    for blocks in (counts, [5], [[1, 2, 3]]):
        with pytest.raises(ValueError, match=r"counts must be a matrix, documents x words; got the shape \((3,)?\)"):
            write_corpus(tmp_path / "d", blocks, 3)
    with pytest.raises(TypeError, match="counts must be a number or an array of numbers"):
        write_corpus(tmp_path / "e", ["text"], 3)
