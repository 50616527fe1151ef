"""Compiled loops over the tokens of documents."""
