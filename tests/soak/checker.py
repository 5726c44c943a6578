"""The checker: compare the rows that effects wrote with the stored state. It uses the tables, not the engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from holdfast.stores.protocol import Store
from tests.soak.program import EFFECTS, soak

STEPS = [step.name for step in soak.steps]
OPENS_A_GENERATION = ("rewind", "change")

DOCUMENTS = """
select b.name || '/' || d.key, d.id, d.state, d.generation, d.reuses
  from hf_document d join hf_batch b on b.id = d.batch_id
 where b.pipeline_id = (select id from hf_pipeline where name = 'soak')
 order by 1
"""
DONE = "select key, generation, step, place from soak_done order by key, id"
JOURNAL = "select document_id, verb, count(*) from hf_journal where document_id is not null group by 1, 2"
NAMES = "select id, name from hf_step"

Done = tuple[int, str, int]
"""Generation, step and place, in the order in which they were written."""


def violations(store: Store, cancelled: dict[str, int]) -> Iterator[str]:
    """Yield everything that violates a guarantee.

    Args:
        store: The store, after all workers ended.
        cancelled: For cancelled documents, the number of rows that were written before the cancel.
    """
    yield from _unbalanced(store)
    with store.transaction() as tx:
        documents = _rows(tx, DOCUMENTS)
        names = dict(_rows(tx, NAMES))
        done = {key: [tuple(row[1:]) for row in rows] for key, rows in groupby(_rows(tx, DONE), key=lambda row: row[0])}
        backward = Counter[int]()
        for document_id, verb, count in _rows(tx, JOURNAL):
            backward[document_id] += count if verb in OPENS_A_GENERATION else 0
    for key, document_id, state, generation, reuses in documents:
        written = done.pop(key, [])
        if state in ("waiting", "running", "paused"):
            yield f"{key} is stuck: {state}"
        if backward[document_id] != generation:
            yield f"{key} is at generation {generation}, and the journal has {backward[document_id]} rewinds"
        yield from _disorder(key, written)
        if state == "done":
            served = {names[int(step)]: made for step, made in _decoded(reuses).items()}
            yield from _incomplete(key, written, lambda step, now=generation, old=served: old.get(step, now))
        if state == "cancelled" and cancelled.get(key, len(written)) != len(written):
            yield f"{key} was cancelled and still written: {len(written) - cancelled[key]} rows more"
    yield from (f"{key} was written and is not in the store" for key in done)


def _unbalanced(store: Store) -> Iterator[str]:
    for batch in store.batches("soak"):
        if not batch.balance.balances:
            yield f"batch {batch.name} does not balance: {batch.balance}"


def _disorder(key: str, written: list[Done]) -> Iterator[str]:
    for row, count in Counter(written).items():
        if count > 1:
            yield f"{key}: {row} was done {count} times"
    places = [(generation, STEPS.index(step)) for generation, step, _ in written]
    if places != sorted(places):
        yield f"{key} went back: {written}"


def _incomplete(key: str, written: list[Done], made_by: Any) -> Iterator[str]:
    for step, places in EFFECTS.items():
        missing = {(made_by(step), step, place) for place in places} - set(written)
        if missing:
            yield f"{key} is done without {sorted(missing)}"


def _rows(tx: Any, statement: str) -> list[Any]:
    return list(tx.execute(statement).fetchall())


def _decoded(text: Any) -> dict[str, int]:
    decoded: dict[str, int] = json.loads(text) if isinstance(text, str) else text or {}
    return decoded
