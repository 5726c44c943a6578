"""Exchange: commit finished moves and claim more documents in one call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from holdfast.core.model import Claim, Item
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move, Refused
from holdfast.testing.conformance.base import Conformance, StoreHarness, breaks, writes


def exchange(
    harness: StoreHarness, *moves: Move, limit: int = 100, batch: str | None = None
) -> tuple[list[CommitResult], list[Claim]]:
    """Commit moves of the worker ann, and claim for her."""
    return harness.store.exchange(harness.plan, moves, harness.worker, limit=limit, batch=batch)


class ExchangeConformance(Conformance):
    """Tests that exchange does the same as commit and then claim."""

    def test_an_exchange_commits_moves_and_claims_documents(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b", "c", "d")
        answers, claims = exchange(harness, harness.forward(first, items=[Item("extract", 0, "1")]), limit=2)
        assert answers == [ACCEPTED]
        assert [claim.key for claim in claims] == ["b", "c"]
        assert harness.document("a").checkpoint.step == "chunk"
        assert harness.items(first) == [("extract", 0, "1")]
        assert (harness.document("b").holder, harness.document("d").state) == ("ann", "waiting")

    def test_documents_claimed_by_an_exchange_can_be_moved(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b")
        _, (second,) = exchange(harness, harness.forward(first))
        assert exchange(harness, harness.forward(second)) == ([ACCEPTED], [])

    def test_a_document_finished_by_an_exchange_is_not_claimed_by_it(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        assert exchange(harness, harness.forward(claim)) == ([ACCEPTED], [])
        assert harness.document().state == "done"

    def test_a_lost_claim_does_not_undo_the_rest_of_an_exchange(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b = harness.claim(limit=2)
        assert harness.store.cancel([a.document_id], who="eve", reason="not wanted")
        answers, claims = exchange(harness, harness.forward(a), harness.forward(b))
        assert answers == [LOST, ACCEPTED]
        assert [claim.key for claim in claims] == ["c"]

    def test_a_refused_effect_does_not_undo_the_rest_of_an_exchange(
        self, harness: StoreHarness, notes: Callable[[], list[str]]
    ) -> None:
        harness.submit("a", "b", "c")
        a, b = harness.claim(limit=2)
        answers, claims = exchange(harness, harness.forward(a, effect=breaks), harness.forward(b, effect=writes("b")))
        assert isinstance(answers[0], Refused)
        assert answers[1] == ACCEPTED
        assert notes() == ["b"]
        assert [(claim.key, claim.attempts) for claim in claims] == [("c", 1)]

    def test_a_deferred_constraint_does_not_undo_the_rest_of_an_exchange(self, harness: StoreHarness) -> None:
        harness.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer references authors (id) deferrable initially deferred)",
        )
        harness.submit("a", "b", "c")
        a, b = harness.claim(limit=2)
        bad = harness.forward(a, effect=lambda tx: tx.execute("insert into books values (7)"))
        answers, claims = exchange(harness, bad, harness.forward(b))
        assert isinstance(answers[0], Refused)
        assert answers[1] == ACCEPTED
        assert [(claim.key, claim.attempts) for claim in claims] == [("c", 1)]

    def test_an_exchange_claims_only_from_the_batch_it_names(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b", batch="april")
        harness.submit("c")
        _, claims = exchange(harness, harness.forward(first), batch="april")
        assert [claim.key for claim in claims] == ["b"]

    def test_claims_have_their_deadlines(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b")
        minute = timedelta(minutes=1)
        _, (claim,) = harness.store.exchange(
            harness.plan, [harness.forward(first)], harness.worker, limit=1, timeouts={"extract": minute}
        )
        harness.clock.advance(minute * 2)
        harness.store.heartbeat(harness.worker)
        assert [status.key for status in harness.reclaim()] == [claim.key]

    def test_an_exchange_of_a_worker_that_was_given_up_claims_nothing(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b")
        harness.reclaim(gone=[harness.worker.id])
        assert exchange(harness, harness.forward(first)) == ([LOST], [])
