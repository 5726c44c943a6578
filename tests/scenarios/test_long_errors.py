"""Errors with long messages do not fill the store, the logs or the output."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.core.text_limits import MAX_REASON, MAX_TRACEBACK
from holdfast.observe.log_formatters import JsonFormatter, TextFormatter
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness

LONG = "start " + "x" * 5_000_000 + " end"
SHOWN = f"{len(LONG):,} characters"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with holdfast.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


def _fail() -> None:
    """Raise a chain of errors, each with the response of a service in its message."""
    raise ValueError(LONG) from OSError(LONG)


def test_long_messages_do_not_fill_the_store(store: Store, pipeline: holdfast.Pipeline, tmp_path: Path) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> None:
        _fail()

    harness = PipelineHarness(store, pipeline)
    harness.submit(*(f"{number}" for number in range(15)))
    assert harness.drain().dead == 15
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size < 5_000_000, "15 messages of 5 MB made a store of 184 MB"
    document = harness.document("0")
    assert SHOWN in document.reason
    error = store.journal(document.id)[-1].detail["error"]
    assert len(error["message"]) == MAX_REASON
    assert len(error["traceback"]) <= MAX_TRACEBACK
    assert "_fail" in error["traceback"], "the frames are kept"


def test_long_messages_of_items_do_not_fill_the_store(
    store: Store, pipeline: holdfast.Pipeline, tmp_path: Path
) -> None:
    @pipeline.step
    def numbers(doc: holdfast.Document) -> list[int]:
        return [*range(15)]

    @pipeline.step(over=numbers, retry=holdfast.Retry(attempts=1), failure_rate=1.0)
    def read(doc: holdfast.Document, number: int) -> None:
        _fail()

    harness = PipelineHarness(store, pipeline)
    harness.submit("a")
    assert harness.drain().done == 1
    assert len(store.failed_items(harness.document().id)) == 15
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 5_000_000


@pytest.mark.parametrize("signal", [holdfast.RetryLater(LONG, after=3600), holdfast.Pause(LONG), holdfast.Reject(LONG)])
def test_a_long_reason_of_a_body_is_cut(store: Store, pipeline: holdfast.Pipeline, signal: Exception) -> None:
    budget = holdfast.Budget()

    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        budget.stop("it was tried")
        raise signal

    harness = PipelineHarness(store, pipeline)
    harness.submit("a")
    harness.drain(budget=budget)
    assert SHOWN in harness.document().reason
    assert len(json.dumps(store.journal(harness.document().id)[-1].detail)) < 2 * MAX_TRACEBACK


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_long_log_record_is_cut(formatter: logging.Formatter) -> None:
    try:
        _fail()
    except ValueError as error:
        record = logging.LogRecord(
            "theirs", logging.ERROR, __file__, 1, LONG, (), (ValueError, error, error.__traceback__)
        )
    line = formatter.format(record)
    assert len(line) < 200_000
    assert SHOWN in line or "characters in all" in line
