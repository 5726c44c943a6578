"""A checkpoint that does not belong to the items that are kept is noticed when its document is taken up.

Each damage is found before a body runs, the document is parked with what is wrong, the others continue, and the
suggested rewind repairs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.core.reasons import DAMAGED, DAMAGED_STEP
from holdfast.ops.explain.context import rewind_step
from holdfast.stores import open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness
from tests.support.row_edits import RowEdits, edits_of, extents_text


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        store: Store = MemoryStore()
    else:
        file = f"sqlite:///{tmp_path}/engine.db"
        store = open_store(file if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    yield store
    store.close()


class StoppedPipeline(PipelineHarness):
    """Steps of every kind. A document stops before an item, its rows are edited, and it continues.

    The ids of the steps are 1 to 6, in their order.
    """

    def __init__(self, store: Store) -> None:
        pipeline = holdfast.Pipeline("p")
        super().__init__(store, pipeline)
        self.stops_at: tuple[str, int] = ("", 0)
        self.ran: list[tuple[str, str, int]] = []

        @pipeline.step(commit_every=1)
        def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
            for number in range(cursor, 6):
                self._at("pages", doc, number)
                yield number

        @pipeline.step
        def title(doc: holdfast.Document) -> str:
            self._at("title", doc, 0)
            return "a title"

        @pipeline.step
        def send(doc: holdfast.Document) -> None:
            self._at("send", doc, 0)

        @pipeline.step
        def split(doc: holdfast.Document) -> list[int]:
            self._at("split", doc, 0)
            return list(range(10))

        @pipeline.step(over=split, failure_rate=0.5, retry=holdfast.Retry(attempts=1))
        def walk(doc: holdfast.Document, number: int) -> int:
            self._at("walk", doc, number)
            if number == 1:
                raise ValueError("a bad item")
            return number

        @pipeline.step(commit_every=1)
        def fetch(doc: holdfast.Document, cursor: str = "") -> Iterator[holdfast.At[int]]:
            for number in range(len(cursor), 5):
                self._at("fetch", doc, number)
                yield holdfast.At("x" * (number + 1), number)

    def _at(self, step: str, doc: holdfast.Document, number: int) -> None:
        if (step, number) == self.stops_at and doc.key == "a":
            raise holdfast.Pause("a person edits it")
        self.ran.append((step, doc.key, number))

    def stop(self, step: str, number: int) -> RowEdits:
        """Pause document a at this item, and let b finish. Return edits of a."""
        self.stops_at = (step, number)
        self.submit("a", "b")
        report = self.drain()
        assert (report.paused, report.done) == (1, 1)
        self.stops_at = ("", 0)
        return edits_of(self.store, self.document("a").id)


Damage = Callable[[RowEdits], None]

DAMAGES: dict[str, tuple[str, int, Damage, str, str]] = {
    "a count set forward": (
        *("pages", 3, lambda edits: edits.set_column("cursor", "5")),
        *("it is at 5 inside step 'pages', which has kept 5 items by then, and 3 are kept", "pages"),
    ),
    "a count set back": (
        *("pages", 3, lambda edits: edits.set_column("cursor", "1")),
        *("it is at 1 inside step 'pages', which has kept 1 items by then, and 3 are kept", "pages"),
    ),
    "a text in place of a count": (
        *("pages", 3, lambda edits: edits.set_column("cursor", '"x"')),
        *("the cursor 'x' of step 'pages' is not the count of its items", "pages"),
    ),
    "the last item of the stream deleted": (
        *("pages", 3, lambda edits: edits.delete_item(1, 2)),
        *("which has kept 3 items by then, and 2 are kept", "pages"),
    ),
    "an item of the stream deleted": (
        *("pages", 3, lambda edits: edits.delete_item(1, 1)),
        *("which has kept 3 items by then, and 2 are kept, the last one at position 2", "pages"),
    ),
    "the step set ahead of a stream in the middle": (
        *("pages", 3, lambda edits: (edits.set_column("cursor", None), edits.set_column("step_id", 2))),
        *("it is at step 'title', and step 'pages' before it has not ended", "pages"),
    ),
    "the step set ahead of a step that was not begun": (
        *("title", 0, lambda edits: edits.set_column("step_id", 3)),
        *("it is at step 'send', and step 'title' before it has not ended", "pages"),
    ),
    "the step set ahead of a step that keeps nothing": (
        *("send", 0, lambda edits: edits.set_column("step_id", 4)),
        *("it is at step 'split', and step 'send' before it has not ended", "pages"),
    ),
    "the step set ahead of a step over items": (
        *("walk", 4, lambda edits: (edits.set_column("cursor", None), edits.set_column("step_id", 6))),
        *("it is at step 'fetch', and step 'walk' before it has not ended", "pages"),
    ),
    "the step set back": (
        *("split", 0, lambda edits: edits.set_column("step_id", 3)),
        *("it is at step 'send', and step 'send' has ended already", "send"),
    ),
    "the step set back to the first": (
        *("send", 0, lambda edits: edits.set_column("step_id", 1)),
        *("it has not begun step 'pages', and 6 items of this step are kept", "pages"),
    ),
    "an item of an earlier step deleted": (
        *("walk", 4, lambda edits: edits.delete_item(1, 2)),
        *("step 'pages' ended with 6 items, and 5 are kept", "pages"),
    ),
    "the value of an earlier step deleted": (
        *("walk", 4, lambda edits: edits.delete_item(2, -1)),
        *("step 'title' ended with one value, and 0 are kept", "pages"),
    ),
    "a record of what the steps kept deleted": (
        *("walk", 4, lambda edits: edits.set_column("extents", None)),
        *("it is at step 'walk', and step 'split' before it has not ended", "pages"),
    ),
    "a record of what the steps kept changed": (
        *("walk", 4, lambda edits: edits.set_column("extents", extents_text(step_1=6, step_2=-1, step_3=3, step_4=10))),
        *("step 'send' ended with 3 items, and 0 are kept", "pages"),
    ),
    "an item of the step over items deleted": (
        *("walk", 4, lambda edits: edits.delete_item(5, 2)),
        *("inside step 'walk', which has kept 3 items by then, and 2 are kept", "walk"),
    ),
    "a position over items set forward": (
        *("walk", 4, lambda edits: edits.set_column("cursor", '{"next":8,"aside":[[1,1]]}')),
        *("inside step 'walk', which has kept 7 items by then, and 3 are kept", "walk"),
    ),
    "a position over items set back": (
        *("walk", 4, lambda edits: edits.set_column("cursor", '{"next":3,"aside":[[1,1]]}')),
        *("inside step 'walk', which has kept 2 items by then, and 3 are kept", "walk"),
    ),
    "an item that was set aside deleted": (
        *("walk", 4, lambda edits: edits.delete_failed_item(5, 1)),
        *("1 items of step 'walk' were set aside, and 0 are kept", "walk"),
    ),
    "an item that was set aside by an earlier step deleted": (
        *("fetch", 3, lambda edits: edits.delete_failed_item(5, 1)),
        *("step 'walk' ended with 10 items, and 9 are kept", "pages"),
    ),
    "the last item of a stream with cursors of its own deleted": (
        *("fetch", 3, lambda edits: edits.delete_item(6, 2)),
        *("which has kept 3 items by then, and 2 are kept", "fetch"),
    ),
    "a stream with items and no cursor": (
        *("fetch", 3, lambda edits: edits.set_column("cursor", None)),
        *("it has not begun step 'fetch', and 3 items of this step are kept", "fetch"),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_document_is_parked_when_it_is_taken_up_and_the_suggested_rewind_repairs_it(
    store: Store, damage: str
) -> None:
    step, number, edit, why, to = DAMAGES[damage]
    harness = StoppedPipeline(store)
    edits = harness.stop(step, number)
    ran = list(harness.ran)
    edit(edits)
    edits.resume()
    harness.submit("c")
    report = harness.drain()
    assert (report.done, report.paused, report.dead) == (1, 1, 0)
    status = harness.document("a")
    assert why in status.reason
    assert (status.state, status.attempts, status.due_at) == ("paused", 0, None)
    assert status.code in (DAMAGED, DAMAGED_STEP)
    assert rewind_step(store, status) == to
    assert [call for call in harness.ran if call[1] == "a"] == [call for call in ran if call[1] == "a"], "a body ran"
    plan = store.declare(harness.pipeline.shape())
    assert store.rewind_to(plan, [status.id], to=to, who="ann", reason="damaged") == [status.id]
    assert harness.drain().done == 1
    for name in ("pages", "title", "send", "split", "walk", "fetch"):
        assert harness.kept(name, "a") == harness.kept(name, "b")


@pytest.mark.parametrize(
    "place", [("pages", 3), ("title", 0), ("send", 0), ("split", 0), ("walk", 4), ("fetch", 0), ("fetch", 3)], ids=str
)
def test_an_intact_document_continues(store: Store, place: tuple[str, int]) -> None:
    harness = StoppedPipeline(store)
    harness.stop(*place).resume()
    assert harness.drain().done == 1
    assert harness.kept("walk", "a") == harness.kept("walk", "b") == [0, *range(2, 10)]


def test_the_cursor_of_a_stream_with_cursors_of_its_own_is_not_compared_with_its_items(store: Store) -> None:
    harness = StoppedPipeline(store)
    edits = harness.stop("fetch", 3)
    edits.set_column("cursor", '"xxxx"')
    edits.resume()
    assert harness.drain().done == 1, "only the stream knows what its cursor means"


def test_a_document_of_which_nothing_was_recorded_continues(store: Store) -> None:
    """As one that was begun with a holdfast that recorded nothing, and is taken up after the migration."""
    harness = StoppedPipeline(store)
    edits = harness.stop("walk", 4)
    edits.set_column("extents", '{"0":1}')
    edits.resume()
    harness.stops_at = ("fetch", 3)
    assert harness.drain().paused == 1
    harness.stops_at = ("", 0)
    edits.resume()
    assert harness.drain().done == 1


def test_what_such_a_document_records_later_is_compared(store: Store) -> None:
    harness = StoppedPipeline(store)
    edits = harness.stop("split", 0)
    edits.set_column("extents", '{"0":1}')
    edits.resume()
    harness.stops_at = ("walk", 4)
    assert harness.drain().paused == 1
    edits.delete_item(4, 0)
    edits.resume()
    assert harness.drain().paused == 1
    assert "step 'split' ended with 10 items, and " in harness.document("a").reason
