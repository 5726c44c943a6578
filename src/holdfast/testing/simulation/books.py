"""The books of a store as somebody sees them who looks from outside: documents, effects, and what a batch expects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from holdfast.core.codec import decode_json
from holdfast.core.decisions import AT_A_GATE
from holdfast.core.model import State
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.base import moment


class Seen(NamedTuple):
    """What was seen of one document."""

    id: int
    key: str
    version: int
    pages: int
    state: State
    generation: int
    step: str | None
    cursor: Any
    moves: int
    fence: int
    worker_id: int | None
    attempts: int
    crashes: int
    priority: int
    due_at: datetime | None
    deadline_at: datetime | None
    on_hold: bool
    at_gate: bool
    """Whether it is parked because it came to a gate, and for no other reason."""
    reuses: dict[int, int]


class Wrote(NamedTuple):
    """One row that an effect wrote."""

    key: str
    generation: int
    step: str
    place: int
    value: str


class Books(Protocol):
    """What can be seen of a store between two transactions."""

    def documents(self) -> dict[int, Seen]:
        """Gives every document, by number."""

    def new_effects(self) -> Sequence[Wrote]:
        """Gives what effects wrote since it was last asked for."""

    def expected(self) -> int:
        """Answers how many documents all batches expect, less those that were cleaned up."""

    def journal(self, document_id: int) -> Sequence[str]:
        """Gives the verbs in a document's journal."""

    def kept(self, document_id: int, generation: int, step: str) -> list[int]:
        """Gives the places at which a step kept something."""

    def asides(self, document_id: int, generation: int, step: str) -> dict[int, int]:
        """Gives the places that a step set aside, with how often each was tried."""

    def beat_at(self, worker_id: int) -> datetime:
        """Tells when a worker was heard last."""

    def close(self) -> None:
        """Closes them: nobody looks any more."""


class MemoryBooks:
    """The books of a memory store: its tables."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: dict[int, tuple[DocumentRow, Seen]] = {}
        self._last_effect = 0
        self._writes = 0

    def documents(self) -> dict[int, Seen]:
        known, seen = self._rows, {}
        for number, row in self._store._tables.documents.items():
            before = known.get(number)
            if before is None or before[0] is not row:
                before = known[number] = (row, self._seen(row))
            seen[number] = before[1]
        return seen

    def _seen(self, row: DocumentRow) -> Seen:
        payload = decode_json(row.payload)
        return Seen(
            row.id,
            row.key,
            payload["version"],
            payload["pages"],
            row.state,
            row.generation,
            self._store._step_name(row),
            None if row.cursor is None else decode_json(row.cursor),
            row.moves,
            row.fence,
            row.worker_id,
            row.attempts,
            row.crashes,
            row.priority,
            row.due_at,
            row.deadline_at,
            row.error == "OnHold",
            row.reason.startswith(AT_A_GATE),
            row.reuses or {},
        )

    def new_effects(self) -> Sequence[Wrote]:
        if self._writes == self._store._effects.total_changes:
            return ()
        self._writes = self._store._effects.total_changes
        found = self._store._effects.execute(
            "select rowid, * from sim_effect where rowid > ? order by rowid", [self._last_effect]
        ).fetchall()
        if found:
            self._last_effect = found[-1][0]
        return [Wrote(*row[1:]) for row in found]

    def expected(self) -> int:
        return sum([batch.expected - sum(batch.gone.values()) for batch in self._store._tables.batches.values()])

    def journal(self, document_id: int) -> Sequence[str]:
        return [line.verb for line in self._store._tables.journals[document_id].values()]

    def kept(self, document_id: int, generation: int, step: str) -> list[int]:
        return sorted(self._store._tables.items[document_id, generation, self._number(step)])

    def asides(self, document_id: int, generation: int, step: str) -> dict[int, int]:
        found = self._store._tables.asides[document_id, generation, self._number(step)]
        return {place: aside.tries for place, aside in found.items()}

    def _number(self, step: str) -> int:
        return next(row.id for row in self._store._tables.steps.values() if row.name == step)

    def beat_at(self, worker_id: int) -> datetime:
        return self._store._tables.workers[worker_id].beat_at

    def close(self) -> None:
        """There is nothing to let go of."""


class SqliteBooks:
    """The books of a SQLite store, through a connection that nobody watches."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._rows: dict[int, tuple[Any, Seen]] = {}
        self._last_effect = 0

    def _all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._store._db.reading() as db:
            return db.execute(sql, parameters).fetchall()

    def documents(self) -> dict[int, Seen]:
        seen = {}
        for row in self._all(_DOCUMENTS):
            before = self._rows.get(row[0])
            if before is None or before[0] != row:
                before = self._rows[row[0]] = (row, _seen(row))
            seen[row[0]] = before[1]
        return seen

    def new_effects(self) -> Sequence[Wrote]:
        found = self._all("select rowid, * from sim_effect where rowid > ? order by rowid", self._last_effect)
        if found:
            self._last_effect = found[-1][0]
        return [Wrote(*row[1:]) for row in found]

    def expected(self) -> int:
        return int(self._all("select total(expected - gone_done - gone_dead - gone_cancelled) from hf_batch")[0][0])

    def journal(self, document_id: int) -> Sequence[str]:
        return [verb for (verb,) in self._all("select verb from hf_journal where document_id = ?", document_id)]

    def kept(self, document_id: int, generation: int, step: str) -> list[int]:
        ((number,),) = self._all("select id from hf_step where name = ?", step)
        return [place for place, _ in self._store.read(document_id, generation, number, -1, 1000)]

    def asides(self, document_id: int, generation: int, step: str) -> dict[int, int]:
        return dict(self._all(_ASIDES, document_id, generation, step))

    def beat_at(self, worker_id: int) -> datetime:
        return moment(self._all("select beat_at from hf_worker where id = ?", worker_id)[0][0])

    def close(self) -> None:
        self._store.close()


_DOCUMENTS = """
select d.id, d.key, d.payload, d.state, d.generation, s.name, d.cursor, d.moves, d.fence, d.worker_id, d.attempts,
  d.crashes, d.priority, d.due_at, d.deadline_at, d.error = 'OnHold', d.reason, d.reuses
from hf_document d left join hf_step s on s.id = d.step_id order by d.id
"""

_ASIDES = """
select a.position, a.tries from hf_aside a join hf_step s on s.id = a.step_id
where a.document_id = ? and a.generation = ? and s.name = ?
"""


def _seen(row: tuple[Any, ...]) -> Seen:
    number, key, payload, state, generation, step, cursor, *rest = row
    moves, fence, worker_id, attempts, crashes, priority, due_at, deadline_at, on_hold, reason, reuses = rest
    content = decode_json(payload)
    return Seen(
        number,
        key,
        content["version"],
        content["pages"],
        state,
        generation,
        step,
        None if cursor is None else decode_json(cursor),
        moves,
        fence,
        worker_id,
        attempts,
        crashes,
        priority,
        None if due_at is None else moment(due_at),
        None if deadline_at is None else moment(deadline_at),
        bool(on_hold),
        reason.startswith(AT_A_GATE),
        {int(one): made for one, made in decode_json(reuses or "{}").items()},
    )
