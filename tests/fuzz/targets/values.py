"""Cursors, payloads, keys: values that are kept, and rows that are not what was kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

import holdfast
from holdfast.core.codec import ANYTHING, decode_json, read_scalar
from holdfast.core.integrity import Traces, flaw, misplaced
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.step import At
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.fuzz.inputs import anything, json, names, nested, numbers, room, texts
from tests.fuzz.target import takes, takes_bytes

Submitted = tuple[str, str, Any, str, int]
"""Batch, key, payload, fingerprint, priority."""
OURS_OR_EQUAL = "Either it is kept and comes back equal, or CannotKeep says which place of it cannot be."


@takes(anything | st.integers(1, 900).map(nested), OURS_OR_EQUAL, sealed=True)
def kept(value: Any) -> None:
    back = ANYTHING.decode(ANYTHING.encode(value))
    assert _alike(back, value), f"{value!r} came back as {back!r}"


@takes_bytes(
    [b'{"a": [1, 2.5, null, true, "b"]}', b'"\\ud800"', b"-0", b"1e999", b"[[[[]]]]", b'{"a":1,"a":2}'],
    "Kept text that was damaged is read as a value, or as text; or it is refused as no JSON.",
    refusals=[ValueError, RecursionError],
    sealed=True,
)
def kept_text(data: bytes) -> None:
    text = data.decode(errors="surrogatepass" if data.isascii() else "replace")
    read_scalar(text)
    decode_json(text)


@takes(
    st.tuples(json, numbers, st.sampled_from(["value", "stream", "over", "gate"]), st.dictionaries(names, json)),
    "Whatever stands in a row as a cursor, it is a position or there is a sentence that says why it is none.",
    sealed=True,
)
def cursors(given: tuple[Any, int, Any, dict[str, Any]]) -> None:
    cursor, total, kind, reuses = given
    if ANYTHING.decode(ANYTHING.encode([cursor, reuses])) is None:
        return
    at = Checkpoint(1, "read", cursor, 0)
    claim = Claim(1, 1, "b", "k", None, "", at, 0, 0, timedelta(0), reuses or None)
    for found in (misplaced(at, total), flaw(kind, claim, Traces(0, 3, 1))):
        assert found is None or found.what


@takes(
    st.lists(st.tuples(anything, anything), max_size=4),
    "A stream may say any cursor: the document ends, done or dead, and what was kept can be read.",
)
def streamed(given: list[tuple[Any, Any]]) -> None:
    pipeline = holdfast.Pipeline("fuzz")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: Any, cursor: Any = None) -> Iterator[Any]:
        yield from (At(cursor, value) for cursor, value in given)

    with closing(open_store("memory://")) as store:
        holdfast.submit(pipeline, store, batch="b", documents=[("k", 1)])
        holdfast.drain(pipeline, store, threads=1)
        (one,) = store.find("k")
        assert one.state in ("done", "dead"), one.state


@takes(
    st.tuples(names, names, anything, texts, numbers),
    "A document with any key and payload is taken in and found again as it was, or refused; by every store alike.",
)
def submitted(given: Submitted) -> None:
    told = [came_of(opened, given) for opened in (_memory, _sqlite)]
    assert told[0] == told[1], told


def came_of(opened: Callable[[], Store], given: Submitted) -> str:
    """Says what a store does with a document: takes it in, and gives it back as it was, or refuses it."""
    batch, key, payload, fingerprint, priority = given
    with closing(opened()) as store:
        try:
            document = holdfast.NewDocument(key, payload, fingerprint, priority)
            holdfast.submit(_pipeline(), store, batch=batch, documents=[document])
        except holdfast.HoldfastError as error:
            return type(error).__name__
        (one,) = store.find(key)
        assert one.batch == batch
        assert _alike(one.payload, payload), f"{payload!r} came back as {one.payload!r}"
        list(store.select("fuzz", key=key, batch=batch, text=key))
        list(store.standings("fuzz", key=f"{key}*", error=key))
        return "taken"


COLUMNS = (
    *("key", "payload", "fingerprint", "priority", "state", "reason", "error", "accepted_by", "attempts", "crashes"),
    *("generation", "step_id", "cursor", "moves", "reuses", "serves", "fence", "worked_by", "submission", "part"),
    *("pipeline_id", "batch_id", "plan_id", "due_at", "deadline_at", "claimed_at", "submitted_at", "moved_at"),
    *("cleaned_at",),
)


@takes(
    st.lists(st.tuples(st.sampled_from(COLUMNS), json.filter(lambda v: not isinstance(v, (list, dict)))), max_size=3),
    "A row that somebody edited is parked with a reason or goes on; a worker never fails over it.",
    refusals=[sqlite3.Error, OverflowError, UnicodeEncodeError],
)
def edited(changes: list[tuple[str, Any]]) -> None:
    file = room() / "edited.db"
    store = _fresh(file)
    pipeline = _pipeline()
    with closing(store):
        holdfast.submit(pipeline, store, batch="b", documents=[("k", {"a": 1})])
        with closing(sqlite3.connect(file)) as db:
            for column, value in changes:
                db.execute(f"update hf_document set {column} = ?", (value,))
            db.commit()
        _work_and_look(pipeline, store)


def _work_and_look(pipeline: holdfast.Pipeline, store: Store) -> None:
    try:
        holdfast.drain(pipeline, store, threads=1, budget=timedelta(seconds=5))
        for one in store.standings("fuzz"):
            store.journal(one.id)
            holdfast.explain(store, one)
        store.census("fuzz")
        store.survey("fuzz")
    except sqlite3.Error as error:  # ours to handle: it was not the edit that the database refused
        raise AssertionError(f"the database's own error got out: {error}") from error


def _pipeline() -> holdfast.Pipeline:
    pipeline = holdfast.Pipeline("fuzz")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: Any, cursor: int = 0) -> Iterator[int]:
        yield from range(int(cursor), 3)

    @pipeline.step(over=read, size=2, retry=holdfast.Retry(attempts=1))
    def double(doc: Any, items: list[int]) -> list[int]:
        return [2 * item for item in items]

    return pipeline


def _memory() -> Store:
    return open_store("memory://")


def _sqlite() -> Store:
    return _fresh(room() / "values.db")


def _fresh(file: Any) -> Store:
    for suffix in ("", "-wal", "-shm", "-turn", "-pen", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    return open_store(f"sqlite:///{file}?synchronous=normal")


def _alike(back: Any, value: Any) -> bool:
    if back == value:
        return True
    if isinstance(value, (list, tuple)):
        return isinstance(back, list) and len(back) == len(value) and all(map(_alike, back, value))
    if isinstance(value, dict):
        return isinstance(back, dict) and back.keys() == value.keys() and all(_alike(back[k], value[k]) for k in value)
    return False
