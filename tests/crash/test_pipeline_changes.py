"""A pipeline changes while its workers are killed. Stale documents are found all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import holdfast
from holdfast.ops.forecast import stale_groups
from tests.crash.changing_pipeline import STEPS, pipeline

NO_LIMIT = 1_000_000


def run_worker(url: str, version: int, *, bodies: int) -> int:
    """Run a worker of a version that is killed after some body calls. Return its exit code."""
    command = [sys.executable, "-m", "tests.crash.changing_pipeline", url, str(version), str(bodies)]
    return subprocess.run(command, cwd=Path(__file__).parents[2], timeout=60, check=False).returncode


def test_a_documents_plan_has_the_version_that_did_each_step_whatever_was_killed(url: str) -> None:
    with holdfast.open(url) as store:
        documents = [(f"doc-{number}", None) for number in range(12)]
        holdfast.submit(pipeline(1, bodies=0), store, batch="b", documents=documents)
        for version, bodies in ((1, 9), (2, 6), (1, 8), (3, 10), (2, 5)):
            assert run_worker(url, version, bodies=bodies) == -9
        assert run_worker(url, 3, bodies=NO_LIMIT) == 0
        plans = {plan.plan_id: plan.shape for plan in store.plans("changing")}
        mixed = 0
        for status in store.documents("changing"):
            assert status.state == "done"
            done_by = {step: int(value) for step, _, value in store.items(status.id)}
            assert {step.name: step.version for step in plans[status.plan_id].steps} == done_by
            mixed += len(set(done_by.values())) > 1
        assert mixed, "no document was begun under one version and ended under another"
        for now in (1, 2, 3):
            beginnings = {}
            for status in store.documents("changing"):
                done_by = {step: int(value) for step, _, value in store.items(status.id)}
                first = next((step for step in STEPS if done_by[step] != now), None)
                beginnings[first] = beginnings.get(first, 0) + 1
            stale_from: dict[str | None, int] = {}
            for stale in stale_groups(store, pipeline(now, bodies=0)):
                stale_from[stale.to] = stale_from.get(stale.to, 0) + stale.documents
            beginnings.pop(None, None)
            assert stale_from == beginnings
