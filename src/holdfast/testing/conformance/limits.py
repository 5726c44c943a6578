"""Steps that only so many documents may be in at once, over all workers."""

from __future__ import annotations

from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import Conformance, Desk


class LimitConformance(Conformance):
    """What admit promises."""

    def test_no_more_than_the_limit_are_admitted(self, desk: Desk) -> None:
        desk.submit(*"abcd")
        assert desk.store.admit(desk.plan, "extract", desk.claim(), limit=2) == [True, True, False, False]

    def test_no_more_than_the_limit_are_admitted_over_two_workers(self, desk: Desk, other: Store) -> None:
        desk.submit(*"abcd")
        mine = desk.claim(limit=2)
        theirs = desk.claim(limit=2, worker=desk.enlist("bob"))
        assert desk.store.admit(desk.plan, "extract", mine, limit=3) == [True, True]
        assert other.admit(desk.plan, "extract", theirs, limit=3) == [True, False]

    def test_who_is_inside_stays_inside(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        assert desk.store.admit(desk.plan, "extract", [first], limit=1) == [True]
        assert desk.store.admit(desk.plan, "extract", [second, first], limit=1) == [False, True]

    def test_a_move_within_the_step_keeps_the_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.admit(desk.plan, "extract", [first], limit=1)
        first = desk.keep(first, "1")
        assert desk.store.admit(desk.plan, "extract", [second], limit=1) == [False]

    def test_a_move_to_the_next_step_frees_the_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.admit(desk.plan, "extract", [first], limit=1)
        desk.advance(first)
        assert desk.store.admit(desk.plan, "extract", [second], limit=1) == [True]

    def test_giving_back_frees_the_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.admit(desk.plan, "extract", [first], limit=1)
        desk.give_back(first)
        assert desk.store.admit(desk.plan, "extract", [second], limit=1) == [True]

    def test_cancelling_frees_the_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.admit(desk.plan, "extract", [first], limit=1)
        desk.store.cancel([first.document_id], who="ann", reason="no")
        assert desk.store.admit(desk.plan, "extract", [second], limit=1) == [True]

    def test_reclaiming_frees_the_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.store.admit(desk.plan, "extract", [desk.claim_one()], limit=1)
        desk.reclaim(gone=[desk.worker.id])
        bob = desk.enlist("bob")
        claims = desk.claim(worker=bob)
        assert desk.store.admit(desk.plan, "extract", claims[1:], limit=1) == [True]

    def test_a_reclaimed_document_needs_a_new_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.admit(desk.plan, "extract", [first], limit=1)
        desk.give_back(first)
        desk.store.admit(desk.plan, "extract", [second], limit=1)
        again = desk.claim_one()
        assert desk.store.admit(desk.plan, "extract", [again], limit=1) == [False]

    def test_a_stale_claim_takes_no_place(self, desk: Desk) -> None:
        desk.submit("a", "b")
        stale, second = desk.claim()
        desk.give_back(stale)
        desk.store.admit(desk.plan, "extract", [stale], limit=1)
        assert desk.store.admit(desk.plan, "extract", [second], limit=1) == [True]

    def test_a_stale_claim_is_not_admitted_and_does_not_let_others_in(self, desk: Desk) -> None:
        desk.submit("a", "b")
        stale, second = desk.claim()
        desk.give_back(stale)
        (again,) = desk.claim()
        assert desk.store.admit(desk.plan, "extract", [stale, again], limit=1) == [False, True]
        assert desk.store.admit(desk.plan, "extract", [stale, second], limit=1) == [False, False]
        assert desk.store.admit(desk.plan, "extract", [again], limit=1) == [True]

    def test_each_step_has_its_own_places(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        second = desk.advance(second)
        assert desk.store.admit(desk.plan, "extract", [first], limit=1) == [True]
        assert desk.store.admit(desk.plan, "chunk", [second], limit=1) == [True]

    def test_a_raised_limit_admits_more(self, desk: Desk) -> None:
        desk.submit("a", "b")
        claims = desk.claim()
        assert desk.store.admit(desk.plan, "extract", claims, limit=1) == [True, False]
        assert desk.store.admit(desk.plan, "extract", claims, limit=2) == [True, True]

    def test_a_lowered_limit_puts_nobody_out(self, desk: Desk) -> None:
        desk.submit(*"abc")
        *inside, outside = desk.claim()
        desk.store.admit(desk.plan, "extract", inside, limit=2)
        assert desk.store.admit(desk.plan, "extract", [*inside, outside], limit=1) == [True, True, False]

    def test_nobody_asks_and_nobody_is_admitted(self, desk: Desk) -> None:
        assert desk.store.admit(desk.plan, "extract", [], limit=1) == []
