"""Stories in memory: documents, what was kept for them, and what happened to them. They change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

from holdfast.core.codec import Kept
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import ON_HOLD, Aside, Entry, Output, Plan, Standing
from holdfast.stores.memory.base import Base, by_id
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.protocol import Which
from holdfast.stores.which import as_regex, asked


class Stories(Base):
    """Tells of documents: where they stand, what is kept, what happened."""

    def standing(self, pipeline: str, batch: str, key: str) -> Standing:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            document_id = tables.keys.get((named.id, key)) if named else None
            if document_id is None:
                raise UnknownDocument(f"batch {batch!r} of pipeline {pipeline!r} has no document {key!r}")
            return self._standing(tables.documents[document_id])

    def standings(self, pipeline: str, *, limit: int = 100, **which: Unpack[Which]) -> list[Standing]:
        found = self._meant(pipeline, which)
        return sorted(found, key=lambda one: (one.moved_at, one.id), reverse=True)[:limit]

    def select(self, pipeline: str, *, after: int = 0, limit: int = 2000, **which: Unpack[Which]) -> list[int]:
        return sorted(one.id for one in self._meant(pipeline, which) if one.id > after)[:limit]

    def count(self, pipeline: str, **which: Unpack[Which]) -> int:
        return len(self._meant(pipeline, which))

    def _meant(self, pipeline: str, which: Which) -> list[Standing]:
        """Gives the documents that are meant."""
        asking, now = asked(which), self.now()
        keys = as_regex(asking["keys"]) if "keys" in asking else None
        with self._reading() as tables:
            standings = [self._standing(row) for row in tables.documents.values()]
        wanted: dict[str, Callable[[Standing, Any], bool]] = {
            "batch": lambda one, batch: one.batch == batch,
            "key": lambda one, key: one.key == key,
            "keys": lambda one, _: keys is not None and keys.fullmatch(one.key) is not None,
            "state": lambda one, state: one.state == state,
            "step": lambda one, step: one.checkpoint.step == step,
            "error": lambda one, error: one.error == error,
            "text": lambda one, text: text.lower() in one.reason.lower(),
            "idle": lambda one, idle: one.moved_at < now - idle,
            "accepted": lambda one, accepted: bool(one.accepted_by) == accepted,
            "plan": lambda one, plan: one.plan_id == plan,
        }
        ours = [one for one in standings if one.pipeline == pipeline]
        return [one for one in ours if all(wanted[name](one, value) for name, value in asking.items())]

    def undecided(self, plan: Plan, gate: str, *, limit: int = 2000) -> dict[int, int]:
        now = self.now()
        with self._reading():
            here = [row for row in self._documents(plan) if row.step_id == plan.step_ids[gate]]
            late = [(row.due_at, row) for row in here if _is_undecided(row) and row.due_at and row.due_at <= now]
        first = sorted(late, key=lambda one: (one[0], one[1].id))[:limit]
        return {row.id: row.moves for _, row in first}

    def find(self, key: str) -> list[Standing]:
        with self._reading() as tables:
            return [self._standing(row) for row in sorted(tables.documents.values(), key=by_id) if row.key == key]

    def look(self, document_ids: Sequence[int]) -> list[Standing]:
        with self._reading() as tables:
            return [self._standing(tables.documents[one]) for one in sorted(document_ids) if one in tables.documents]

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
                    output = Output(tables.steps[step_id].name, len(items), len(asides), min(times), max(times))
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

    def asides(self, document_id: int) -> list[tuple[str, Aside]]:
        with self._reading() as tables:
            return [
                (tables.steps[step_id].name, aside)
                for step_id, place in self._places(document_id)
                for _, aside in sorted(tables.asides[place].items())
            ]

    def _places(self, document_id: int) -> list[tuple[int, tuple[int, int, int]]]:
        """Says where the items are that serve a document's present generation, by step."""
        row = self._tables.documents.get(document_id)
        steps = sorted(self._tables.steps) if row else []
        return [(step_id, (document_id, row.generation_of(step_id), step_id)) for step_id in steps if row]

    def journal(self, document_id: int) -> list[Entry]:
        with self._reading() as tables:
            return list(tables.journals[document_id].values())

    def batch_journal(self, pipeline: str, batch: str) -> list[Entry]:
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            return list(tables.batch_journals[named.id].values()) if named else []


def _is_undecided(row: DocumentRow) -> bool:
    return row.state == "paused" and row.error != ON_HOLD
