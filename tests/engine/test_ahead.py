"""How far runners work ahead of what is durable: for about as long as a commit takes."""

from __future__ import annotations

import threading
import time

import pytest

import holdfast
from holdfast.stores.protocol import Store

SLOW = 0.5
BODY = 0.005
ENOUGH = 40
"""So many take 200 ms: far more than a runner works ahead of quick commits, far less than a slow commit takes."""
FULL = 64
"""A worker that commits so many moves at once has hands full enough to work ahead."""


def test_the_slower_commits_are_the_more_moves_share_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = holdfast.Pipeline("slow")
    commits: list[str] = []
    finished = threading.Semaphore(0)

    @pipeline.step
    def body(doc):
        if "slow" in commits:
            time.sleep(BODY)
            finished.release()

    def watched(commit):
        def committing(plan, moves, *more, **named):
            if "slow" not in commits:  # the first one that shows that the worker has many documents in hand
                commits.append("slow" if len(moves) >= FULL else "quick")
                time.sleep(SLOW if commits[-1] == "slow" else 0)
            elif "next" not in commits:
                commits.append("next")
                while finished.acquire(blocking=False):
                    pass
                late = time.monotonic() + 25
                for _ in range(ENOUGH):
                    in_time = finished.acquire(timeout=max(late - time.monotonic(), 0))
                    assert in_time, "nobody works on while this commit is under way"
            return commit(plan, moves, *more, **named)

        return committing

    monkeypatch.setattr(store, "commit", watched(store.commit))
    monkeypatch.setattr(store, "exchange", watched(store.exchange))
    holdfast.submit(pipeline, store, batch="b", documents=[(str(n), None) for n in range(500)])
    assert holdfast.drain(pipeline, store, threads=2).done == 500
    assert "next" in commits
