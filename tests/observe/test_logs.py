"""Log records have fields with stable names, and a JSON line contains them all."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.model import Checkpoint
from holdfast.core.moves import ACCEPTED, Move
from holdfast.observe import logs
from holdfast.observe.logs import JsonFormatter, TextFormatter, log_events
from holdfast.stores.protocol import OrphanVerdict
from tests.support.pipeline_harness import SOON, PipelineHarness


class LoggedLines:
    """The JSON lines that were logged."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


@pytest.fixture
def logged() -> Iterator[LoggedLines]:
    logged = LoggedLines()
    handler = logging.StreamHandler(logged.stream)
    handler.setFormatter(JsonFormatter())
    logs.log.addHandler(handler)
    before = logs.log.level
    logs.log.setLevel(logging.DEBUG)
    yield logged
    logs.log.setLevel(before)
    logs.log.removeHandler(handler)


def test_a_failure_is_logged_with_all_its_fields(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    @pipeline.step
    def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def judge(doc: holdfast.Document) -> None:
        raise ValueError("not\nreadable")

    harness.submit("a")
    harness.drain(listeners=[log_events], name="ann")
    (line,) = logged.of("fail")
    assert (line["level"], line["pipeline"], line["batch"], line["key"]) == ("error", "p", "b", "a")
    assert (line["worker"], line["step"], line["generation"], line["attempt"]) == ("ann", "judge", 0, 1)
    assert (line["state"], line["error"], line["reason"]) == ("dead", "ValueError", "not\nreadable")
    assert "in judge" in line["traceback"]
    assert line["message"].startswith("a of b: fail, now dead: ValueError: not")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


def test_a_try_that_failed_says_when_the_next_one_is(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    tried: list[int] = []

    @pipeline.step(retry=SOON)
    def work(doc: holdfast.Document) -> None:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("busy")

    harness.submit("a")
    harness.drain(listeners=[log_events])
    (line,) = logged.of("fail")
    assert (line["level"], line["state"]) == ("warning", "waiting")
    assert 0 < line["delay"] < 0.1


def test_a_whole_run_is_logged(pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines) -> None:
    pipeline.step(name="work")(lambda doc: [1, 2])
    harness.submit("a", "b")
    harness.drain(listeners=[log_events], name="ann", threads=1)
    assert logged.lines[0]["event"] == "started"
    assert logged.lines[-1]["event"] == "stopped"
    assert sum(line["documents"] for line in logged.of("claimed")) == 2
    assert sum(line["moves"] for line in logged.of("committed")) == 2
    assert sum(line["items"] for line in logged.of("committed")) == 4
    assert sorted(line["key"] for line in logged.of("done")) == ["a", "b"]
    assert sum(line["documents"] for line in logged.of("timed")) == 2
    assert {line["worker"] for line in logged.lines} == {"ann"}


def test_a_document_at_a_gate_is_logged_as_parked(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    pipeline.gate("look")
    harness.submit("a")
    harness.drain(listeners=[log_events])
    (line,) = logged.of("parked")
    assert (line["state"], line["step"]) == ("paused", "look")


def test_plain_progress_is_silent_above_debug(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    logs.log.setLevel(logging.INFO)
    harness.drain(listeners=[log_events])
    assert [line["event"] for line in logged.lines] == ["started", "stopped"]


def test_a_document_that_is_taken_up_again_is_logged_with_its_place(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    budget = holdfast.Budget()

    @pipeline.step
    def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 6):
            yield number
            if number == 3 and not cursor:
                budget.stop("a deploy")

    harness.submit("a", "b")
    harness.drain(listeners=[log_events], budget=budget, threads=1, concurrency=1)
    assert logged.of("resumed") == []
    logs.log.setLevel(logging.INFO)
    harness.drain(listeners=[log_events], name="bob")
    (line,) = logged.of("resumed")
    assert (line["level"], line["key"], line["step"], line["worker"]) == ("info", "a", "extract", "bob")
    assert 0 < line["cursor"] < 6
    assert (line["claim"], line["document"]) == (2, harness.document("a").id)
    assert line["message"] == f"a of b: taken up again at extract, cursor {line['cursor']}, attempt 1"


def test_a_move_that_is_made_already_is_skipped_with_an_information(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    @pipeline.step
    def work(doc: holdfast.Document) -> None:
        """Another worker takes the document over and finishes it, while this one still works on it."""
        if len(started) == 1:
            return
        started.append(doc.key)
        store, plan = harness.store, harness.store.declare(pipeline.shape())
        ((mine, _),) = [(worker, silent) for worker, _, silent in store.workers()]
        store.reclaim(plan, who="bob", decide=lambda _: OrphanVerdict("waiting"), gone=[mine.id])
        other = store.register_worker(name="bob", host="h", pid=1, born="", lease=timedelta(hours=1))
        (claim,) = store.claim(plan, other, limit=1)
        at = claim.checkpoint
        done = Checkpoint(at.generation, None, None, at.moves + 1)
        assert store.commit(plan, [Move(claim, at, done, "done")]) == [ACCEPTED]

    started: list[str] = []
    harness.submit("a")
    harness.drain(listeners=[log_events], threads=1)
    (line,) = logged.of("skipped")
    assert (line["level"], line["state"], line["claim"]) == ("info", "done", 1)
    assert line["message"] == "a of b: its move was skipped, because the document is already done"
    assert logged.of("lost") == []


def test_a_submit_of_done_documents_names_them_only_for_debugging(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    pipeline.step(name="work")(lambda doc: None)
    documents = [("a", 1), ("b", 1)]
    holdfast.submit(pipeline, harness.store, batch="b", documents=documents[:1])
    harness.drain()
    holdfast.submit(pipeline, harness.store, batch="b", documents=documents, listeners=[log_events])
    (line,) = logged.of("unchanged")
    assert (line["level"], line["key"], line["batch"], line["state"]) == ("debug", "a", "b", "done")
    assert line["message"] == "a of b: already done and unchanged, so there is nothing to do"
    (line,) = logged.of("submitted")
    assert (line["level"], line["documents"]) == ("info", 2)
    assert line["message"] == "submitted to b: 1 new, 0 changed, 1 unchanged; 1 are done already"


def test_the_start_of_a_worker_names_the_versions_that_it_runs(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    pipeline.step(name="work", version=3)(lambda doc: None)
    harness.drain(listeners=[log_events])
    (line,) = logged.of("started")
    assert line["holdfast"] == holdfast.__version__
    shape = harness.store.shape_of(line["plan"])
    assert shape is not None
    assert shape.steps[0].version == 3


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_items_that_are_set_aside_are_warnings(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines, level: int
) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document) -> list[int]:
        return list(range(20))

    @pipeline.step(over=pages, retry=holdfast.Retry(attempts=2, base=SOON.base))
    def judge(doc: holdfast.Document, page: int) -> int:
        if page == 7:
            raise TimeoutError("no answer")
        return page

    logs.log.setLevel(level)
    harness.submit("a")
    harness.drain(listeners=[log_events])
    first, second = logged.of("aside")
    assert first["level"] == "warning"
    assert (first["key"], first["step"], first["position"], first["attempt"]) == ("a", "judge", 7, 1)
    assert (first["error"], first["reason"], first["recoverable"]) == ("TimeoutError", "no answer", True)
    assert "raise TimeoutError" in first["traceback"]
    assert "item 7 of judge is set aside after 2 tries: TimeoutError: no answer" in second["message"]


@pytest.mark.parametrize("form", [JsonFormatter(labels={"run_id": 7}), TextFormatter(labels={"run_id": 7})])
def test_labels_are_in_every_record(form: logging.Formatter) -> None:
    text = form.format(logging.makeLogRecord({"msg": "said", "holdfast": {"event": "x"}}))
    assert '"labels":{"run_id":7}' in text or text == "said run_id=7"


def test_every_field_and_event_is_explained(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    explained = set(re.findall(r"[a-z]+", logs.__doc__ or ""))
    pipeline.step(name="work")(lambda doc: None)
    pipeline.step(name="fail", retry=holdfast.Retry(attempts=1))(lambda doc: 1 / 0)
    harness.submit("a")
    harness.drain(listeners=[log_events])
    names = {name for line in logged.lines for name in line} - {"time", "level", "message"}
    assert names <= explained
    assert {line["event"] for line in logged.lines} <= explained


def test_every_event_is_in_the_list_that_people_read() -> None:
    listed = re.search(r"one of (.*?)\npipeline", logs.__doc__ or "", re.DOTALL)
    assert listed
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    table = page.partition("| event | what happened |")[2].partition("\n\n")[0]
    assert set(re.findall(r"[a-z]+", listed[1])) <= set(re.findall(r"`([a-z]+)`", table))


def test_records_of_others_are_lines_too() -> None:
    try:
        {}["x"]
    except KeyError:
        record = logging.LogRecord("their.log", logging.ERROR, "f.py", 1, "it %s", ("broke",), sys.exc_info())
    line = json.loads(JsonFormatter().format(record))
    assert (line["event"], line["logger"], line["message"], line["error"]) == (
        "log",
        "their.log",
        "it broke",
        "KeyError",
    )
    assert "KeyError: 'x'" in line["traceback"]


@pytest.mark.parametrize("odd", ["a\nb", "\udcff", "ünï"])
def test_an_odd_name_is_still_one_line(odd: str) -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": (odd,), "holdfast": {"event": "x", "key": odd}})
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert json.loads(text)["key"] == odd


def test_a_cursor_that_is_not_json_is_logged_as_text() -> None:
    record = logging.makeLogRecord(
        {
            "msg": "said",
            "holdfast": {
                "event": "x",
                "cursor": {
                    1,
                },
            },
        }
    )
    assert json.loads(JsonFormatter().format(record))["cursor"]


def test_a_cancelled_document_is_not_logged_as_taken_by_another_worker(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, logged: LoggedLines
) -> None:
    @pipeline.step
    def work(doc: holdfast.Document) -> None:
        harness.store.cancel([harness.document("a").id], who="cat", reason="not needed")

    harness.submit("a")
    harness.drain(listeners=[log_events])
    (line,) = logged.of("lost")
    assert "its claim was lost: it was taken over, or a person decided about it; nothing was written" in line["message"]
    assert "another worker" not in line["message"]
