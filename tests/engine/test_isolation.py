"""Isolation: real crashes, real limits, real kills, in children of the worker."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import socketpair
from time import monotonic, sleep
from typing import Any

import pytest

import holdfast
from holdfast.core.errors import BodyCrashed, BodyError, CannotKeep, DefinitionError, StoreGone
from holdfast.engine.bodies import Desk
from holdfast.engine.calls import AskVerify, PullStream, RunValue
from holdfast.engine.isolation import BodyFailed, Nursery, child, nursery
from holdfast.engine.isolation.stories import retold, tell
from holdfast.engine.isolation.tending import END, REQUEST, Tending
from holdfast.engine.verdicts import failure_of
from tests.engine.conftest import SOON, Bench

Doc = holdfast.Document
MB = 1024 * 1024


class Shelf:
    """Items of earlier steps, without a store."""

    def __init__(self, **kept: list[str]) -> None:
        self.kept = kept

    def extent(self, step: str) -> int:
        if step not in self.kept:
            raise StoreGone("the shelf fell down")
        return len(self.kept[step])

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, str]]:
        return [(place, value) for place, value in enumerate(self.kept[step]) if start <= place < stop]

    def decision(self, step: str) -> holdfast.Decision | None:
        raise AssertionError("nothing is decided here")


def desk_of(pipeline: holdfast.Pipeline, **kept: list[str]) -> Desk:
    document = Doc(pipeline=pipeline.name, batch="b", key="a", payload={"name": "a"}, reader=Shelf(**kept))
    return Desk(pipeline, document, stopping=lambda: False)


@pytest.fixture
def raised(pipeline: holdfast.Pipeline) -> Iterator[Callable[[], Nursery]]:
    """Makes the nursery of the pipeline, once its steps are written."""
    made: list[Nursery] = []

    def make() -> Nursery:
        made.append(Nursery(pipeline))
        return made[-1]

    yield make
    for one in made:
        one.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(is_so: Callable[[], bool]) -> bool:
    deadline = monotonic() + 10
    while not is_so() and monotonic() < deadline:
        sleep(0.005)
    return is_so()


# crashes


def test_a_segfault_ends_only_the_attempt_of_its_document(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process", retry=SOON)
    def parse(doc: Doc) -> str:
        if doc.key == "d3":
            ctypes.string_at(0)
        return doc.key

    bench.submit(*[f"d{n}" for n in range(10)])
    report = bench.drain()
    assert (report.done, report.dead) == (9, 1)
    assert "SIGSEGV" in bench.standing("d3").reason


def test_crashes_are_counted_apart_from_attempts_and_end_in_a_dead_letter_with_its_story(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    @pipeline.step(runs_in="process", retry=SOON)
    def parse(doc: Doc) -> None:
        os.abort()

    bench.submit("a")
    bench.drain()
    here = bench.standing()
    assert (here.state, here.attempts, here.crashes) == ("dead", 0, SOON.crashes)
    entries = bench.store.journal(here.id)
    assert [(entry.verb, entry.detail["costs"]) for entry in entries] == [("fail", "crash")] * SOON.crashes
    error = entries[-1].detail["error"]
    assert error["kind"] == "BodyCrashed"
    assert error["message"] == "step 'parse' of 'a': its process was killed by SIGABRT (Aborted)"
    assert "in parse" in error["traceback"]
    assert "worker.py" not in error["traceback"]


def test_a_body_that_leaves_the_process_has_crashed(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        os._exit(7)

    with pytest.raises(BodyCrashed, match=r"step 'parse' of 'a': its process left with exit code 7"):
        raised().run(desk_of(pipeline), RunValue("parse"))


def test_a_killed_child_says_what_may_have_killed_it(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(BodyCrashed, match=r"SIGKILL .*when memory runs out"):
        raised().run(desk_of(pipeline), RunValue("parse"))


def test_after_a_crash_the_next_call_gets_a_fresh_child(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery], tmp_path: Path
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> int:
        if not (tmp_path / "crashed").exists():
            (tmp_path / "crashed").touch()
            os.abort()
        return os.getpid()

    children = raised()
    with pytest.raises(BodyCrashed):
        children.run(desk_of(pipeline), RunValue("parse"))
    (item,) = children.run(desk_of(pipeline), RunValue("parse")).items
    assert int(item.value) != os.getpid()


def test_a_crash_is_noticed_also_when_a_process_of_the_body_holds_the_line(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None:
        if os.fork() == 0:
            sleep(60)
        os.abort()

    with pytest.raises(BodyCrashed, match="SIGABRT"):
        raised().run(desk_of(pipeline), RunValue("parse"))


def test_a_child_that_died_at_rest_is_not_blamed_on_the_next_document(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children = raised()
    first = int(children.run(desk_of(pipeline), RunValue("who")).items[0].value)
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: not is_running(first))
    second = int(children.run(desk_of(pipeline), RunValue("who")).items[0].value)
    assert second != first


def test_the_worker_goes_on_when_the_process_that_forks_is_killed(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children = raised()
    first = int(children.run(desk_of(pipeline), RunValue("who")).items[0].value)
    os.kill(children._cradle.pid, signal.SIGKILL)
    assert wait_until(lambda: not is_running(first))
    assert int(children.run(desk_of(pipeline), RunValue("who")).items[0].value) != first


def test_a_stream_goes_on_at_its_cursor_after_a_crash_and_keeps_nothing_twice(
    pipeline: holdfast.Pipeline, bench: Bench, tmp_path: Path
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

    bench.submit("a")
    assert bench.drain().done == 1
    assert bench.kept("pages") == list(range(10))
    assert began.read_text().split() == ["0", "6"]


# limits


def test_a_body_that_wants_too_much_memory_fails_with_the_limit_named(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    @pipeline.step(runs_in="process", memory=64 * MB, retry=holdfast.Retry(attempts=1))
    def hog(doc: Doc) -> int:
        return len(bytearray(256 * MB if doc.key == "greedy" else 16 * MB))

    bench.submit("greedy", "modest")
    report = bench.drain()
    assert (report.done, report.dead) == (1, 1)
    reason = bench.standing("greedy").reason
    assert reason == "MemoryError: step 'hog' wanted more than the 67,108,864 bytes that its memory= allows"


def test_memory_is_what_a_body_may_add_however_much_is_there(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    there = bytearray(128 * MB)

    @pipeline.step(runs_in="process", memory=64 * MB)
    def add(doc: Doc) -> int:
        return len(bytearray(32 * MB)) + len(there)

    assert raised().run(desk_of(pipeline), RunValue("add")).items[0].value == str(160 * MB)


def test_a_stream_has_its_memory_once_and_not_for_every_pull(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process", memory=160 * MB, commit_every=1, retry=holdfast.Retry(attempts=1))
    def hog(doc: Doc, cursor: int = 0) -> Iterator[int]:
        held = []
        for n in range(cursor, 10):
            held.append(bytearray(40 * MB))  # so large that malloc finds no room for it in what is free already
            yield n

    bench.submit("a")
    bench.drain()
    assert bench.standing().reason.startswith("MemoryError")
    assert 1 <= len(bench.kept("hog")) < 5


def test_a_body_that_takes_too_long_is_killed_and_the_others_go_on(
    pipeline: holdfast.Pipeline, bench: Bench, tmp_path: Path
) -> None:
    once = holdfast.Retry(attempts=1)

    @pipeline.step(runs_in="process", timeout=timedelta(seconds=0.3), retry=once)
    def parse(doc: Doc) -> None:
        if doc.key == "stuck":
            tool = subprocess.Popen(["sleep", "60"])
            (tmp_path / "pids").write_text(f"{os.getpid()} {tool.pid}")
            tool.wait()

    bench.submit("stuck", "b", "c")
    report = bench.drain()
    assert (report.done, report.dead) == (2, 1)
    assert bench.standing("stuck").reason.startswith("StepTimeout")
    assert wait_until(lambda: not any(is_running(int(pid)) for pid in (tmp_path / "pids").read_text().split()))


def test_a_call_that_was_ended_raises_and_one_that_is_not_out_has_nothing_to_end(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    @pipeline.step(runs_in="process")
    def stuck(doc: Doc) -> None:
        sleep(60)

    children, desk, call = raised(), desk_of(pipeline), RunValue("stuck")
    assert not children.end(call)
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(children.run, desk, call)
        assert wait_until(lambda: children.end(call))
        assert isinstance(answer.exception(timeout=10), BodyCrashed)
    assert not children.end(call)


# what bodies see and give


def test_a_body_sees_its_document_in_the_child(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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

    bench.submit("a")
    assert bench.drain().done == 1
    (seen,) = bench.kept("look")
    same = Doc(pipeline="p", batch="b", key="a", step="look", reader=Shelf())
    assert seen["pid"] != os.getpid()
    assert seen["whole"] == bench.kept("head")[0]
    assert (seen["list"], seen["sums"], seen["from"]) == (2500, [sum(range(2500))] * 8, 2000)
    assert seen["who"] == ["p", "b", "a", {"name": "a"}, 0, "look", True]
    assert seen["key"] == same.idempotency_key(1)


def test_an_error_of_the_store_is_raised_in_the_body_that_reads(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
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

    assert raised().run(desk_of(pipeline), RunValue("look")).items[0].value == '"caught the shelf fell down"'


@dataclass
class Word:
    text: str


def remembered(pipeline: holdfast.Pipeline) -> dict[str, list[Any]]:
    """Gives every step an effect that remembers what it was given."""
    seen: dict[str, list[Any]] = {step.name: [] for step in pipeline.steps}
    for step in pipeline.steps:
        step.effect(lambda tx, doc, value, name=step.name: seen[name].append(value))
    return seen


def test_an_effect_gets_the_values_as_they_are_kept(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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
    bench.submit("a")
    assert bench.drain().done == 1
    assert seen == {
        "words": [[Word("a"), Word("b")]],
        "whole": [Word("c")],
        "stream": [[Word("d"), Word("e")]],
        "window": [[Word("A"), Word("B")]],
        "single": [Word("aa"), Word("bb")],
    }


def test_an_effect_gets_the_values_of_a_step_that_keeps_nothing(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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
    bench.submit("a")
    assert bench.drain().done == 1
    assert seen == {
        "listed": [[Word("f")]],
        "stream": [[b"g"]],
        "words": [[Word("a"), Word("b")]],
        "window": [[Word("b"), Word("a")]],
        "single": [Word("a"), Word("b")],
        "nothing": [None],
    }
    assert bench.kept("listed") + bench.kept("stream") + bench.kept("window") == []


def test_a_value_for_the_effect_that_is_not_json_is_refused(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]
) -> None:
    @pipeline.step(runs_in="process", keep=False)
    def parse(doc: Doc) -> Any:
        return object()

    @parse.effect
    def write(tx: holdfast.Tx, doc: Doc, value: Any) -> None: ...

    with pytest.raises(CannotKeep, match="what step 'parse' returned to its effect"):
        raised().run(desk_of(pipeline), RunValue("parse"))


def test_a_verify_is_asked_in_the_child(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
    here = os.getpid()

    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None: ...

    @parse.verify
    def is_elsewhere(doc: Doc) -> bool:
        return os.getpid() != here

    assert raised().run(desk_of(pipeline), AskVerify("parse")) is True


def test_large_values_pass(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process")
    def text(doc: Doc) -> str:
        return "x" * 5 * MB

    @pipeline.step(runs_in="process")
    def again(doc: Doc) -> bytes:
        return doc.output(text).encode() * 2

    bench.submit("a")
    assert bench.drain().done == 1
    assert len(bench.kept("text")[0]) == 5 * MB
    assert bench.kept("again") == [b"x" * 10 * MB]


def test_async_bodies_run_in_a_loop_of_the_child(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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
    bench.submit("a", "b", "c")
    assert bench.drain().done == 3
    assert bench.kept("pages") == [0, 1, 2, 3, 4]
    assert bench.kept("double") == [0, 2, 4, 6, 8]
    assert bench.kept("elsewhere") == [True]


def test_eight_threads_have_a_child_each(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> list[Any]:
        sleep(0.02)
        return [doc.key, os.getpid()]

    children = raised()
    together = threading.Barrier(8)

    def call(key: str) -> list[Any]:
        desk = desk_of(pipeline)
        desk.document.key = key
        together.wait()
        return [item.value for _ in range(5) for item in children.run(desk, RunValue("who")).items]

    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(call, [f"d{n}" for n in range(8)]))
    assert [set(one[::2]) for one in told] == [{f'"d{n}"'} for n in range(8)]
    assert len({pid for one in told for pid in one[1::2]}) == 8


def test_what_a_body_prints_is_seen(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery], capfd: pytest.CaptureFixture[str]
) -> None:
    @pipeline.step(runs_in="process")
    def talk(doc: Doc) -> None:
        print("out of the child")
        os.write(2, b"aside\n")

    raised().run(desk_of(pipeline), RunValue("talk"))
    assert capfd.readouterr() == ("out of the child\n", "aside\n")


def test_a_body_that_forks_and_forgets_answers_once(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
    @pipeline.step(runs_in="process")
    def split(doc: Doc) -> int:
        me = os.getpid()
        os.fork()
        return os.getpid() - me

    children = raised()
    given = [children.run(desk_of(pipeline), RunValue("split")).items[0].value for _ in range(5)]
    assert given == ["0"] * 5


# what bodies raise


def test_an_error_arrives_with_kind_message_and_traceback(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1))
    def parse(doc: Doc) -> None:
        {}["page 7"]

    bench.submit("a")
    bench.drain()
    error = bench.store.journal(bench.standing().id)[-1].detail["error"]
    assert (error["kind"], error["message"]) == ("KeyError", "'page 7'")
    assert "in parse" in error["traceback"]
    assert '{}["page 7"]' in error["traceback"]


def test_an_error_in_a_stream_comes_after_what_was_yielded_before(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1))
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)
        raise OSError(5, "torn page")

    bench.submit("a")
    bench.drain()
    assert bench.kept("pages") == [0, 1, 2]
    assert bench.standing().reason == "OSError: [Errno 5] torn page"


class Torn(Exception):
    def __init__(self, page: int, *, of: int) -> None:
        super().__init__(f"page {page} of {of}")


def test_permanent_errors_are_known_again(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    class Local(Exception):
        pass

    class Deeper(ValueError):
        pass

    errors = {"builtin": ValueError("x"), "ours": Torn(1, of=2), "local": Local("x"), "deeper": Deeper("x")}
    permanent = holdfast.Retry(permanent=(ValueError, Torn, Local))

    @pipeline.step(runs_in="process", retry=permanent)
    def parse(doc: Doc) -> None:
        raise errors[doc.key]

    bench.submit(*errors)
    assert bench.drain().dead == len(errors)
    assert {key: bench.standing(key).attempts for key in errors} == dict.fromkeys(errors, 1)
    assert bench.standing("ours").reason == "Torn: page 1 of 2"
    assert bench.standing("deeper").reason == "Deeper: x"


def test_signals_arrive_as_themselves(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
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

    children, desk = raised(), desk_of(pipeline)
    with pytest.raises(holdfast.RetryLater, match="busy") as put_off:
        children.run(desk, RunValue("later"))
    with pytest.raises(holdfast.Reject, match="empty"):
        children.run(desk, RunValue("never"))
    with pytest.raises(holdfast.Pause, match="ask") as pause:
        children.run(desk, RunValue("parked"))
    with pytest.raises(BodyError, match="keeps nothing"):
        children.run(desk, RunValue("wrong"))
    assert (put_off.value.after, pause.value.until) == (timedelta(seconds=90), tomorrow)


@pytest.mark.parametrize("word", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_leaving_python_is_an_error_of_the_body(pipeline: holdfast.Pipeline, bench: Bench, word: BaseException) -> None:
    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1))
    def parse(doc: Doc) -> None:
        if doc.key == "a":
            raise word

    bench.submit("a", "b")
    report = bench.drain()
    assert (report.done, report.dead) == (1, 1)
    assert bench.standing("a").reason.startswith(type(word).__name__)
    assert bench.standing("a").crashes == 0


def test_ctrl_c_is_not_heard_by_children(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
    @pipeline.step(runs_in="process")
    def steady(doc: Doc) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return os.getpgid(0) == os.getpid()

    assert raised().run(desk_of(pipeline), RunValue("steady")).items[0].value == "true"


def test_an_error_keeps_the_wait_that_a_service_asked_for() -> None:
    error = ConnectionError("slow down")
    error.retry_after = 12  # type: ignore[attr-defined]
    assert retold(tell(error)).retry_after == timedelta(seconds=12)  # type: ignore[attr-defined]


def test_an_error_of_an_unknown_class_still_tells_its_story() -> None:
    class Unknown(Exception):
        pass

    error = retold(tell(Unknown("what a day")))
    assert type(error) is BodyFailed
    assert (failure_of(error).kind, failure_of(error).message) == ("Unknown", "what a day")


def test_errors_that_are_hard_to_tell_are_told() -> None:
    class Mute(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    mute = retold(tell(Mute()))
    assert isinstance(mute, ValueError)
    assert "cannot be read" in failure_of(mute).message
    assert failure_of(retold(tell(ValueError("\ud800")))).message == "?"
    assert failure_of(retold(tell(ExceptionGroup("two", [ValueError("x")])))).kind == "ExceptionGroup"


# children come and go


def test_children_are_used_again_and_replaced_after_many_calls(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "CALLS", 10)

    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children, desk = raised(), desk_of(pipeline)
    pids = [children.run(desk, RunValue("who")).items[0].value for _ in range(30)]
    assert [pids[n : n + 10] for n in (0, 10, 20)] == [[pid] * 10 for pid in dict.fromkeys(pids)]


def test_a_child_that_has_grown_is_replaced(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "GROWTH", 64 * MB)
    leak: list[bytearray] = []

    @pipeline.step(runs_in="process")
    def grow(doc: Doc) -> int:
        leak.append(bytearray(b"x") * 40 * MB)  # so large that malloc finds no room for it in what is free already
        return len(leak)

    children, desk = raised(), desk_of(pipeline)
    leaked = [int(children.run(desk, RunValue("grow")).items[0].value) for _ in range(12)]
    assert leaked.count(1) > 1
    assert max(leaked) < 6


def test_an_open_stream_keeps_its_child_until_its_desk_is_closed(
    pipeline: holdfast.Pipeline, raised: Callable[[], Nursery], tmp_path: Path
) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        try:
            while True:
                yield os.getpid()
        finally:
            (tmp_path / "tidy").touch()

    children, desk, other = raised(), desk_of(pipeline), desk_of(pipeline)
    first, again = (children.run(desk, PullStream("pages", None, 0)).items[0].value for _ in range(2))
    assert first == again
    assert children.run(other, PullStream("pages", None, 0)).items[0].value != first
    desk.close()
    assert wait_until(lambda: not is_running(int(first)))
    assert (tmp_path / "tidy").exists()


def test_a_forgotten_desk_lets_its_child_leave(pipeline: holdfast.Pipeline, raised: Callable[[], Nursery]) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        while True:
            yield os.getpid()

    children, desk = raised(), desk_of(pipeline)
    pid = int(children.run(desk, PullStream("pages", None, 0)).items[0].value)
    del desk
    assert wait_until(lambda: not is_running(pid))


def test_more_streams_than_beds_go_on_where_they_were(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "BEDS", 2)

    @pipeline.step(runs_in="process", commit_every=3)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 10)

    keys = [f"d{n}" for n in range(8)]
    bench.submit(*keys)
    assert bench.drain().done == 8
    assert [bench.kept("pages", key) for key in keys] == [list(range(10))] * 8


def test_a_stream_in_a_child_stops_at_its_next_item_when_the_worker_stops(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    @pipeline.step(runs_in="process", commit_every=timedelta(hours=1))
    def numbers(doc: Doc, cursor: int = 0) -> Iterator[int]:
        while True:
            sleep(0.01)
            yield cursor
            cursor += 1

    bench.submit("a")
    began = monotonic()
    bench.drain(budget=timedelta(seconds=0.3))
    assert monotonic() - began < 5
    here = bench.standing()
    assert (here.state, here.attempts) == ("waiting", 0)
    assert bench.kept("numbers") == list(range(here.checkpoint.cursor))
    assert here.checkpoint.cursor > 0


def test_children_hold_nothing_of_the_store(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process")
    def held(doc: Doc) -> list[str]:
        files = [file for pid in (os.getpid(), os.getppid()) for file in Path(f"/proc/{pid}/fd").iterdir()]
        return [str(file.readlink()) for file in files if file.is_symlink()]

    bench.submit("a")
    assert bench.drain().done == 1
    assert [name for name in bench.kept("held") if "engine.db" in name] == []


def test_a_closed_nursery_leaves_nobody_behind(pipeline: holdfast.Pipeline, tmp_path: Path) -> None:
    @pipeline.step(runs_in="process", commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        while True:
            yield os.getpid()

    @pipeline.step(runs_in="process")
    def stuck(doc: Doc) -> None:
        (tmp_path / "stuck").write_text(str(os.getpid()))
        sleep(60)

    children, desk = Nursery(pipeline), desk_of(pipeline)
    pids = [children._cradle.pid, int(children.run(desk, PullStream("pages", None, 0)).items[0].value)]
    with ThreadPoolExecutor() as threads:
        threads.submit(children.run, desk_of(pipeline), RunValue("stuck"))
        assert wait_until((tmp_path / "stuck").exists)
        assert wait_until(lambda: bool((tmp_path / "stuck").read_text()))
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


def test_a_killed_worker_leaves_nobody_behind(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)])
    try:
        assert wait_until(lambda: len(list(tmp_path.glob("*.ready"))) == 2)
        pids = {int(pid) for file in tmp_path.glob("*.ready") for pid in file.read_text().split()}
        assert len(pids) == 5
        assert all(map(is_running, pids))
    finally:
        worker.kill()
        worker.wait()
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_a_worker_may_run_in_any_thread(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    bench.submit("a", "b")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(bench.drain).result().done == 2
    assert bench.kept("who") != [os.getpid()]


def test_nobody_is_born_after_the_nursery_was_closed(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step(runs_in="process")
    def who(doc: Doc) -> int:
        return os.getpid()

    children = Nursery(pipeline)
    children.close()
    with pytest.raises(holdfast.RetryLater, match="stopped"):
        children.run(desk_of(pipeline), RunValue("who"))


def test_a_system_without_fork_is_refused_when_the_worker_starts(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @pipeline.step(runs_in="process")
    def parse(doc: Doc) -> None: ...

    bench.submit("a")
    monkeypatch.delattr(os, "fork")
    with pytest.raises(DefinitionError, match=r"runs_in=\"process\" \(parse\), which needs fork"):
        bench.drain()


def test_a_worker_that_dies_while_it_waits_for_an_answer_leaves_nobody_behind(pipeline: holdfast.Pipeline) -> None:
    """The cradle must not fall over its own answer: whoever it bore is ended after that."""
    here, there = socketpair()
    tending = Tending(there, os.getpid(), pipeline, lambda: False)
    here.sendall(REQUEST.pack(END, 0) * 2)
    here.close()
    with there:
        assert [tending._hear() for _ in range(2)][-1] is False
