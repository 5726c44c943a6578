"""Work that was found to be there is remembered."""

from __future__ import annotations

from holdfast.testing.conformance.base import Conformance, Desk
from holdfast.testing.conformance.operators import close_batch


class VouchConformance(Conformance):
    """Work that was found to be there is a line in the journal, and nothing else."""

    def test_what_was_found_is_a_line_in_the_journal(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.give_back(claim, verb="release", costs="nothing")
        here = desk.standing()
        assert desk.store.vouch({here.id: here.checkpoint.moves}, steps=["extract", "chunk"], who="cat") == [here.id]
        line = desk.store.journal(here.id)[-1]
        assert (line.verb, line.who, line.step, line.at) == ("verify", "cat", "extract", desk.clock())
        assert line.detail == {"reason": "the work of extract, chunk is there", "steps": ["extract", "chunk"]}
        assert desk.standing() == here

    def test_nobody_vouches_for_a_document_that_moved(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.keep(claim, "1")
        assert desk.store.vouch({claim.document_id: 0, 4711: 0}, steps=["extract"], who="cat") == []
        assert desk.verbs(claim) == []

    def test_nobody_vouches_for_a_document_of_a_closed_batch(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.finish(claim)
        moves = desk.standing().checkpoint.moves
        close_batch(desk, "march")
        assert desk.store.vouch({claim.document_id: moves}, steps=["extract"], who="cat") == []
        assert desk.verbs(claim) == []
