"""Capsules: untrusted files that are read and loaded."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from io import BytesIO
from typing import Any

import msgspec
from hypothesis import strategies as st

import holdfast
from holdfast.core.capsule import read_capsule
from holdfast.ops.capsule_export import file_name, pack
from holdfast.pipelines import rag
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from tests.fuzz.inputs import json, names, nested, scratch_folder
from tests.fuzz.target import takes, takes_bytes
from tests.fuzz.targets.values import _fresh, _pipeline

A_CAPSULE = "The bytes are a capsule, or CapsuleError says what is wrong; no file is opened and no code is run."


@cache
def genuine() -> bytes:
    """Return a capsule as holdfast packs it."""
    pipeline = _pipeline()
    with closing(open_store("memory://")) as store:
        holdfast.submit(pipeline, store, batch="b", documents=[("k", {"path": "/etc/passwd", "n": 1})])
        holdfast.drain(pipeline, store, threads=1)
        into = BytesIO()
        pack(store, store.find("k")[0].id, into)
        return into.getvalue()


DOCUMENTS = "documents"


def library(store: Store) -> rag.Library:
    """Open document search with an embedder that needs no model, and with private networks allowed."""
    return rag.Library(store, DOCUMENTS, settings=rag.CollectionSettings(embedder="hash:64"), allow_private=True)


@cache
def genuine_of_document_search() -> bytes:
    """Return a capsule of document search whose file was not read yet."""
    with closing(_fresh(scratch_folder() / "documents.db")) as store:
        payload = {"location": "/letters/a.txt", "name": "a.txt"}
        holdfast.submit(library(store).pipeline, store, batch="/letters", documents=[("a.txt", payload)])
        into = BytesIO()
        pack(store, store.find("a.txt")[0].id, into)
        return into.getvalue()


@takes_bytes([genuine(), b'{"format": 2}', b"{}", b"[" * 2000, b"\x80\x04\x95pickle."], A_CAPSULE, sealed=True)
def reading(data: bytes) -> None:
    capsule = read_capsule(data)
    assert "/" not in file_name(capsule.document.key)
    for step in capsule.steps:
        capsule.items_of(step)
        capsule.asides_of(step)


PLACES = st.lists(st.integers(0, 12), min_size=1, max_size=4)
CHANGE = st.tuples(PLACES, json | names | st.just("__gone__") | st.just("__deep__"))


@takes(
    st.lists(CHANGE, max_size=3),
    "A capsule with changed values is refused, or it is loaded and the store can be read.",
)
def loading(changes: list[Any]) -> None:
    changed = msgspec.json.decode(genuine())
    for places, value in changes:
        _put(changed, places, value)
    try:
        data = msgspec.json.encode(changed)
    except (ValueError, RecursionError, UnicodeEncodeError):
        return
    capsule = read_capsule(data)
    store = _fresh(scratch_folder() / "loaded.db")
    with closing(store):
        assert isinstance(store, SqliteStore)
        number = store.load(capsule, who="fuzz")
        (status,) = store.documents_by_id([number])
        store.journal(number)
        pack(store, number, BytesIO())
        assert status.state != "running"


def _put(value: Any, places: list[int], new: Any) -> None:
    """Change the value at a path. Each number of the path selects a key or an item, modulo their count."""
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
