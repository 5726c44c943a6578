"""What a worker hears: a child that was taken over may say anything, and takes nobody along."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from socket import socketpair

import pytest

import holdfast
from holdfast.core.errors import BodyCrashed
from holdfast.core.model import Failure
from holdfast.core.retry import LONGEST
from holdfast.engine.calls import RunValue
from holdfast.engine.isolation import Nursery
from holdfast.engine.isolation.stories import Told, retold
from holdfast.engine.isolation.talk import LENGTH, Garbled, Gave, Hangup, Talk
from holdfast.engine.isolation.translation import result_of
from tests.engine.test_isolation import desk_of


def heard(said: bytes) -> object:
    here, there = socketpair()
    with here, there:
        there.sendall(said)
        there.close()
        return Talk(here).hear()


def test_a_length_that_nobody_has_memory_for_is_not_allocated() -> None:
    for length in (1 << 40, (1 << 64) - 1):
        with pytest.raises(Hangup):
            heard(LENGTH.pack(length) + b"a little")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x93\xa4gave\x01\x02",
        b"\x91\xa4\xff\xff\xff\xff",
        b"\x91" * 5000,
    ],
)
def test_what_is_no_message_is_garbled(frame: bytes) -> None:
    with pytest.raises(Garbled, match="no message"):
        heard(LENGTH.pack(len(frame)) + frame)


def test_a_large_message_arrives_whole() -> None:
    here, there = socketpair()
    with here, there:
        import threading

        said = Gave([(0, b"x" * (5 << 20))], True)
        saying = threading.Thread(target=Talk(there).say, args=(said,))
        saying.start()
        assert Talk(here).hear() == said
        saying.join()


@pytest.mark.parametrize("seconds", [1e300, float("inf"), float("nan"), -1e300])
def test_a_wait_that_no_clock_counts_is_cut(seconds: float) -> None:
    told = Told(["holdfast.core.errors:RetryLater"], Failure("RetryLater", "later"), after=seconds, retry_after=seconds)
    error = retold(told)
    assert isinstance(error, holdfast.RetryLater)
    assert timedelta(0) <= (error.after or timedelta(0)) <= LONGEST


def test_a_value_that_is_not_what_the_step_gives_is_a_crash() -> None:
    pipeline = holdfast.Pipeline("papers")

    @pipeline.step
    def count(doc: holdfast.Document) -> list[int]:
        return [1]

    @count.effect
    def write(tx: object, doc: holdfast.Document, value: list[int]) -> None: ...

    for value in ('"a"', "[", [1], None):
        with pytest.raises(BodyCrashed, match="gave what cannot be read"):
            result_of(count, Gave([(0, value)], True))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to find the line")
def test_a_child_that_babbles_has_crashed_and_the_next_document_gets_another(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(runs_in="process")
    def babble(doc: holdfast.Document) -> str:
        for file in Path("/proc/self/fd").iterdir():
            if file.is_socket():
                os.write(int(file.name), LENGTH.pack(3) + b"???")
        return "never heard"

    @pipeline.step(runs_in="process")
    def speak(doc: holdfast.Document) -> str:
        return "heard"

    nursery = Nursery(pipeline)
    try:
        with pytest.raises(BodyCrashed, match="its process went mad"):
            nursery.run(desk_of(pipeline), RunValue("babble"))
        assert nursery.run(desk_of(pipeline), RunValue("speak")).items[0].value == '"heard"'
    finally:
        nursery.close()
