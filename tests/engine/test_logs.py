"""What is said is said in fields too, and a line of JSON has them all."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine import logs
from holdfast.engine.logs import JsonFormatter, log_events
from tests.engine.conftest import SOON, Bench


class Told:
    """What was written, line by line."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    handler = logging.StreamHandler(told.stream)
    handler.setFormatter(JsonFormatter())
    logs.log.addHandler(handler)
    before = logs.log.level
    logs.log.setLevel(logging.DEBUG)
    yield told
    logs.log.setLevel(before)
    logs.log.removeHandler(handler)


def test_a_failure_is_told_with_everything_about_it(pipeline: holdfast.Pipeline, bench: Bench, told: Told) -> None:
    @pipeline.step
    def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)

    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def judge(doc: holdfast.Document) -> None:
        raise ValueError("not\nreadable")

    bench.submit("a")
    bench.drain(listeners=[log_events], name="ann")
    (line,) = told.of("fail")
    assert (line["level"], line["pipeline"], line["batch"], line["key"]) == ("error", "p", "b", "a")
    assert (line["worker"], line["step"], line["generation"], line["attempt"]) == ("ann", "judge", 0, 1)
    assert (line["state"], line["error"], line["reason"]) == ("dead", "ValueError", "not\nreadable")
    assert "in judge" in line["traceback"]
    assert line["message"].startswith("a of b: fail, now dead: ValueError: not")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


def test_a_try_that_failed_says_when_the_next_one_is(pipeline: holdfast.Pipeline, bench: Bench, told: Told) -> None:
    tried: list[int] = []

    @pipeline.step(retry=SOON)
    def work(doc: holdfast.Document) -> None:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("busy")

    bench.submit("a")
    bench.drain(listeners=[log_events])
    (line,) = told.of("fail")
    assert (line["level"], line["state"]) == ("warning", "waiting")
    assert 0 < line["delay"] < 0.1


def test_the_whole_life_of_a_run_is_told(pipeline: holdfast.Pipeline, bench: Bench, told: Told) -> None:
    pipeline.step(name="work")(lambda doc: [1, 2])
    bench.submit("a", "b")
    bench.drain(listeners=[log_events], name="ann", threads=1)
    assert told.lines[0]["event"] == "enlisted"
    assert told.lines[-1]["event"] == "retired"
    assert sum(line["documents"] for line in told.of("claimed")) == 2
    assert sum(line["moves"] for line in told.of("committed")) == 2
    assert sum(line["items"] for line in told.of("committed")) == 4
    assert sorted(line["key"] for line in told.of("done")) == ["a", "b"]
    assert sum(line["documents"] for line in told.of("paced")) == 2
    assert {line["worker"] for line in told.lines} == {"ann"}


def test_a_gate_is_told_as_parked(pipeline: holdfast.Pipeline, bench: Bench, told: Told) -> None:
    pipeline.step(name="work")(lambda doc: None)
    pipeline.gate("look")
    bench.submit("a")
    bench.drain(listeners=[log_events])
    (line,) = told.of("parked")
    assert (line["state"], line["step"]) == ("paused", "look")


def test_plain_progress_is_silent_above_debug(pipeline: holdfast.Pipeline, bench: Bench, told: Told) -> None:
    pipeline.step(name="work")(lambda doc: None)
    bench.submit("a")
    logs.log.setLevel(logging.INFO)
    bench.drain(listeners=[log_events])
    assert [line["event"] for line in told.lines] == ["enlisted", "retired"]


def test_every_field_and_event_is_explained(pipeline: holdfast.Pipeline, bench: Bench, told: Told) -> None:
    explained = set(re.findall(r"[a-z]+", logs.__doc__ or ""))
    pipeline.step(name="work")(lambda doc: None)
    pipeline.step(name="fail", retry=holdfast.Retry(attempts=1))(lambda doc: 1 / 0)
    bench.submit("a")
    bench.drain(listeners=[log_events])
    names = {name for line in told.lines for name in line} - {"time", "level", "message"}
    assert names <= explained
    assert {line["event"] for line in told.lines} <= explained


def test_every_event_is_in_the_list_that_people_read() -> None:
    listed = re.search(r"one of (.*?)\npipeline", logs.__doc__ or "", re.DOTALL)
    assert listed
    page = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `event` |")]
    assert set(re.findall(r"[a-z]+", listed[1])) <= set(re.findall(r"`([a-z]+)`", row))


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


def test_a_cursor_that_is_no_json_is_told_as_text() -> None:
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


def test_a_document_that_was_cancelled_is_not_said_to_be_another_workers(
    pipeline: holdfast.Pipeline, bench: Bench, told: Told
) -> None:
    @pipeline.step
    def work(doc: holdfast.Document) -> None:
        bench.store.cancel([bench.standing("a").id], who="cat", reason="not needed")

    bench.submit("a")
    bench.drain(listeners=[log_events])
    (line,) = told.of("lost")
    assert "no longer ours: taken over, or decided about; nothing of ours was written" in line["message"]
    assert "another worker" not in line["message"]
