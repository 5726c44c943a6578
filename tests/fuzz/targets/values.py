"""Cursors, payloads and keys: stored values, and rows that somebody edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

import holdfast
from holdfast.core.codec import ANYTHING, decode_json, read_scalar
from holdfast.core.integrity import KeptState, checkpoint_damage, cursor_damage
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.step import At
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.fuzz.inputs import anything, json, names, nested, numbers, scratch_folder, texts
from tests.fuzz.target import takes, takes_bytes

Submitted = tuple[str, str, Any, str, int]
"""Batch, key, payload, fingerprint, priority."""
EQUAL_OR_REFUSED = "A value is stored and comes back equal, or CannotKeep says which part of it cannot be stored."


@takes(anything | st.integers(1, 900).map(nested), EQUAL_OR_REFUSED, sealed=True)
def kept(value: Any) -> None:
    back = ANYTHING.decode(ANYTHING.encode(value))
    assert _is_equal(back, value), f"{value!r} came back as {back!r}"


@takes_bytes(
    [b'{"a": [1, 2.5, null, true, "b"]}', b'"\\ud800"', b"-0", b"1e999", b"[[[[]]]]", b'{"a":1,"a":2}'],
    "Damaged stored text is read as a value or as text, or it is refused because it is not JSON.",
    refusals=[ValueError, RecursionError],
    sealed=True,
)
def kept_text(data: bytes) -> None:
    text = data.decode(errors="surrogatepass" if data.isascii() else "replace")
    read_scalar(text)
    decode_json(text)


@takes(
    st.tuples(json, numbers, st.sampled_from(["value", "stream", "over", "gate"]), st.dictionaries(names, json)),
    "Any cursor in a row is a position, or the problem is described.",
    sealed=True,
)
def cursors(given: tuple[Any, int, Any, dict[str, Any]]) -> None:
    cursor, total, kind, reuses = given
    if ANYTHING.decode(ANYTHING.encode([cursor, reuses])) is None:
        return
    at = Checkpoint(1, "read", cursor, 0)
    claim = Claim(1, 1, "b", "k", None, "", at, 0, 0, timedelta(0), reuses or None)
    for found in (cursor_damage(at, total), checkpoint_damage(kind, claim, KeptState(0, 3, 1))):
        assert found is None or found.what


@takes(
    st.lists(st.tuples(anything, anything), max_size=4),
    "A stream may yield any cursor: the document becomes done or dead, and its items can be read.",
)
def streamed(given: list[tuple[Any, Any]]) -> None:
    pipeline = holdfast.Pipeline("fuzz")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: Any, cursor: Any = None) -> Iterator[Any]:
        yield from (At(cursor, value) for cursor, value in given)

    with closing(open_store("memory://")) as store:
        holdfast.submit(pipeline, store, batch="b", documents=[("k", 1)])
        holdfast.drain(pipeline, store, threads=1)
        (status,) = store.find("k")
        assert status.state in ("done", "dead"), status.state


@takes(
    st.tuples(names, names, anything, texts, numbers),
    "A document with any key and payload is stored and found unchanged, or refused, in every store the same way.",
)
def submitted(given: Submitted) -> None:
    outcomes = [outcome_of(opened, given) for opened in (_memory, _sqlite)]
    assert outcomes[0] == outcomes[1], outcomes


def outcome_of(opened: Callable[[], Store], given: Submitted) -> str:
    """Submit a document. Return "stored" if it is found again unchanged, or the class of the error."""
    batch, key, payload, fingerprint, priority = given
    with closing(opened()) as store:
        try:
            document = holdfast.NewDocument(key, payload, fingerprint, priority)
            holdfast.submit(_pipeline(), store, batch=batch, documents=[document])
        except holdfast.HoldfastError as error:
            return type(error).__name__
        (status,) = store.find(key)
        assert status.batch == batch
        assert _is_equal(status.payload, payload), f"{payload!r} came back as {status.payload!r}"
        list(store.select("fuzz", key=key, batch=batch, text=key))
        list(store.documents("fuzz", key=f"{key}*", error=key))
        return "stored"


COLUMNS = (
    *("key", "payload", "fingerprint", "priority", "state", "reason", "error", "accepted_by", "attempts", "crashes"),
    *("generation", "step_id", "cursor", "moves", "reuses", "serves", "fence", "worked_by", "submission", "part"),
    *("pipeline_id", "batch_id", "plan_id", "due_at", "deadline_at", "claimed_at", "submitted_at", "moved_at"),
    *("cleaned_at",),
)


@takes(
    st.lists(st.tuples(st.sampled_from(COLUMNS), json.filter(lambda v: not isinstance(v, (list, dict)))), max_size=3),
    "A document whose row was edited is parked with a reason or continues; no worker fails because of it.",
    refusals=[sqlite3.Error, OverflowError, UnicodeEncodeError],
)
def edited(changes: list[tuple[str, Any]]) -> None:
    file = scratch_folder() / "edited.db"
    store = _fresh(file)
    pipeline = _pipeline()
    with closing(store):
        holdfast.submit(pipeline, store, batch="b", documents=[("k", {"a": 1})])
        with closing(sqlite3.connect(file)) as db:
            for column, value in changes:
                db.execute(f"update hf_document set {column} = ?", (value,))
            db.commit()
        _drain_and_read(pipeline, store)


def _drain_and_read(pipeline: holdfast.Pipeline, store: Store) -> None:
    try:
        holdfast.drain(pipeline, store, threads=1, budget=timedelta(seconds=5))
        for status in store.documents("fuzz"):
            store.journal(status.id)
            holdfast.explain(store, status)
        store.batch_counts("fuzz")
        store.gauges("fuzz")
    except sqlite3.Error as error:  # not from the edit, so holdfast has to handle it
        raise AssertionError(f"an error of the database was not handled: {error}") from error


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
    return _fresh(scratch_folder() / "values.db")


def _fresh(file: Any) -> Store:
    for suffix in ("", "-wal", "-shm", "-queue", "-lock", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    return open_store(f"sqlite:///{file}?synchronous=normal")


def _is_equal(back: Any, value: Any) -> bool:
    if back == value:
        return True
    if isinstance(value, (list, tuple)):
        return isinstance(back, list) and len(back) == len(value) and all(map(_is_equal, back, value))
    if isinstance(value, dict):
        return (
            isinstance(back, dict) and back.keys() == value.keys() and all(_is_equal(back[k], value[k]) for k in value)
        )
    return False
