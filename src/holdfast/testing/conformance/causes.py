"""Why documents are where they are, counted."""

from __future__ import annotations

from holdfast.core.causes import Cause
from holdfast.core.model import Failure, Worker
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk
from holdfast.testing.conformance.orphans import INSTANT, MINUTE


class CauseConformance(Conformance):
    """What the ledger says about why documents are where they are."""

    def test_a_holder_is_told_with_its_last_heartbeat(self, desk: Desk) -> None:
        claim = desk.take_in()
        heard = desk.clock()
        desk.clock.advance(LEASE)
        holder = desk.store.holder(claim.document_id)
        assert holder is not None
        assert (holder.worker, holder.beat_at, holder.alive) == (desk.worker, heard, True)
        desk.clock.advance(INSTANT)
        assert _is_dead(desk, claim.document_id, desk.worker)

    def test_a_holder_that_was_given_up_does_not_live(self, desk: Desk, gated: Desk) -> None:
        claim = desk.take_in()
        gated.reclaim(gone=[desk.worker.id])
        assert _is_dead(desk, claim.document_id, desk.worker)

    def test_a_document_that_waits_has_no_holder(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.store.holder(desk.standing().id) is None
        assert desk.store.holder(12345) is None

    def test_workers_are_told_with_how_many_documents_they_hold(self, desk: Desk, gated: Desk) -> None:
        desk.submit(*"abcd")
        gated.submit("e")
        bob = desk.enlist("bob", lease=LEASE * 9)
        desk.claim(limit=1, worker=bob)
        desk.claim(limit=2)
        gated.claim(worker=bob)
        desk.clock.advance(LEASE * 2)
        held = [(one.worker.name, one.alive, documents) for one, documents in desk.store.holders("papers")]
        assert held == [("ann", False, 2), ("bob", True, 1)]
        assert desk.store.holders("nothing") == []

    def test_documents_ahead_are_those_that_are_claimed_before(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.clock.advance(SECOND)
        desk.submit("late")
        desk.submit("dear", priority=5)
        desk.submit("elsewhere", batch="april", priority=9)
        ahead = {key: desk.store.ahead(desk.standing(key).id) for key in ("dear", "a", "b", "late")}
        assert ahead == {"dear": 1, "a": 2, "b": 3, "late": 4}
        assert desk.keys_claimed(limit=2) == ["elsewhere", "dear"]

    def test_nobody_is_ahead_who_is_not_due_or_worked_on_alone(self, desk: Desk, gated: Desk) -> None:
        gated.submit("other")
        desk.submit("crashed")
        desk.crash(times=2)
        desk.submit("put off", priority=9)
        desk.give_back(desk.claim_one(), delay=SECOND)
        desk.submit("me")
        assert desk.store.ahead(desk.standing("me").id) == 0
        assert desk.store.ahead(desk.standing("crashed").id) == 0
        assert desk.store.ahead(12345) == 0

    def test_nobody_is_ahead_of_a_document_that_does_not_wait(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.bury(desk.claim(limit=2)[1])
        assert desk.store.ahead(desk.standing("b").id) == 0

    def test_the_documents_inside_a_full_step_are_named(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, b, c = desk.claim()
        desk.store.admit(desk.plan, "extract", [a, b, c], limit=2)
        assert desk.store.inside("papers", "extract") == [(a.document_id, "a"), (b.document_id, "b")]
        desk.advance(a)
        assert desk.store.inside("papers", "extract") == [(b.document_id, "b")]
        assert desk.store.inside("papers", "chunk") == []
        assert desk.store.inside("papers", "nowhere") == []

    def test_a_document_that_changed_hands_is_not_inside_any_more(self, desk: Desk) -> None:
        desk.submit("a", "b")
        a, _ = desk.claim()
        desk.store.admit(desk.plan, "extract", [a], limit=1)
        assert [cause.kind for cause in _causes(desk)] == ["worked on", "full step"]
        desk.reclaim(gone=[desk.worker.id])
        desk.claim(worker=desk.enlist("bob"))
        assert desk.store.inside("papers", "extract") == []
        assert [(cause.kind, cause.documents) for cause in _causes(desk)] == [("worked on", 2)]

    def test_a_document_that_went_on_is_not_inside_any_more(self, desk: Desk) -> None:
        desk.submit("a", "b")
        a, b = desk.claim()
        desk.store.admit(desk.plan, "extract", [a], limit=1)
        desk.advance(a)
        desk.advance(b)
        assert [(cause.kind, cause.step, cause.documents) for cause in _causes(desk)] == [("worked on", "chunk", 2)]

    def test_documents_are_counted_by_what_keeps_them(self, desk: Desk) -> None:
        desk.submit(*"abcdefg")
        a, b, c, d, e, f, g = desk.claim()
        desk.finish(a)
        desk.bury(b)
        desk.bury(c)
        desk.give_back(d, state="paused", reason="ask ann")
        desk.give_back(e, state="paused", until=desk.clock() + MINUTE)
        desk.store.cancel([f.document_id], who="cat", reason="no")
        desk.advance(g)
        desk.submit("h", "i", "j")
        assert [(one.kind, one.state, one.step, one.error, one.documents, one.key) for one in _causes(desk)] == [
            ("due", "waiting", "extract", "", 3, "h"),
            ("dead", "dead", "extract", "ValueError", 2, "b"),
            ("person", "paused", "extract", "", 1, "d"),
            ("until", "paused", "extract", "", 1, "e"),
            ("cancelled", "cancelled", "extract", "", 1, "f"),
            ("worked on", "running", "chunk", "", 1, "g"),
        ]

    def test_a_backoff_is_counted_by_its_error_until_it_is_due(self, desk: Desk) -> None:
        desk.submit("a", "b")
        one, two = desk.claim()
        desk.give_back(one, delay=SECOND)
        desk.store.give_back([desk.ending(two, delay=SECOND, failure=_torn())])
        assert [(cause.kind, cause.error) for cause in _causes(desk)] == [("backoff", ""), ("backoff", "OSError")]
        desk.clock.advance(SECOND)
        assert [(cause.kind, cause.error, cause.documents) for cause in _causes(desk)] == [("due", "", 2)]

    def test_suspects_are_counted_apart(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        assert [cause.kind for cause in _causes(desk)] == ["suspect"]

    def test_running_documents_are_counted_by_what_holds_them_up(self, desk: Desk) -> None:
        desk.submit(*"abcd")
        a, b = desk.claim(limit=2)
        desk.store.admit(desk.plan, "extract", [a, b], limit=1)
        desk.claim(limit=1, timeouts={"extract": SECOND})
        desk.claim(limit=1, worker=desk.enlist("bob"))
        desk.clock.advance(LEASE + INSTANT)
        desk.store.beat(desk.worker)
        found = [(cause.kind, cause.key) for cause in _causes(desk)]
        assert found == [("worked on", "a"), ("full step", "b"), ("overdue", "c"), ("silent", "d")]

    def test_causes_are_of_a_pipeline_or_a_batch(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        desk.submit("b")
        desk.submit("c", batch="april")
        (both,) = _causes(desk)
        (april,) = desk.store.causes("papers", batch="april")
        assert (both.documents, both.key, both.batch) == (2, "b", "march")
        assert (april.documents, april.key, april.batch, april.moved_at) == (1, "c", "april", desk.clock())
        assert desk.store.causes("papers", batch="may") == []
        assert desk.store.causes("nothing") == []


def _causes(desk: Desk) -> list[Cause]:
    return desk.store.causes("papers")


def _torn() -> Failure:
    return Failure("OSError", "torn")


def _is_dead(desk: Desk, document_id: int, worker: Worker) -> bool:
    holder = desk.store.holder(document_id)
    return holder is not None and holder.worker == worker and not holder.alive
