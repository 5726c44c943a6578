"""The forms under which full text keeps words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence


class Stems:
    """Gives the form under which SQLite's full text keeps a word, by letting it keep one."""

    def __init__(self, tokenizer: str) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._db.execute(f"create virtual table words using fts5 (text, tokenize = '{tokenizer}')")
        self._db.execute("create virtual table stems using fts5vocab (words, instance)")

    def of(self, words: Sequence[str]) -> dict[str, list[str]]:
        """Gives the stems of each word: one, or several where the tokenizer sees several words."""
        with self._lock:
            self._db.execute("delete from words")
            rows = enumerate(words, 1)
            self._db.executemany("insert into words (rowid, text) values (?, ?)", rows)
            stems: dict[str, list[str]] = {word: [] for word in words}
            for number, stem in self._db.execute("select doc, term from stems order by doc, offset").fetchall():
                stems[words[number - 1]].append(stem)
        return stems
