"""Workers: claims, groups, stops, timeouts, limits, orphans."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

import holdfast
from holdfast.core.errors import PlanRefused
from holdfast.core.model import Checkpoint, Plan
from holdfast.core.moves import Move
from holdfast.engine import rounds
from holdfast.engine.caretaker import Caretaker
from holdfast.engine.events import Committed, LostClaim
from holdfast.engine.hosts import born, this_host
from tests.engine.conftest import SOON, Bench


def test_an_effect_that_breaks_a_constraint_fails_alone(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("create table paid (key text primary key)")
        db.execute("insert into paid values ('d7')")

    @pipeline.step
    def pay(doc: holdfast.Document) -> str:
        return doc.key

    @pay.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, key: str) -> None:
        tx.execute("insert into paid values (?)", (key,))

    bench.submit(*[f"d{n}" for n in range(20)])
    report = bench.drain(budget=timedelta(seconds=1.5), threads=1)
    assert report.done == 19
    assert "UNIQUE constraint failed" in bench.standing("d7").reason
    with bench.store._db.reading() as db:  # type: ignore[attr-defined]
        assert db.execute("select count(*) from paid").fetchone() == (20,)


def test_an_endless_stream_stops_at_its_budget_and_goes_on_later(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(commit_every=10)
    def numbers(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        while True:
            yield cursor
            cursor += 1

    bench.submit("a")
    report = bench.drain(budget=timedelta(seconds=0.2))
    assert report.stopped_by == "its time is up"
    here = bench.standing()
    assert (here.state, here.attempts, here.checkpoint.cursor) == ("waiting", 0, len(bench.kept("numbers")))
    bench.drain(budget=timedelta(seconds=0.1))
    assert bench.kept("numbers") == list(range(bench.standing().checkpoint.cursor))
    assert bench.standing().checkpoint.cursor > here.checkpoint.cursor
    assert bench.verbs() == ["release", "release"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_swallows_exceptions_is_left_to_itself(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1)
    def numbers(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        while True:
            with suppress(BaseException):
                yield cursor
            cursor += 1
            if cursor == 5:
                budget.stop("enough")

    bench.submit("a")
    bench.drain(budget=budget)
    here = bench.standing()
    assert here.state == "waiting"
    assert bench.kept("numbers") == list(range(here.checkpoint.cursor))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly_and_costs_nothing(
    pipeline: holdfast.Pipeline, bench: Bench, number: signal.Signals
) -> None:
    @pipeline.step(commit_every=1)
    def numbers(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for item in range(cursor, 100):
            if item == 3 and cursor == 0:
                os.kill(os.getpid(), number)
                threading.Event().wait(0.05)
            yield item

    bench.submit("a")
    report = bench.drain()
    assert report.stopped_by == number.name
    assert bench.standing().attempts == 0
    assert bench.drain().done == 1
    assert bench.kept("numbers") == list(range(100))


def test_a_step_that_takes_too_long_fails_and_the_others_go_on(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    stuck = threading.Event()

    @pipeline.step(timeout=timedelta(seconds=0.1), retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if doc.key == "stuck":
            stuck.wait(30)
        return "read"

    bench.submit("stuck", "b", "c")
    report = bench.drain(threads=1)
    stuck.set()
    assert (report.done, report.dead) == (2, 1)
    assert "StepTimeout" in bench.standing("stuck").reason


def test_windows_that_take_too_long_together_are_each_set_aside(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    stuck = threading.Event()

    @pipeline.step
    def numbers(doc: holdfast.Document) -> list[int]:
        return list(range(30))

    once = holdfast.Retry(attempts=1)

    @pipeline.step(over=numbers, parallel=3, timeout=timedelta(seconds=0.2), retry=once)
    def look(doc: holdfast.Document, number: int) -> int:
        if number in (4, 5):
            stuck.wait(30)
        return number

    bench.submit("a")
    assert bench.drain(threads=3).done == 1
    stuck.set()
    assert [aside.position for _, aside in bench.store.asides(bench.standing().id)] == [4, 5]
    assert len(bench.kept("look")) == 28


def test_an_error_that_cannot_be_told_fails_its_document_alone(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

        @property
        def retry_after(self) -> float:
            raise RuntimeError("no")

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if doc.key == "mute":
            raise Mute
        return doc.key

    bench.submit("mute", "b")
    report = bench.drain()
    assert (report.done, report.dead) == (1, 1)
    assert bench.standing("mute").reason == "Mute: its message cannot be read"


def test_higher_priorities_come_first(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    order: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        order.append(doc.key)

    for key, priority in (("low", -5), ("normal", 0), ("high", 9)):
        holdfast.submit(pipeline, bench.store, batch="b", documents=[(key, None)], priority=priority)
    bench.drain(threads=1, concurrency=1)
    assert order == ["high", "normal", "low"]


def test_a_limited_step_never_has_more_documents_in_it(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    lock, inside, most = threading.Lock(), [0], [0]

    @pipeline.step(limit=2)
    def call(doc: holdfast.Document) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        threading.Event().wait(0.005)
        with lock:
            inside[0] -= 1

    bench.submit(*[f"d{n}" for n in range(12)])
    assert bench.drain(threads=6).done == 12
    assert most[0] == 2


def test_documents_move_together_in_one_commit(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    groups: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    bench.submit(*[f"d{n}" for n in range(200)])
    bench.drain(listeners=[lambda said: groups.append(len(said.moves)) if isinstance(said, Committed) else None])
    assert sum(groups) == 200
    assert max(groups) > 1


def test_a_dead_predecessor_on_this_host_is_seen_at_once(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    bench.submit("a")
    plan = bench.store.declare(pipeline.shape())
    dead = bench.store.enlist(name="dead", host=this_host(), pid=2**22 + 1, born="1", lease=timedelta(hours=1))
    assert len(bench.store.claim(plan, dead, limit=5)) == 1
    assert bench.drain().done == 1
    assert bench.verbs() == ["reclaim"]


def test_a_living_worker_keeps_its_documents(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    bench.submit("a")
    plan = bench.store.declare(pipeline.shape())
    pid = os.getpid()
    alive = bench.store.enlist(name="alive", host=this_host(), pid=pid, born=born(pid), lease=timedelta(hours=1))
    bench.store.claim(plan, alive, limit=5)
    report = bench.drain(budget=timedelta(seconds=0.5))
    assert report.done == 0
    assert bench.standing().holder == "alive"


def test_a_worker_that_lost_its_document_writes_nothing(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    """While its body runs, another worker takes the document over and finishes it."""
    lost: list[object] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        if not lost:
            lost.append(None)
            here = bench.standing()
            bench.store.reclaim(
                plan,
                who="other",
                verdict=lambda *_: ("waiting", timedelta(0)),
                gone=[w.id for w, _, _ in bench.store.workers()],
            )
            other = bench.store.enlist(name="other", host="elsewhere", pid=1, born="", lease=timedelta(hours=1))
            (claim,) = bench.store.claim(plan, other, limit=1)
            after = Checkpoint(0, None, None, here.checkpoint.moves + 1)
            bench.store.commit(plan, [Move(claim, claim.checkpoint, after, "done")])
            return "stale"
        raise AssertionError("it is done already")

    bench.submit("a")
    plan = bench.store.declare(pipeline.shape())
    report = bench.drain(listeners=[lambda said: lost.append(said) if isinstance(said, LostClaim) else None])
    assert report.lost == 1
    assert bench.standing().state == "done"
    assert bench.kept("read") == []


def test_a_suspect_is_worked_on_alone(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    beside: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        if doc.key == "suspect":
            beside.append(bench.store.running(plan))

    bench.submit("suspect", *[f"d{n}" for n in range(5)])
    plan = bench.store.declare(pipeline.shape())
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set crashes = 2 where key = 'suspect'")
    assert bench.drain().done == 6
    assert beside == [1]


def test_a_suspect_is_alone_for_as_long_as_it_takes(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    looks, enough = [0], threading.Event()
    look = bench.store.suspects_due

    def counted(plan: Plan, *, batch: str | None = None) -> bool:
        looks[0] += 1
        if looks[0] > 4:
            enough.set()
        return look(plan, batch=batch)

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        if doc.key == "suspect":
            assert enough.wait(timeout=30), "the worker does not look after others while the suspect runs"
        begun.append(doc.key)

    bench.submit("suspect", *[f"d{n}" for n in range(5)])
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set crashes = 2 where key = 'suspect'")
    monkeypatch.setattr(rounds, "UPKEEP", 0.01)
    monkeypatch.setattr(bench.store, "suspects_due", counted)
    assert bench.drain().done == 6
    assert begun[0] == "suspect"


def test_a_suspect_in_another_batch_disturbs_nobody(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    pipeline.step(name="read")(lambda doc: None)
    bench.submit("suspect")
    plan = bench.store.declare(pipeline.shape())
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set crashes = 2")
    me = bench.store.enlist(name="me", host="here", pid=1, born="", lease=timedelta(minutes=1))
    for batch, disturbs in (("b", True), ("another", False), (None, True)):
        caretaker = Caretaker(pipeline, bench.store, plan, say=lambda _: None, batch=batch)
        caretaker.look_after(me, [])
        assert caretaker.suspects is disturbs


def test_a_renamed_step_is_refused_until_the_map_is_declared(bench: Bench) -> None:
    old = holdfast.Pipeline("p")

    @old.step
    def read(doc: holdfast.Document) -> str:
        return "kept under the old name"

    @old.step(retry=holdfast.Retry(base=timedelta(hours=1), ceiling=timedelta(hours=1)))
    def ocr(doc: holdfast.Document) -> None:
        raise OSError("not yet")

    holdfast.submit(old, bench.store, batch="b", documents=[("a", None)])
    holdfast.drain(old, bench.store, budget=timedelta(seconds=0.3))

    new = holdfast.Pipeline("p")
    new.step(read.body)
    new.step(name="recognise")(lambda doc: "done")
    with pytest.raises(PlanRefused, match=r"1 at 'ocr', such as 'a'[\s\S]*renamed=\{'ocr': 'recognise'\}"):
        holdfast.drain(new, bench.store)

    mapped = holdfast.Pipeline("p", renamed={"ocr": "recognise"})
    mapped.step(read.body)
    mapped.step(name="recognise")(lambda doc: "done")
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set due_at = 0")
    assert holdfast.drain(mapped, bench.store).done == 1


def test_a_submit_streams(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    taken: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    def many() -> Iterator[tuple[str, None]]:
        for number in range(2500):
            taken.append(number)
            if number == 2400:
                assert bench.store.balance("p").expected == 2000
            yield f"d{number}", None

    receipt = holdfast.submit(pipeline, bench.store, batch="b", documents=many())
    assert (receipt.new, receipt.total) == (2500, 2500)


def test_a_key_named_twice_is_told_and_what_came_before_stays(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    twice = [(f"d{number}", None) for number in range(1500)] + [("d3", {"other": 1})]
    with pytest.raises(holdfast.DuplicateKey, match="'d3' was named twice"):
        holdfast.submit(pipeline, bench.store, batch="b", documents=twice)
    assert bench.store.balance("p").expected == 1000
    assert holdfast.submit(pipeline, bench.store, batch="b", documents=twice[:-1]).new == 500


def test_a_changed_document_begins_anew_and_an_unchanged_one_is_left_alone(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    runs: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        runs.append(doc.key)
        return doc.payload["text"]

    def submit(**texts: str) -> holdfast.Receipt:
        documents = [(key, {"text": text}) for key, text in texts.items()]
        return holdfast.submit(pipeline, bench.store, batch="b", documents=documents)

    submit(a="one", b="two")
    bench.drain()
    assert submit(a="ONE", b="two") == holdfast.Receipt(0, 1, 1)
    bench.drain()
    assert runs == ["a", "b", "a"]
    assert bench.kept("read") == ["ONE"]
    assert bench.standing().checkpoint.generation == 1


def test_an_expired_cursor_restarts_the_step(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    began: list[int] = []
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1, cursor_expires=timedelta(hours=24))
    def search(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        for number in range(cursor, 6):
            if number == 3 and len(began) == 1:
                budget.stop("night")
            yield number

    bench.submit("a")
    bench.drain(budget=budget)
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set moved_at = moved_at - 25 * 3600 * 1000000")
    assert bench.drain().done == 1
    assert began == [0, 0]
    assert bench.kept("search") == list(range(6))
    assert bench.verbs() == ["release", "rewind"]


def test_an_expired_cursor_fails_the_step_when_declared_so(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1, cursor_expires=timedelta(hours=24), when_expired="fail")
    def search(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield cursor
        budget.stop("night")
        yield cursor + 1

    bench.submit("a")
    bench.drain(budget=budget)
    with bench.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set moved_at = moved_at - 25 * 3600 * 1000000")
    assert bench.drain().dead == 1
    assert "CursorExpired" in bench.standing().reason


def test_what_fails_waits_its_backoff_out(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(retry=holdfast.Retry(base=timedelta(hours=1), ceiling=timedelta(hours=2), jitter=0))
    def read(doc: holdfast.Document) -> None:
        raise OSError("down")

    bench.submit("a")
    bench.drain(budget=timedelta(seconds=0.3))
    due = bench.store.next_due(bench.store.declare(pipeline.shape()))
    assert due is not None
    assert timedelta(minutes=59) < due <= timedelta(hours=1)


def test_a_service_that_names_a_wait_is_honoured(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    class Throttled(Exception):
        retry_after = 7200

    @pipeline.step(retry=SOON)
    def read(doc: holdfast.Document) -> None:
        raise Throttled("429")

    bench.submit("a")
    bench.drain(budget=timedelta(seconds=0.3))
    due = bench.store.next_due(bench.store.declare(pipeline.shape()))
    assert due is not None
    assert due > timedelta(minutes=119)


def test_nothing_goes_on_after_the_store_was_lost(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        ran.append(doc.key)
        threading.Event().wait(0.001)
        return doc.key

    bench.submit(*[f"d{number}" for number in range(200)])
    commit, commits = bench.store.commit, []

    def lost(*args: object) -> object:
        commits.append(1)
        if len(commits) == 3:
            raise holdfast.StoreError("the database does not answer")
        return commit(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(bench.store, "commit", lost)
    with pytest.raises(holdfast.StoreError, match="does not answer"):
        bench.drain(threads=4)
    threading.Event().wait(0.05)
    after = (len(ran), len(commits))
    threading.Event().wait(0.2)
    assert (len(ran), len(commits)) == after


def test_a_document_that_knows_itself_is_forgotten_all_the_same(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    helpers: list[weakref.ref[object]] = []

    class Helper:
        def __init__(self, doc: holdfast.Document) -> None:
            self.doc = doc

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        doc.payload["helper"] = Helper(doc)
        helpers.append(weakref.ref(doc.payload["helper"]))

    bench.submit(*[f"d{number}" for number in range(20)])
    assert bench.drain().done == 20
    gc.collect()
    assert sum(helper() is not None for helper in helpers) <= 2  # what each thread did last


def test_async_calls_that_end_with_their_timeout_are_judged_once(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(timeout=timedelta(milliseconds=30), retry=holdfast.Retry(attempts=99, base=SOON.base))
    async def read(doc: holdfast.Document) -> None:
        await asyncio.sleep(random.uniform(0.027, 0.035))

    bench.submit(*[f"d{number}" for number in range(600)])
    assert bench.drain().done == 600


def test_bodies_do_not_run_far_ahead_of_a_slow_commit(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    ahead: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        threading.Event().wait(0.01)
        ran.append(doc.key)

    bench.submit(*[f"d{number}" for number in range(100)])
    write = bench.store._write  # type: ignore[attr-defined]

    def slowly(*args: object) -> object:
        before = len(ran)
        if before > 40 and not ahead:  # it has gathered pace, and holds many
            threading.Event().wait(0.5)
            ahead.append(len(ran) - before)
        return write(*args)

    monkeypatch.setattr(bench.store, "_write", slowly)
    assert bench.drain(threads=2).done == 100
    assert ahead[0] <= 3


def test_one_document_is_not_taken_for_many(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    with pytest.raises(holdfast.HoldfastError, match=r"documents=\['a.pdf'\]"):
        holdfast.submit(pipeline, bench.store, batch="b", documents="a.pdf")


def test_it_drains_from_a_thread_too(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    bench.submit("a")
    reports: list[holdfast.Report] = []
    thread = threading.Thread(target=lambda: reports.append(bench.drain()))
    thread.start()
    thread.join(20)
    assert reports[0].done == 1
