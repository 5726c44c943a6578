"""Messages of a hijacked child: it may send anything, and harms only its own document."""

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
from holdfast.engine.executor_requests import RunValue
from holdfast.engine.processes import ProcessPool
from holdfast.engine.processes.call_codec import decode_result
from holdfast.engine.processes.messages import HEADER, MARK, ChannelClosed, InvalidMessage, MessageChannel, ValueResult
from holdfast.engine.processes.remote_errors import RemoteError, decode_error
from tests.engine.processes.test_pool import body_caller


def received(sent: bytes) -> object:
    here, there = socketpair()
    with here, there:
        there.sendall(sent)
        there.close()
        return MessageChannel(here).receive()


def test_a_length_beyond_all_memory_is_not_allocated() -> None:
    for length in (1 << 40, (1 << 64) - 1):
        with pytest.raises(ChannelClosed):
            received(HEADER.pack(MARK, length) + b"a little")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x93\xa5value\x01\x02",
        b"\x91\xa4\xff\xff\xff\xff",
        b"\x91" * 5000,
    ],
)
def test_bytes_that_are_no_message_are_refused(frame: bytes) -> None:
    with pytest.raises(InvalidMessage, match="not a message"):
        received(HEADER.pack(MARK, len(frame)) + frame)


NOISE = {"a text": b"Warning: deprecated\n", "ones": b"\xff" * 64, "zeros": bytes(64), "almost": MARK[:3] + bytes(9)}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_bytes_without_the_mark_are_refused_at_once(noise: bytes) -> None:
    here, there = socketpair()
    with here, there:
        there.sendall(noise)  # and it stays open: a length in it would never arrive
        with pytest.raises(InvalidMessage, match="wrote into its connection"):
            MessageChannel(here).receive()


def test_a_large_message_arrives_whole() -> None:
    here, there = socketpair()
    with here, there:
        import threading

        message = ValueResult([(0, b"x" * (5 << 20))], True)
        sender = threading.Thread(target=MessageChannel(there).send, args=(message,))
        sender.start()
        assert MessageChannel(here).receive() == message
        sender.join()


@pytest.mark.parametrize("seconds", [1e300, float("inf"), float("nan"), -1e300])
def test_a_wait_that_no_clock_counts_is_cut(seconds: float) -> None:
    remote = RemoteError(
        ["holdfast.core.errors:RetryLater"], Failure("RetryLater", "later"), after=seconds, retry_after=seconds
    )
    error = decode_error(remote)
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
        with pytest.raises(BodyCrashed, match="sent a result that cannot be read"):
            decode_result(count, ValueResult([(0, value)], True))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to find the socket")
def test_a_child_that_babbles_has_crashed_and_the_next_document_gets_another(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(runs_in="process")
    def babble(doc: holdfast.Document) -> str:
        for file in Path("/proc/self/fd").iterdir():
            if file.is_socket():
                os.write(int(file.name), HEADER.pack(MARK, 3) + b"???")
        return "never heard"

    @pipeline.step(runs_in="process")
    def speak(doc: holdfast.Document) -> str:
        return "heard"

    pool = ProcessPool(pipeline)
    try:
        with pytest.raises(BodyCrashed, match="its process sent an invalid message"):
            pool.run(body_caller(pipeline), RunValue("babble"))
        assert pool.run(body_caller(pipeline), RunValue("speak")).items[0].value == '"heard"'
    finally:
        pool.close()
