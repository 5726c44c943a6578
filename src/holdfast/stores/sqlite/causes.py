"""Causes on SQLite: why documents are where they are. They change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from holdfast.core.causes import Cause, Holder
from holdfast.core.codec import encode_json
from holdfast.core.orphans import GRACE, Orphan, orphan_of
from holdfast.stores.sqlite.base import MICROSECOND, Base, moment, worker_of
from holdfast.stores.sqlite.stories import standing


class Causes(Base):
    """Tells why documents are where they are."""

    def orphans(
        self, pipeline: str, *, grace: timedelta = GRACE, batch: str | None = None, gone: Sequence[int] = ()
    ) -> list[Orphan]:
        now = self._now()
        asked = {"pipeline": pipeline, "batch": batch, "grace": grace // MICROSECOND, "gone": encode_json(list(gone))}
        return [
            orphan_of(standing(row[:-3]), row[-3], beat_at=moment(row[-2]), silent=bool(row[-1]), now=moment(now))
            for row in self._all("look_for_orphans", **asked, now=now)
        ]

    def holder(self, document_id: int) -> Holder | None:
        row = self._one("holder", document_id=document_id, now=self._now())
        return _holder(row) if row else None

    def holders(self, pipeline: str) -> list[tuple[Holder, int]]:
        return [(_holder(row), row[9]) for row in self._all("holders", pipeline=pipeline, now=self._now())]

    def ahead(self, document_id: int) -> int:
        return sum(row[0] for row in self._all("ahead", document_id=document_id, now=self._now()))

    def inside(self, pipeline: str, step: str) -> list[tuple[int, str]]:
        return [(document_id, key) for document_id, key in self._all("inside", pipeline=pipeline, step=step)]

    def causes(self, pipeline: str, *, batch: str | None = None) -> list[Cause]:
        return [
            Cause(kind, state, step, error, documents, name, key, moment(moved_at))
            for kind, state, step, error, documents, name, key, moved_at in self._all(
                "causes", pipeline=pipeline, batch=batch, now=self._now()
            )
        ]


def _holder(row: tuple[Any, ...]) -> Holder:
    return Holder(worker_of(row), moment(row[7]), bool(row[8]))
