"""A clock that was a day ahead and is set back, on the command line: it is said, and a worker puts it right."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.plan import Shape, StepShape
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness
from tests.cli.conftest import Run, Start

SHAPE = Shape("papers", (StepShape("extract", "stream"), StepShape("judge", "value")))
PUT_RIGHT = "Workers put that right by themselves, when they start and then once in each lease."


@pytest.fixture
def submitted_tomorrow(folder: Path) -> None:
    """Documents that were submitted by a clock that was a day ahead."""
    clock = ManualClock(datetime.now(UTC) + timedelta(days=1))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        harness = StoreHarness(store, clock, SHAPE)
        harness.submit("a.txt", "b.txt")
        store.retire_worker(harness.worker)


@pytest.mark.usefixtures("submitted_tomorrow")
def test_status_and_explain_say_it_until_a_worker_has_put_it_right(holdfast: Run, start: Start) -> None:
    assert PUT_RIGHT in holdfast("explain", "a.txt").stdout
    assert "because the clock was set back" in holdfast("explain", "--batch", "march", "papers").stdout
    told = " ".join(holdfast("status").stdout.split())
    assert "Times in the future: 2 waiting documents. " + PUT_RIGHT in told
    (pipeline,) = json.loads(holdfast("status", "--json").stdout)["pipelines"]
    assert pipeline["future_times"]["waiting"] == 2
    assert 86_000 < pipeline["future_times"]["ahead"] < 86_400

    worker = start("work", "papers.py", "--drain", "--budget", "60s", "--log", "json")
    output, log = worker.communicate(timeout=100)
    assert worker.returncode == 0, output + log
    (line,) = [json.loads(line) for line in log.splitlines() if '"event":"clock"' in line]
    assert (line["level"], line["documents"]) == ("warning", 2)
    assert line["message"].endswith("; put right: 2 waiting documents")

    (pipeline,) = json.loads(holdfast("status", "--json").stdout)["pipelines"]
    assert (pipeline["batches"][0]["done"], pipeline["future_times"]["waiting"]) == (2, 0)
    assert "clock" not in holdfast("status").stdout
    assert "the wait starts again" in holdfast("show", "a.txt").stdout
