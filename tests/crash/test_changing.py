"""A pipeline changes while its workers are killed: what is stale is known all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import holdfast
from holdfast.engine.stale import stale_groups
from tests.crash.changing import STEPS, pipeline

FOR_EVER = 1_000_000


def work(url: str, version: int, *, bodies: int) -> int:
    """Runs a worker of a version that is killed after so many bodies, and gives its exit code."""
    words = [sys.executable, "-m", "tests.crash.changing", url, str(version), str(bodies)]
    return subprocess.run(words, cwd=Path(__file__).parents[2], timeout=60, check=False).returncode


def test_documents_know_what_they_were_done_under_whatever_was_killed(url: str) -> None:
    with holdfast.open(url) as store:
        documents = [(f"doc-{number}", None) for number in range(12)]
        holdfast.submit(pipeline(1, bodies=0), store, batch="b", documents=documents)
        for version, bodies in ((1, 9), (2, 6), (1, 8), (3, 10), (2, 5)):
            assert work(url, version, bodies=bodies) == -9
        assert work(url, 3, bodies=FOR_EVER) == 0
        plans = {plan.plan_id: plan.shape for plan in store.plans("changing")}
        mixed = 0
        for here in store.standings("changing"):
            assert here.state == "done"
            done_by = {step: int(value) for step, _, value in store.items(here.id)}
            assert {step.name: step.version for step in plans[here.plan_id].steps} == done_by
            mixed += len(set(done_by.values())) > 1
        assert mixed, "no document was begun under one version and ended under another"
        for now in (1, 2, 3):
            beginnings = {}
            for here in store.standings("changing"):
                done_by = {step: int(value) for step, _, value in store.items(here.id)}
                first = next((step for step in STEPS if done_by[step] != now), None)
                beginnings[first] = beginnings.get(first, 0) + 1
            told: dict[str | None, int] = {}
            for stale in stale_groups(store, pipeline(now, bodies=0)):
                told[stale.to] = told.get(stale.to, 0) + stale.documents
            beginnings.pop(None, None)
            assert told == beginnings
