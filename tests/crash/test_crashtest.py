"""The crash test itself: it finds what is wrong, names it, and is not fooled by what is right."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.crash import Differs, RunFailed, crash_everywhere, crashtest, runs

ONE = [("one", None)]


def pipeline_of(*bodies, **options):
    pipeline = holdfast.Pipeline("tried")
    for body in bodies:
        pipeline.step(**options)(body)
    return pipeline


def test_a_stream_that_does_not_begin_at_its_cursor_is_found():
    def count(doc, cursor=0):
        yield from range(3)

    with pytest.raises(Differs, match=r"document 'one': too much: item 3 of step 'count'"):
        crash_everywhere(pipeline_of(count), ONE)


def test_a_sum_in_a_variable_is_found_with_the_step_and_the_item_that_differ():
    def add_up(doc, cursor=0):
        total = 0
        for number in range(cursor, 3):
            total += number
            yield {"number": number, "total": total}

    report = crashtest(pipeline_of(add_up), ONE)
    finding = report.findings[0]
    assert (finding.point.step, finding.point.to, finding.point.side) == ("add_up", 2, "after")
    (difference,) = finding.differences
    assert (difference.place, difference.kind) == ("document 'one'", "differs")
    assert difference.row == """item 2 of step 'add_up': {"number":2,"total":2}"""
    assert difference.note == """undisturbed: {"number":2,"total":3}"""


def test_a_row_that_only_the_first_run_writes_is_found_missing():
    def once(doc):
        """Thinks that whoever left a mark also wrote the row."""
        return "skip" if _was_here_before() else "write"

    pipeline = pipeline_of(once)

    @pipeline.steps[0].effect
    def write(tx, doc, value):
        if value == "write":
            tx.execute("insert into seen values (?)", (doc.key,))

    report = crashtest(pipeline, ONE, prepare=lambda tx: tx.execute("create table seen (document text)"))
    missing = [difference for finding in report.findings for difference in finding.differences]
    assert "table seen: missing: document='one'" in map(str, missing)


def _was_here_before() -> bool:
    """Answers whether a body left a mark beside this run's database: one that was killed, then."""
    mark = Path(os.environ["HOLDFAST_STORE"].removeprefix("sqlite:///")).parent / "mark"
    found = mark.exists()
    mark.touch()
    return found


def test_a_pipeline_that_is_never_the_same_is_told_so_with_what_to_ignore():
    def stamp(doc):
        return {"at": time.time_ns(), "name": doc.key}

    pipeline = pipeline_of(stamp)

    @pipeline.steps[0].effect
    def write(tx, doc, value):
        tx.execute("insert into stamped values (?, ?)", (doc.key, value["at"]))

    def prepare(tx):
        tx.execute("create table stamped (document text, at integer)")

    with pytest.raises(Differs, match="another result each time") as told:
        crash_everywhere(pipeline, ONE, prepare=prepare)
    assert "ignore=('stamp.at', 'stamped.at',)" in str(told.value)
    assert crash_everywhere(pipeline, ONE, prepare=prepare, ignore=("stamp.at", "stamped.at")).kills > 0


def test_numbers_that_the_database_gives_out_may_change(server):
    def name(doc, cursor=0):
        yield from range(cursor, 2)

    pipeline = pipeline_of(name)

    @pipeline.steps[0].effect
    def write(tx, doc, values):
        for value in values:
            place = "(?, ?)" if tx.dialect == "sqlite" else "(%s, %s)"
            tx.execute(f"insert into named (document, number) values {place}", (doc.key, value))

    def prepare(tx):
        number = "integer primary key" if tx.dialect == "sqlite" else "bigserial primary key"
        tx.execute(f"create table named (id {number}, document text, number integer)")

    crash_everywhere(pipeline, [("one", None), ("two", None)], store=server, prepare=prepare)


def test_documents_that_fail_fail_in_the_same_way_after_a_kill():
    def judge(doc):
        if doc.payload == "bad":
            raise holdfast.Reject("no good")
        if doc.payload == "late":
            raise holdfast.Pause("not yet")

    documents = [("a", "good"), ("b", "bad"), ("c", "late")]
    assert crash_everywhere(pipeline_of(judge), documents).states == {"done": 1, "dead": 1, "paused": 1}


def test_items_that_were_set_aside_are_set_aside_again_after_a_kill():
    pipeline = holdfast.Pipeline("tried")

    @pipeline.step
    def count(doc):
        return list(range(4))

    @pipeline.step(over=count, size=2, failure_rate=0.5, retry=holdfast.Retry(attempts=1))
    def divide(doc, numbers):
        return [6 // number for number in numbers]

    assert crash_everywhere(pipeline, ONE).states == {"done": 1}


def test_only_the_named_points_are_tried():
    heard = []
    report = crashtest(pipeline_of(lambda doc: 1, name="only"), ONE, points=[3], progress=heard.append)
    assert report.kills == 2
    assert [(said.done, said.total, said.point.number, said.point.side) for said in heard] == [
        (1, 2, 3, "before"),
        (2, 2, 3, "after"),
    ]


def test_a_document_that_cannot_go_on_after_the_kill_is_told_with_its_error():
    def only_once(doc):
        if _was_here_before():
            raise FileExistsError("somebody was here before")

    told = str(crashtest(pipeline_of(only_once, retry=holdfast.Retry(attempts=1)), ONE))
    assert "document 'one': not the same: dead at step 'only_once', FileExistsError: somebody was here before" in told
    assert "undisturbed: done" in told


def test_a_run_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr(runs, "PATIENCE", 1.0)

    def hang(doc):
        if _was_here_before():
            time.sleep(60)

    report = crashtest(pipeline_of(hang), ONE, points=[3])
    assert "it did not end within" in str(report)


def test_tables_that_cannot_be_prepared_are_told():
    with pytest.raises(RunFailed, match=r"could not be prepared: (?s:.)*syntax error"):
        crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE, prepare=lambda tx: tx.execute("create nonsense"))


def test_a_store_that_dies_with_its_process_is_refused():
    with pytest.raises(holdfast.StoreError, match="outlives its process"):
        crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE, store="memory://")


def test_it_works_in_a_process_that_has_threads():
    end = threading.Event()
    threading.Thread(target=end.wait, daemon=True).start()
    try:
        assert crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE).kills > 0
    finally:
        end.set()


def test_a_worker_takes_over_from_its_killed_predecessor_at_once():
    report = crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE)
    assert 0 < report.slowest_resume < 0.3
