"""A capsule is of one moment, also when workers run beside whoever packs it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.capsule import read
from holdfast.core.errors import CapsuleError
from holdfast.engine.capsules import file_name, pack
from holdfast.stores import open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from tests.engine.conftest import Bench


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/damaged.db"}
    store = open_store(urls.get(request.param, lambda: request.getfixturevalue("postgres_url"))())
    yield store
    store.close()


@pytest.fixture
def moving(bench: Bench, pipeline: holdfast.Pipeline, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Bench]:
    """A document that moves so many times while its items are read."""

    def prepare(times: int) -> Bench:
        pipeline.step(name="one")(lambda doc: [1, 2])
        bench.submit("a")
        plan = bench.store.declare(pipeline.shape())
        items, moves = bench.store.items, iter(range(times))

        def read_slowly(document_id: int) -> Iterator[Any]:
            if next(moves, None) is not None:
                bench.store.prioritise([document_id], priority=7, who="ann", reason="now")
                bench.store.rewind_to(plan, [document_id], to="one", who="ann", reason="again")
            return items(document_id)

        monkeypatch.setattr(bench.store, "items", read_slowly)
        return bench

    return prepare


def _pack(store: Store, bench: Bench) -> bytes:
    file = io.BytesIO()
    file.write(b"before")
    pack(store, bench.standing().id, file)
    assert file.getvalue().startswith(b"before")
    return file.getvalue().removeprefix(b"before")


def test_a_document_that_moves_while_it_is_packed_is_packed_again(moving: Callable[[int], Bench]) -> None:
    bench = moving(2)
    capsule = read(_pack(bench.store, bench))
    assert (capsule.document.generation, capsule.document.priority) == (2, 7)
    assert [line.verb for line in capsule.journal] == ["prioritise", "rewind", "rewind"]


def test_one_that_never_rests_is_refused(moving: Callable[[int], Bench]) -> None:
    bench = moving(99)
    with pytest.raises(CapsuleError, match="moves while it is packed"):
        _pack(bench.store, bench)


def test_a_document_in_any_state_goes_into_a_capsule_and_out_again(
    bench: Bench, pipeline: holdfast.Pipeline, tmp_path: Any
) -> None:
    pipeline.step(name="one")(lambda doc: {"n": 1})
    pipeline.gate("look")
    bench.submit("paused", "cancelled", "done", "waiting")
    plan = bench.store.declare(pipeline.shape())
    bench.store.pause([bench.standing("waiting").id], who="ann", reason="not yet")
    bench.drain()
    bench.store.cancel([bench.standing("cancelled").id], who="ann", reason="no")
    bench.store.resume(plan, [bench.standing("done").id], who="ann", reason="fine")
    bench.store.resume(plan, [bench.standing("waiting").id], who="ann", reason="now")
    for key in ("paused", "cancelled", "done", "waiting"):
        here = bench.standing(key)
        assert here.state == key
        file = io.BytesIO()
        pack(bench.store, here.id, file)
        other = SqliteStore(f"sqlite:///{tmp_path}/{key}.db")
        there = other.look([other.load(read(file.getvalue()), who="bob")])[0]
        for field in ("state", "key", "batch", "payload", "fingerprint", "checkpoint", "reason", "due_at", "moved_at"):
            assert getattr(there, field) == getattr(here, field), field
        assert [*other.items(there.id)] == [*bench.store.items(here.id)]
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
def test_a_document_that_nobody_could_load_is_refused_when_it_is_packed(
    anywhere: Store, pipeline: holdfast.Pipeline, made: int
) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    pipeline.gate("look")
    bench = Bench(anywhere, pipeline)
    bench.submit("a b")
    bench.drain()
    step_id = anywhere.declare(pipeline.shape()).step_ids["one"]
    _damage(anywhere, bench.standing("a b").id, json.dumps({str(step_id): made}))
    with pytest.raises(
        CapsuleError, match=r"it reuses a later generation\. Its row is damaged: .*holdfast rewind 'a b' --to one"
    ):
        pack(anywhere, bench.standing("a b").id, io.BytesIO())


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
