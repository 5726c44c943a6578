"""Moves for claims: what a worker has finished goes in, and what it does next comes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from holdfast.core.model import Claim, Item
from holdfast.core.moves import ACCEPTED, LOST, Answer, Move, Refused
from holdfast.testing.conformance.base import Conformance, Desk, breaks, writes


def exchange(desk: Desk, *moves: Move, limit: int = 100, batch: str | None = None) -> tuple[list[Answer], list[Claim]]:
    """Commits moves for ann, and claims for her."""
    return desk.store.exchange(desk.plan, moves, desk.worker, limit=limit, batch=batch)


class ExchangeConformance(Conformance):
    """What an exchange promises: all that a commit and a claim promise, each for itself."""

    def test_moves_are_made_and_documents_claimed(self, desk: Desk) -> None:
        first = desk.take_in("a")
        desk.submit("b", "c", "d")
        answers, claims = exchange(desk, desk.forward(first, items=[Item("extract", 0, "1")]), limit=2)
        assert answers == [ACCEPTED]
        assert [claim.key for claim in claims] == ["b", "c"]
        assert desk.standing("a").checkpoint.step == "chunk"
        assert desk.items(first) == [("extract", 0, "1")]
        assert (desk.standing("b").holder, desk.standing("d").state) == ("ann", "waiting")

    def test_what_was_claimed_can_be_moved(self, desk: Desk) -> None:
        first = desk.take_in("a")
        desk.submit("b")
        _, (second,) = exchange(desk, desk.forward(first))
        assert exchange(desk, desk.forward(second)) == ([ACCEPTED], [])

    def test_moves_that_end_make_no_room_for_themselves(self, desk: Desk) -> None:
        claim = desk.advance(desk.advance(desk.take_in()))
        assert exchange(desk, desk.forward(claim)) == ([ACCEPTED], [])
        assert desk.standing().state == "done"

    def test_a_lost_claim_takes_nothing_with_it(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, b = desk.claim(limit=2)
        assert desk.store.cancel([a.document_id], who="eve", reason="not wanted")
        answers, claims = exchange(desk, desk.forward(a), desk.forward(b))
        assert answers == [LOST, ACCEPTED]
        assert [claim.key for claim in claims] == ["c"]

    def test_a_refused_effect_takes_nothing_with_it(self, desk: Desk, notes: Callable[[], list[str]]) -> None:
        desk.submit("a", "b", "c")
        a, b = desk.claim(limit=2)
        answers, claims = exchange(desk, desk.forward(a, effect=breaks), desk.forward(b, effect=writes("b")))
        assert isinstance(answers[0], Refused)
        assert answers[1] == ACCEPTED
        assert notes() == ["b"]
        assert [(claim.key, claim.attempts) for claim in claims] == [("c", 1)]

    def test_a_constraint_that_is_looked_at_last_takes_nothing_with_it(self, desk: Desk) -> None:
        desk.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer references authors (id) deferrable initially deferred)",
        )
        desk.submit("a", "b", "c")
        a, b = desk.claim(limit=2)
        bad = desk.forward(a, effect=lambda tx: tx.execute("insert into books values (7)"))
        answers, claims = exchange(desk, bad, desk.forward(b))
        assert isinstance(answers[0], Refused)
        assert answers[1] == ACCEPTED
        assert [(claim.key, claim.attempts) for claim in claims] == [("c", 1)]

    def test_only_the_batch_that_was_asked_for_is_claimed(self, desk: Desk) -> None:
        first = desk.take_in("a")
        desk.submit("b", batch="april")
        desk.submit("c")
        _, claims = exchange(desk, desk.forward(first), batch="april")
        assert [claim.key for claim in claims] == ["b"]

    def test_claims_have_their_deadlines(self, desk: Desk) -> None:
        first = desk.take_in("a")
        desk.submit("b")
        minute = timedelta(minutes=1)
        _, (claim,) = desk.store.exchange(
            desk.plan, [desk.forward(first)], desk.worker, limit=1, timeouts={"extract": minute}
        )
        desk.clock.advance(minute * 2)
        desk.store.beat(desk.worker)
        assert [here.key for here in desk.reclaim()] == [claim.key]

    def test_a_worker_that_was_given_up_gets_nothing(self, desk: Desk) -> None:
        first = desk.take_in("a")
        desk.submit("b")
        desk.reclaim(gone=[desk.worker.id])
        assert exchange(desk, desk.forward(first)) == ([LOST], [])
