"""Corpora larger than memory: sparse blocks on disk, and how to make them from text."""

from scirocco.corpora.documents import Documents
from scirocco.corpora.store import Corpus, write_corpus
from scirocco.corpora.text import Tokenizer, build_vocabulary, corpus_from_text, read_texts

__all__ = ["Corpus", "Documents", "Tokenizer", "build_vocabulary", "corpus_from_text", "read_texts", "write_corpus"]
