"""What a worker does for all workers."""

from __future__ import annotations

from datetime import timedelta

import holdfast
from holdfast.core.model import NewDocument
from holdfast.engine.maintenance import WorkerMaintenance
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock

LEASE = timedelta(minutes=1)


def test_a_worker_whose_machine_was_suspended_does_not_take_its_own_documents() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="read")(lambda doc: None)
    plan = store.declare(pipeline.shape())
    store.submit(plan, "b", [NewDocument("a", None, "1")], submission=1, part=0)
    me = store.register_worker(name="me", host="here", pid=1, born="", lease=LEASE)
    other = store.register_worker(name="other", host="there", pid=2, born="", lease=LEASE)
    claims = store.claim(plan, me, limit=1)
    maintenance = WorkerMaintenance(pipeline, store, plan, emit=lambda _: None)

    clock.advance(LEASE * 2)
    assert maintenance.run(me, [claims[0].document_id]) == []
    assert store.heartbeat(me)
    assert maintenance.run(me, [claims[0].document_id]) == []

    clock.advance(LEASE * 2)
    assert store.heartbeat(other)
    taken = maintenance.run(other, [])
    assert [document.key for document in taken] == ["a"]
