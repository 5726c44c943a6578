"""The record of which generation wrote the rows of a step, and what a withdrawal does with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.model import Claim, WrittenRows
from holdfast.core.moves import ACCEPTED, LOST, Refused, Tx
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, Conformance, StoreHarness, after, breaks, writes

BY_ANN = {"who": "ann", "reason": "taken back"}


def _claimed_again(harness: StoreHarness, claim: Claim) -> Claim:
    harness.release(claim)
    return harness.claim_one()


class EffectRowsConformance(Conformance):
    """Tests of `effects` of moves and claims."""

    def test_a_new_document_has_no_rows(self, harness: StoreHarness) -> None:
        assert harness.submit_and_claim().effects == {}

    def test_a_move_changes_the_rows_of_its_steps_and_no_others(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim(), effects={"extract": 0})
        claim = _claimed_again(harness, claim)
        assert claim.effects == {"extract": 0}
        claim = _claimed_again(harness, harness.advance(claim, effects={"chunk": 3}))
        assert claim.effects == {"extract": 0, "chunk": 3}
        move = harness.within(claim, 1, effects={"extract": None, "embed": 4})
        assert harness.commit(move) == [ACCEPTED]
        assert _claimed_again(harness, after(claim, move)).effects == {"chunk": 3, "embed": 4}

    def test_a_move_that_ends_a_document_changes_its_rows(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()), effects={"chunk": 0})
        harness.advance(claim, effects={"embed": 0, "chunk": None})
        harness.submit("a", fingerprint="new")
        assert harness.claim_one().effects == {"embed": 0}

    def test_moves_of_a_group_change_their_own_rows(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        claims = harness.claim()
        effects: list[dict[str, int | None] | None] = [{"extract": 1}, None, {"chunk": 2}]
        moves = [harness.forward(claim, effects=one) for claim, one in zip(claims, effects, strict=True)]
        assert harness.commit(*moves) == [ACCEPTED] * 3
        for claim, move in zip(claims, moves, strict=True):
            harness.release(after(claim, move))
        assert [claim.effects for claim in harness.claim()] == [{"extract": 1}, {}, {"chunk": 2}]

    def test_many_moves_of_a_group_that_go_the_same_way_change_their_own_rows(self, harness: StoreHarness) -> None:
        harness.submit(*(f"doc-{number}" for number in range(40)))
        claims = harness.claim(limit=40)
        changes: list[dict[str, int | None] | None] = [{"extract": 0}, None, {"chunk": 3}, {"extract": 7}]
        effects = [changes[place % 4] for place in range(40)]
        moves = [harness.forward(claim, effects=one) for claim, one in zip(claims, effects, strict=True)]
        assert harness.commit(*moves) == [ACCEPTED] * 40
        claims = [after(claim, move) for claim, move in zip(claims, moves, strict=True)]
        moves = [harness.forward(claim, effects={"chunk": None}) for claim in claims]
        assert harness.commit(*moves) == [ACCEPTED] * 40
        for claim, move in zip(claims, moves, strict=True):
            harness.release(after(claim, move))
        expected = [{"extract": 0}, {}, {}, {"extract": 7}] * 10
        assert [claim.effects for claim in harness.claim(limit=40)] == expected

    def test_a_refused_or_lost_move_changes_no_rows(self, harness: StoreHarness, notes: Any) -> None:
        claim = harness.submit_and_claim()
        (refused,) = harness.commit(harness.forward(claim, effect=breaks, effects={"extract": 0}))
        assert isinstance(refused, Refused)
        stale = claim
        claim = _claimed_again(harness, claim)
        assert claim.effects == {}
        assert harness.commit(harness.forward(stale, effects={"extract": 0})) == [LOST]
        assert _claimed_again(harness, claim).effects == {}
        assert notes() == []

    def test_the_record_stays_when_a_document_changes_or_goes_back(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim(), effects={"extract": 0})
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="again")
        harness.worker = harness.register_worker("bob")
        harness.submit("a", fingerprint="new")
        claim = harness.claim_one()
        assert (claim.checkpoint.generation, claim.effects) == (2, {"extract": 0})
        harness.make_dead(claim)
        harness.store.redrive([claim.document_id], who="ann", reason="again")
        claim = harness.claim_one()
        harness.store.rewind_to(harness.plan, [claim.document_id], to="extract", who="ann", reason="again")
        assert harness.claim_one().effects == {"extract": 0}

    def test_rows_of_a_removed_step_are_known_by_its_name(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim(), effects={"extract": 0}))
        without = harness.store.declare(Shape("papers", PAPERS.steps[1:]))
        harness.plan = without
        claim = harness.claim_one()
        assert claim.effects == {"extract": 0}
        claim = _claimed_again(harness, harness.advance(claim, effects={"chunk": 0}))
        assert claim.effects == {"extract": 0, "chunk": 0}

    def test_a_renamed_step_keeps_the_record_of_its_rows(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim(), effects={"extract": 0}))
        steps = (StepShape("scan", "stream"), *PAPERS.steps[1:])
        harness.plan = harness.store.declare(Shape("papers", steps, {"extract": "scan"}))
        assert harness.claim_one().effects == {"scan": 0}

    def test_rows_left_behind_are_recorded_once_for_each_step(self, harness: StoreHarness, other: Store) -> None:
        assert harness.store.record_rows_left(harness.plan, "extract")
        assert not other.record_rows_left(harness.plan, "extract")
        assert other.record_rows_left(harness.plan, "chunk")
        without = harness.store.declare(Shape("papers", PAPERS.steps[1:]))
        assert not harness.store.record_rows_left(without, "extract")


class WithdrawConformance(Conformance):
    """Tests of withdraw."""

    @pytest.mark.parametrize("state", ["waiting", "running", "paused", "done", "dead", "cancelled"])
    def test_a_document_of_any_state_is_cancelled_and_its_rows_are_removed(
        self, harness: StoreHarness, notes: Any, state: str
    ) -> None:
        document_id = self._document_with_rows(harness, state)
        assert notes() == ["row"]
        assert self._withdraw(harness, document_id) == [document_id]
        assert notes() == []
        status = harness.document()
        assert (status.state, status.reason, status.holder, status.due_at) == ("cancelled", "taken back", "", None)
        entry = harness.store.journal(document_id)[-1]
        assert (entry.verb, entry.who, entry.detail["was"]) == ("withdraw", "ann", state)

    def test_rows_are_removed_once(self, harness: StoreHarness, notes: Any) -> None:
        document_id = self._document_with_rows(harness, "done")
        self._withdraw(harness, document_id)
        harness.sql("insert into notes (text) values ('of somebody else')")
        assert self._withdraw(harness, document_id) == []
        assert notes() == ["of somebody else"]

    @pytest.mark.usefixtures("notes")
    def test_the_undo_gets_each_document_with_the_generations_of_its_rows(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", payload={"pages": 3})
        a, b = harness.claim()
        harness.advance(a, effects={"extract": 0})
        seen: list[WrittenRows] = []

        def undo(_tx: Tx, written: Sequence[WrittenRows]) -> None:
            seen.extend(written)

        harness.store.withdraw(harness.plan, [a.document_id, b.document_id], undo=undo, **BY_ANN)
        assert [(one.document.key, one.document.payload, one.effects) for one in seen] == [
            ("a", {"pages": 3}, {"extract": 0}),
            ("b", {"pages": 3}, {}),
        ]
        assert seen[0].document.checkpoint.step == "chunk"

    def test_a_worker_that_held_a_withdrawn_document_writes_nothing(self, harness: StoreHarness, notes: Any) -> None:
        claim = harness.submit_and_claim()
        self._withdraw(harness, claim.document_id)
        assert harness.commit(harness.forward(claim, effect=writes("late"))) == [LOST]
        assert notes() == []

    def test_an_undo_that_fails_changes_nothing(self, harness: StoreHarness, notes: Any) -> None:
        document_id = self._document_with_rows(harness, "done")

        def undo(tx: Tx, _written: Sequence[WrittenRows]) -> None:
            tx.execute("delete from notes")
            raise RuntimeError("it cannot be undone")

        with pytest.raises(RuntimeError, match="it cannot be undone"):
            harness.store.withdraw(harness.plan, [document_id], undo=undo, **BY_ANN)
        assert notes() == ["row"]
        assert harness.document().state == "done"
        assert self._withdraw(harness, document_id) == [document_id]

    @pytest.mark.parametrize("state", ["waiting", "done"])
    @pytest.mark.usefixtures("notes")
    def test_a_withdrawn_document_can_only_begin_again(self, harness: StoreHarness, state: str) -> None:
        document_id = self._document_with_rows(harness, state)
        self._withdraw(harness, document_id)
        assert harness.document().checkpoint.step == "extract"
        assert not harness.store.rewind_to(harness.plan, [document_id], to="chunk", who="ann", reason="after all")
        assert harness.store.rewind_to(harness.plan, [document_id], to="extract", who="ann", reason="after all")
        claim = harness.claim_one()
        assert (claim.checkpoint.generation, claim.effects) == (1, {})
        harness.finish(claim)

    @pytest.mark.usefixtures("notes")
    def test_documents_of_other_pipelines_and_closed_batches_are_left(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        harness.finish(harness.submit_and_claim())
        document_id = harness.document().id
        assert gated.store.withdraw(gated.plan, [document_id, 999], undo=_remove_notes, **BY_ANN) == []
        harness.store.seal("papers", "march", who="ann")
        harness.store.close_batch(harness.plan, "march", who="ann", reason="all there")
        assert self._withdraw(harness, document_id) == []
        assert harness.document().state == "done"

    @pytest.mark.usefixtures("notes")
    def test_rows_of_a_removed_step_stay_recorded(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim(), effects={"extract": 0})
        harness.advance(claim, effects={"chunk": 0})
        harness.plan = harness.store.declare(Shape("papers", PAPERS.steps[1:]))
        assert self._withdraw(harness, claim.document_id) == [claim.document_id]
        assert self._withdraw(harness, claim.document_id) == []
        harness.submit("a", fingerprint="new")
        assert harness.claim_one().effects == {"extract": 0}

    def _document_with_rows(self, harness: StoreHarness, state: str) -> int:
        """Return a document whose effect wrote a row, in a state."""
        harness.submit("a")
        claim = harness.advance(harness.claim_one(), effect=writes("row"), effects={"extract": 0})
        if state == "done":
            harness.finish(claim)
        elif state == "paused":
            harness.store.pause([claim.document_id], who="cat", reason="wait")
        elif state == "cancelled":
            harness.store.cancel([claim.document_id], who="cat", reason="no")
        elif state == "dead":
            harness.make_dead(claim)
            harness.store.accept([claim.document_id], who="cat", reason="so be it")
        elif state == "waiting":
            harness.release(claim)
        assert harness.document().state == state
        return claim.document_id

    def _withdraw(self, harness: StoreHarness, *document_ids: int) -> list[int]:
        return harness.store.withdraw(harness.plan, document_ids, undo=_remove_notes, **BY_ANN)


def _remove_notes(tx: Tx, _written: Sequence[WrittenRows]) -> None:
    tx.execute("delete from notes")
