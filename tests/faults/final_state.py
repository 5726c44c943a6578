"""The final state of a database, read with plain SQL from the documented tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

Rows = Callable[[str], list[tuple[Any, ...]]]
Answer = TypeVar("Answer")

DOCUMENTS = """
select d.id, b.name, d.key, cast(d.payload as text), d.state, d.generation, s.name, cast(d.cursor as text), d.moves,
       d.fence, cast(d.reuses as text), d.attempts, d.crashes, d.reason
  from hf_document d
  join hf_batch b on b.id = d.batch_id
  left join hf_step s on s.id = d.step_id
"""
ITEMS = """
select i.document_id, i.generation, s.name, i.position, i.items, cast(i.value as text)
  from hf_item i
  join hf_step s on s.id = i.step_id
"""
EFFECTS = "select id, batch, key, generation, step, item, value from fault_effect order by id"
JOURNAL = """
select document_id, verb, generation
  from hf_journal
 where document_id is not null
 order by id
"""
BATCHES = "select id, name, expected, gone_done, gone_dead, gone_cancelled from hf_batch"
MANIFEST = "select batch_id, cast(keys as text) from hf_manifest"


class StoredDocument(NamedTuple):
    """A row of hf_document."""

    id: int
    batch: str
    key: str
    payload: Any
    state: str
    generation: int
    step: str | None
    cursor: Any
    moves: int
    fence: int
    reuses: dict[str, int]
    attempts: int
    crashes: int
    reason: str

    @property
    def name(self) -> str:
        return f"{self.batch}/{self.key}"


class WrittenEffect(NamedTuple):
    """A row that an effect of the pipeline wrote."""

    id: int
    batch: str
    key: str
    generation: int
    step: str
    item: int
    value: Any

    @property
    def place(self) -> tuple[str, str, int, str, int]:
        return self[1:6]


class StoredBatch(NamedTuple):
    """The counts of a batch, and the keys in its manifest."""

    name: str
    expected: int
    gone: int
    manifest: list[str]


class FinalState(NamedTuple):
    """Everything that is in the database."""

    documents: list[StoredDocument]
    items: dict[tuple[int, int, str], dict[int, Any]]
    effects: list[WrittenEffect]
    journal: dict[int, list[tuple[str, int]]]
    batches: list[StoredBatch]


def read(url: str) -> FinalState:
    """Read the state of a store. Nothing may write to it meanwhile."""
    return _query(url, _final_state)


def effects(url: str) -> list[WrittenEffect]:
    """Read the rows that effects wrote. More may be written meanwhile."""
    return _query(url, _effects)


def _query(url: str, question: Callable[[Rows], Answer]) -> Answer:
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(unquote(url.partition(":///")[2].partition("?")[0]))) as db:
            return question(lambda statement: db.execute(statement).fetchall())
    import psycopg

    with psycopg.connect(url) as connection:
        return question(lambda statement: connection.execute(statement).fetchall())


def _final_state(rows: Rows) -> FinalState:
    steps = {str(number): name for number, name in rows("select id, name from hf_step")}
    items: dict[tuple[int, int, str], dict[int, Any]] = {}
    for document_id, generation, step, position, together, text in rows(ITEMS):
        value = _decoded(text)
        kept = {position + place: item for place, item in enumerate(value)} if together > 1 else {position: value}
        items.setdefault((document_id, generation, step), {}).update(kept)
    journal: dict[int, list[tuple[str, int]]] = {}
    for document_id, verb, generation in rows(JOURNAL):
        journal.setdefault(document_id, []).append((verb, generation))
    return FinalState(
        documents=[_document(row, steps) for row in rows(DOCUMENTS)],
        items=items,
        effects=_effects(rows),
        journal=journal,
        batches=_batches(rows),
    )


def _effects(rows: Rows) -> list[WrittenEffect]:
    return [WrittenEffect(*row[:6], _decoded(row[6])) for row in rows(EFFECTS)]


def _document(row: tuple[Any, ...], steps: dict[str, str]) -> StoredDocument:
    document = StoredDocument(*row)
    payload, cursor, reuses = map(_decoded, (row[3], row[7], row[10]))
    named = {steps[number]: made for number, made in (reuses or {}).items()}
    return document._replace(payload=payload, cursor=cursor, reuses=named)


def _batches(rows: Rows) -> list[StoredBatch]:
    manifest: dict[int, list[str]] = {}
    for batch_id, keys in rows(MANIFEST):
        manifest.setdefault(batch_id, []).extend(_decoded(keys))
    return [
        StoredBatch(name, expected, sum(gone), manifest.get(id_, [])) for id_, name, expected, *gone in rows(BATCHES)
    ]


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)
