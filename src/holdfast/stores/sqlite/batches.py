"""Batches on SQLite: they balance, are sealed and closed, and leave a report."""

from __future__ import annotations

from holdfast.core.errors import UnknownBatch
from holdfast.stores.sqlite.base import SQL, Base


class Batches(Base):
    """Keeps documents together that belong together."""

    def seal(self, pipeline: str, batch: str) -> None:
        with self._db.writing() as db:
            known = [row[1] for row in db.execute(SQL["batches"], {"pipeline": pipeline}).fetchall()]
            if batch not in known:
                raise UnknownBatch(pipeline, batch, known)
            db.execute(SQL["seal"], {"pipeline": pipeline, "batch": batch})
