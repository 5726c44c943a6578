"""Document reads on SQL: documents, what was kept for them, and what happened to them. They change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from holdfast.core.codec import Kept
from holdfast.core.errors import ItemDamaged, UnknownDocument
from holdfast.core.model import (
    WHOLE,
    DocumentStatus,
    FailedItem,
    ItemCounts,
    JournalEntry,
    Output,
    Plan,
    SetAsideItem,
    State,
)
from holdfast.stores.document_filter import condition_names, containing, filter_values, item_filter
from holdfast.stores.protocol import MAX_PER_TRANSACTION, DocumentFilter, ItemFilter, ItemPlace
from holdfast.stores.sql.base import Base
from holdfast.stores.sql.row_codec import UnreadableRow, items_of, journal_entry, read_failure, refuse_if_replaced
from holdfast.stores.sql.session import Row, Session

PAGE = 500
"""How many rows of items are read at a time, so that no read stays open while the caller works: on SQLite the thread
could not write any more once others have written, and on PostgreSQL the server would keep a cursor."""


class DocumentReads(Base):
    """Read documents, their items and their journal."""

    def document(self, pipeline: str, batch: str, key: str) -> DocumentStatus:
        found = self._read(lambda db: db.documents("document", pipeline=pipeline, batch=batch, key=key))
        if not found:
            raise UnknownDocument(f"batch {batch!r} of pipeline {pipeline!r} has no document {key!r}")
        return found[0]

    def documents(self, pipeline: str, *, limit: int = 100, **which: Unpack[DocumentFilter]) -> list[DocumentStatus]:
        names, parameters = self._filter(pipeline, which)
        return self._read(lambda db: db.documents("documents", names, **parameters, limit=limit))

    def select(
        self, pipeline: str, *, after: int = 0, limit: int = MAX_PER_TRANSACTION, **which: Unpack[DocumentFilter]
    ) -> list[int]:
        names, parameters = self._filter(pipeline, which)

        def select(db: Session) -> list[Row]:
            db.run_if_present("walk_by_id")
            return db.with_conditions("select_documents", names, **parameters, after=after, limit=limit)

        return [row[0] for row in self._read_snapshot(select)]

    def count(self, pipeline: str, **which: Unpack[DocumentFilter]) -> int:
        names, parameters = self._filter(pipeline, which)
        ((count,),) = self._read(lambda db: db.with_conditions("count_documents", names, **parameters))
        return int(count)

    def _filter(self, pipeline: str, which: DocumentFilter) -> tuple[set[str], dict[str, Any]]:
        """Return the names of the conditions that a filter needs, and their parameters."""
        wanted = filter_values(which)
        patterns = {
            "keys": self.dialect.key_pattern(wanted.get("keys", "")),
            "text": containing(wanted.get("text", "")),
        }
        return condition_names(wanted), wanted | patterns | {"pipeline": pipeline}

    def overdue_at_gate(self, plan: Plan, gate: str, *, limit: int = MAX_PER_TRANSACTION) -> dict[int, int]:
        place = {"pipeline_id": plan.pipeline_id, "step_id": plan.step_ids[gate]}
        return dict(self._all("overdue_at_gate", **place, limit=limit))

    def find(self, key: str) -> list[DocumentStatus]:
        return self._read(lambda db: db.documents("find_documents", key=key))

    def documents_by_id(self, document_ids: Sequence[int]) -> list[DocumentStatus]:
        return self._read(lambda db: db.documents("documents_by_id", ids=[*document_ids]))

    def documents_by_key(self, pipeline: str, batch: str, keys: Sequence[str]) -> list[DocumentStatus]:
        return self._read(lambda db: db.documents("documents_by_key", pipeline=pipeline, batch=batch, keys=[*keys]))

    def count_items(self, pipeline: str, step: str) -> dict[State, ItemCounts]:
        rows = self._all("count_items", pipeline=pipeline, step=step)
        return {state: ItemCounts(items, aside) for state, items, aside in rows}

    def count_retries(self, pipeline: str) -> dict[State, int]:
        return dict(self._all("count_retries", pipeline=pipeline))

    def reuses(self, document_ids: Sequence[int]) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for document_id, step, generation in self._all("reuses", ids=[*document_ids]):
            found.setdefault(document_id, {})[step] = generation
        return found

    def outputs(self, document_id: int) -> list[Output]:
        moment = self.dialect.moment
        return [
            Output(step, items, failed, moment(first), moment(last), total)
            for step, items, first, last, failed, total in self._all("outputs", document_id=document_id)
        ]

    def items(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        yield from self._walk(document_id, self._all("item_steps", document_id=document_id))

    def served(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        steps = self._all("served_steps", document_id=document_id)
        yield from self._walk(document_id, [step for step in steps if step[2] is not None])
        refuse_if_replaced(steps, self._all("served_steps", document_id=document_id))

    def served_generation(self, document_id: int, step: str) -> int | None:
        steps = self._all("served_steps", document_id=document_id)
        return next((generation for _, name, generation in steps if name == step), None)

    def _walk(self, document_id: int, steps: Sequence[Row]) -> Iterator[tuple[str, int, Kept]]:
        for step_id, step, generation in steps:
            place = {"document_id": document_id, "generation": generation, "step_id": step_id, "limit": PAGE}
            page = self._page(place, WHOLE - 1)
            while page:
                for row in page:
                    for position, item in self._items_of(document_id, step, row):
                        yield step, position, item
                page = self._page(place, page[-1][0]) if len(page) == PAGE else []

    def _items_of(self, document_id: int, step: str, row: Row) -> list[tuple[int, Kept]]:
        try:
            return items_of(row)
        except UnreadableRow as bad:
            key = next((found.key for found in self.documents_by_id([document_id])), f"number {document_id}")
            raise ItemDamaged(bad.why, position=bad.position, step=step, document=key) from bad

    def _page(self, place: dict[str, Any], after: int) -> list[Row]:
        return self._read(lambda db: db.large_values("item_page", **place, after=after))

    def failed_items(self, document_id: int) -> list[tuple[str, FailedItem]]:
        return [
            (step, FailedItem(position, tries, read_failure(error)))
            for step, position, tries, error in self._all("failed_items", document_id=document_id)
        ]

    def set_aside_items(
        self,
        pipeline: str,
        *,
        after: ItemPlace | None = None,
        limit: int = MAX_PER_TRANSACTION,
        **which: Unpack[ItemFilter],
    ) -> list[SetAsideItem]:
        names, parameters = self._filter(pipeline, item_filter(which))
        document_id, step, position = after or (0, "", 0)
        place = {"document_id": document_id, "after_step": step, "after_position": position}
        names = names | {"after"} if after else names
        rows = self._read(lambda db: db.with_conditions("set_aside_items", names, **parameters, **place, limit=limit))
        return [
            SetAsideItem(pipeline, batch, key, number, state, step, position, tries, read_failure(error))
            for number, batch, key, state, step, position, tries, error in rows
        ]

    def journal(self, document_id: int) -> list[JournalEntry]:
        return [journal_entry(row, self.dialect) for row in self._all("journal", document_id=document_id)]

    def batch_journal(self, pipeline: str, batch: str) -> list[JournalEntry]:
        rows = self._all("batch_journal", pipeline=pipeline, batch=batch)
        return [journal_entry(row, self.dialect) for row in rows]
