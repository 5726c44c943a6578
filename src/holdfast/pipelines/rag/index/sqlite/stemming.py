"""Stem words with the tokenizer of SQLite's full-text search."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence


class Stemmer:
    """Return the stems that FTS5 stores for words. It indexes the words in memory and reads back the terms."""

    def __init__(self, tokenizer: str) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._db.execute(f"create virtual table words using fts5 (text, tokenize = '{tokenizer}')")
        self._db.execute("create virtual table stems using fts5vocab (words, instance)")

    def stems(self, words: Sequence[str]) -> dict[str, list[str]]:
        """Return the stems of each word: one, or several if the tokenizer divides the word."""
        with self._lock:
            self._db.execute("delete from words")
            self._db.executemany("insert into words (rowid, text) values (?, ?)", enumerate(words, 1))
            stems: dict[str, list[str]] = {word: [] for word in words}
            for number, stem in self._db.execute("select doc, term from stems order by doc, offset").fetchall():
                stems[words[number - 1]].append(stem)
        return stems
