"""Capsules: files of strangers, read and loaded."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from io import BytesIO
from typing import Any

import msgspec
from hypothesis import strategies as st

import holdfast
from holdfast.core.capsule import read
from holdfast.engine.capsules import file_name, pack
from holdfast.pipelines import rag
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from tests.fuzz.inputs import json, names, nested, room
from tests.fuzz.target import takes, takes_bytes
from tests.fuzz.targets.values import _fresh, _pipeline

A_CAPSULE = "It is a capsule, or CapsuleError says what is wrong; no file is opened and nothing in it is run."


@cache
def genuine() -> bytes:
    """A capsule as holdfast packs it."""
    pipeline = _pipeline()
    with closing(open_store("memory://")) as store:
        holdfast.submit(pipeline, store, batch="b", documents=[("k", {"path": "/etc/passwd", "n": 1})])
        holdfast.drain(pipeline, store, threads=1)
        into = BytesIO()
        pack(store, store.find("k")[0].id, into)
        return into.getvalue()


DOCUMENTS = "documents"


def library(store: Store) -> rag.Library:
    """Opens document search as people do, with an embedder that needs no model and networks that need no guard."""
    return rag.Library(store, DOCUMENTS, settings=rag.Settings(embedder="hash:64"), allow_private=True)


@cache
def genuine_of_document_search() -> bytes:
    """A capsule of a file that nobody read yet."""
    with closing(_fresh(room() / "documents.db")) as store:
        payload = {"location": "/letters/a.txt", "name": "a.txt"}
        holdfast.submit(library(store).pipeline, store, batch="/letters", documents=[("a.txt", payload)])
        into = BytesIO()
        pack(store, store.find("a.txt")[0].id, into)
        return into.getvalue()


@takes_bytes([genuine(), b'{"format": 2}', b"{}", b"[" * 2000, b"\x80\x04\x95pickle."], A_CAPSULE, sealed=True)
def reading(data: bytes) -> None:
    capsule = read(data)
    assert "/" not in file_name(capsule.document.key)
    for step in capsule.steps:
        capsule.items_of(step)
        capsule.asides_of(step)


PLACES = st.lists(st.integers(0, 12), min_size=1, max_size=4)
CHANGE = st.tuples(PLACES, json | names | st.just("__gone__") | st.just("__deep__"))


@takes(
    st.lists(CHANGE, max_size=3),
    "A capsule in which any value is another one is refused, or a store takes it in and can be worked on.",
)
def loading(changes: list[Any]) -> None:
    changed = msgspec.json.decode(genuine())
    for places, value in changes:
        _put(changed, places, value)
    try:
        data = msgspec.json.encode(changed)
    except (ValueError, RecursionError, UnicodeEncodeError):
        return
    capsule = read(data)
    store = _fresh(room() / "loaded.db")
    with closing(store):
        assert isinstance(store, SqliteStore)
        number = store.load(capsule, who="fuzz")
        (here,) = store.look([number])
        store.journal(number)
        pack(store, number, BytesIO())
        assert here.state != "running"


def _put(value: Any, places: list[int], new: Any) -> None:
    """Changes the value at a place: the so manieth key or item, and in that the so manieth, and so on."""
    for depth, place in enumerate(places):
        if not isinstance(value, (dict, list)) or not value:
            return
        at = list(value)[place % len(value)] if isinstance(value, dict) else place % len(value)
        if depth == len(places) - 1 or not isinstance(value[at], (dict, list)) or not value[at]:
            if new == "__gone__":
                del value[at]
            else:
                value[at] = nested(500) if new == "__deep__" else new
            return
        value = value[at]
