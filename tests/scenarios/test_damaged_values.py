"""A stored value that is gone, was changed or cannot be read parks its document. It costs no attempt, and no item.

Large values are stored apart, under the hash of their content, which is checked when they are read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app
from holdfast.core.errors import ItemDamaged, StoreError
from holdfast.core.reasons import DAMAGED
from holdfast.ops.capsule_export import pack
from holdfast.stores import open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness
from tests.support.row_edits import SqlEdits, edits_of

LARGE = "x" * 70_000


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    file = f"sqlite:///{tmp_path}/engine.db"
    store = open_store(file if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    yield store
    store.close()


Damage = Callable[[SqlEdits], object]

BLOBS: dict[str, tuple[Damage, str]] = {
    "changed": (
        lambda edits: edits.run("update hf_blob set content = ?", b'"' + LARGE[1:].encode() + b'y"'),
        "cannot be read (it is a large value whose content in hf_blob does not match its hash)",
    ),
    "cut off": (
        lambda edits: edits.run("update hf_blob set content = ?", b'"xxxx'),
        "cannot be read (it is a large value whose content in hf_blob does not match its hash)",
    ),
    "no text": (
        lambda edits: edits.run("update hf_blob set content = ?", b"\xff\xfe"),
        "cannot be read ('utf-8' codec can't decode byte 0xff",
    ),
    "gone": (
        lambda edits: edits.run("delete from hf_blob"),
        "cannot be read (it is a large value that is gone from hf_blob)",
    ),
}


class ReadingPipeline(PipelineHarness):
    """One step keeps values, the next one pauses, so that rows can be edited, and the last one reads the values."""

    def __init__(self, store: Store, reads: str, *, value: str = LARGE) -> None:
        pipeline = holdfast.Pipeline("p")
        super().__init__(store, pipeline)
        self.editing = True
        retry = holdfast.Retry(attempts=1)

        @pipeline.step
        def make(doc: holdfast.Document) -> Any:
            return value if reads in ("output", "process", "verify") else [value, "small"]

        if reads == "verify":
            make.verify(lambda doc: len(doc.output(make)) > 0)

        @pipeline.step
        def wait(doc: holdfast.Document) -> None:
            if self.editing and doc.key == "a":
                raise holdfast.Pause("a person edits it")

        if reads in ("window", "window in a process"):

            @pipeline.step(over=make, failure_rate=1.0, retry=retry, runs_in="process" if "in a" in reads else "thread")
            def read(doc: holdfast.Document, text: str) -> int:
                return len(text)
        else:

            @pipeline.step(retry=retry, runs_in="process" if reads == "process" else "thread")
            def read(doc: holdfast.Document) -> int:
                return len(doc.output(make)) if reads != "each" else sum(len(text) for text in doc.each(make))

    def stop(self) -> SqlEdits:
        """Pause document a before its values are read. Return edits of it."""
        self.submit("a")
        assert self.drain().paused == 1
        self.editing = False
        edits = edits_of(self.store, self.document("a").id)
        assert isinstance(edits, SqlEdits)
        return edits


@pytest.mark.parametrize("reads", ["output", "each", "window", "process", "window in a process", "verify"])
def test_a_damaged_value_parks_the_document_that_reads_it(store: Store, reads: str) -> None:
    harness = ReadingPipeline(store, reads)
    edits = harness.stop()
    edit, why = BLOBS["gone"]
    edit(edits)
    edits.resume()
    report = harness.drain()
    assert (report.paused, report.done, report.dead) == (1, 0, 0)
    status = harness.document("a")
    assert (status.state, status.code, status.attempts) == ("paused", DAMAGED, 0)
    item = "the value" if reads in ("output", "process", "verify") else "item 0"
    assert f"{item} of step 'make' of the document 'a' {why}" in status.reason
    assert store.failed_items(status.id) == [], "it counts as a bad item"


@pytest.mark.parametrize("damage", BLOBS)
def test_a_damaged_value_is_named_and_the_suggested_rewind_repairs_it(store: Store, damage: str) -> None:
    harness = ReadingPipeline(store, "output")
    edits = harness.stop()
    edit, why = BLOBS[damage]
    edit(edits)
    edits.resume()
    assert harness.drain().paused == 1
    status = harness.document("a")
    assert f"the value of step 'make' of the document 'a' {why}" in status.reason
    with pytest.raises(ItemDamaged, match="the value of step 'make' of the document 'a' cannot be read"):
        list(store.items(status.id))
    with pytest.raises(StoreError, match="the value of step 'make' of the document 'a' cannot be read"):
        pack(store, status.id, io.BytesIO())
    plan = store.declare(harness.pipeline.shape())
    assert store.rewind_to(plan, [status.id], to="make", who="ann", reason="damaged") == [status.id]
    assert harness.drain().done == 1
    assert harness.kept("make") == [LARGE]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("reads", ["output", "each", "window", "process", "window in a process"])
def test_a_value_that_is_not_json_parks_the_document_that_reads_it(tmp_path: Path, reads: str, kind: str) -> None:
    """PostgreSQL stores no such value."""
    store = MemoryStore() if kind == "memory" else open_store(f"sqlite:///{tmp_path}/engine.db")
    harness = ReadingPipeline(store, reads, value="small")
    harness.submit("a")
    assert harness.drain().paused == 1
    harness.editing = False
    edits = edits_of(store, harness.document("a").id)
    edits.set_item(1, -1 if reads in ("output", "process") else 0, '["a text that is cut o')
    edits.resume()
    assert harness.drain().paused == 1
    status = harness.document("a")
    assert (status.code, status.attempts, store.failed_items(status.id)) == (DAMAGED, 0, [])
    assert " of step 'make' of the document 'a' cannot be read (" in status.reason
    store.close()


def test_a_value_of_another_type_than_annotated_is_not_damaged() -> None:
    """The annotation of the body may have changed: that is no damage of the store."""
    pipeline = holdfast.Pipeline("p")
    harness = PipelineHarness(MemoryStore(), pipeline)

    @pipeline.step
    def make(doc: holdfast.Document) -> int:
        return "a text"  # type: ignore[return-value]

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> int:
        return doc.output(make)

    harness.submit("a")
    assert harness.drain().dead == 1


def test_a_command_that_shows_items_prints_which_value_is_damaged(store: Store) -> None:
    harness = ReadingPipeline(store, "output")
    BLOBS["changed"][0](harness.stop())
    result = CliRunner().invoke(app, ["show", "a", "--items", "--store", store.url], prog_name="holdfast")
    assert result.exit_code == 3
    assert "the value of step 'make' of the document 'a' cannot be read (it is a large value whose" in result.output
    assert "Traceback" not in result.output
