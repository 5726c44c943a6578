"""A capsule shows one moment, even if workers run while it is packed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.capsule import read_capsule
from holdfast.core.errors import CapsuleError
from holdfast.ops.capsule_export import file_name, pack
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from tests.support.pipeline_harness import PipelineHarness


@pytest.fixture
def moving(
    harness: PipelineHarness, pipeline: holdfast.Pipeline, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], PipelineHarness]:
    """A store in which the document moves this many times while its items are read."""

    def prepare(times: int) -> PipelineHarness:
        pipeline.step(name="one")(lambda doc: [1, 2])
        harness.submit("a")
        plan = harness.store.declare(pipeline.shape())
        items, moves = harness.store.items, iter(range(times))

        def read_slowly(document_id: int) -> Iterator[Any]:
            if next(moves, None) is not None:
                harness.store.prioritise([document_id], priority=7, who="ann", reason="now")
                harness.store.rewind_to(plan, [document_id], to="one", who="ann", reason="again")
            return items(document_id)

        monkeypatch.setattr(harness.store, "items", read_slowly)
        return harness

    return prepare


def _pack(store: Store, harness: PipelineHarness) -> bytes:
    file = io.BytesIO()
    file.write(b"before")
    pack(store, harness.document().id, file)
    assert file.getvalue().startswith(b"before")
    return file.getvalue().removeprefix(b"before")


def test_a_document_that_moves_while_it_is_packed_is_packed_again(moving: Callable[[int], PipelineHarness]) -> None:
    harness = moving(2)
    capsule = read_capsule(_pack(harness.store, harness))
    assert (capsule.document.generation, capsule.document.priority) == (2, 7)
    assert [line.verb for line in capsule.journal] == ["prioritise", "rewind", "rewind"]


def test_one_that_never_rests_is_refused(moving: Callable[[int], PipelineHarness]) -> None:
    harness = moving(99)
    with pytest.raises(CapsuleError, match="moves while it is packed"):
        _pack(harness.store, harness)


def test_a_document_in_any_state_goes_into_a_capsule_and_out_again(
    harness: PipelineHarness, pipeline: holdfast.Pipeline, tmp_path: Any
) -> None:
    pipeline.step(name="one")(lambda doc: {"n": 1})
    pipeline.gate("look")
    harness.submit("paused", "cancelled", "done", "waiting")
    plan = harness.store.declare(pipeline.shape())
    harness.store.pause([harness.document("waiting").id], who="ann", reason="not yet")
    harness.drain()
    harness.store.cancel([harness.document("cancelled").id], who="ann", reason="no")
    harness.store.resume(plan, [harness.document("done").id], who="ann", reason="fine")
    harness.store.resume(plan, [harness.document("waiting").id], who="ann", reason="now")
    for key in ("paused", "cancelled", "done", "waiting"):
        here = harness.document(key)
        assert here.state == key
        file = io.BytesIO()
        pack(harness.store, here.id, file)
        other = SqliteStore(f"sqlite:///{tmp_path}/{key}.db")
        there = other.documents_by_id([other.load(read_capsule(file.getvalue()), who="bob")])[0]
        for field in ("state", "key", "batch", "payload", "fingerprint", "checkpoint", "reason", "due_at", "moved_at"):
            assert getattr(there, field) == getattr(here, field), field
        assert [*other.items(there.id)] == [*harness.store.items(here.id)]
        assert other.balance("p", "b").balances
        other.close()


def _damage(store: Store, document_id: int, reuses: str) -> None:
    if isinstance(store, MemoryStore):
        documents = store._tables.documents
        numbered = {int(step): made for step, made in json.loads(reuses).items()}
        documents[document_id] = replace(documents[document_id], reuses=numbered)
        return
    with store.transaction() as tx:
        tx.execute(f"update hf_document set reuses = '{reuses}' where id = {document_id}")


@pytest.mark.parametrize("made", [0, 99])
def test_a_document_that_could_not_be_loaded_cannot_be_packed(
    any_store: Store, pipeline: holdfast.Pipeline, made: int
) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    pipeline.gate("look")
    harness = PipelineHarness(any_store, pipeline)
    harness.submit("a b")
    harness.drain()
    step_id = any_store.declare(pipeline.shape()).step_ids["one"]
    _damage(any_store, harness.document("a b").id, json.dumps({str(step_id): made}))
    with pytest.raises(
        CapsuleError, match=r"it reuses a later generation\. Its row is damaged: .*holdfast doc rewind 'a b' --to one"
    ):
        pack(any_store, harness.document("a b").id, io.BytesIO())


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("pdfs/a.pdf", "a.pdf"),
        ("..", "document"),
        ("C:\\\\x\\\\b c.pdf", "b_c.pdf"),
        ("a\nb;$(rm)", "a_b___rm_"),
        ("é" * 300, "é" * 100),
    ],
)
def test_the_name_of_the_file_means_nothing_to_a_shell(key: str, name: str) -> None:
    assert file_name(key) == f"{name}.capsule.json"
