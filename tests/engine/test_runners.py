"""Runners: how long calls run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.model import Checkpoint, Claim
from holdfast.engine import body_calls, runners, stream_collector
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.claimed_document import ClaimedDocument
from holdfast.engine.executor_requests import PullStream, Yielded
from holdfast.engine.runners import Runners
from tests.support.pipeline_harness import NoReader
from tests.support.polling import wait_for

HOUR = timedelta(hours=1)
CLAIM = Claim(1, 1, "b", "a", None, "", Checkpoint(0, "pages", None, 0), 1, 0, timedelta(0))


class Watch:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    for module in (body_calls, runners, stream_collector):
        monkeypatch.setattr(module, "monotonic", watch)
    return watch


class SilentStream:
    """A stream that has yielded one item, and is silent until the test ends."""

    def __init__(self, pipeline: holdfast.Pipeline) -> None:
        self.is_silent, self.may_end = threading.Event(), threading.Event()

        @pipeline.step(commit_every=timedelta(minutes=1), timeout=HOUR)
        def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
            yield 0
            self.is_silent.set()
            self.may_end.wait(30)

        document = holdfast.Document(pipeline="p", batch="b", key="a", reader=NoReader())
        bodies = BodyCaller(pipeline, document, stopping=lambda: False)
        reader: Any = NoReader()
        self.document = ClaimedDocument(claim=CLAIM, reader=reader, bodies=bodies, executor=iter(()))  # type: ignore[arg-type]
        self.call = PullStream("pages", None, 0)
        self.runners = Runners(pipeline, threads=1, after_calls=lambda _: True)
        self.runners.start([(self.document, self.call)])
        self.is_silent.wait(30)

    @property
    def is_overdue(self) -> bool:
        return self.runners.find_overdue({"pages": HOUR}) == [(self.document, self.call)]


@pytest.fixture
def stream(pipeline: holdfast.Pipeline, watch: Watch) -> Iterator[SilentStream]:
    stream = SilentStream(pipeline)
    yield stream
    stream.may_end.set()
    wait_for(lambda: stream.runners.has_results)
    stream.runners.close()


def test_a_stream_of_which_nothing_is_committed_is_overdue(stream: SilentStream, watch: Watch) -> None:
    watch.now += 3599
    assert not stream.is_overdue
    watch.now += 1
    assert stream.is_overdue


def test_a_timeout_is_counted_from_the_last_part_that_was_taken(stream: SilentStream, watch: Watch) -> None:
    watch.now += 3000
    stream.document.bodies.take_part(stream.call, lambda part: None)
    watch.now += 3599
    assert not stream.is_overdue
    watch.now += 1
    assert stream.is_overdue


def test_a_timeout_is_counted_from_the_last_part_that_a_child_sent(stream: SilentStream, watch: Watch) -> None:
    watch.now += 3000
    part: Any = object()
    stream.runners._running[threading.get_ident()] = (stream.document, stream.call, 100.0)
    stream.runners._add_part(stream.document, stream.call, part)
    del stream.runners._running[threading.get_ident()]
    assert stream.runners.take_results() == [(stream.document, Yielded(stream.call, part), 100.0, 0.0)]
    watch.now += 3599
    assert not stream.is_overdue
    watch.now += 1
    assert stream.is_overdue


def test_only_streams_of_the_given_steps_are_running_streams(stream: SilentStream) -> None:
    assert stream.runners.running_streams({"pages"}) == [(stream.document, stream.call, 100.0)]
    assert stream.runners.running_streams({"others"}) == []
