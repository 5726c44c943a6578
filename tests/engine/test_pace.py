"""How long bodies take is written down, by step, so that the next run can tell how long it will take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from time import sleep

import pytest

import holdfast
from holdfast.core.model import Checkpoint
from holdfast.core.moves import Move
from holdfast.engine.bodies import Desk
from holdfast.engine.budget import Budget
from holdfast.engine.calls import Returned, RunValue
from holdfast.engine.events import Committed, Event, Paced
from holdfast.engine.stopwatch import Stopwatch
from tests.engine.conftest import SOON, Bench


def test_a_drain_leaves_the_pace_of_its_steps_behind(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def quick(doc: holdfast.Document) -> None:
        return None

    @pipeline.step
    def slow(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            sleep(0.01)
            yield number

    bench.submit("a", "b")
    bench.drain()
    paces = bench.store.paces("p")
    assert [paces[step][0] for step in ("quick", "slow")] == [2, 2]
    assert paces["slow"][1] >= 0.06 > paces["quick"][1]


def test_bodies_on_the_loop_and_in_windows_are_timed_too(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def numbers(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3, 4]

    @pipeline.step(over=numbers, size=2)
    async def wait(doc: holdfast.Document, some: list[int]) -> list[int]:
        await asyncio.sleep(0.02)
        return some

    bench.submit("a")
    bench.drain()
    documents, seconds = bench.store.paces("p")["wait"]
    assert documents == 1
    assert 0.04 <= seconds < 1.0


def test_the_time_of_a_body_that_fails_is_spent_as_well(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def fail(doc: holdfast.Document) -> None:
        sleep(0.02)
        raise ValueError("no")

    bench.submit("a")
    bench.drain()
    documents, seconds = bench.store.paces("p")["fail"]
    assert documents == 0
    assert seconds >= 0.02


def test_verifying_is_not_the_work_of_a_step(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    tried: list[str] = []

    @pipeline.step
    def keep(doc: holdfast.Document) -> int:
        return 1

    @keep.verify
    def kept(doc: holdfast.Document) -> bool:
        sleep(0.1)
        return True

    @pipeline.step(retry=SOON)
    def fail_once(doc: holdfast.Document) -> None:
        tried.append(doc.key)
        if len(tried) == 1:
            raise ValueError("no")

    bench.submit("a")
    assert bench.drain().done == 1
    assert bench.store.paces("p")["keep"][1] < 0.1


def test_two_runs_add_up(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    pipeline.step(name="work")(lambda doc: None)
    for key in ("a", "b"):
        bench.submit(key)
        bench.drain()
    assert bench.store.paces("p")["work"][0] == 2


def test_listeners_hear_what_is_written_down(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    said: list[Event] = []
    pipeline.step(name="work")(lambda doc: None)
    bench.submit(*"abc")
    bench.drain(listeners=[said.append])
    paced = [event for event in said if isinstance(event, Paced)]
    assert sum(event.spent["work"][0] for event in paced) == 3
    assert sum(event.spent["work"][1] for event in paced) == pytest.approx(bench.store.paces("p")["work"][1])


def test_a_worker_that_works_for_long_tells_its_pace_meanwhile(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.rounds.UPKEEP", 0.0)
    seen: list[int] = []

    @pipeline.step
    def first(doc: holdfast.Document) -> None:
        return None

    @pipeline.step
    def look(doc: holdfast.Document) -> None:
        for _ in range(200):
            if bench.store.paces("p"):
                seen.append(bench.store.paces("p")["first"][0])
                return
            sleep(0.01)

    bench.submit("a")
    bench.drain()
    assert seen == [1]


def test_events_say_who_speaks_and_of_which_pipeline(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    said: list[Event] = []
    pipeline.step(name="work")(lambda doc: None)
    bench.submit("a")
    bench.drain(listeners=[said.append], name="ann", budget=timedelta(seconds=30))
    (committed,) = [event for event in said if isinstance(event, Committed)]
    assert (committed.pipeline, committed.worker) == ("p", "ann")


def test_time_is_told_with_the_document_that_it_was_spent_on() -> None:
    watch = Stopwatch()
    desks = [Desk(None, None, bool) for _ in range(8)]  # type: ignore[arg-type]  # who it is is enough
    watch.heard([(desk, Returned(RunValue("read"), None), 10.0) for desk in desks])  # type: ignore[arg-type]
    assert watch.read() == {}
    watch.committed(desks[0], past("read"))
    assert watch.read() == {"read": (1, 10.0)}
    for desk in desks[1:4]:
        watch.let_go(desk)
    assert watch.read() == {"read": (0, 30.0)}, "what failed, or was given back, was spent as well"
    watch.let_go(desks[0])
    assert watch.read() == {}, "and nothing twice"


def past(step: str) -> Move:
    here = Checkpoint(0, step, None, 0)
    return Move(None, here, Checkpoint(0, None, None, 1), "done")  # type: ignore[arg-type]  # whose it is is known


def test_what_was_spent_on_a_document_that_was_given_back_is_counted(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    budget = Budget()

    @pipeline.step
    def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 2):
            sleep(0.02)
            budget.stop("enough")
            yield number

    bench.submit("a")
    bench.drain(budget=budget)
    assert bench.standing().state == "waiting"
    documents, seconds = bench.store.paces("p")["read"]
    assert (documents, seconds >= 0.02) == (0, True)
    bench.drain()
    documents, seconds = bench.store.paces("p")["read"]
    assert (documents, 0.04 <= seconds < 0.2) == (1, True)
