"""Batches on PostgreSQL: they balance, are sealed and closed, and leave a report."""

from __future__ import annotations

from holdfast.core.errors import UnknownBatch
from holdfast.stores.postgres.base import SQL, Base
from holdfast.stores.postgres.connection import Db


class Batches(Base):
    """Keeps documents together that belong together."""

    def seal(self, pipeline: str, batch: str) -> None:
        def seal(db: Db) -> None:
            known = [row[1] for row in db.execute(SQL["batches"], {"pipeline": pipeline}).fetchall()]
            if batch not in known:
                raise UnknownBatch(pipeline, batch, known)
            db.execute(SQL["seal"], {"pipeline": pipeline, "batch": batch})

        self._db.writing(seal)
