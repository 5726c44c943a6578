"""The state of a store, read from outside: documents, effects, and how many documents batches expect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from holdfast.core.codec import decode_json
from holdfast.core.model import State
from holdfast.core.reasons import AT_GATE, ON_HOLD
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.dialect import moment


class ObservedDocument(NamedTuple):
    """One document, as it is stored."""

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
    losses: int
    priority: int
    due_at: datetime | None
    deadline_at: datetime | None
    on_hold: bool
    at_gate: bool
    """Whether it is parked because it reached a gate, and for no other reason."""
    reuses: dict[int, int]
    deferrals: int
    interruptions: int
    code: str


class EffectRow(NamedTuple):
    """One row that an effect wrote."""

    key: str
    generation: int
    step: str
    place: int
    value: str


class UndoneRow(NamedTuple):
    """One call of an undo function."""

    key: str
    generation: int
    step: str


class ObservedState(Protocol):
    """Reads the state of a store between two transactions."""

    def documents(self) -> dict[int, ObservedDocument]:
        """Return every document, by id."""

    def new_effects(self) -> Sequence[EffectRow]:
        """Return the rows that effects wrote since the last call."""

    def new_undone(self) -> Sequence[UndoneRow]:
        """Return what undo functions wrote down since the last call."""

    def generations(self, key: str, step: str) -> list[int]:
        """Return the generations of the rows of a step that are there."""

    def rows(self, key: str, step: str) -> list[tuple[int, str]]:
        """Return the places and values of the rows of a step that are there."""

    def expected(self) -> int:
        """Return how many documents all batches expect, without those that were cleaned up."""

    def journal(self, document_id: int) -> Sequence[str]:
        """Return the verbs in a document's journal."""

    def deferrals(self, document_id: int) -> int:
        """Return how many deferrals a document's journal counts."""

    def kept(self, document_id: int, generation: int, step: str) -> list[int]:
        """Return the places at which a step has items."""

    def failed_items(self, document_id: int, generation: int, step: str) -> dict[int, int]:
        """Return the places that a step set aside, with the number of tries."""

    def heartbeat_at(self, worker_id: int) -> datetime:
        """Return the time of a worker's last heartbeat."""

    def close(self) -> None:
        """Close the connection, if there is one."""


