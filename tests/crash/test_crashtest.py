"""The crash test itself: it finds and names mistakes, and it does not fail for correct pipelines."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from datetime import timedelta
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

    with pytest.raises(Differs, match=r"document 'one': unexpected: item 3 of step 'count'"):
        crash_everywhere(pipeline_of(count), ONE)


def test_a_sum_in_a_variable_is_found_with_its_step_and_item():
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
        """A body with a mistake: if the mark exists, it assumes that the row was written too."""
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
    """Return True if an earlier body left a mark beside the database of this run. That one was killed."""
    mark = Path(os.environ["HOLDFAST_STORE"].removeprefix("sqlite:///")).parent / "mark"
    found = mark.exists()
    mark.touch()
    return found


def test_a_pipeline_with_another_result_each_time_is_reported_with_what_to_ignore():
    def stamp(doc):
        return {"at": time.time_ns(), "name": doc.key}

    pipeline = pipeline_of(stamp)

    @pipeline.steps[0].effect
    def write(tx, doc, value):
        tx.execute("insert into stamped values (?, ?)", (doc.key, value["at"]))

    pipeline.steps[0].undo(lambda tx, doc: tx.execute("delete from stamped"))

    def prepare(tx):
        tx.execute("create table stamped (document text, at integer)")

    with pytest.raises(Differs, match="another result each time") as failure:
        crash_everywhere(pipeline, ONE, prepare=prepare)
    assert "ignore=('stamp.at', 'stamped.at',)" in str(failure.value)
    assert crash_everywhere(pipeline, ONE, prepare=prepare, ignore=("stamp.at", "stamped.at")).kills > 0


def test_generated_numbers_may_differ(server):
    def name(doc, cursor=0):
        yield from range(cursor, 2)

    pipeline = pipeline_of(name)

    @pipeline.steps[0].rows("named")
    def rows(doc, values):
        return [{"document": doc.key, "number": value} for value in values]

    def prepare(tx):
        number = "integer primary key" if tx.dialect == "sqlite" else "bigserial primary key"
        tx.execute(f"create table named (id {number}, document_id bigint, document text, number integer)")

    crash_everywhere(pipeline, [("one", None), ("two", None)], store=server, prepare=prepare)


TWO = [("one", {"pages": 1}), ("two", {"pages": 2})]


def read(doc, cursor=0):
    yield from range(cursor, doc.payload["pages"])


def create_pages(tx):
    tx.execute("create table page (key text, number integer)")


def add_pages(tx, doc, numbers):
    tx.executemany("insert into page values (?, ?)", [(doc.key, number) for number in numbers])


def test_a_pipeline_whose_documents_leave_no_rows_behind_passes_and_says_so():
    pipeline = pipeline_of(read)
    pipeline["read"].effect(add_pages)
    pipeline["read"].undo(lambda tx, doc: tx.execute("delete from page where key = ?", (doc.key,)))
    report = crash_everywhere(pipeline, TWO, prepare=create_pages)
    assert report.changes == 7  # three half-way, one when all is done, and three kills of that
    assert str(report).endswith(
        "In 7 more runs documents changed or were rewound; it was that of a fresh run after each"
    )


def test_an_effect_without_an_undo_is_found_and_named():
    pipeline = pipeline_of(read)
    pipeline["read"].effect(add_pages)
    with pytest.raises(Differs) as failure:
        crash_everywhere(pipeline, TWO, prepare=create_pages)
    report = failure.value.report
    assert {finding.scenario for finding in report.findings} == {"changed", "redone"}
    assert report.without_undo == ("read",)
    message = str(report)
    assert "documents that changed or were rewound did not end like those of a fresh run" in message
    assert "done, then changed and rewound:\n  table page: duplicate: key='one', number=0" in message
    assert "Step 'read' has an effect and no undo" in message
    assert "@read.undo, or return the rows with @read.rows" in message


def test_an_undo_that_uses_the_present_payload_for_earlier_rows_is_found():
    pipeline = pipeline_of(lambda doc: doc.payload["pages"], name="count")
    pipeline["count"].effect(lambda tx, doc, pages: tx.execute("update total set pages = pages + ?", (pages,)))

    @pipeline["count"].undo
    def subtract(tx, doc):
        tx.execute("update total set pages = pages - ?", (doc.payload["pages"],))

    def prepare(tx):
        tx.execute("create table total (pages integer)")
        tx.execute("insert into total values (0)")

    report = crashtest(pipeline, TWO, prepare=prepare)
    assert "table total: missing: pages=3" in str(report)
    assert "An undo must remove all that the effect of its step wrote, and no more." in str(report)


def test_documents_that_an_earlier_version_submitted_to_another_pipeline_are_found_unless_it_is_ignored():
    index = holdfast.Pipeline("index")
    index.step(name="look_up")(lambda doc: doc.payload)
    pipeline = pipeline_of(read)
    pipeline["read"].effect(lambda tx, doc, pages: [tx.submit(index, f"{doc.key}/{page}", page) for page in pages])
    pipeline["read"].undo(lambda tx, doc: None)
    report = str(crashtest(pipeline, TWO))
    assert "document 'one/1 of index/crashtest': unexpected: the document itself" in report
    assert "ignore=('index',)" in report
    assert crashtest(pipeline, TWO, ignore=["index"]).passed


def test_a_pipeline_that_refuses_the_payload_of_another_document_is_changed_in_its_fingerprint_only():
    def only_mine(doc):
        if doc.payload != doc.key:
            raise holdfast.Reject("not mine")
        return doc.key

    report = crash_everywhere(pipeline_of(only_mine), [("one", "one"), ("two", "two")])
    assert report.states == {"done": 2}
    assert report.changes == 3  # nothing is undone, so there is nothing to kill


def test_failing_documents_fail_in_the_same_way_after_a_kill():
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
    kills = []
    report = crashtest(pipeline_of(lambda doc: 1, name="only"), ONE, points=[3], progress=kills.append)
    assert report.kills == 2
    assert [(kill.done, kill.total, kill.point.number, kill.point.side) for kill in kills] == [
        (1, 2, 3, "before"),
        (2, 2, 3, "after"),
    ]


def test_a_document_that_fails_after_the_kill_is_reported_with_its_error():
    def only_once(doc):
        if _was_here_before():
            raise FileExistsError("somebody was here before")

    report = str(crashtest(pipeline_of(only_once, retry=holdfast.Retry(attempts=1)), ONE))
    assert "document 'one': different: dead at step 'only_once', FileExistsError: somebody was here before" in report
    assert "undisturbed: done" in report


def test_a_run_that_does_not_end_is_reported(monkeypatch):
    monkeypatch.setattr(runs, "TIME_LIMIT_SECONDS", 1.0)

    def hang(doc):
        if _was_here_before():
            time.sleep(60)  # the body hangs: that is what the test is about

    report = crashtest(pipeline_of(hang), ONE, points=[3])
    assert "it did not end within" in str(report)


def test_tables_that_cannot_be_created_are_reported():
    with pytest.raises(RunFailed, match=r"could not be prepared: (?s:.)*syntax error"):
        crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE, prepare=lambda tx: tx.execute("create nonsense"))


def test_a_store_in_memory_is_refused():
    with pytest.raises(holdfast.StoreError, match="outlives its process"):
        crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE, store="memory://")


def test_the_crash_test_runs_in_a_process_with_threads():
    end = threading.Event()
    threading.Thread(target=end.wait, daemon=True).start()
    try:
        assert crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE).kills > 0
    finally:
        end.set()


def test_a_worker_claims_the_documents_of_its_killed_predecessor_at_once():
    report = crash_everywhere(pipeline_of(lambda doc: 1, name="only"), ONE)
    assert 0 < report.slowest_resume < 5  # seconds: the lease is not waited for


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_an_effect_that_ends_its_transaction_is_found_and_named(server, how):
    def read(doc):
        return doc.key

    pipeline = pipeline_of(read)

    @pipeline.steps[0].effect
    def store_key(tx, doc, key):
        cursor = tx.execute("insert into seen values ('a key')")
        with suppress(Exception):
            getattr(cursor.connection, how)()

    with pytest.raises(Differs) as found:
        crash_everywhere(
            pipeline, ONE, store=server, prepare=lambda tx: tx.execute("create table seen (key text)") and None
        )
    report = found.value.report
    assert not report.passed
    assert report.kills == 0
    assert [difference.place for difference in report.ended] == ["document 'one'"]
    assert "the effect 'store_key' of step 'read'" in str(report)


def test_documents_that_effects_submit_to_another_pipeline_are_compared():
    other = holdfast.Pipeline("other")

    @other.step
    def store(doc):
        return doc.payload

    def read(doc):
        return os.getpid()  # another one in each run

    pipeline = pipeline_of(read, keep=False)

    @pipeline.steps[0].effect
    def submit(tx, doc, pid):
        tx.submit(other, f"{doc.key} read by {pid}")

    report = crashtest(pipeline, ONE)
    assert sorted(difference.kind for difference in report.unstable) == ["extra", "missing"]
    assert all("of other/crashtest" in difference.place for difference in report.unstable)


@pytest.mark.parametrize(
    ("every", "fixed"),
    [(None, 1), (timedelta(seconds=1), 1), (7, 7), ((7, timedelta(seconds=1)), 7)],
)
def test_no_stream_is_committed_by_time(every, fixed):
    pipeline = pipeline_of(fetch, commit_every=every)
    assert runs.with_fixed_commits(pipeline).first.options.commit_every == fixed
    assert pipeline.first.options.commit_every == every


def fetch(doc, cursor=None):
    """Read an API whose last page has no token."""
    pages = {None: ("one", "p2"), "p2": ("two", "p3"), "p3": ("three", None)}
    while True:
        record, cursor = pages[cursor]
        yield holdfast.At(cursor, record)


def end_only(doc, cursor=None):
    if cursor is None:
        yield holdfast.At("p2", "one")
    yield holdfast.At(None)


@pytest.mark.parametrize("body", [fetch, end_only])
def test_a_stream_that_ends_with_a_cursor_that_is_none_passes(body):
    def count(doc):
        return len(doc.output(pipeline.first))

    pipeline = pipeline_of(body, count)
    pipeline.first.rows("record")(lambda doc, records: [{"record": record} for record in records])

    def prepare(tx):
        tx.execute("create table record (document_id integer, record text)")

    assert crash_everywhere(pipeline, ONE, prepare=prepare).kills > 0


@pytest.mark.parametrize("change", ["driver", "schema"])
def test_a_database_may_be_named_as_any_command_names_it(postgres_url: str, tmp_path: Path, change: str) -> None:
    scheme, _, rest = postgres_url.partition("://")
    mark = "&" if "?" in rest else "?"
    url = f"{scheme}+psycopg://{rest}" if change == "driver" else f"{postgres_url}{mark}schema=jobs"

    def one(doc):
        return 1

    report = crash_everywhere(pipeline_of(one), ONE, store=url)
    assert report.kills > 0
