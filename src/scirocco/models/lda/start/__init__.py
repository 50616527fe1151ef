"""Searches for topics to start from."""
