"""The executor alone: a generator that the tests drive themselves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.moves import ACCEPTED, Refused
from holdfast.engine.executor import Run, advance
from holdfast.engine.executor_requests import (
    CommitMove,
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
    Yielded,
)
from tests.support.pipeline_harness import NoReader


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
    assert isinstance(request, CommitMove)
    assert request.move.after.step == "two"
    request = run.send(ACCEPTED)
    assert request == Compute((RunValue("two"),))
    request = run.send(returned(request, Produced((), None)))
    assert isinstance(request, CommitMove)
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
    assert isinstance(request, CommitMove)
    assert (request.move.after.step, request.move.after.cursor) == ("pages", 3)
    assert run.send(ACCEPTED) == Compute((PullStream("pages", 3, 3),))


def part_way(pipeline: holdfast.Pipeline) -> tuple[Run, PullStream, CommitMove]:
    """Return a stream whose first three items are to be committed while its body goes on."""

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield 1

    run = begin(pipeline)
    (call,) = next(run).calls  # type: ignore[union-attr]
    assert isinstance(call, PullStream)
    request = run.send([Yielded(call, Pulled([], [], 3, 3, exhausted=False))])
    assert isinstance(request, CommitMove)
    assert request.move.after.cursor == 3
    return run, call, request


def test_after_a_part_of_a_stream_the_rest_of_the_same_call_is_waited_for(pipeline: holdfast.Pipeline) -> None:
    run, call, _ = part_way(pipeline)
    assert run.send(ACCEPTED) == Compute(())
    request = run.send([Yielded(call, Pulled([], [], 5, 5, exhausted=False))])
    assert request.move.after.cursor == 5
    assert run.send(ACCEPTED) == Compute(())
    request = run.send([Returned(call, Pulled([], [], 6, 6, exhausted=False))])
    assert request.move.after.cursor == 6
    assert run.send(ACCEPTED) == Compute((PullStream("pages", 6, 6),))


def test_results_that_came_during_the_commit_of_a_part_are_committed_in_their_order(
    pipeline: holdfast.Pipeline,
) -> None:
    run, call, _ = part_way(pipeline)
    assert run.send(ACCEPTED) == Compute(())
    part, rest = Pulled([], [], 4, 4, exhausted=False), Pulled([], [], 6, 6, exhausted=True)
    request = run.send([Yielded(call, part), Returned(call, rest)])
    assert request.move.after.cursor == 4
    assert run.send(ACCEPTED).move.state == "done"  # type: ignore[union-attr]


def test_an_error_after_a_part_is_given_back_as_one_after_progress(pipeline: holdfast.Pipeline) -> None:
    run, call, _ = part_way(pipeline)
    run.send(ACCEPTED)
    request = run.send([Raised(call, OSError("gone"))])
    assert isinstance(request, GiveBack)
    assert (request.release.state, request.release.costs) == ("dead", "attempt")


def test_a_refused_part_is_given_back_when_its_body_has_stopped(pipeline: holdfast.Pipeline) -> None:
    run, call, _ = part_way(pipeline)
    part, rest = Pulled([], [], 4, 4, exhausted=False), Pulled([], [], 5, 5, exhausted=False)
    assert run.send(Refused(OSError("the effect failed"))) == Compute(())
    assert run.send([Yielded(call, part)]) == Compute(())
    request = run.send([Returned(call, rest)])
    assert isinstance(request, GiveBack)
    assert "the effect failed" in str(request.release.failure)


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
    assert (request.release.state, request.release.verb, request.release.costs) == ("waiting", "fail", "attempt")
    assert str(request.release.failure) == "OSError: no route"


def test_the_last_attempt_makes_a_dead_letter(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    run = begin(pipeline, attempts=3)
    request = next(run)
    assert isinstance(request, Compute)
    request = run.send([Raised(request.calls[0], OSError("no route"))])
    assert isinstance(request, GiveBack)
    assert request.release.state == "dead"


def test_a_refused_effect_is_judged_like_an_error_of_the_body(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    run = begin(pipeline)
    request = next(run)
    request = run.send(returned(request, Produced((), None)))
    request = run.send(Refused(ValueError("not unique")))
    assert isinstance(request, GiveBack)
    assert str(request.release.failure) == "ValueError: not unique"


def test_a_gate_parks_with_the_move_that_reaches_it(pipeline: holdfast.Pipeline) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    pipeline.gate("review")
    run = begin(pipeline)
    request = next(run)
    request = run.send(returned(request, Produced((), None)))
    assert isinstance(request, CommitMove)
    assert (request.move.state, request.move.after.step) == ("paused", "review")
    with pytest.raises(StopIteration):
        run.send(ACCEPTED)