class MemoryState:
    """The state of a memory store, read from its tables."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: dict[int, tuple[DocumentRow, ObservedDocument]] = {}
        self._last_effect = self._last_undone = 0
        self._writes = self._undo_writes = 0

    def documents(self) -> dict[int, ObservedDocument]:
        known, found = self._rows, {}
        for number, row in self._store._tables.documents.items():
            before = known.get(number)
            if before is None or before[0] is not row:
                before = known[number] = (row, self._document(row))
            found[number] = before[1]
        return found

    def _document(self, row: DocumentRow) -> ObservedDocument:
        payload = decode_json(row.payload)
        return ObservedDocument(
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
            row.losses,
            row.priority,
            row.due_at,
            row.deadline_at,
            row.code == ON_HOLD,
            row.code == AT_GATE,
            row.reuses or {},
            row.deferrals,
            row.interruptions,
            row.code,
        )

    def new_effects(self) -> Sequence[EffectRow]:
        if self._writes == self._store._effects.total_changes:
            return ()
        self._writes = self._store._effects.total_changes
        found = self._store._effects.execute(
            "select rowid, * from sim_effect where rowid > ? order by rowid", [self._last_effect]
        ).fetchall()
        if found:
            self._last_effect = found[-1][0]
        return [EffectRow(*row[1:]) for row in found]

    def new_undone(self) -> Sequence[UndoneRow]:
        if self._undo_writes == self._store._effects.total_changes:
            return ()
        self._undo_writes = self._store._effects.total_changes
        found = self._all(_UNDONE, self._last_undone)
        if found:
            self._last_undone = found[-1][0]
        return [UndoneRow(*row[1:]) for row in found]

    def generations(self, key: str, step: str) -> list[int]:
        return [row[0] for row in self._all(_GENERATIONS, key, step)]

    def rows(self, key: str, step: str) -> list[tuple[int, str]]:
        return self._all(_ROWS, key, step)

    def _all(self, sql: str, *parameters: Any) -> list[Any]:
        return self._store._effects.execute(sql, parameters).fetchall()

    def expected(self) -> int:
        return sum([batch.expected - sum(batch.gone.values()) for batch in self._store._tables.batches.values()])

    def journal(self, document_id: int) -> Sequence[str]:
        return [line.verb for line in self._store._tables.journals[document_id].values()]

    def deferrals(self, document_id: int) -> int:
        lines = self._store._tables.journals[document_id].values()
        return sum([line.times for line in lines if line.verb == "defer"])

    def kept(self, document_id: int, generation: int, step: str) -> list[int]:
        return sorted(self._store._tables.items[document_id, generation, self._number(step)])

    def failed_items(self, document_id: int, generation: int, step: str) -> dict[int, int]:
        found = self._store._tables.asides[document_id, generation, self._number(step)]
        return {place: aside.tries for place, aside in found.items()}

    def _number(self, step: str) -> int:
        return next(row.id for row in self._store._tables.steps.values() if row.name == step)

    def heartbeat_at(self, worker_id: int) -> datetime:
        return self._store._tables.workers[worker_id].heartbeat_at

    def close(self) -> None:
        """Do nothing: there is no connection."""


class SqliteState:
    """The state of a SQLite store, read through a connection that is not watched."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._rows: dict[int, tuple[Any, ObservedDocument]] = {}
        self._last_effect = self._last_undone = 0

    def _all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._store._db.reading() as db:
            return db.execute(sql, parameters).fetchall()

    def documents(self) -> dict[int, ObservedDocument]:
        found = {}
        for row in self._all(_DOCUMENTS):
            before = self._rows.get(row[0])
            if before is None or before[0] != row:
                before = self._rows[row[0]] = (row, _document(row))
            found[row[0]] = before[1]
        return found

    def new_effects(self) -> Sequence[EffectRow]:
        found = self._all("select rowid, * from sim_effect where rowid > ? order by rowid", self._last_effect)
        if found:
            self._last_effect = found[-1][0]
        return [EffectRow(*row[1:]) for row in found]

    def new_undone(self) -> Sequence[UndoneRow]:
        found = self._all(_UNDONE, self._last_undone)
        if found:
            self._last_undone = found[-1][0]
        return [UndoneRow(*row[1:]) for row in found]

    def generations(self, key: str, step: str) -> list[int]:
        return [row[0] for row in self._all(_GENERATIONS, key, step)]

    def rows(self, key: str, step: str) -> list[tuple[int, str]]:
        return [(place, value) for place, value in self._all(_ROWS, key, step)]

    def expected(self) -> int:
        return int(self._all("select total(expected - gone_done - gone_dead - gone_cancelled) from hf_batch")[0][0])

    def journal(self, document_id: int) -> Sequence[str]:
        return [verb for (verb,) in self._all("select verb from hf_journal where document_id = ?", document_id)]

    def deferrals(self, document_id: int) -> int:
        sql = "select total(times) from hf_journal where document_id = ? and verb = 'defer'"
        return int(self._all(sql, document_id)[0][0])

    def kept(self, document_id: int, generation: int, step: str) -> list[int]:
        ((number,),) = self._all("select id from hf_step where name = ?", step)
        return [place for place, _ in self._store.read(document_id, generation, number, -1, 1000)]

    def failed_items(self, document_id: int, generation: int, step: str) -> dict[int, int]:
        return dict(self._all(_ASIDES, document_id, generation, step))

    def heartbeat_at(self, worker_id: int) -> datetime:
        return moment(self._all("select beat_at from hf_worker where id = ?", worker_id)[0][0])

    def close(self) -> None:
        self._store.close()


_UNDONE = "select rowid, * from sim_undone where rowid > ? order by rowid"
_GENERATIONS = "select distinct generation from sim_row where key = ? and step = ? order by 1"
_ROWS = "select place, value from sim_row where key = ? and step = ? order by 1"

_DOCUMENTS = """
select d.id, d.key, d.payload, d.state, d.generation, s.name, d.cursor, d.moves, d.fence, d.worker_id, d.attempts,
  d.crashes, d.losses, d.priority, d.due_at, d.deadline_at, d.code, d.reuses, d.deferrals, d.interruptions
from hf_document d left join hf_step s on s.id = d.step_id order by d.id
"""

_ASIDES = """
select a.position, a.tries from hf_aside a join hf_step s on s.id = a.step_id
where a.document_id = ? and a.generation = ? and s.name = ?
"""


def _document(row: tuple[Any, ...]) -> ObservedDocument:
    number, key, payload, state, generation, step, cursor, *rest = row
    moves, fence, worker_id, attempts, crashes, losses, priority, due_at, deadline_at, code, reuses, *counts = rest
    content = decode_json(payload)
    return ObservedDocument(
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
        losses,
        priority,
        None if due_at is None else moment(due_at),
        None if deadline_at is None else moment(deadline_at),
        code == ON_HOLD,
        code == AT_GATE,
        {int(step_id): made for step_id, made in decode_json(reuses or "{}").items()},
        *counts,
        code,
    )
