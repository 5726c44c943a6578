"""The executor alone: a generator that anything can drive, here by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.moves import ACCEPTED, Refused
from holdfast.engine.calls import (
    Commit,
    Compute,
    GiveBack,
    MeasureExtent,
    Produced,
    Pulled,
    PullStream,
    Raised,
    Returned,
    RunValue,
    RunWindow,
)
from holdfast.engine.executor import Run, advance


class NoReader:
    def extent(self, step: str) -> int:
        raise AssertionError("the executor does no I/O")

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, str | bytes]]:
        raise AssertionError("the executor does no I/O")


def begin(pipeline: holdfast.Pipeline, checkpoint: Checkpoint | None = None, **claimed: Any) -> Run:
    at = checkpoint or Checkpoint(0, pipeline.first.name, None, 0)
    facts = {"attempts": 1, "crashes": 0, "cursor_age": timedelta(0), **claimed}
    claim = Claim(1, 1, "b", "a", None, "", at, **facts)
    document = holdfast.Document(pipeline=pipeline.name, batch="b", key="a", reader=NoReader())
    return advance(pipeline, claim, document, who="test")


def returned(request: Any, result: Any) -> list[Returned]:
    (call,) = request.calls
    return [Returned(call, result)]


@pytest.fixture
def pipeline() -> holdfast.Pipeline:
    return holdfast.Pipeline("p")


def test_each_step_is_durable_before_the_next_starts(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    pipeline.step(name="two")(lambda doc: 2)
    run = begin(pipeline)
    request = next(run)
    assert request == Compute((RunValue("one"),))
    request = run.send(returned(request, Produced((), None)))
    assert isinstance(request, Commit)
    assert request.move.after.step == "two"
    request = run.send(ACCEPTED)
    assert request == Compute((RunValue("two"),))
    request = run.send(returned(request, Produced((), None)))
    assert isinstance(request, Commit)
    assert request.move.state == "done"
    with pytest.raises(StopIteration):
        run.send(ACCEPTED)


def test_a_streams_items_are_durable_before_it_goes_on(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield 1

    run = begin(pipeline)
    request = next(run)
    request = run.send(returned(request, Pulled([], [], 3, 3, exhausted=False)))
    assert isinstance(request, Commit)
    assert (request.move.after.step, request.move.after.cursor) == ("pages", 3)
    assert run.send(ACCEPTED) == Compute((PullStream("pages", 3, 3),))


def test_a_resumed_stream_asks_where_its_items_end(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield 1

    run = begin(pipeline, Checkpoint(0, "pages", {"after": "x"}, 4))
    request = next(run)
    assert request == Compute((MeasureExtent("pages"),))
    assert run.send(returned(request, 7)) == Compute((PullStream("pages", {"after": "x"}, 7),))


def test_a_gap_behind_finished_windows_is_worked_off_first(pipeline: holdfast.Pipeline) -> None:
    source = pipeline.step(name="source")(lambda doc: [1])
    pipeline.step(name="walk", over=source, size=2, parallel=2)(lambda doc, items: items)
    run = begin(pipeline, Checkpoint(0, "walk", {"next": 2, "done": [[4, 8]]}, 3))
    request = next(run)
    assert request == Compute((MeasureExtent("source"),))
    assert run.send(returned(request, 10)) == Compute((RunWindow("walk", (2, 4)), RunWindow("walk", (8, 10))))


def test_an_error_is_given_back_with_its_story(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    run = begin(pipeline)
    request = next(run)
    assert isinstance(request, Compute)
    request = run.send([Raised(request.calls[0], OSError("no route"))])
    assert isinstance(request, GiveBack)
    assert (request.ending.state, request.ending.verb, request.ending.costs) == ("waiting", "fail", "attempt")
    assert str(request.ending.failure) == "OSError: no route"


def test_the_last_attempt_makes_a_dead_letter(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    run = begin(pipeline, attempts=3)
    request = next(run)
    assert isinstance(request, Compute)
    request = run.send([Raised(request.calls[0], OSError("no route"))])
    assert isinstance(request, GiveBack)
    assert request.ending.state == "dead"


def test_a_refused_effect_is_judged_like_an_error_of_the_body(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    run = begin(pipeline)
    request = next(run)
    request = run.send(returned(request, Produced((), None)))
    request = run.send(Refused(ValueError("not unique")))
    assert isinstance(request, GiveBack)
    assert str(request.ending.failure) == "ValueError: not unique"


def test_a_gate_parks_with_the_move_that_reaches_it(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    pipeline.gate("review")
    run = begin(pipeline)
    request = next(run)
    request = run.send(returned(request, Produced((), None)))
    assert isinstance(request, Commit)
    assert (request.move.state, request.move.after.step) == ("paused", "review")
    with pytest.raises(StopIteration):
        run.send(ACCEPTED)
