"""Upgrades: a newer holdfast migrates the store while workers of the present version run."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.faults.cases import case, require
from tests.faults.environment import CaseRun, Environment

NEWER = ("-m", "tests.faults.newer_version")


@case("upgrade", "workers of the old version stop with an error when the schema is upgraded; new ones finish the work")
def upgrade(case_run: CaseRun) -> str:
    with case_run.environment() as env:
        with env.workers(3) as old:
            env.wait_for_workers(3)
            for _ in case_run.rounds(4):
                env.submit(40, pages=6, takes=0.05)
            env.wait_randomly(0.5, 1.0)
            before = env.done_documents()
            _migrate(env)
            env.wait_until(lambda: old.ended_with[3] >= 3, "the old workers did not notice that the schema is newer")
        require(set(old.ended_with) == {3}, f"old workers ended with {dict(old.ended_with)}: {env.worker_log()[-600:]}")
        require("upgraded to schema" in env.worker_log(), f"no running worker said so: {env.worker_log()[-600:]}")
        case_run.record_fault("workers of the old version stopped", old.ended_with[3])
        stopped_at = env.done_documents()
        with env.workers(3, by=NEWER):
            env.wait_until_finished()
        stopped = f"the old workers stopped with an error when {stopped_at} were done"
        finished = f"the new ones finished all {env.done_documents()}"
        return f"migrated when {before} documents were done; {stopped}; {finished}"


def _migrate(env: Environment) -> None:
    command = [sys.executable, *NEWER, "store", "migrate", "--store", env.url]
    done = subprocess.run(
        command, env=os.environ | env.variables, capture_output=True, text=True, timeout=60, check=False
    )
    require(done.returncode == 0, f"the migration failed: {done.stderr}")
