"""Upgrades: a newer holdfast migrates the store while workers of the present one are at work."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.faults.cases import case, require
from tests.faults.laboratory import Bench, Lab

NEWER = ("-m", "tests.faults.newer")


@case(
    "upgrade", "workers of the old version stop with a sentence when the schema is upgraded; new ones finish the work"
)
def upgrade(bench: Bench) -> str:
    with bench.lab() as lab:
        with lab.workers(3) as old:
            lab.at_work(3)
            for _ in bench.times(4):
                lab.submit(40, pages=6, takes=0.05)
            lab.wait(0.5, 1.0)
            before = lab.done()
            _migrate(lab)
            lab.until(lambda: old.ended_with[3] >= 3, "the old workers did not notice that the schema is newer")
        require(set(old.ended_with) == {3}, f"old workers ended with {dict(old.ended_with)}: {lab.said()[-600:]}")
        require("upgraded to schema" in lab.said(), f"nobody was told while at work: {lab.said()[-600:]}")
        bench.prove("workers of the old version stopped", old.ended_with[3])
        stopped_at = lab.done()
        with lab.workers(3, by=NEWER):
            lab.settle()
        told = f"the old workers stopped when {stopped_at} were, and told why"
        return f"migrated when {before} documents were done; {told}; with the new ones {lab.done()} were done"


def _migrate(lab: Lab) -> None:
    words = [sys.executable, *NEWER, "migrate", "--store", lab.url]
    done = subprocess.run(
        words, env=os.environ | lab.environment, capture_output=True, text=True, timeout=60, check=False
    )
    require(done.returncode == 0, f"the migration failed: {done.stderr}")
