"""Bodies in child processes: real crashes, real limits, real kills."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import socketpair
from time import monotonic, sleep
from typing import Any

import pytest

import holdfast
from holdfast.core.errors import BodyCrashed, BodyError, BodyLost, CannotKeep, DefinitionError, StoreGone
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.crash_evidence import OomWatch
from holdfast.engine.executor_requests import PullStream, RunValue, RunVerify
from holdfast.engine.failure_policy import failure_of
from holdfast.engine.processes import BodyFailed, ProcessPool, child, pool
from holdfast.engine.processes.fork_server import KILL, REQUEST, ForkServer
from holdfast.engine.processes.remote_errors import decode_error, encode_error
from tests.support.pipeline_harness import SOON, PipelineHarness
from tests.support.polling import wait_for

Doc = holdfast.Document
MB = 1024 * 1024


class StoredItems:
    """Items of earlier steps, without a store."""

    def __init__(self, **kept: list[str]) -> None:
        self.kept = kept

    def next_position(self, step: str) -> int:
        if step not in self.kept:
            raise StoreGone("the database is gone")
        return len(self.kept[step])

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, str]]:
        return [(place, value) for place, value in enumerate(self.kept[step]) if start <= place < stop]

    def decision(self, step: str) -> holdfast.Decision | None:
        raise AssertionError("nothing is decided here")


def body_caller(pipeline: holdfast.Pipeline, **kept: list[str]) -> BodyCaller:
    document = Doc(pipeline=pipeline.name, batch="b", key="a", payload={"name": "a"}, reader=StoredItems(**kept))
    return BodyCaller(pipeline, document, stopping=lambda: False)


@pytest.fixture
def raised(pipeline: holdfast.Pipeline) -> Iterator[Callable[[], ProcessPool]]:
    """Create the process pool of the pipeline, after its steps are defined."""
    made: list[ProcessPool] = []

    def make() -> ProcessPool:
        made.append(ProcessPool(pipeline))
        return made[-1]

    yield make
    for one in made:
        one.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# crashes


def test_a_segfault_ends_only_the_attempt_of_its_document(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", retry=SOON)
    def parse(doc: Doc) -> str:
        if doc.key == "d3":
            ctypes.string_at(0)
        return doc.key

    harness.submit(*[f"d{n}" for n in range(10)])
    report = harness.drain()
    assert (report.done, report.dead) == (9, 1)
    assert "SIGSEGV" in harness.document("d3").reason


def test_crashes_are_counted_apart_from_attempts_and_end_in_a_dead_letter_with_its_traceback(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", retry=SOON)
    def parse(doc: Doc) -> None:
        os.abort()

    harness.submit("a")
    harness.drain()
    here = harness.document()
    assert (here.state, here.attempts, here.crashes) == ("dead", 0, SOON.crashes)
    entries = harness.store.journal(here.id)
    assert [(entry.verb, entry.detail["costs"]) for entry in entries] == [("fail", "crash")] * SOON.crashes
    error = entries[-1].detail["error"]
    assert error["kind"] == "BodyCrashed"
    assert error["message"] == "step 'parse' of 'a': its process was killed by SIGABRT (Aborted)"
    assert "in parse" in error["traceback"]
    assert "worker.py" not in error["traceback"]


def test_a_body_that_leaves_the_process_has_crashed(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        os._exit(7)

    with pytest.raises(BodyCrashed, match=r"step 'parse' of 'a': its process ended with exit code 7"):
        raised().run(body_caller(pipeline), RunValue("parse"))


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_child_that_was_killed_from_outside_is_lost_and_did_not_crash(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], name: str
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        os.kill(os.getpid(), signal.Signals[name])

    with pytest.raises(BodyLost, match=rf"{name} .*from outside: nothing says that the body caused it"):
        raised().run(body_caller(pipeline), RunValue("parse"))


def test_a_child_that_was_killed_when_memory_ran_out_crashed(
    pipeline: holdfast.Pipeline, monkeypatch: pytest.MonkeyPatch, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(OomWatch, "killed_recently", lambda _: True)
    with pytest.raises(BodyCrashed, match=r"because memory ran out; memory= sets a limit"):
        raised().run(body_caller(pipeline), RunValue("parse"))


def test_a_child_that_closes_its_connection_crashed(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        os.closerange(3, 100)
        sleep(60)

    with pytest.raises(BodyCrashed, match=r"closed its connection to the worker"):
        raised().run(body_caller(pipeline), RunValue("parse"))


def test_after_a_crash_the_next_call_gets_a_fresh_child(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], tmp_path: Path
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> int:
        if not (tmp_path / "crashed").exists():
            (tmp_path / "crashed").touch()
            os.abort()
        return os.getpid()

    children = raised()
    with pytest.raises(BodyCrashed):
        children.run(body_caller(pipeline), RunValue("parse"))
    (item,) = children.run(body_caller(pipeline), RunValue("parse")).items
    assert int(item.value) != os.getpid()


def test_a_crash_is_noticed_also_when_a_process_of_the_body_holds_the_line(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        if os.fork() == 0:
            sleep(60)
        os.abort()

    with pytest.raises(BodyCrashed, match="SIGABRT"):
        raised().run(body_caller(pipeline), RunValue("parse"))


def test_a_child_that_died_at_rest_is_not_blamed_on_the_next_document(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children = raised()
    first = int(children.run(body_caller(pipeline), RunValue("who")).items[0].value)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not is_running(first))
    second = int(children.run(body_caller(pipeline), RunValue("who")).items[0].value)
    assert second != first


def test_the_worker_goes_on_when_the_process_that_forks_is_killed(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children = raised()
    first = int(children.run(body_caller(pipeline), RunValue("who")).items[0].value)
    os.kill(children._fork_server.pid, signal.SIGKILL)
    wait_for(lambda: not is_running(first))
    assert int(children.run(body_caller(pipeline), RunValue("who")).items[0].value) != first


def test_a_stream_goes_on_at_its_cursor_after_a_crash_and_keeps_nothing_twice(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, tmp_path: Path
) -> None:
    began = tmp_path / "began"

    @pipeline.step(runs_in="process", commit_every=1, retry=SOON)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        with began.open("a") as log:
            log.write(f"{cursor}\n")
        for page in range(cursor, 10):
            if page == 6 and cursor == 0:
                ctypes.string_at(0)
            yield page

    harness.submit("a")
    assert harness.drain().done == 1
    assert harness.kept("pages") == list(range(10))
    assert began.read_text().split() == ["0", "6"]


# limits


def test_a_body_that_wants_too_much_memory_fails_with_the_limit_named(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", memory=64 * MB, retry=holdfast.Retry(attempts=1))
    def hog(doc: Doc) -> int:
        return len(bytearray(256 * MB if doc.key == "greedy" else 16 * MB))

    harness.submit("greedy", "modest")
    report = harness.drain()
    assert (report.done, report.dead) == (1, 1)
    reason = harness.document("greedy").reason
    assert reason == "MemoryError: step 'hog' wanted more than the 67,108,864 bytes that its memory= allows"


def test_memory_is_what_a_body_may_add_however_much_is_there(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    there = bytearray(128 * MB)

    @pipeline.step(runs_in="process", memory=64 * MB)
    def add(doc: Doc) -> int:
        return len(bytearray(32 * MB)) + len(there)

    assert raised().run(body_caller(pipeline), RunValue("add")).items[0].value == str(160 * MB)


def test_a_stream_has_its_memory_once_and_not_for_every_pull(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", memory=160 * MB, commit_every=1, retry=holdfast.Retry(attempts=1))
    def hog(doc: Doc, cursor: int = 0) -> Iterator[int]:
        held = []
        for n in range(cursor, 10):
            held.append(bytearray(40 * MB))  # so large that malloc finds no room for it in what is free already
            yield n

    harness.submit("a")
    harness.drain()
    assert harness.document().reason.startswith("MemoryError")
    assert 1 <= len(harness.kept("hog")) < 5


def test_a_body_that_takes_too_long_is_killed_and_the_others_go_on(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, tmp_path: Path
) -> None:
    once = holdfast.Retry(attempts=1)

    @pipeline.step(runs_in="process", timeout=timedelta(seconds=0.3), retry=once)
    def parse(doc: Doc) -> None:
        if doc.key == "stuck":
            tool = subprocess.Popen(["sleep", "60"])
            (tmp_path / "pids").write_text(f"{os.getpid()} {tool.pid}")
            tool.wait()

    harness.submit("stuck", "b", "c")
    report = harness.drain()
    assert (report.done, report.dead) == (2, 1)
    assert harness.document("stuck").reason.startswith("StepTimeout")
    wait_for(lambda: not any(is_running(int(pid)) for pid in (tmp_path / "pids").read_text().split()))


def test_a_call_that_was_ended_raises_and_one_that_is_not_out_has_nothing_to_end(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def stuck(doc: Doc) -> None:
        sleep(60)

    children, bodies, call = raised(), body_caller(pipeline), RunValue("stuck")
    assert not children.kill(call)
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(children.run, bodies, call)
        wait_for(lambda: children.kill(call))
        assert isinstance(answer.exception(timeout=10), BodyLost)
    assert not children.kill(call)


# what bodies read and return


def test_a_body_sees_its_document_in_the_child(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 2500)

    @pipeline.step
    def head(doc: Doc) -> dict[str, Any]:
        return {"key": doc.idempotency_key("x")}

    @pipeline.step(runs_in="process")
    def look(doc: Doc) -> dict[str, Any]:
        with ThreadPoolExecutor(4) as threads:
            sums = list(threads.map(lambda _: sum(doc.each(pages)), range(8)))
        return {
            "pid": os.getpid(),
            "whole": doc.output(head),
            "list": len(doc.output(pages)),
            "sums": sums,
            "from": next(doc.each(pages, start=2000)),
            "who": [doc.pipeline, doc.batch, doc.key, doc.payload, doc.generation, doc.step, bool(doc.fingerprint)],
            "key": doc.idempotency_key(1),
        }

    harness.submit("a")
    assert harness.drain().done == 1
    (seen,) = harness.kept("look")
    same = Doc(pipeline="p", batch="b", key="a", step="look", reader=StoredItems())
    assert seen["pid"] != os.getpid()
    assert seen["whole"] == harness.kept("head")[0]
    assert (seen["list"], seen["sums"], seen["from"]) == (2500, [sum(range(2500))] * 8, 2000)
    assert seen["who"] == ["p", "b", "a", {"name": "a"}, 0, "look", True]
    assert seen["key"] == same.idempotency_key(1)


def test_an_error_of_the_store_is_raised_in_the_body_that_reads(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step
    def pages(doc: Doc) -> list[int]:
        return []

    @pipeline.step(runs_in="process")
    def look(doc: Doc) -> str:
        try:
            return str(list(doc.each(pages)))
        except StoreGone as error:
            return f"caught {error}"

    assert raised().run(body_caller(pipeline), RunValue("look")).items[0].value == '"caught the database is gone"'


@dataclass
class Word:
    text: str


def remembered(pipeline: holdfast.Pipeline) -> dict[str, list[Any]]:
    """Give every step an effect that records its values."""
    seen: dict[str, list[Any]] = {step.name: [] for step in pipeline.steps}
    for step in pipeline.steps:
        step.effect(lambda tx, doc, value, name=step.name: seen[name].append(value))
    return seen


def test_an_effect_gets_the_values_as_they_are_kept(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(runs_in="process")
    def words(doc: Doc) -> list[Word]:
        return [Word("a"), Word("b")]

    @pipeline.step(runs_in="process")
    def whole(doc: Doc) -> Word:
        return Word("c")

    @pipeline.step(runs_in="process", commit_every=2)
    def stream(doc: Doc, cursor: int = 0) -> Iterator[Word]:
        yield from [Word("d"), Word("e")][cursor:]

    @pipeline.step(runs_in="process", over=words, size=2)
    def window(doc: Doc, given: list[Word]) -> list[Word]:
        return [Word(word.text.upper()) for word in given]

    @pipeline.step(runs_in="process", over=words)
    def single(doc: Doc, given: Word) -> Word:
        return Word(given.text * 2)

    seen = remembered(pipeline)
    harness.submit("a")
    assert harness.drain().done == 1
    assert seen == {
        "words": [[Word("a"), Word("b")]],
        "whole": [Word("c")],
        "stream": [[Word("d"), Word("e")]],
        "window": [[Word("A"), Word("B")]],
        "single": [Word("aa"), Word("bb")],
    }


def test_an_effect_gets_the_values_of_a_step_that_keeps_nothing(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", keep=False)
    def listed(doc: Doc) -> list[Word]:
        return [Word("f")]

    @pipeline.step(runs_in="process", keep=False)
    def stream(doc: Doc, cursor: int = 0) -> Iterator[bytes]:
        yield from [b"g"][cursor:]

    @pipeline.step(runs_in="process")
    def words(doc: Doc) -> list[Word]:
        return [Word("a"), Word("b")]

    @pipeline.step(runs_in="process", keep=False, over=words, size=2)
    def window(doc: Doc, given: list[Word]) -> list[Word]:
        return given[::-1]

    @pipeline.step(runs_in="process", keep=False, over=words)
    def single(doc: Doc, given: Word) -> Word:
        return given

    @pipeline.step(runs_in="process", keep=False)
    def nothing(doc: Doc) -> None:
        return None

    seen = remembered(pipeline)
    harness.submit("a")
    assert harness.drain().done == 1
    assert seen == {
        "listed": [[Word("f")]],
        "stream": [[b"g"]],
        "words": [[Word("a"), Word("b")]],
        "window": [[Word("b"), Word("a")]],
        "single": [Word("a"), Word("b")],
        "nothing": [None],
    }
    assert harness.kept("listed") + harness.kept("stream") + harness.kept("window") == []


def test_a_value_for_the_effect_that_is_not_json_is_refused(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process", keep=False)
    def parse(doc: Doc) -> Any:
        return object()

    @parse.effect
    def write(tx: holdfast.Tx, doc: Doc, value: Any) -> None: ...

    with pytest.raises(CannotKeep, match="what step 'parse' returned to its effect"):
        raised().run(body_caller(pipeline), RunValue("parse"))


def test_a_verify_is_asked_in_the_child(pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]) -> None:
    here = os.getpid()

    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None: ...

    @parse.verify
    def is_elsewhere(doc: Doc) -> bool:
        return os.getpid() != here

    assert raised().run(body_caller(pipeline), RunVerify("parse")) is True


def test_large_values_pass(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(runs_in="process")
    def text(doc: Doc) -> str:
        return "x" * 5 * MB

    @pipeline.step(runs_in="process")
    def again(doc: Doc) -> bytes:
        return doc.output(text).encode() * 2

    harness.submit("a")
    assert harness.drain().done == 1
    assert len(harness.kept("text")[0]) == 5 * MB
    assert harness.kept("again") == [b"x" * 10 * MB]


def test_async_bodies_run_in_a_loop_of_the_child(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    async def pages(doc: Doc, cursor: int = 0) -> AsyncIterator[int]:
        for page in range(cursor, 5):
            await asyncio.sleep(0)
            yield page

    @pipeline.step(runs_in="process", over=pages, size=2, parallel=2)
    async def double(doc: Doc, given: list[int]) -> list[int]:
        await asyncio.sleep(0.001)
        return [2 * page for page in given]

    @pipeline.step(runs_in="process")
    async def elsewhere(doc: Doc) -> bool:
        await asyncio.sleep(0)
        return os.getpid() != home

    home = os.getpid()
    harness.submit("a", "b", "c")
    assert harness.drain().done == 3
    assert harness.kept("pages") == [0, 1, 2, 3, 4]
    assert harness.kept("double") == [0, 2, 4, 6, 8]
    assert harness.kept("elsewhere") == [True]


def test_eight_threads_have_a_child_each(pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> list[Any]:
        sleep(0.02)
        return [doc.key, os.getpid()]

    children = raised()
    together = threading.Barrier(8)

    def call(key: str) -> list[Any]:
        bodies = body_caller(pipeline)
        bodies.document.key = key
        together.wait()
        return [item.value for _ in range(5) for item in children.run(bodies, RunValue("who")).items]

    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(call, [f"d{n}" for n in range(8)]))
    assert [set(one[::2]) for one in told] == [{f'"d{n}"'} for n in range(8)]
    assert len({pid for one in told for pid in one[1::2]}) == 8


def test_what_a_body_prints_is_seen(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], capfd: pytest.CaptureFixture[str]
) -> None:
    @pipeline.step(runs_in="process")
    def talk(doc: Doc) -> None:
        print("out of the child")
        os.write(2, b"aside\n")

    raised().run(body_caller(pipeline), RunValue("talk"))
    assert capfd.readouterr() == ("out of the child\n", "aside\n")


def test_what_programs_of_a_body_print_is_seen_and_the_result_arrives(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    noise = bytes(range(256)) * 400

    @pipeline.step(runs_in="process")
    def talk(doc: Doc) -> str:
        script = "import sys; noise = bytes(range(256)) * 400; sys.stdout.buffer.write(noise); sys.stderr.write('x')"
        subprocess.run([sys.executable, "-c", script], check=True, close_fds=False)
        return "result"

    (item,) = raised().run(body_caller(pipeline), RunValue("talk")).items
    assert item.value == '"result"'
    assert capfdbinary.readouterr() == (noise, b"x")


def _write_to_all_sockets(noise: bytes) -> None:
    for descriptor in range(3, 256):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, noise)


NOISE = {
    "zeros": bytes(64),
    "a question": b"\0" * 7 + b"\x09" + b"\x92\xa6extent\xa0",
    "a text": b"Warning: deprecated, see https://example.org\n" * 10,
    "a very long frame": b"\x7f" + b"\xff" * 63,
    "a short frame": b"\0" * 7 + b"\1" + b"\xc1" * 20,
}
"""What programs may write into pipes that they inherit, seen as frames of messages."""


@pytest.mark.parametrize("by", ["the body", "a child of the body"])
@pytest.mark.parametrize("kind", NOISE)
def test_noise_in_the_pipes_of_a_child_concerns_its_document_only(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, kind: str, by: str
) -> None:
    @pipeline.step(runs_in="process", retry=SOON)
    def parse(doc: Doc) -> str:
        if doc.key == "noisy" and (by == "the body" or not os.fork()):
            _write_to_all_sockets(NOISE[kind])
            if by != "the body":
                os._exit(0)
        return doc.key

    keys = [f"d{n}" for n in range(12)]
    harness.submit(*keys[:6], "noisy", *keys[6:])
    harness.drain()
    ends = {one.key: one.state for one in harness.store.documents(pipeline.name, limit=100)}
    assert ends.pop("noisy") in ("dead", "done")
    assert ends == dict.fromkeys(keys, "done")


def test_a_body_that_forks_and_forgets_answers_once(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process")
    def split(doc: Doc) -> int:
        me = os.getpid()
        os.fork()
        return os.getpid() - me

    children = raised()
    given = [children.run(body_caller(pipeline), RunValue("split")).items[0].value for _ in range(5)]
    assert given == ["0"] * 5


# what bodies raise


def test_an_error_arrives_with_kind_message_and_traceback(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1))
    def parse(doc: Doc) -> None:
        {}["page 7"]

    harness.submit("a")
    harness.drain()
    error = harness.store.journal(harness.document().id)[-1].detail["error"]
    assert (error["kind"], error["message"]) == ("KeyError", "'page 7'")
    assert "in parse" in error["traceback"]
    assert '{}["page 7"]' in error["traceback"]


def test_an_error_in_a_stream_comes_after_what_was_yielded_before(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1))
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)
        raise OSError(5, "torn page")

    harness.submit("a")
    harness.drain()
    assert harness.kept("pages") == [0, 1, 2]
    assert harness.document().reason == "OSError: [Errno 5] torn page"


class Torn(Exception):
    def __init__(self, page: int, *, of: int) -> None:
        super().__init__(f"page {page} of {of}")


def test_permanent_errors_are_known_again(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    class Local(Exception):
        pass

    class Deeper(ValueError):
        pass

    errors = {"builtin": ValueError("x"), "ours": Torn(1, of=2), "local": Local("x"), "deeper": Deeper("x")}
    permanent = holdfast.Retry(permanent=(ValueError, Torn, Local))

    @pipeline.step(runs_in="process", retry=permanent)
    def parse(doc: Doc) -> None:
        raise errors[doc.key]

    harness.submit(*errors)
    assert harness.drain().dead == len(errors)
    assert {key: harness.document(key).attempts for key in errors} == dict.fromkeys(errors, 1)
    assert harness.document("ours").reason == "Torn: page 1 of 2"
    assert harness.document("deeper").reason == "Deeper: x"


def test_signals_arrive_as_themselves(pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]) -> None:
    tomorrow = datetime(2031, 5, 6, tzinfo=UTC)

    @pipeline.step(runs_in="process")
    def later(doc: Doc) -> None:
        raise holdfast.RetryLater("busy", after=90)

    @pipeline.step(runs_in="process")
    def never(doc: Doc) -> None:
        raise holdfast.Reject("empty")

    @pipeline.step(runs_in="process")
    def parked(doc: Doc) -> None:
        raise holdfast.Pause("ask", until=tomorrow)

    @pipeline.step(runs_in="process")
    def wrong(doc: Doc) -> None:
        doc.output(unkept)

    @pipeline.step(keep=False)
    def unkept(doc: Doc) -> None: ...

    children, bodies = raised(), body_caller(pipeline)
    with pytest.raises(holdfast.RetryLater, match="busy") as put_off:
        children.run(bodies, RunValue("later"))
    with pytest.raises(holdfast.Reject, match="empty"):
        children.run(bodies, RunValue("never"))
    with pytest.raises(holdfast.Pause, match="ask") as pause:
        children.run(bodies, RunValue("parked"))
    with pytest.raises(BodyError, match="keeps nothing"):
        children.run(bodies, RunValue("wrong"))
    assert (put_off.value.after, pause.value.until) == (timedelta(seconds=90), tomorrow)


@pytest.mark.parametrize("word", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_leaving_python_is_an_error_of_the_body(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, word: BaseException
) -> None:
    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1))
    def parse(doc: Doc) -> None:
        if doc.key == "a":
            raise word

    harness.submit("a", "b")
    report = harness.drain()
    assert (report.done, report.dead) == (1, 1)
    assert harness.document("a").reason.startswith(type(word).__name__)
    assert harness.document("a").crashes == 0


def test_children_ignore_ctrl_c(pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]) -> None:
    @pipeline.step(runs_in="process")
    def steady(doc: Doc) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return os.getpgid(0) == os.getpid()

    assert raised().run(body_caller(pipeline), RunValue("steady")).items[0].value == "true"


def test_an_error_keeps_the_wait_that_a_service_asked_for() -> None:
    error = ConnectionError("slow down")
    error.retry_after = 12  # type: ignore[attr-defined]
    assert decode_error(encode_error(error)).retry_after == timedelta(seconds=12)  # type: ignore[attr-defined]


def test_an_error_of_an_unknown_class_keeps_its_class_name_and_message() -> None:
    class Unknown(Exception):
        pass

    error = decode_error(encode_error(Unknown("what a day")))
    assert type(error) is BodyFailed
    assert (failure_of(error).kind, failure_of(error).message) == ("Unknown", "what a day")


def test_errors_whose_message_cannot_be_read_are_sent() -> None:
    class Mute(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    mute = decode_error(encode_error(Mute()))
    assert isinstance(mute, ValueError)
    assert "cannot be read" in failure_of(mute).message
    assert failure_of(decode_error(encode_error(ValueError("\ud800")))).message == "?"
    assert failure_of(decode_error(encode_error(ExceptionGroup("two", [ValueError("x")])))).kind == "ExceptionGroup"


# start and end of children


def test_children_are_used_again_and_replaced_after_many_calls(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "MAX_CALLS", 10)

    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children, bodies = raised(), body_caller(pipeline)
    pids = [children.run(bodies, RunValue("who")).items[0].value for _ in range(30)]
    assert [pids[n : n + 10] for n in (0, 10, 20)] == [[pid] * 10 for pid in dict.fromkeys(pids)]


def test_a_child_that_has_grown_is_replaced(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "MAX_GROWTH", 64 * MB)
    leak: list[bytearray] = []

    @pipeline.step(runs_in="process")
    def grow(doc: Doc) -> int:
        leak.append(bytearray(b"x") * 40 * MB)  # so large that malloc finds no room for it in what is free already
        return len(leak)

    children, bodies = raised(), body_caller(pipeline)
    leaked = [int(children.run(bodies, RunValue("grow")).items[0].value) for _ in range(12)]
    assert leaked.count(1) > 1
    assert max(leaked) < 6


def test_an_open_stream_keeps_its_child_until_its_caller_is_closed(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], tmp_path: Path
) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        try:
            while True:
                yield os.getpid()
        finally:
            (tmp_path / "tidy").touch()

    children, bodies, other = raised(), body_caller(pipeline), body_caller(pipeline)
    first, again = (children.run(bodies, PullStream("pages", None, 0)).items[0].value for _ in range(2))
    assert first == again
    assert children.run(other, PullStream("pages", None, 0)).items[0].value != first
    bodies.close()
    wait_for(lambda: not is_running(int(first)))
    assert (tmp_path / "tidy").exists()


def test_the_child_of_a_garbage_collected_caller_exits(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool]
) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        while True:
            yield os.getpid()

    children, bodies = raised(), body_caller(pipeline)
    pid = int(children.run(bodies, PullStream("pages", None, 0)).items[0].value)
    del bodies
    wait_for(lambda: not is_running(pid))


def test_more_streams_than_may_be_open_go_on_at_their_cursors(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MAX_OPEN_STREAMS", 2)

    @pipeline.step(runs_in="process", commit_every=3)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 10)

    keys = [f"d{n}" for n in range(8)]
    harness.submit(*keys)
    assert harness.drain().done == 8
    assert [harness.kept("pages", key) for key in keys] == [list(range(10))] * 8


def test_a_stream_that_is_opened_again_in_another_child_is_resumed(
    pipeline: holdfast.Pipeline, raised: Callable[[], ProcessPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MAX_OPEN_STREAMS", 1)

    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[bool]:
        while True:
            yield doc.resumed

    children, bodies, others = raised(), body_caller(pipeline), body_caller(pipeline)
    assert children.run(bodies, PullStream("pages", None, 0)).items[0].value == "false"
    children.run(others, PullStream("pages", None, 0))  # takes the one place for an open stream
    assert children.run(bodies, PullStream("pages", 1, 1)).items[0].value == "true"


def test_a_stream_in_a_child_stops_at_its_next_item_when_the_worker_stops(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(runs_in="process", commit_every=timedelta(hours=1))
    def numbers(doc: Doc, cursor: int = 0) -> Iterator[int]:
        while True:
            sleep(0.01)
            yield cursor
            cursor += 1

    harness.submit("a")
    began = monotonic()
    harness.drain(budget=timedelta(seconds=1.5))
    assert monotonic() - began < 30
    here = harness.document()
    assert (here.state, here.attempts) == ("waiting", 0)
    assert harness.kept("numbers") == list(range(here.checkpoint.cursor))
    assert here.checkpoint.cursor > 0


def test_children_hold_nothing_of_the_store(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(runs_in="process")
    def held(doc: Doc) -> list[str]:
        files = [file for pid in (os.getpid(), os.getppid()) for file in Path(f"/proc/{pid}/fd").iterdir()]
        return [str(file.readlink()) for file in files if file.is_symlink()]

    harness.submit("a")
    assert harness.drain().done == 1
    assert [name for name in harness.kept("held") if "engine.db" in name] == []


def test_a_closed_pool_leaves_no_process_behind(pipeline: holdfast.Pipeline, tmp_path: Path) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        while True:
            yield os.getpid()

    @pipeline.step(runs_in="process")
    def stuck(doc: Doc) -> None:
        (tmp_path / "stuck").write_text(str(os.getpid()))
        sleep(60)

    children, bodies = ProcessPool(pipeline), body_caller(pipeline)
    pids = [children._fork_server.pid, int(children.run(bodies, PullStream("pages", None, 0)).items[0].value)]
    with ThreadPoolExecutor() as threads:
        threads.submit(children.run, body_caller(pipeline), RunValue("stuck"))
        wait_for((tmp_path / "stuck").exists)
        wait_for(lambda: bool((tmp_path / "stuck").read_text()))
        children.close()
    pids.append(int((tmp_path / "stuck").read_text()))
    assert [pid for pid in pids if is_running(pid)] == []


WORKER = """
import os, subprocess, sys, time
import holdfast

