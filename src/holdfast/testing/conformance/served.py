"""Many documents are set back at once, and readers see the old work until the new is complete."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import StoreError
from holdfast.core.model import Aside, Checkpoint, Claim, Failure, Item
from holdfast.core.moves import LOST
from holdfast.core.plan import Shape, StepShape
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, Desk

WHO: dict[str, Any] = {"who": "cat", "reason": "a better model"}
STEPS = ("extract", "chunk", "embed")


def _through(desk: Desk, claim: Claim, mark: str) -> None:
    """Takes a document to its end, keeping one item of each step that is left."""
    while (step := claim.checkpoint.step) is not None:
        claim = desk.advance(claim, items=[Item(step, 0, f'"{mark} {step}"')])


def _done(desk: Desk, key: str = "a") -> int:
    """A document that is done, with an item of each step."""
    claim = desk.take_in(key)
    _through(desk, claim, "old")
    return claim.document_id


def _served(desk: Desk, document_id: int) -> list[str | bytes]:
    return [kept for _, _, kept in desk.store.served(document_id)]


def _all(mark: str) -> list[str]:
    return [f'"{mark} {step}"' for step in STEPS]


class RewindToConformance(Conformance):
    """What rewind_to promises."""

    def test_a_document_that_is_done_goes_back_as_a_new_generation(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.clock.advance(SECOND)
        assert desk.store.rewind_to(desk.plan, [document_id], to="embed", **WHO) == [document_id]
        here = desk.standing()
        assert here.checkpoint == Checkpoint(1, "embed", None, 4)
        assert (here.state, here.attempts, here.crashes, here.reason, here.error) == ("waiting", 0, 0, "", "")
        assert here.due_at == here.moved_at == desk.clock()
        claim = desk.claim_one()
        assert claim.reuses == {"extract": 0, "chunk": 0}
        _through(desk, claim, "new")
        assert [kept for _, _, kept in desk.items(claim)] == ['"old extract"', '"old chunk"', '"new embed"']

    def test_a_rewind_is_journalled_where_it_leads(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO)
        (line,) = desk.store.journal(document_id)
        assert (line.verb, line.who, line.generation, line.step, line.cursor) == ("rewind", "cat", 1, "chunk", None)
        place = {"from": None, "cursor": None, "to": "chunk"}
        assert line.detail == {"reason": "a better model", "was": "done", "state": "waiting", **place}

    def test_a_held_document_is_taken_from_its_worker(self, desk: Desk) -> None:
        claim = desk.keep(desk.advance(desk.take_in()), '"half"')
        assert desk.store.rewind_to(desk.plan, [claim.document_id], to="chunk", **WHO)
        assert desk.commit(desk.forward(claim)) == [LOST]
        assert not desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")
        (line,) = desk.store.journal(claim.document_id)
        assert (line.detail["was"], line.detail["from"], line.detail["cursor"]) == ("running", "chunk", 1)
        again = desk.claim_one(worker=desk.enlist("bob"))
        desk.keep(again, '"whole"')

    def test_documents_that_stand_before_the_step_are_left_alone(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, b, c = desk.claim()
        b, c = desk.advance(b), desk.advance(desk.advance(c))
        ids = [claim.document_id for claim in (a, b, c)]
        assert desk.store.rewind_to(desk.plan, ids, to="chunk", **WHO) == [b.document_id, c.document_id]
        desk.advance(a)

    def test_a_dead_letter_that_goes_back_is_no_longer_accepted(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        desk.store.accept([claim.document_id], **WHO)
        assert desk.store.rewind_to(desk.plan, [claim.document_id], to="extract", **WHO)
        here = desk.standing()
        assert (here.state, here.accepted_by, here.error) == ("waiting", "", "")

    def test_a_document_may_be_parked_where_it_goes_back_to(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", parked="somebody has to look", **WHO)
        here = desk.standing()
        assert (here.state, here.reason, here.due_at) == ("paused", "somebody has to look", None)
        assert desk.store.resume(desk.plan, [document_id], **WHO)
        assert desk.claim_one().checkpoint.step == "chunk"

    def test_what_was_reused_before_is_reused_again(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO)
        _through(desk, desk.claim_one(), "new")
        desk.store.rewind_to(desk.plan, [document_id], to="embed", **WHO)
        assert desk.claim_one().reuses == {"extract": 0, "chunk": 1}

    def test_many_documents_of_different_histories_go_back_together(self, desk: Desk) -> None:
        ids = [_done(desk, key) for key in "abcd"]
        desk.store.rewind_to(desk.plan, ids[1:3], to="chunk", **WHO)
        for claim in desk.claim():
            _through(desk, claim, "new")
        desk.store.rewind_to(desk.plan, ids[2:3], to="extract", **WHO)
        assert desk.store.rewind_to(desk.plan, ids, to="embed", **WHO) == [ids[0], ids[1], ids[3]]
        reused = {claim.document_id: claim.reuses for claim in desk.claim()}
        old, new = {"extract": 0, "chunk": 0}, {"extract": 0, "chunk": 1}
        assert reused == {ids[0]: old, ids[1]: new, ids[2]: {}, ids[3]: old}

    def test_a_document_that_never_did_a_step_before_is_left_alone(self, desk: Desk) -> None:
        document_id = _done(desk)
        extract, chunk, embed = PAPERS.steps
        desk.clock.advance(SECOND)
        later = desk.store.declare(Shape("papers", (extract, chunk, StepShape("clean", "value"), embed)))
        assert desk.store.rewind_to(later, [document_id], to="embed", **WHO) == []
        assert desk.store.rewind_to(later, [document_id], to="clean", **WHO) == [document_id]

    def test_a_document_of_another_order_goes_back_to_the_start_alone(self, desk: Desk) -> None:
        document_id = _done(desk)
        extract, chunk, _ = PAPERS.steps
        desk.clock.advance(SECOND)
        later = desk.store.declare(Shape("papers", (chunk, extract, StepShape("embed", "value"))))
        assert desk.store.rewind_to(later, [document_id], to="embed", **WHO) == []
        assert desk.store.rewind_to(later, [document_id], to="chunk", **WHO) == [document_id]
        assert desk.store.declare(Shape("papers", (chunk, extract, StepShape("embed", "value")))) == later

    def test_a_document_whose_items_were_cleaned_up_goes_back_to_the_start_alone(self, desk: Desk) -> None:
        document_id = _done(desk)
        _clean_up(desk, document_id)
        assert desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO) == []
        assert desk.store.rewind_to(desk.plan, [document_id], to="extract", **WHO) == [document_id]
        assert desk.standing().cleaned_at is None
        assert _served(desk, document_id) == []

    def test_two_thousand_documents_go_back_in_one_slice(self, desk: Desk) -> None:
        desk.submit(*(f"doc-{n}" for n in range(2000)))
        for claim in desk.claim(limit=100):
            desk.finish(claim)
        ids = desk.store.select("papers", limit=2000)
        assert desk.store.rewind_to(desk.plan, ids, to="extract", **WHO) == ids
        assert desk.balance().waiting == 2000


class ServedConformance(Conformance):
    """What readers see while a document is worked on anew."""

    def test_nothing_is_served_of_a_document_that_never_was_complete(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), '"1"')
        assert _served(desk, claim.document_id) == []
        desk.store.rewind_to(desk.plan, [claim.document_id], to="extract", **WHO)
        assert _served(desk, claim.document_id) == []

    def test_what_is_done_is_served(self, desk: Desk) -> None:
        document_id = _done(desk)
        assert list(desk.store.served(document_id)) == list(desk.store.items(document_id))
        assert _served(desk, document_id) == _all("old")

    def test_the_old_work_is_served_until_the_new_is_complete(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO)
        claim = desk.claim_one()
        for step in ("chunk", "embed"):
            assert _served(desk, document_id) == _all("old")
            claim = desk.advance(claim, items=[Item(step, 0, f'"new {step}"')])
        assert _served(desk, document_id) == ['"old extract"', '"new chunk"', '"new embed"']

    def test_the_old_work_is_served_while_changed_content_is_worked_on(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.submit("a", fingerprint="changed")
        claim = desk.advance(desk.claim_one(), items=[Item("extract", 0, '"new extract"')])
        assert _served(desk, document_id) == _all("old")
        _through(desk, claim, "new")
        assert _served(desk, document_id) == ['"new extract"', '"new chunk"', '"new embed"']

    def test_a_further_rewind_and_a_change_go_on_serving_what_was_complete(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO)
        desk.advance(desk.claim_one(), items=[Item("chunk", 0, '"half"')])
        desk.store.rewind_to(desk.plan, [document_id], to="embed", **WHO)
        assert _served(desk, document_id) == _all("old")
        desk.submit("a", fingerprint="changed")
        assert _served(desk, document_id) == _all("old")
        claim = desk.claim_one()
        assert desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")
        assert _served(desk, document_id) == _all("old")

    def test_a_dead_letter_serves_what_was_complete_before(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO)
        desk.bury(desk.claim_one())
        assert _served(desk, document_id) == _all("old")

    def test_what_was_reused_is_served_from_where_it_is(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="chunk", **WHO)
        _through(desk, desk.claim_one(), "new")
        desk.store.rewind_to(desk.plan, [document_id], to="extract", **WHO)
        assert _served(desk, document_id) == ['"old extract"', '"new chunk"', '"new embed"']

    def test_a_document_done_past_a_gate_serves_the_new_work(self, gated: Desk) -> None:
        claim = gated.take_in()
        ids = [claim.document_id]
        for mark in ("old", "new"):
            gated.commit(gated.forward(claim, state="paused", items=[Item("read", 0, f'"{mark}"')]))
            gated.store.resume(gated.plan, ids, **WHO)
            gated.park(gated.claim_one(), at="sign")
            gated.store.resume(gated.plan, ids, **WHO)
            assert _served(gated, ids[0]) == [f'"{mark}"']
            gated.store.rewind_to(gated.plan, ids, to="read", **WHO)
            assert _served(gated, ids[0]) == [f'"{mark}"']
            claim = gated.claim_one()

    @pytest.mark.parametrize("end", ["by a move", "past a gate"])
    def test_what_earlier_generations_set_aside_is_dropped_when_the_document_is_done(
        self, desk: Desk, gated: Desk, end: str
    ) -> None:
        at = gated if end == "past a gate" else desk
        first, *_, last = at.plan.step_ids
        claim = at.take_in()
        aside = [Aside(0, 1, Failure("E", "torn"))]
        claim = at.advance(claim, items=[Item(first, 1, "1")], asides=aside)
        at.store.rewind_to(at.plan, [claim.document_id], to=first, **WHO)
        claim = at.claim_one()
        if end == "past a gate":
            at.park(at.advance(at.advance(claim)), at=last)
            at.store.resume(at.plan, [claim.document_id], **WHO)
        else:
            at.finish(claim)
        assert at.standing().state == "done"
        assert _kept_aside(at, claim.document_id) == 0

    def test_what_was_set_aside_in_a_reused_generation_stays(self, desk: Desk) -> None:
        claim = desk.take_in()
        claim = desk.advance(claim, items=[Item("extract", 1, "1")], asides=[Aside(0, 1, Failure("E", "torn"))])
        desk.finish(claim)
        desk.store.rewind_to(desk.plan, [claim.document_id], to="chunk", **WHO)
        desk.finish(desk.claim_one())
        assert [step for step, _ in desk.store.asides(claim.document_id)] == ["extract"]

    def test_a_reader_overtaken_by_new_work_is_told(self, desk: Desk) -> None:
        document_id = _done(desk)
        desk.store.rewind_to(desk.plan, [document_id], to="extract", **WHO)
        reader = desk.store.served(document_id)
        assert next(reader)[2] == '"old extract"'
        _through(desk, desk.claim_one(), "new")
        try:
            rest = [kept for _, _, kept in reader]
        except StoreError as error:
            assert "read it again" in str(error)  # noqa: PT017
        else:
            assert rest == _all("old")[1:]  # of a store that reads all at once
        assert _served(desk, document_id) == _all("new")

    def test_a_document_that_never_was_serves_nothing(self, desk: Desk) -> None:
        assert _served(desk, 10**9) == []


def _clean_up(desk: Desk, document_id: int) -> None:
    """Cleans the items of a document up, as the cleanup of finished work does."""
    from msgspec.structs import replace

    tables = getattr(desk.store, "_tables", None)
    if tables is None:
        desk.sql(
            f"delete from hf_item where document_id = {document_id}",  # noqa: S608
            f"update hf_document set cleaned_at = moved_at where id = {document_id}",  # noqa: S608
        )
        return
    for place in list(tables.items):
        tables.items[place].clear()
    row = tables.documents[document_id]
    tables.documents[document_id] = replace(row, cleaned_at=row.moved_at)


def _kept_aside(desk: Desk, document_id: int) -> int:
    """Counts what is still set aside for a document, of whatever generation."""
    tables = getattr(desk.store, "_tables", None)
    if tables is None:
        ((count,),) = desk.sql(f"select count(*) from hf_aside where document_id = {document_id}")  # noqa: S608
        return int(count)
    return sum(len(shelf) for place, shelf in tables.asides.items() if place[0] == document_id)
