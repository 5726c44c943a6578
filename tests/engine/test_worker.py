"""Workers: claims, groups, stops, timeouts, limits, orphans."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.errors import PlanRefused
from holdfast.core.model import Checkpoint, Plan
from holdfast.core.moves import Move
from holdfast.core.retry import SUSPECT_LOSSES
from holdfast.core.step import AnyStep
from holdfast.engine import scheduler
from holdfast.engine.executor import Executor
from holdfast.engine.maintenance import WorkerMaintenance
from holdfast.observe.events import Committed, LostClaim
from holdfast.process_identity import born, this_host
from holdfast.stores.protocol import OrphanVerdict
from tests.support.pipeline_harness import SOON, PipelineHarness


def test_an_effect_that_breaks_a_constraint_fails_alone(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("create table paid (key text primary key)")
        db.execute("insert into paid values ('d7')")

    @pipeline.step
    def pay(doc: holdfast.Document) -> str:
        return doc.key

    @pay.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, key: str) -> None:
        tx.execute("insert into paid values (?)", (key,))

    harness.submit(*[f"d{n}" for n in range(20)])
    report = harness.drain(budget=timedelta(seconds=1.5), threads=1)
    assert report.done == 19
    assert "UNIQUE constraint failed" in harness.document("d7").reason
    with harness.store._db.reading() as db:  # type: ignore[attr-defined]
        assert db.execute("select count(*) from paid").fetchone() == (20,)


def test_an_endless_stream_stops_at_its_budget_and_goes_on_later(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(commit_every=10)
    def numbers(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        while True:
            yield cursor
            cursor += 1

    harness.submit("a")
    report = harness.drain(budget=timedelta(seconds=1))
    assert report.stopped_by == "its time is up"
    here = harness.document()
    assert (here.state, here.attempts, here.checkpoint.cursor) == ("waiting", 0, len(harness.kept("numbers")))
    harness.drain(budget=timedelta(seconds=0.5))
    assert harness.kept("numbers") == list(range(harness.document().checkpoint.cursor))
    assert harness.document().checkpoint.cursor > here.checkpoint.cursor
    assert harness.verbs() == ["release", "release"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_swallows_exceptions_is_left_to_itself(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1)
    def numbers(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        while True:
            with suppress(BaseException):
                yield cursor
            cursor += 1
            if cursor == 5:
                budget.stop("enough")

    harness.submit("a")
    harness.drain(budget=budget)
    here = harness.document()
    assert here.state == "waiting"
    assert harness.kept("numbers") == list(range(here.checkpoint.cursor))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly_and_costs_nothing(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, number: signal.Signals
) -> None:
    @pipeline.step(commit_every=1)
    def numbers(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for item in range(cursor, 100):
            if item == 3 and cursor == 0:
                os.kill(os.getpid(), number)
                threading.Event().wait(0.05)
            yield item

    harness.submit("a")
    report = harness.drain()
    assert report.stopped_by == number.name
    assert harness.document().attempts == 0
    assert harness.drain().done == 1
    assert harness.kept("numbers") == list(range(100))


def test_a_step_that_takes_too_long_fails_and_the_others_go_on(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    stuck = threading.Event()

    @pipeline.step(timeout=timedelta(seconds=0.1), retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if doc.key == "stuck":
            stuck.wait(30)
        return "read"

    harness.submit("stuck", "b", "c")
    report = harness.drain(threads=1)
    stuck.set()
    assert (report.done, report.dead) == (2, 1)
    assert "StepTimeout" in harness.document("stuck").reason


def test_windows_that_take_too_long_together_are_each_set_aside(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
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

    harness.submit("a")
    assert harness.drain(threads=3).done == 1
    stuck.set()
    assert [aside.position for _, aside in harness.store.failed_items(harness.document().id)] == [4, 5]
    assert len(harness.kept("look")) == 28


def test_an_error_without_a_readable_message_fails_only_its_document(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
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

    harness.submit("mute", "b")
    report = harness.drain()
    assert (report.done, report.dead) == (1, 1)
    assert harness.document("mute").reason == "Mute: its message cannot be read"


def test_higher_priorities_come_first(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    order: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        order.append(doc.key)

    for key, priority in (("low", -5), ("normal", 0), ("high", 9)):
        holdfast.submit(pipeline, harness.store, batch="b", documents=[(key, None)], priority=priority)
    harness.drain(threads=1, concurrency=1)
    assert order == ["high", "normal", "low"]


def test_a_limited_step_never_has_more_documents_in_it(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    lock, inside, most = threading.Lock(), [0], [0]

    @pipeline.step(limit=2)
    def call(doc: holdfast.Document) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        threading.Event().wait(0.005)
        with lock:
            inside[0] -= 1

    harness.submit(*[f"d{n}" for n in range(12)])
    assert harness.drain(threads=6).done == 12
    assert most[0] == 2


def test_documents_move_together_in_one_commit(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    groups: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    harness.submit(*[f"d{n}" for n in range(200)])
    harness.drain(listeners=[lambda said: groups.append(len(said.moves)) if isinstance(said, Committed) else None])
    assert sum(groups) == 200
    assert max(groups) > 1


def test_a_dead_predecessor_on_this_host_is_seen_at_once(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    harness.submit("a")
    plan = harness.store.declare(pipeline.shape())
    dead = harness.store.register_worker(
        name="dead", host=this_host(), pid=2**22 + 1, born="1", lease=timedelta(hours=1)
    )
    assert len(harness.store.claim(plan, dead, limit=5)) == 1
    assert harness.drain().done == 1
    assert harness.verbs() == ["reclaim"]


def test_a_living_worker_keeps_its_documents(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        return doc.key

    harness.submit("a")
    plan = harness.store.declare(pipeline.shape())
    pid = os.getpid()
    alive = harness.store.register_worker(
        name="alive", host=this_host(), pid=pid, born=born(pid), lease=timedelta(hours=1)
    )
    harness.store.claim(plan, alive, limit=5)
    report = harness.drain(budget=timedelta(seconds=0.5))
    assert report.done == 0
    assert harness.document().holder == "alive"


def test_a_worker_that_lost_its_document_writes_nothing(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    """While its body runs, another worker takes the document over and finishes it."""
    lost: list[object] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        if not lost:
            lost.append(None)
            here = harness.document()
            harness.store.reclaim(
                plan,
                who="other",
                decide=lambda _: OrphanVerdict("waiting"),
                gone=[w.id for w, _, _ in harness.store.workers()],
            )
            other = harness.store.register_worker(
                name="other", host="elsewhere", pid=1, born="", lease=timedelta(hours=1)
            )
            (claim,) = harness.store.claim(plan, other, limit=1)
            after = Checkpoint(0, None, None, here.checkpoint.moves + 1)
            harness.store.commit(plan, [Move(claim, claim.checkpoint, after, "done")])
            return "stale"
        raise AssertionError("it is done already")

    harness.submit("a")
    plan = harness.store.declare(pipeline.shape())
    report = harness.drain(listeners=[lambda said: lost.append(said) if isinstance(said, LostClaim) else None])
    assert report.lost == 1
    assert harness.document().state == "done"
    assert harness.kept("read") == []


def test_a_suspect_is_worked_on_alone(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    beside: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        if doc.key == "suspect":
            beside.append(harness.store.running(plan))

    harness.submit("suspect", *[f"d{n}" for n in range(5)])
    plan = harness.store.declare(pipeline.shape())
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set crashes = 2 where key = 'suspect'")
    assert harness.drain().done == 6
    assert beside == [1]


def test_a_suspect_is_alone_for_as_long_as_it_takes(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    looks, enough = [0], threading.Event()
    look = harness.store.suspects_due

    def counted(plan: Plan, **scope: Any) -> bool:
        looks[0] += 1
        if looks[0] > 4:
            enough.set()
        return look(plan, **scope)

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        if doc.key == "suspect":
            assert enough.wait(timeout=30), "the worker does not look after others while the suspect runs"
        begun.append(doc.key)

    harness.submit("suspect", *[f"d{n}" for n in range(5)])
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set crashes = 2 where key = 'suspect'")
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.01)
    monkeypatch.setattr(harness.store, "suspects_due", counted)
    assert harness.drain().done == 6
    assert begun[0] == "suspect"


def test_a_document_that_lost_many_workers_is_worked_on_alone(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    beside: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        if doc.key == "suspect":
            beside.append(harness.store.running(plan))

    harness.submit("suspect", *[f"d{n}" for n in range(5)])
    plan = harness.store.declare(pipeline.shape())
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set losses = ? where key = 'suspect'", (SUSPECT_LOSSES,))
    assert harness.drain().done == 6
    assert beside == [1]


def test_many_suspects_do_not_stop_the_others(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        begun.append(doc.key)

    harness.submit(*[f"suspect-{n}" for n in range(20)], *[f"other-{n}" for n in range(3)])
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set losses = ? where key like 'suspect%'", (SUSPECT_LOSSES,))
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.0)
    assert harness.drain(threads=1, concurrency=1).done == 23
    others = [place for place, key in enumerate(begun) if key.startswith("other")]
    assert others[0] <= 1  # a suspect comes first, then others get as much time
    assert begun[others[-1] + 1 :], "suspects come again when nobody else waits"


def test_a_suspect_in_another_batch_does_not_matter(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="read")(lambda doc: None)
    harness.submit("suspect")
    plan = harness.store.declare(pipeline.shape())
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set crashes = 2")
    me = harness.store.register_worker(name="me", host="here", pid=1, born="", lease=timedelta(minutes=1))
    for batch, disturbs in (("b", True), ("another", False), (None, True)):
        maintenance = WorkerMaintenance(pipeline, harness.store, plan, emit=lambda _: None, batch=batch)
        maintenance.run(me, [])
        assert maintenance.suspects is disturbs


def test_a_renamed_step_is_refused_until_the_map_is_declared(harness: PipelineHarness) -> None:
    old = holdfast.Pipeline("p")

    @old.step
    def read(doc: holdfast.Document) -> str:
        return "kept under the old name"

    @old.step(retry=holdfast.Retry(base=timedelta(hours=1), ceiling=timedelta(hours=1)))
    def ocr(doc: holdfast.Document) -> None:
        budget.stop("it was called")
        raise OSError("not yet")

    budget = holdfast.Budget()
    holdfast.submit(old, harness.store, batch="b", documents=[("a", None)])
    holdfast.drain(old, harness.store, budget=budget)

    new = holdfast.Pipeline("p")
    new.step(read.body)
    new.step(name="recognise")(lambda doc: "done")
    with pytest.raises(PlanRefused, match=r"1 at 'ocr', such as 'a'[\s\S]*renamed=\{'ocr': 'recognise'\}"):
        holdfast.drain(new, harness.store)

    mapped = holdfast.Pipeline("p", renamed={"ocr": "recognise"})
    mapped.step(read.body)
    mapped.step(name="recognise")(lambda doc: "done")
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set due_at = 0")
    assert holdfast.drain(mapped, harness.store).done == 1


def test_a_submit_streams(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    taken: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    def many() -> Iterator[tuple[str, None]]:
        for number in range(2500):
            taken.append(number)
            if number == 2400:
                assert harness.store.balance("p").expected == 2000
            yield f"d{number}", None

    receipt = holdfast.submit(pipeline, harness.store, batch="b", documents=many())
    assert (receipt.new, receipt.total) == (2500, 2500)


def test_a_duplicate_key_is_refused_and_earlier_slices_stay(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    twice = [(f"d{number}", None) for number in range(1500)] + [("d3", {"other": 1})]
    with pytest.raises(holdfast.DuplicateKey, match="'d3' was named twice"):
        holdfast.submit(pipeline, harness.store, batch="b", documents=twice)
    assert harness.store.balance("p").expected == 1000
    assert holdfast.submit(pipeline, harness.store, batch="b", documents=twice[:-1]).new == 500


def test_a_changed_document_starts_again_and_an_unchanged_one_stays(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    runs: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        runs.append(doc.key)
        return doc.payload["text"]

    def submit(**texts: str) -> holdfast.SubmitResult:
        documents = [(key, {"text": text}) for key, text in texts.items()]
        return holdfast.submit(pipeline, harness.store, batch="b", documents=documents)

    submit(a="one", b="two")
    harness.drain()
    assert submit(a="ONE", b="two") == holdfast.SubmitResult(0, 1, 1)
    harness.drain()
    assert runs == ["a", "b", "a"]
    assert harness.kept("read") == ["ONE"]
    assert harness.document().checkpoint.generation == 1


def test_an_expired_cursor_restarts_the_step(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    began: list[int] = []
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1, cursor_expires=timedelta(hours=24))
    def search(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        for number in range(cursor, 6):
            if number == 3 and len(began) == 1:
                budget.stop("night")
            yield number

    harness.submit("a")
    harness.drain(budget=budget)
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set moved_at = moved_at - 25 * 3600 * 1000000")
    assert harness.drain().done == 1
    assert began == [0, 0]
    assert harness.kept("search") == list(range(6))
    assert harness.verbs() == ["release", "rewind"]


def test_an_expired_cursor_fails_the_step_when_declared_so(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1, cursor_expires=timedelta(hours=24), when_expired="fail")
    def search(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield cursor
        budget.stop("night")
        yield cursor + 1

    harness.submit("a")
    harness.drain(budget=budget)
    with harness.store._db.writing() as db:  # type: ignore[attr-defined]
        db.execute("update hf_document set moved_at = moved_at - 25 * 3600 * 1000000")
    assert harness.drain().dead == 1
    assert "CursorExpired" in harness.document().reason


def test_what_fails_waits_its_backoff_out(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(retry=holdfast.Retry(base=timedelta(hours=1), ceiling=timedelta(hours=2), jitter=0))
    def read(doc: holdfast.Document) -> None:
        budget.stop("it was called")
        raise OSError("down")

    budget = holdfast.Budget()
    harness.submit("a")
    harness.drain(budget=budget)
    due = harness.store.next_due(harness.store.declare(pipeline.shape()))
    assert due is not None
    assert timedelta(minutes=59) < due <= timedelta(hours=1)


def test_a_service_that_names_a_wait_is_honoured(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    class Throttled(Exception):
        retry_after = 7200

    @pipeline.step(retry=SOON)
    def read(doc: holdfast.Document) -> None:
        budget.stop("it was called")
        raise Throttled("429")

    budget = holdfast.Budget()
    harness.submit("a")
    harness.drain(budget=budget)
    due = harness.store.next_due(harness.store.declare(pipeline.shape()))
    assert due is not None
    assert due > timedelta(minutes=119)


def test_nothing_goes_on_after_the_store_was_lost(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> str:
        ran.append(doc.key)
        threading.Event().wait(0.001)
        return doc.key

    harness.submit(*[f"d{number}" for number in range(200)])
    commit, commits = harness.store.commit, []

    def lost(*args: object) -> object:
        commits.append(1)
        if len(commits) == 3:
            raise holdfast.StoreError("the database does not answer")
        return commit(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(harness.store, "commit", lost)
    with pytest.raises(holdfast.StoreError, match="does not answer"):
        harness.drain(threads=4)
    threading.Event().wait(0.05)
    after = (len(ran), len(commits))
    threading.Event().wait(0.2)
    assert (len(ran), len(commits)) == after


def test_a_document_that_knows_itself_is_forgotten_all_the_same(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    helpers: list[weakref.ref[object]] = []

    class Helper:
        def __init__(self, doc: holdfast.Document) -> None:
            self.doc = doc

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        doc.payload["helper"] = Helper(doc)
        helpers.append(weakref.ref(doc.payload["helper"]))

    harness.submit(*[f"d{number}" for number in range(20)])
    assert harness.drain().done == 20
    gc.collect()
    assert sum(helper() is not None for helper in helpers) <= 2  # what each thread did last


def test_async_calls_that_end_with_their_timeout_are_judged_once(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    calls: Counter[str] = Counter()

    @pipeline.step(timeout=timedelta(milliseconds=30), retry=holdfast.Retry(attempts=99, base=SOON.base))
    async def read(doc: holdfast.Document) -> None:
        calls[doc.key] += 1
        # Only the first calls race with the timeout: on a busy machine every call could lose, for minutes.
        await asyncio.sleep(random.uniform(0.027, 0.035) if calls[doc.key] <= 3 else 0)

    harness.submit(*[f"d{number}" for number in range(600)])
    assert harness.drain().done == 600


def test_bodies_do_not_run_far_ahead_of_a_slow_commit(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    ahead: list[int] = []

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        threading.Event().wait(0.01)
        ran.append(doc.key)

    harness.submit(*[f"d{number}" for number in range(100)])
    write = harness.store._write  # type: ignore[attr-defined]

    def slowly(*args: object) -> object:
        before = len(ran)
        if before > 40 and not ahead:  # the claim size has grown, and the worker holds many documents
            threading.Event().wait(0.5)
            ahead.append(len(ran) - before)
        return write(*args)

    monkeypatch.setattr(harness.store, "_write", slowly)
    assert harness.drain(threads=2).done == 100
    assert ahead[0] <= 3


def test_one_document_is_not_taken_for_many(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    with pytest.raises(holdfast.HoldfastError, match=r"documents=\['a.pdf'\]"):
        holdfast.submit(pipeline, harness.store, batch="b", documents="a.pdf")


def test_it_drains_from_a_thread_too(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None: ...

    harness.submit("a")
    reports: list[holdfast.Report] = []
    thread = threading.Thread(target=lambda: reports.append(harness.drain()))
    thread.start()
    thread.join(20)
    assert reports[0].done == 1


def test_a_move_that_the_store_refuses_fails_only_its_document(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, str]] = []
    for name in ("read", "split", "send"):
        pipeline.step(name=name)(lambda doc: ran.append((doc.step, doc.key)))
    past = Executor.past

    def jumps(executor: Executor, step: AnyStep, *rest: Any, **more: Any) -> Move:
        move = past(executor, step, *rest, **more)
        is_bad = executor.claim.key == "b" and step.name == "read"
        return replace(move, after=replace(move.after, step="send")) if is_bad else move

    monkeypatch.setattr(Executor, "past", jumps)
    harness.submit("a", "b", "c")
    report = harness.drain()
    assert (report.done, report.dead) == (2, 1)
    status = harness.document("b")
    assert (status.state, status.error, status.checkpoint.step) == ("dead", "MoveRefused", "read")
    assert "the document 'b' cannot go from 'read' to 'send': the next step is 'split'" in status.reason
    assert [step for step, key in ran if key == "b"] == ["read"], "it was tried again"
