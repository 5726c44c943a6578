"""A worker that is killed while it puts right what a clock wrote that was ahead: each wait is put right once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import holdfast
from holdfast.core.model import NewDocument
from holdfast.stores import open_store
from holdfast.testing.conformance.base import PAPERS

COUNT, SLICE = 1500, 20
WORKER = f"""
import sys
import holdfast
with holdfast.open(sys.argv[1]) as store:
    plan = store.plan("papers")
    while store.reset_future_times(plan, who="killed", timeouts={{}}, limit={SLICE}).any:
        print("slice", flush=True)
    print("end", flush=True)
"""


def test_a_worker_that_is_killed_in_between_leaves_whole_slices(url: str) -> None:
    ahead = open_store(url, clock=lambda: datetime.now(UTC) + timedelta(days=1))
    documents = [NewDocument(f"doc-{number}") for number in range(COUNT)]
    ahead.submit(ahead.declare(PAPERS), "march", documents, submission=1, part=0)
    ahead.close()
    with subprocess.Popen([sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "slice\n"
        worker.kill()
    with holdfast.open(url) as store:
        plan = store.plan("papers")
        assert plan is not None
        left = store.future_times("papers").waiting
        assert left % SLICE == 0
        assert left < COUNT
        while store.reset_future_times(plan, who="next", timeouts={}).waiting:
            pass
        lines = [store.journal(one.id) for one in store.documents("papers", limit=COUNT)]
        assert Counter(len(journal) for journal in lines) == {1: COUNT}
        assert Counter(line.who for (line,) in lines) == Counter(killed=COUNT - left, next=left)
        ann = store.register_worker(name="ann", host="here", pid=1, born="", lease=timedelta(minutes=1))
        assert len(store.claim(plan, ann, limit=COUNT)) == COUNT
