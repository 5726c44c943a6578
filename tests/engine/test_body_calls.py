"""The three kinds of body, and what they may return, yield and raise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
import pytest

import holdfast
from holdfast.core.step import At
from tests.support.pipeline_harness import SOON, PipelineHarness


def test_a_value_is_kept_and_read_by_later_steps(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def measure(doc: holdfast.Document) -> dict[str, int]:
        return {"length": len(doc.payload["name"])}

    @pipeline.step
    def double(doc: holdfast.Document) -> int:
        return doc.output(measure)["length"] * 2

    harness.submit("four")
    assert harness.drain().done == 1
    assert harness.kept("double", "four") == [8]


@pytest.mark.parametrize("value", [None, [], [1, 2], {"a": 1}, "text", b"bytes", 0, False, [[1], []], "", {}])
def test_every_kind_of_value_comes_back_as_it_was(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, value: object
) -> None:
    seen: list[object] = []

    @pipeline.step
    def give(doc: holdfast.Document) -> object:
        return value

    @pipeline.step
    def look(doc: holdfast.Document) -> None:
        seen.append(doc.output(give))

    harness.submit("a")
    assert harness.drain().done == 1
    assert seen == [value]


def test_declared_types_come_back_as_themselves(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    seen: list[object] = []

    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[Page]:
        yield Page(1, "one", datetime(2026, 1, 1, tzinfo=UTC))

    @pipeline.step
    def look(doc: holdfast.Document) -> None:
        seen.extend(doc.output(pages))

    harness.submit("a")
    harness.drain()
    assert seen == [Page(1, "one", datetime(2026, 1, 1, tzinfo=UTC))]


class Page(msgspec.Struct):
    number: int
    text: str
    seen: datetime


def test_a_stream_goes_on_after_the_last_kept_item(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        for number in range(cursor, 6):
            if number == 4 and len(began) == 1:
                raise OSError("the disk hiccups")
            yield number

    harness.submit("a")
    assert harness.drain().done == 1
    assert began == [0, 4]
    assert harness.kept("pages") == [0, 1, 2, 3, 4, 5]


def test_items_before_an_error_are_kept_even_if_they_came_together(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=100, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        yield from range(cursor, 5)
        if len(began) == 1:
            raise OSError("after five")
        yield 5

    harness.submit("a")
    harness.drain()
    assert began == [0, 5]
    assert harness.kept("pages") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("every", "moves"), [(1, 11), (5, 3), (100, 1), (timedelta(hours=1), 1)])
def test_commits_come_as_often_as_declared(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, every: int | timedelta, moves: int
) -> None:
    @pipeline.step(commit_every=every)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 10)

    harness.submit("a")
    assert harness.drain().moves == moves
    assert len(harness.kept("pages")) == 10


@pytest.mark.parametrize("where", ["thread", "process"])
def test_what_is_marked_as_the_last_is_committed_with_the_end(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, where: Literal["thread", "process"]
) -> None:
    @pipeline.step(commit_every=1, runs_in=where)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 2)
        yield holdfast.last(2)

    harness.submit("a")
    assert harness.drain().moves == 3
    assert harness.kept("pages") == [0, 1, 2]


def test_what_comes_after_what_was_marked_as_the_last_is_kept_all_the_same(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 4):
            yield holdfast.last(number) if number == 1 else number

    harness.submit("a")
    assert harness.drain().moves == 4
    assert harness.kept("pages") == [0, 1, 2, 3]


def test_a_cursor_of_its_own_can_be_marked_as_the_last(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(commit_every=1)
    def records(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[str]]:
        yield At("x", "X")
        yield holdfast.last(At("y", "Y"))

    harness.submit("a")
    assert harness.drain().moves == 2
    assert harness.kept("records") == ["X", "Y"]


def test_an_error_after_what_was_marked_as_the_last_does_not_lose_it(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        if cursor == 0:
            yield holdfast.last(0)
            raise OSError("while it tidied up")

    harness.submit("a")
    assert harness.drain().done == 1
    assert began == [0, 1]
    assert harness.kept("pages") == [0]


def test_a_cursor_may_be_any_json(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    began: list[object] = []

    @pipeline.step(commit_every=1, retry=SOON)
    def records(doc: holdfast.Document, cursor: dict[str, str] | None = None) -> Iterator[At[str]]:
        began.append(cursor)
        names = ["a", "b", "c", "d"]
        for name in names[names.index(cursor["after"]) + 1 if cursor else 0 :]:
            if name == "c" and len(began) == 1:
                raise OSError("gone")
            yield At({"after": name}, name.upper())

    harness.submit("a")
    harness.drain()
    assert began == [None, {"after": "b"}]
    assert harness.kept("records") == ["A", "B", "C", "D"]


def test_a_stream_may_move_on_without_keeping(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def even(doc: holdfast.Document, cursor: int = 0) -> Iterator[At[int]]:
        for number in range(cursor, 10):
            yield At(number + 1, number) if number % 2 == 0 else At(number + 1)

    harness.submit("a")
    harness.drain()
    assert harness.kept("even") == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("back", [2, 1])
def test_a_cursor_that_does_not_move_on_is_refused(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, back: int
) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[At[str]]:
        yield At(1, "one")
        yield At(2, "two")
        yield At(back, "again")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "CursorMovedBack" in harness.document().reason
    assert harness.document().checkpoint.cursor == 2
    assert harness.kept("pages") == ["one", "two"]


API = {None: (["a", "b"], "p2"), "p2": (["c"], "p3"), "p3": (["d"], None)}
"""The pages of an API: the records, and the token of the next page. The last page has none."""


@pytest.mark.parametrize("where", ["thread", "process"])
@pytest.mark.parametrize(("every", "moves"), [(1, 3), (2, 2), (100, 1), (None, 1)])
def test_a_cursor_that_is_none_ends_the_stream_with_its_value_in_the_commit_that_ends_the_step(
    pipeline: holdfast.Pipeline,
    harness: PipelineHarness,
    where: Literal["thread", "process"],
    every: int | None,
    moves: int,
) -> None:
    @pipeline.step(commit_every=every, runs_in=where)
    def fetch(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[list[str]]]:
        while True:
            records, cursor = API[cursor]
            yield At(cursor, records)

    harness.submit("a")
    assert harness.drain().moves == moves
    assert harness.kept("fetch") == [["a", "b"], ["c"], ["d"]]


@pytest.mark.parametrize("where", ["thread", "process"])
def test_an_async_stream_ends_at_a_cursor_that_is_none(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, where: Literal["thread", "process"]
) -> None:
    @pipeline.step(commit_every=1, runs_in=where)
    async def fetch(doc: holdfast.Document, cursor: str | None = None) -> AsyncIterator[At[list[str]]]:
        while True:
            await asyncio.sleep(0)
            records, cursor = API[cursor]
            yield At(cursor, records)

    harness.submit("a")
    assert harness.drain().moves == 3
    assert harness.kept("fetch") == [["a", "b"], ["c"], ["d"]]


def test_an_end_without_a_value_commits_what_was_yielded_before(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(commit_every=100)
    def fetch(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[str]]:
        yield At("p2", "a")
        yield At(None)

    harness.submit("a")
    assert harness.drain().moves == 1
    assert harness.kept("fetch") == ["a"]


def test_a_stream_that_only_ends_is_done(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def fetch(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[str]]:
        yield At(None)

    harness.submit("a")
    assert harness.drain().done == 1
    assert harness.kept("fetch") == []


def test_a_stream_that_counts_may_end_with_a_cursor_that_is_none(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[object]:
        yield 0
        yield 1
        yield holdfast.last(At(None, 2))
        yield 3

    harness.submit("a")
    assert harness.drain().moves == 3
    assert harness.kept("pages") == [0, 1, 2]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_is_closed_where_it_says_that_it_is_over(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, is_async: bool
) -> None:
    ran: list[str] = []

    def fetch(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[str]]:
        try:
            yield At(None, "a")
            ran.append("code after it")
        finally:
            ran.append("clean-up")
            raise OSError("the session was closed already")

    async def fetch_async(doc: holdfast.Document, cursor: str | None = None) -> AsyncIterator[At[str]]:
        try:
            yield At(None, "a")
            ran.append("code after it")
        finally:
            ran.append("clean-up")
            raise OSError("the session was closed already")

    pipeline.step(name="fetch")(fetch_async if is_async else fetch)
    harness.submit("a")
    assert harness.drain().done == 1
    assert ran == ["clean-up"]
    assert harness.kept("fetch") == ["a"]


def test_a_value_that_cannot_be_kept_does_not_end_its_stream(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def fetch(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[object]]:
        yield At("p2", "a")
        yield At(None, {1})

    harness.submit("a")
    assert harness.drain().dead == 1
    assert harness.document().checkpoint.cursor == "p2"
    assert harness.kept("fetch") == ["a"]


def test_the_effect_gets_the_value_with_which_a_stream_ends(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    windows: list[list[str]] = []

    @pipeline.step(commit_every=2, keep=False)
    def fetch(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[str]]:
        yield At("p2", "a")
        yield At("p3", "b")
        yield At(None, "c")

    @fetch.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, records: list[str]) -> None:
        windows.append(records)

    harness.submit("a")
    assert harness.drain().done == 1
    assert windows == [["a", "b"], ["c"]]


def test_async_bodies_of_all_shapes_work(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    async def pages(doc: holdfast.Document, cursor: int = 0) -> AsyncIterator[int]:
        for number in range(cursor, 7):
            await asyncio.sleep(0)
            yield number

    @pipeline.step(over=pages, size=3, parallel=2)
    async def squares(doc: holdfast.Document, numbers: list[int]) -> list[int]:
        await asyncio.sleep(0)
        return [number * number for number in numbers]

    @pipeline.step
    async def total(doc: holdfast.Document) -> int:
        return sum(doc.output(squares))

    harness.submit("a", "b")
    assert harness.drain().done == 2
    assert harness.kept("total", "b") == [91]


def test_a_step_that_keeps_nothing_still_writes_its_effect(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("create table seen (n)")

    @pipeline.step(keep=False)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)

    @pages.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, numbers: list[int]) -> None:
        tx.executemany("insert into seen values (?)", [(number,) for number in numbers])

    harness.submit("a")
    harness.drain()
    assert harness.kept("pages") == []
    with harness.store._db.reading() as db:  # type: ignore[attr-defined]
        assert db.execute("select n from seen order by n").fetchall() == [(0,), (1,), (2,)]


def test_what_cannot_be_kept_is_told_with_its_place(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def give(doc: holdfast.Document) -> object:
        return {"pages": [{"when": {1, 2}}]}

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "['pages'][0]['when'] is a builtins.set" in harness.document().reason


def test_an_object_that_no_annotation_names_is_told_that_the_annotation_decides(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document, cursor=0):  # type: ignore[no-untyped-def]
        yield Page(1, "one", datetime(2026, 1, 1, tzinfo=UTC))

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "item 0 of step 'pages' cannot be kept" in harness.document().reason
    assert (
        "the return annotation of the body decides how a value is stored: annotate it with the dataclass, the "
        "TypedDict or the msgspec.Struct that it returns or yields"
    ) in harness.document().reason


@pytest.mark.wording
def test_a_value_that_is_not_of_the_annotated_type_is_told_what_the_annotation_says(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def count(doc: holdfast.Document) -> dict[str, int]:
        return {"pages": "three"}  # type: ignore[dict-item]

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "the return annotation of the body decides how a value is stored, and here it says dict[str, int]" in (
        harness.document().reason
    )


def test_a_cursor_never_passes_an_item_that_could_not_be_kept(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    broken = {"is": True}

    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[object]:
        for number in range(cursor, 6):
            yield {number} if number == 2 and broken["is"] else number

    harness.submit("a")
    assert harness.drain().dead == 1
    assert harness.document().checkpoint.cursor == 2
    broken["is"] = False
    harness.store.redrive([harness.document().id], who="ada", reason="mended")
    assert harness.drain().done == 1
    assert harness.kept("pages") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "error",
    [
        holdfast.Reject("caf\udce9.pdf"),
        holdfast.RetryLater("later", after=timedelta.max),
        ValueError("caf\udce9.pdf"),
    ],
)
def test_an_error_with_odd_contents_fails_its_document_alone(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, error: Exception
) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if doc.key == "odd":
            raise error
        return doc.key

    harness.submit("odd", "b", "c")
    assert harness.drain(budget=timedelta(seconds=2)).done == 2


def test_trouble_of_the_store_costs_a_document_nothing(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pipeline.step
    def first(doc: holdfast.Document) -> list[int]:
        return [1]

    @pipeline.step(retry=holdfast.Retry(attempts=1, base=timedelta(milliseconds=1), ceiling=timedelta(seconds=1)))
    def second(doc: holdfast.Document) -> int:
        return len(doc.output(first))

    monkeypatch.setattr(
        "holdfast.engine.item_cache.MAX_DOCUMENT_SIZE", 0
    )  # the cache is empty, so it is read from the store
    read, troubles = harness.store.read, [1, 2, 3]

    def troubled(*place: int) -> object:
        if troubles:
            troubles.pop()
            raise holdfast.StoreError("too many connections")
        return read(*place)

    monkeypatch.setattr(harness.store, "read", troubled)
    harness.submit("a")
    assert harness.drain().done == 1
    assert [(line.verb, line.times) for line in harness.store.journal(harness.document().id)] == [("defer", 3)]


def test_reject_makes_a_dead_letter_at_once(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    tries: list[int] = []

    @pipeline.step(retry=SOON)
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        raise holdfast.Reject("it is encrypted")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert len(tries) == 1
    assert harness.document().reason == "Reject: it is encrypted"


def test_retry_later_costs_no_attempt(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    tries: list[int] = []

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        if len(tries) < 6:
            raise holdfast.RetryLater("throttled", after=0.001)

    harness.submit("a")
    assert harness.drain().done == 1
    assert [(line.verb, line.times) for line in harness.store.journal(harness.document().id)] == [("defer", 5)]


def test_an_error_is_tried_again_and_then_dead(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    tries: list[int] = []

    @pipeline.step(retry=SOON)
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        raise OSError("no route")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert len(tries) == 3
    story = harness.store.journal(harness.document().id)
    assert [entry.verb for entry in story] == ["fail", "fail", "fail"]
    assert "no route" in story[-1].detail["error"]["traceback"]


def test_an_error_named_permanent_is_not_tried_again(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    tries: list[int] = []

    @pipeline.step(retry=holdfast.Retry(permanent=(PermissionError,)))
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        raise PermissionError("wrong key")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert len(tries) == 1


def test_progress_gives_new_attempts(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    """Five errors at five pages are not five errors at one page."""
    hiccups: set[int] = set()

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 5):
            if number not in hiccups:
                hiccups.add(number)
                raise OSError("hiccup")
            yield number

    harness.submit("a")
    assert harness.drain().done == 1


def test_pause_parks_until_its_time(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    tries: list[int] = []

    @pipeline.step
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise holdfast.Pause("embargo", until=datetime.now(UTC) + timedelta(milliseconds=1))

    harness.submit("a")
    assert harness.drain().paused == 1
    assert harness.document().state == "paused"
    harness.store.wake(harness.store.declare(pipeline.shape()), who="holdfast")
    assert harness.drain().done == 1


def test_a_gate_parks_and_a_person_lets_it_go_on(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def draft(doc: holdfast.Document) -> str:
        return "draft"

    pipeline.gate("human_review")

    @pipeline.step
    def publish(doc: holdfast.Document) -> str:
        return doc.output(draft) + " published"

    harness.submit("a")
    assert harness.drain().paused == 1
    assert "human_review" in harness.document().reason
    plan = harness.store.declare(pipeline.shape())
    assert harness.store.resume(plan, [harness.document().id], who="ada", reason="reads well")
    assert harness.drain().done == 1
    assert harness.kept("publish") == ["draft published"]
    assert harness.verbs() == ["resume"]


def test_verify_rewinds_to_the_step_whose_work_is_gone(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    runs: list[str] = []
    there = {"value": False}

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        runs.append("read")
        return "text"

    @pipeline.step
    def index(doc: holdfast.Document) -> str:
        runs.append("index")
        return doc.output(read)

    @index.verify
    def indexed(doc: holdfast.Document) -> bool:
        return there["value"]

    @pipeline.step(retry=SOON)
    def notify(doc: holdfast.Document) -> None:
        runs.append("notify")
        if runs.count("notify") == 1:
            raise OSError("mail server is down")
        there["value"] = True

    harness.submit("a")
    assert harness.drain().done == 1
    assert runs == ["read", "index", "notify", "index", "notify"]
    assert harness.document().checkpoint.generation == 1
    assert "rewind" in harness.verbs()
    assert harness.kept("index") == ["text"]
    assert harness.kept("read") == ["text"]


def test_an_idempotency_key_is_the_same_on_every_attempt(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    keys: list[str] = []

    @pipeline.step(retry=SOON)
    def pay(doc: holdfast.Document) -> None:
        keys.append(doc.idempotency_key(3))
        if len(keys) == 1:
            raise OSError("timeout")

    @pipeline.step
    def other(doc: holdfast.Document) -> None:
        keys.append(doc.idempotency_key(3))

    harness.submit("a")
    harness.drain()
    assert keys[0] == keys[1] != keys[2]
