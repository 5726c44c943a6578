"""How far bodies work ahead of commits: for about as long as a commit takes."""

from __future__ import annotations

import threading
import time

import pytest

import holdfast
from holdfast.stores.protocol import Store

SLOW = 0.5
BODY = 0.005
ENOUGH = 40
"""This many bodies take 200 ms: far more than runners work ahead of fast commits, far less than a slow commit takes."""
FULL = 64
"""A worker that commits this many moves at once has enough documents to work ahead."""


def test_slow_commits_let_bodies_work_further_ahead(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = holdfast.Pipeline("slow")
    commits: list[str] = []
    finished = threading.Semaphore(0)

    @pipeline.step
    def body(doc):
        if "slow" in commits:
            time.sleep(BODY)  # the time of bodies and commits is what this test is about
            finished.release()

    def watched(commit):
        def committing(plan, moves, *more, **named):
            if "slow" not in commits:  # wait for the first commit of many moves, and make that one slow
                commits.append("slow" if len(moves) >= FULL else "quick")
                time.sleep(SLOW if commits[-1] == "slow" else 0)
            elif "next" not in commits:
                commits.append("next")
                while finished.acquire(blocking=False):
                    pass
                late = time.monotonic() + 25
                for _ in range(ENOUGH):
                    in_time = finished.acquire(timeout=max(late - time.monotonic(), 0))
                    assert in_time, "no body ran while this commit was running"
            return commit(plan, moves, *more, **named)

        return committing

    monkeypatch.setattr(store, "commit", watched(store.commit))
    monkeypatch.setattr(store, "exchange", watched(store.exchange))
    holdfast.submit(pipeline, store, batch="b", documents=[(str(n), None) for n in range(500)])
    assert holdfast.drain(pipeline, store, threads=2).done == 500
    assert "next" in commits