p = holdfast.Pipeline("p")

@p.step(runs_in="process")
def stuck(doc):
    tool = subprocess.Popen(["sleep", "60"])
    with open(f"{sys.argv[1]}/{doc.key}.pids", "w") as f:
        f.write(f"{os.getpid()} {os.getppid()} {tool.pid}")
    os.rename(f"{sys.argv[1]}/{doc.key}.pids", f"{sys.argv[1]}/{doc.key}.ready")
    time.sleep(60)

with holdfast.open(f"sqlite:///{sys.argv[1]}/w.db") as store:
    holdfast.submit(p, store, batch="b", documents=[("a", 1), ("b", 2)])
    holdfast.drain(p, store, threads=2)
"""


def test_a_killed_worker_leaves_no_process_behind(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)])
    try:
        wait_for(lambda: len(list(tmp_path.glob("*.ready"))) == 2)
        pids = {int(pid) for file in tmp_path.glob("*.ready") for pid in file.read_text().split()}
        assert len(pids) == 5
        assert all(map(is_running, pids))
    finally:
        worker.kill()
        worker.wait()
    wait_for(lambda: not any(map(is_running, pids)))


def test_a_worker_may_run_in_any_thread(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    harness.submit("a", "b")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(harness.drain).result().done == 2
    assert harness.kept("who") != [os.getpid()]


def test_a_closed_pool_starts_no_process(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children = ProcessPool(pipeline)
    children.close()
    with pytest.raises(holdfast.RetryLater, match="stopped"):
        children.run(body_caller(pipeline), RunValue("who"))


def test_a_system_without_fork_is_refused_when_the_worker_starts(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None: ...

    harness.submit("a")
    monkeypatch.delattr(os, "fork")
    with pytest.raises(DefinitionError, match=r"runs_in=\"process\" \(parse\), which needs fork"):
        harness.drain()


def test_a_worker_that_dies_while_it_waits_for_a_reply_leaves_no_process_behind(pipeline: holdfast.Pipeline) -> None:
    """A reply that cannot be sent must not end the fork server: it has to kill its children first."""
    here, there = socketpair()
    server = ForkServer(there, os.getpid(), pipeline, lambda: False)
    here.sendall(REQUEST.pack(KILL, 0) * 2)
    here.close()
    with there:
        assert [server._handle_request() for _ in range(2)][-1] is False
