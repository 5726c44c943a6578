"""Workers that are killed from outside, a moment after a body began, cost no document its life."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import holdfast
from tests.crash import poison
from tests.crash.poison import BATCH
from tests.crash.processes import sorted_rows

PROGRAM = Path(poison.__file__)
LONG = "HOLDFAST_CRASH_ROUNDS" in os.environ
DOCUMENTS, KILLS = (30, 25) if LONG else (8, 6)
"""The long form is that of the measurement that found the mistake, with the default retries."""
KEYS = [f"document-{number:02}" for number in range(DOCUMENTS)]


def run_until_a_body_began(url: str) -> None:
    """Start a worker, and kill it as soon as it says that a body began. Others begin at the same moment."""
    command = [sys.executable, str(PROGRAM), url, "slow", *(["long"] if LONG else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        worker.kill()
        assert line == "began\n", worker.communicate()[1]
        assert worker.wait(60) == -9


def test_kills_from_outside_make_no_dead_letter(url: str) -> None:
    with holdfast.open(url) as store:
        poison.prepare(store)
        holdfast.submit(poison.slow, store, batch=BATCH, documents=[(key, None) for key in KEYS])
        for _ in range(KILLS):
            run_until_a_body_began(url)
        hit = store.documents("slow")
        assert sum(here.losses for here in hit) >= KILLS - 1  # the last kill is counted when somebody takes over
        assert {here.crashes for here in hit} == {0}
        subprocess.run([sys.executable, str(PROGRAM), url, "slow"], check=True, timeout=600, capture_output=True)
        assert store.balance("slow") == holdfast.Balance(DOCUMENTS, done=DOCUMENTS)
        assert sorted_rows(store, "select key from swallowed") == [(key,) for key in KEYS]
        for here in store.documents("slow"):
            assert [(step, value) for step, _, value in store.items(here.id)] == [("copy", f'"{here.key}"')]
        if url.startswith("sqlite"):
            assert not [*Path(url.removeprefix("sqlite:///")).parent.glob("*-workers*")]
