"""The three shapes of body, and what they may say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
import pytest

import holdfast
from holdfast.core.step import At
from tests.engine.conftest import SOON, Bench


def test_a_value_is_kept_and_read_by_later_steps(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def measure(doc: holdfast.Document) -> dict[str, int]:
        return {"length": len(doc.payload["name"])}

    @pipeline.step
    def double(doc: holdfast.Document) -> int:
        return doc.output(measure)["length"] * 2

    bench.submit("four")
    assert bench.drain().done == 1
    assert bench.kept("double", "four") == [8]


@pytest.mark.parametrize("value", [None, [], [1, 2], {"a": 1}, "text", b"bytes", 0, False, [[1], []], "", {}])
def test_every_kind_of_value_comes_back_as_it_was(pipeline: holdfast.Pipeline, bench: Bench, value: object) -> None:
    seen: list[object] = []

    @pipeline.step
    def give(doc: holdfast.Document) -> object:
        return value

    @pipeline.step
    def look(doc: holdfast.Document) -> None:
        seen.append(doc.output(give))

    bench.submit("a")
    assert bench.drain().done == 1
    assert seen == [value]


def test_declared_types_come_back_as_themselves(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    seen: list[object] = []

    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[Page]:
        yield Page(1, "one", datetime(2026, 1, 1, tzinfo=UTC))

    @pipeline.step
    def look(doc: holdfast.Document) -> None:
        seen.extend(doc.output(pages))

    bench.submit("a")
    bench.drain()
    assert seen == [Page(1, "one", datetime(2026, 1, 1, tzinfo=UTC))]


class Page(msgspec.Struct):
    number: int
    text: str
    seen: datetime


def test_a_stream_goes_on_after_the_last_kept_item(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        for number in range(cursor, 6):
            if number == 4 and len(began) == 1:
                raise OSError("the disk hiccups")
            yield number

    bench.submit("a")
    assert bench.drain().done == 1
    assert began == [0, 4]
    assert bench.kept("pages") == [0, 1, 2, 3, 4, 5]


def test_items_before_an_error_are_kept_even_if_they_came_together(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=100, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        yield from range(cursor, 5)
        if len(began) == 1:
            raise OSError("after five")
        yield 5

    bench.submit("a")
    bench.drain()
    assert began == [0, 5]
    assert bench.kept("pages") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("every", "moves"), [(1, 11), (5, 3), (100, 1), (timedelta(hours=1), 1)])
def test_commits_come_as_often_as_declared(
    pipeline: holdfast.Pipeline, bench: Bench, every: int | timedelta, moves: int
) -> None:
    @pipeline.step(commit_every=every)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 10)

    bench.submit("a")
    assert bench.drain().moves == moves
    assert len(bench.kept("pages")) == 10


@pytest.mark.parametrize("where", ["thread", "process"])
def test_what_is_marked_as_the_last_is_committed_with_the_end(
    pipeline: holdfast.Pipeline, bench: Bench, where: Literal["thread", "process"]
) -> None:
    @pipeline.step(commit_every=1, runs_in=where)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 2)
        yield holdfast.last(2)

    bench.submit("a")
    assert bench.drain().moves == 3
    assert bench.kept("pages") == [0, 1, 2]


def test_what_comes_after_what_was_marked_as_the_last_is_kept_all_the_same(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 4):
            yield holdfast.last(number) if number == 1 else number

    bench.submit("a")
    assert bench.drain().moves == 4
    assert bench.kept("pages") == [0, 1, 2, 3]


def test_a_cursor_of_its_own_can_be_marked_as_the_last(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(commit_every=1)
    def records(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[str]]:
        yield At("x", "X")
        yield holdfast.last(At("y", "Y"))

    bench.submit("a")
    assert bench.drain().moves == 2
    assert bench.kept("records") == ["X", "Y"]


def test_an_error_after_what_was_marked_as_the_last_does_not_lose_it(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        if cursor == 0:
            yield holdfast.last(0)
            raise OSError("while it tidied up")

    bench.submit("a")
    assert bench.drain().done == 1
    assert began == [0, 1]
    assert bench.kept("pages") == [0]


def test_a_cursor_may_be_any_json(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    began: list[object] = []

    @pipeline.step(commit_every=1, retry=SOON)
    def records(doc: holdfast.Document, cursor: dict[str, str] | None = None) -> Iterator[At[str]]:
        began.append(cursor)
        names = ["a", "b", "c", "d"]
        for name in names[names.index(cursor["after"]) + 1 if cursor else 0 :]:
            if name == "c" and len(began) == 1:
                raise OSError("gone")
            yield At({"after": name}, name.upper())

    bench.submit("a")
    bench.drain()
    assert began == [None, {"after": "b"}]
    assert bench.kept("records") == ["A", "B", "C", "D"]


def test_a_stream_may_move_on_without_keeping(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def even(doc: holdfast.Document, cursor: int = 0) -> Iterator[At[int]]:
        for number in range(cursor, 10):
            yield At(number + 1, number) if number % 2 == 0 else At(number + 1)

    bench.submit("a")
    bench.drain()
    assert bench.kept("even") == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("back", [2, 1, None])
def test_a_cursor_that_does_not_move_on_is_refused(pipeline: holdfast.Pipeline, bench: Bench, back: int | None) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[At[str]]:
        yield At(1, "one")
        yield At(2, "two")
        yield At(back, "again")

    bench.submit("a")
    assert bench.drain().dead == 1
    assert "CursorMovedBack" in bench.standing().reason
    assert bench.standing().checkpoint.cursor == 2
    assert bench.kept("pages") == ["one", "two"]


def test_async_bodies_of_all_shapes_work(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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

    bench.submit("a", "b")
    assert bench.drain().done == 2
    assert bench.kept("total", "b") == [91]


def test_a_step_that_keeps_nothing_still_writes_its_effect(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("create table seen (n)")

    @pipeline.step(keep=False)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)

    @pages.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, numbers: list[int]) -> None:
        tx.executemany("insert into seen values (?)", [(number,) for number in numbers])

    bench.submit("a")
    bench.drain()
    assert bench.kept("pages") == []
    with bench.store._db.reading() as db:  # type: ignore[attr-defined]
        assert db.execute("select n from seen order by n").fetchall() == [(0,), (1,), (2,)]


def test_what_cannot_be_kept_is_told_with_its_place(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def give(doc: holdfast.Document) -> object:
        return {"pages": [{"when": {1, 2}}]}

    bench.submit("a")
    assert bench.drain().dead == 1
    assert "['pages'][0]['when'] is a builtins.set" in bench.standing().reason


def test_a_cursor_never_passes_an_item_that_could_not_be_kept(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    broken = {"is": True}

    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[object]:
        for number in range(cursor, 6):
            yield {number} if number == 2 and broken["is"] else number

    bench.submit("a")
    assert bench.drain().dead == 1
    assert bench.standing().checkpoint.cursor == 2
    broken["is"] = False
    bench.store.redrive([bench.standing().id], who="ada", reason="mended")
    assert bench.drain().done == 1
    assert bench.kept("pages") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "error",
    [
        holdfast.Reject("caf\udce9.pdf"),
        holdfast.RetryLater("later", after=timedelta.max),
        ValueError("caf\udce9.pdf"),
    ],
)
def test_an_error_with_odd_contents_fails_its_document_alone(
    pipeline: holdfast.Pipeline, bench: Bench, error: Exception
) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if doc.key == "odd":
            raise error
        return doc.key

    bench.submit("odd", "b", "c")
    assert bench.drain(budget=timedelta(seconds=0.5)).done == 2


def test_trouble_of_the_store_costs_a_document_nothing(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pipeline.step
    def first(doc: holdfast.Document) -> list[int]:
        return [1]

    @pipeline.step(retry=holdfast.Retry(attempts=1, base=timedelta(milliseconds=1), ceiling=timedelta(seconds=1)))
    def second(doc: holdfast.Document) -> int:
        return len(doc.output(first))

    monkeypatch.setattr("holdfast.engine.fresh.PIECE", 0)  # nothing is remembered, so it has to be read
    read, troubles = bench.store.read, [1, 2, 3]

    def troubled(*place: int) -> object:
        if troubles:
            troubles.pop()
            raise holdfast.StoreError("too many connections")
        return read(*place)

    monkeypatch.setattr(bench.store, "read", troubled)
    bench.submit("a")
    assert bench.drain().done == 1
    assert bench.verbs() == ["defer"] * 3


def test_reject_makes_a_dead_letter_at_once(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    tries: list[int] = []

    @pipeline.step(retry=SOON)
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        raise holdfast.Reject("it is encrypted")

    bench.submit("a")
    assert bench.drain().dead == 1
    assert len(tries) == 1
    assert bench.standing().reason == "Reject: it is encrypted"


def test_retry_later_costs_no_attempt(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    tries: list[int] = []

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        if len(tries) < 6:
            raise holdfast.RetryLater("throttled", after=0.001)

    bench.submit("a")
    assert bench.drain().done == 1
    assert bench.verbs() == ["defer"] * 5


def test_an_error_is_tried_again_and_then_dead(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    tries: list[int] = []

    @pipeline.step(retry=SOON)
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        raise OSError("no route")

    bench.submit("a")
    assert bench.drain().dead == 1
    assert len(tries) == 3
    story = bench.store.journal(bench.standing().id)
    assert [entry.verb for entry in story] == ["fail", "fail", "fail"]
    assert "no route" in story[-1].detail["error"]["traceback"]


def test_an_error_named_permanent_is_not_tried_again(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    tries: list[int] = []

    @pipeline.step(retry=holdfast.Retry(permanent=(PermissionError,)))
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        raise PermissionError("wrong key")

    bench.submit("a")
    assert bench.drain().dead == 1
    assert len(tries) == 1


def test_progress_gives_new_attempts(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    """Five hiccups at five pages are not one page that fails five times."""
    hiccups: set[int] = set()

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 5):
            if number not in hiccups:
                hiccups.add(number)
                raise OSError("hiccup")
            yield number

    bench.submit("a")
    assert bench.drain().done == 1


def test_pause_parks_until_its_time(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    tries: list[int] = []

    @pipeline.step
    def give(doc: holdfast.Document) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise holdfast.Pause("embargo", until=datetime.now(UTC) + timedelta(milliseconds=1))

    bench.submit("a")
    assert bench.drain().paused == 1
    assert bench.standing().state == "paused"
    bench.store.wake(bench.store.declare(pipeline.shape()), who="holdfast")
    assert bench.drain().done == 1


def test_a_gate_parks_and_a_person_lets_it_go_on(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def draft(doc: holdfast.Document) -> str:
        return "draft"

    pipeline.gate("human_review")

    @pipeline.step
    def publish(doc: holdfast.Document) -> str:
        return doc.output(draft) + " published"

    bench.submit("a")
    assert bench.drain().paused == 1
    assert "human_review" in bench.standing().reason
    plan = bench.store.declare(pipeline.shape())
    assert bench.store.resume(plan, [bench.standing().id], who="ada", reason="reads well")
    assert bench.drain().done == 1
    assert bench.kept("publish") == ["draft published"]
    assert bench.verbs() == ["resume"]


def test_verify_rewinds_to_the_step_whose_work_is_gone(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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

    bench.submit("a")
    assert bench.drain().done == 1
    assert runs == ["read", "index", "notify", "index", "notify"]
    assert bench.standing().checkpoint.generation == 1
    assert "rewind" in bench.verbs()
    assert bench.kept("index") == ["text"]
    assert bench.kept("read") == ["text"]


def test_an_idempotency_key_is_the_same_on_every_attempt(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    keys: list[str] = []

    @pipeline.step(retry=SOON)
    def pay(doc: holdfast.Document) -> None:
        keys.append(doc.idempotency_key(3))
        if len(keys) == 1:
            raise OSError("timeout")

    @pipeline.step
    def other(doc: holdfast.Document) -> None:
        keys.append(doc.idempotency_key(3))

    bench.submit("a")
    bench.drain()
    assert keys[0] == keys[1] != keys[2]
