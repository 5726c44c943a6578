"""Reads of documents in memory: their status, their items and their journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

from holdfast.core.codec import Kept
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import (
    DocumentStatus,
    FailedItem,
    ItemCounts,
    JournalEntry,
    Output,
    Plan,
    SetAsideItem,
    State,
)
from holdfast.core.reasons import ON_HOLD
from holdfast.core.retry import count_retries
from holdfast.stores.document_filter import as_regex, filter_values, item_filter
from holdfast.stores.memory.base import Base, row_id
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.protocol import MAX_PER_TRANSACTION, DocumentFilter, ItemFilter, ItemPlace


class DocumentReads(Base):
    """Read documents, their items and their journal."""

    def document(self, pipeline: str, batch: str, key: str) -> DocumentStatus:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            document_id = tables.keys.get((named.id, key)) if named else None
            if document_id is None:
                raise UnknownDocument(f"batch {batch!r} of pipeline {pipeline!r} has no document {key!r}")
            return self._status(tables.documents[document_id])

    def documents(self, pipeline: str, *, limit: int = 100, **which: Unpack[DocumentFilter]) -> list[DocumentStatus]:
        found = self._matching(pipeline, which)
        return sorted(found, key=lambda one: (one.moved_at, one.id), reverse=True)[:limit]

    def select(
        self, pipeline: str, *, after: int = 0, limit: int = MAX_PER_TRANSACTION, **which: Unpack[DocumentFilter]
    ) -> list[int]:
        return sorted(one.id for one in self._matching(pipeline, which) if one.id > after)[:limit]

    def count(self, pipeline: str, **which: Unpack[DocumentFilter]) -> int:
        return len(self._matching(pipeline, which))

    def _matching(self, pipeline: str, which: DocumentFilter) -> list[DocumentStatus]:
        """Return the documents that match a filter."""
        asking, now = filter_values(which), self.now()
        keys = as_regex(asking["keys"]) if "keys" in asking else None
        with self._reading() as tables:
            documents = [self._status(row) for row in tables.documents.values()]
        wanted: dict[str, Callable[[DocumentStatus, Any], bool]] = {
            "batch": lambda one, batch: one.batch == batch,
            "key": lambda one, key: one.key == key,
            "keys": lambda one, _: keys is not None and keys.fullmatch(one.key) is not None,
            "state": lambda one, state: one.state == state,
            "step": lambda one, step: one.checkpoint.step == step,
            "error": lambda one, error: one.error == error,
            "code": lambda one, code: one.code == code,
            "text": lambda one, text: text.lower() in one.reason.lower(),
            "idle": lambda one, idle: one.moved_at < now - idle,
            "accepted": lambda one, accepted: bool(one.accepted_by) == accepted,
            "plan": lambda one, plan: one.plan_id == plan,
        }
        ours = [one for one in documents if one.pipeline == pipeline]
        return [one for one in ours if all(wanted[name](one, value) for name, value in asking.items())]

    def overdue_at_gate(self, plan: Plan, gate: str, *, limit: int = MAX_PER_TRANSACTION) -> dict[int, int]:
        now = self.now()
        with self._reading():
            rows = [row for row in self._documents(plan) if row.step_id == plan.step_ids[gate]]
            late = [(row.due_at, row) for row in rows if _is_undecided(row) and row.due_at and row.due_at <= now]
        first = sorted(late, key=lambda one: (one[0], one[1].id))[:limit]
        return {row.id: row.moves for _, row in first}

    def find(self, key: str) -> list[DocumentStatus]:
        with self._reading() as tables:
            return [self._status(row) for row in sorted(tables.documents.values(), key=row_id) if row.key == key]

    def documents_by_id(self, document_ids: Sequence[int]) -> list[DocumentStatus]:
        with self._reading() as tables:
            return [self._status(tables.documents[one]) for one in sorted(document_ids) if one in tables.documents]

    def documents_by_key(self, pipeline: str, batch: str, keys: Sequence[str]) -> list[DocumentStatus]:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            numbers = [tables.keys[named.id, key] for key in {*keys} if named and (named.id, key) in tables.keys]
            return [self._status(tables.documents[number]) for number in sorted(numbers)]

    def count_items(self, pipeline: str, step: str) -> dict[State, ItemCounts]:
        items: Counter[State] = Counter()
        aside: Counter[State] = Counter()
        with self._reading() as tables:
            for row in tables.documents.values():
                if self._status(row).pipeline != pipeline:
                    continue
                for step_id, place in self._places(row.id):
                    if tables.steps[step_id].name == step:
                        items[row.state] += max(tables.items[place], default=-1) + 1
                        aside[row.state] += len(tables.asides[place])
        return {state: ItemCounts(items[state], aside[state]) for state in +(items + aside)}

    def count_retries(self, pipeline: str) -> dict[State, int]:
        counts: Counter[State] = Counter()
        with self._reading() as tables:
            for row in tables.documents.values():
                if self._status(row).pipeline == pipeline:
                    counts[row.state] += count_retries(tables.journals[row.id].values(), row.generation)
        return dict(+counts)

    def reuses(self, document_ids: Sequence[int]) -> dict[int, dict[str, int]]:
        with self._reading() as tables:
            rows = [tables.documents[one] for one in document_ids if one in tables.documents]
            return {
                row.id: {tables.steps[step_id].name: made for step_id, made in row.reuses.items()}
                for row in rows
                if row.reuses
            }

    def outputs(self, document_id: int) -> list[Output]:
        with self._reading() as tables:
            outputs = []
            for step_id, place in self._places(document_id):
                items, asides = tables.items[place], tables.asides[place]
                if items:
                    times = [item.kept_at for item in items.values()]
                    total = (tables.documents[document_id].totals or {}).get(step_id)
                    counts = len(items), len(asides)
                    output = Output(tables.steps[step_id].name, *counts, min(times), max(times), total)
                    outputs.append((min(times), step_id, output))
        return [output for _, _, output in sorted(outputs, key=lambda one: one[:2])]

    def items(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        with self._reading() as tables:
            kept = [
                (tables.steps[step_id].name, position, item.value)
                for step_id, place in self._places(document_id)
                for position, item in sorted(tables.items[place].items())
            ]
        yield from kept

    def served(self, document_id: int) -> Iterator[tuple[str, int, Kept]]:
        with self._reading() as tables:
            row = tables.documents.get(document_id)
            serves = self._served(row) if row else None
            kept = [
                (tables.steps[step_id].name, position, item.value)
                for step_id, generation in sorted((serves or {}).items())
                for position, item in sorted(tables.items[document_id, generation, step_id].items())
            ]
        yield from kept

    def served_generation(self, document_id: int, step: str) -> int | None:
        with self._reading() as tables:
            row = tables.documents.get(document_id)
            serves = (self._served(row) if row else None) or {}
            return next((made for step_id, made in serves.items() if tables.steps[step_id].name == step), None)

    def failed_items(self, document_id: int) -> list[tuple[str, FailedItem]]:
        with self._reading():
            return self._failed_items(document_id)

    def _failed_items(self, document_id: int) -> list[tuple[str, FailedItem]]:
        tables = self._tables
        return [
            (tables.steps[step_id].name, aside)
            for step_id, place in self._places(document_id)
            for _, aside in sorted(tables.asides[place].items())
        ]

    def set_aside_items(
        self,
        pipeline: str,
        *,
        after: ItemPlace | None = None,
        limit: int = MAX_PER_TRANSACTION,
        **which: Unpack[ItemFilter],
    ) -> list[SetAsideItem]:
        asking = filter_values(item_filter(which))
        keys = as_regex(asking["keys"]) if "keys" in asking else None
        wanted: dict[str, Callable[[SetAsideItem, Any], bool]] = {
            "batch": lambda one, batch: one.batch == batch,
            "key": lambda one, key: one.key == key,
            "keys": lambda one, _: keys is not None and keys.fullmatch(one.key) is not None,
            "step": lambda one, step: one.step == step,
            "error": lambda one, error: one.error.kind == error,
            "text": lambda one, text: text.lower() in f"{one.error.kind}: {one.error.message}".lower(),
        }
        with self._reading() as tables:
            rows = [self._status(row) for row in tables.documents.values()]
            items = [
                SetAsideItem(pipeline, row.batch, row.key, row.id, row.state, step, one.position, one.tries, one.error)
                for row in rows
                if row.pipeline == pipeline and row.state != "cancelled"
                for step, one in self._failed_items(row.id)
            ]
        items = sorted(items, key=_place_of_item)
        found = [one for one in items if all(wanted[name](one, value) for name, value in asking.items())]
        return [one for one in found if after is None or _place_of_item(one) > after][:limit]

    def _places(self, document_id: int) -> list[tuple[int, tuple[int, int, int]]]:
        """Return the keys of the items of a document's current generation, by step."""
        row = self._tables.documents.get(document_id)
        steps = sorted(self._tables.steps) if row else []
        return [(step_id, (document_id, row.generation_of(step_id), step_id)) for step_id in steps if row]

    def journal(self, document_id: int) -> list[JournalEntry]:
        with self._reading() as tables:
            return list(tables.journals[document_id].values())

    def batch_journal(self, pipeline: str, batch: str) -> list[JournalEntry]:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            return list(tables.batch_journals[named.id].values()) if named else []


def _place_of_item(item: SetAsideItem) -> ItemPlace:
    return item.document_id, item.step, item.position


def _is_undecided(row: DocumentRow) -> bool:
    return row.state == "paused" and row.code != ON_HOLD
