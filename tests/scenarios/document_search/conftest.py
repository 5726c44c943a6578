"""The fixtures of document search. Tests that read files are collected only where their libraries are installed."""

from __future__ import annotations

from importlib.util import find_spec

from tests.pipelines.rag.conftest import each_store, opened, store

__all__ = ["each_store", "opened", "store"]

READING = ["test_hostile_files.py", "test_real_files.py", "test_resumed_extraction.py"]
collect_ignore_glob = [] if find_spec("pypdfium2") and find_spec("PIL") else READING
