"""The vectors of what is seen, read from SQLite into memory and kept up to date by what changed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.core.codec import encode_json
from holdfast.pipelines.rag.index import Hit
from holdfast.pipelines.rag.index.meaning import Vectors
from holdfast.pipelines.rag.index.sqlite.statements import SQL


class Loaded:
    """The vectors of one model, as far as they were read."""

    def __init__(self, model_id: int, dimension: int) -> None:
        self._model_id = model_id
        self._vectors = Vectors(dimension)
        self._since = 0
        self._lock = threading.Lock()

    def nearest(
        self,
        db: sqlite3.Connection,
        vector: np.ndarray,
        *,
        limit: int,
        collection: int | None = None,
        among: Sequence[int] | None = None,
    ) -> list[Hit]:
        """Reads what changed since the last time, and looks. One thread at a time: what grows may move in memory."""
        with self._lock:
            self._catch_up(db)
            return self._vectors.nearest(vector, limit=limit, collection=collection, among=among)

    def _catch_up(self, db: sqlite3.Connection) -> None:
        db.execute("begin")
        try:
            changed = db.execute(SQL["changed"], {"since": self._since}).fetchall()
            if changed:
                self._read(db, [row[0] for row in changed])
                self._since = changed[-1][1]
        finally:
            db.execute("rollback")

    def _read(self, db: sqlite3.Connection, documents: Sequence[int]) -> None:
        asked: dict[str, Any] = {"model_id": self._model_id}
        if self._since:
            self._vectors.drop(documents)
            asked["documents"] = encode_json(list(documents))
        rows = db.execute(SQL["meanings"].asking(asked), asked)
        while some := rows.fetchmany(10_000):
            self._vectors.add(*zip(*some, strict=True))
