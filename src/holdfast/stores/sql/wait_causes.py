"""Wait causes on SQL: why documents are where they are. They change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from holdfast.core.future_times import CLOCK_TOLERANCE
from holdfast.core.orphans import GRACE, Orphan, orphan_of
from holdfast.core.wait_causes import Cause, Holder
from holdfast.stores.sql.base import Base
from holdfast.stores.sql.row_codec import document_status
from holdfast.stores.sql.session import Row


class WaitCauses(Base):
    """Returns why documents are where they are."""

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        rows = self._read(lambda db: db.named("orphans", pipeline=pipeline, batch=batch, grace=grace, gone=[*gone]))
        moment = self.dialect.moment
        return [
            orphan_of(
                document_status(row, moment),
                row["fence"],
                heartbeat_at=moment(row["beat_at"]),
                silent=bool(row["silent"]),
                now=moment(row["read_at"]),
            )
            for row in rows
        ]

    def holder(self, document_id: int) -> Holder | None:
        row = self._first("holder", document_id=document_id)
        return self._holder(row) if row else None

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        return [(self._holder(row), row[9]) for row in self._all("holders", pipeline=pipeline)]

    def _holder(self, row: Row) -> Holder:
        return Holder(self._worker(row), self.dialect.moment(row[7]), alive=bool(row[8]))

    def count_ahead(self, document_id: int) -> int:
        return int(self._value("count_ahead", document_id=document_id))

    def documents_in_step(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        rows = self._all("documents_in_step", pipeline=pipeline, step=step)
        return [(document_id, key) for document_id, key in rows]

    def wait_causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        rows = self._all("wait_causes", pipeline=pipeline, batch=batch, tolerance=CLOCK_TOLERANCE)
        return [Cause(*(*fields, self.dialect.moment(moved_at))) for *fields, moved_at in rows]
