"""Errors with a category: what happens to the document, and where `recoverable` is shown."""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app
from holdfast.cli.ui.batch_report_html import render_batch_report
from holdfast.core.model import DocumentStatus
from holdfast.observe.events import Event, GaveBack
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import SOON, PipelineHarness


def test_an_effect_that_violates_a_constraint_is_not_tried_again(any_store: Store, pipeline: holdfast.Pipeline) -> None:
    calls: list[str] = []
    with any_store.transaction() as tx:
        tx.execute("create table paid (key varchar(20) primary key)")
        tx.execute("insert into paid values ('a')")

    @pipeline.step(retry=SOON)
    def pay(doc: holdfast.Document) -> str:
        calls.append(doc.key)
        return doc.key

    @pay.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, key: str) -> None:
        tx.execute(f"insert into paid values ('{key}')")

    harness = PipelineHarness(any_store, pipeline)
    harness.submit("a", "b")
    harness.drain()
    dead = harness.document("a")
    assert (dead.state, dead.recoverable, dead.attempts) == ("dead", False, 1)
    assert harness.document("b").state == "done"
    assert sorted(calls) == ["a", "b"]


def test_a_constraint_that_is_declared_transient_is_tried_again(any_store: Store, pipeline: holdfast.Pipeline) -> None:
    transient = (sqlite3.IntegrityError, psycopg.IntegrityError)
    with any_store.transaction() as tx:
        tx.execute("create table paid (key varchar(20) primary key)")
        tx.execute("insert into paid values ('a')")

    @pipeline.step(retry=holdfast.Retry(base=timedelta(milliseconds=1), attempts=2, transient=transient))
    def pay(doc: holdfast.Document) -> str:
        return doc.key

    @pay.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, key: str) -> None:
        tx.execute(f"insert into paid values ('{key}')")

    harness = PipelineHarness(any_store, pipeline)
    harness.submit("a")
    harness.drain()
    assert (harness.document().attempts, harness.document().recoverable) == (2, True)


def test_a_constraint_in_a_body_is_tried_again(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    """A body may lose a race for a row of its own. Another attempt may find the row of the other."""

    @pipeline.step(retry=SOON)
    def pay(doc: holdfast.Document) -> str:
        raise sqlite3.IntegrityError("UNIQUE constraint failed")

    harness.submit("a")
    harness.drain()
    assert (harness.document().attempts, harness.document().recoverable) == (3, False)


class Refused(Exception):
    """An error with a status, as HTTP libraries have it."""

    status_code = 500


def test_an_error_of_a_child_process_keeps_its_category(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    events: list[Event] = []

    @pipeline.step(runs_in="process", retry=holdfast.Retry(attempts=1), circuit=None)
    def call(doc: holdfast.Document) -> None:
        raise Refused("internal error")

    harness.submit("a")
    harness.drain(listeners=[events.append])
    (entry,) = harness.store.journal(harness.document().id)
    assert (entry.detail["error"]["recoverable"], entry.detail["error"]["category"]) == (True, "server_error")
    assert harness.document().recoverable is True
    failures = [one.failure for event in events if isinstance(event, GaveBack) for one in event.releases]
    assert [failure.category for failure in failures if failure] == ["server_error"]


@pytest.fixture
def dead_letters(tmp_path: Path) -> str:
    """The URL of a store with two dead letters, and a document with an item that was set aside."""
    url = f"sqlite:///{tmp_path}/shown.db"
    pipeline = holdfast.Pipeline("p")

    @pipeline.step
    def parts(doc: holdfast.Document) -> list[int]:
        return list(range(20))

    @pipeline.step(over=parts, retry=holdfast.Retry(attempts=1))
    def call(doc: holdfast.Document, part: int) -> int:
        if doc.key == "aside" and part == 3:
            raise sqlite3.IntegrityError("UNIQUE constraint failed")
        if doc.key == "broken":
            raise sqlite3.IntegrityError("UNIQUE constraint failed")
        if doc.key == "odd":
            raise ValueError("what is this")
        return part

    with holdfast.open(url) as store:
        holdfast.submit(pipeline, store, batch="b", documents=[(key, None) for key in ("aside", "broken", "odd")])
        holdfast.drain(pipeline, store)
    return url


def run(url: str, *arguments: str) -> str:
    return CliRunner().invoke(app, [*arguments, "--store", url], catch_exceptions=False).output


def test_the_command_line_shows_whether_an_error_is_recoverable(dead_letters: str) -> None:
    letters = json.loads(run(dead_letters, "dead", "list", "--json"))["dead_letters"]
    assert {letter["key"]: letter["recoverable"] for letter in letters} == {"broken": False, "odd": None}
    assert json.loads(run(dead_letters, "show", "broken", "--json"))["recoverable"] is False
    assert json.loads(run(dead_letters, "explain", "broken", "--json"))["recoverable"] is False
    (aside,) = json.loads(run(dead_letters, "show", "aside", "--json"))["asides"]
    assert (aside["error"]["recoverable"], aside["error"]["category"]) == (False, "constraint")
    status = json.loads(run(dead_letters, "status", "--json"))["pipelines"][0]["dead_letters"]
    assert {letter["key"]: letter["recoverable"] for letter in status} == {"broken": False, "odd": None}


@pytest.mark.wording
def test_people_read_whether_an_error_is_recoverable(dead_letters: str) -> None:
    assert "not recoverable" in run(dead_letters, "dead", "list")
    assert "somebody has to do something first" in run(dead_letters, "show", "broken")
    assert "(not recoverable)" in run(dead_letters, "show", "aside")
    assert "does not go away by itself" in run(dead_letters, "explain", "broken")
    assert "unknown" in run(dead_letters, "show", "odd")


def test_the_report_of_a_batch_says_which_dead_letters_are_recoverable(dead_letters: str) -> None:
    with holdfast.open(dead_letters) as store:
        report = store.report("p", "b")
    assert {letter.key: letter.recoverable for letter in report.dead_letters} == {"broken": False, "odd": None}
    assert report.is_whole
    assert "(not recoverable)" in render_batch_report(report)


def test_python_values_say_it(dead_letters: str) -> None:
    with holdfast.open(dead_letters) as store:
        documents: list[DocumentStatus] = store.documents("p", state="dead")
        assert {one.key: one.recoverable for one in documents} == {"broken": False, "odd": None}
