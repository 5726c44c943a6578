"""Rewinds: of one document by its worker, and of many, whose readers are served the old items meanwhile."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import StoreError
from holdfast.core.model import Checkpoint, Claim, FailedItem, Failure, Item
from holdfast.core.moves import ACCEPTED, LOST, rewound
from holdfast.core.plan import Shape, StepShape
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, StoreHarness


def _rewind(harness: StoreHarness, claim: Claim, *, to: str) -> Claim:
    """Rewind a document and return the claim as its worker holds it afterwards."""
    assert harness.store.rewind(harness.plan, claim, to=to, who="ann", reason="the vectors are gone")
    return rewound(claim, to=to, steps=[*harness.plan.step_ids])


def _at_embed(harness: StoreHarness) -> Claim:
    """Return a document at its last step, with items at each step."""
    claim = harness.advance(harness.keep(harness.submit_and_claim(), '"page"'))
    claim = harness.advance(harness.keep(claim, '"chunk"'))
    return harness.keep(claim, '"vector"')


class RewindConformance(Conformance):
    """Tests of rewind."""

    def test_a_rewind_opens_a_new_generation_at_the_step(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness)
        harness.clock.advance(SECOND)
        _rewind(harness, claim, to="chunk")
        status = harness.document()
        assert status.checkpoint == Checkpoint(1, "chunk", None, claim.checkpoint.moves + 1)
        assert (status.state, status.holder, status.attempts, status.moved_at) == ("running", "ann", 1, harness.clock())

    def test_the_worker_keeps_a_document_that_it_rewinds(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.finish(claim)
        assert harness.document().state == "done"

    def test_items_before_the_step_are_reused(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        assert harness.items(claim) == [("extract", 0, '"page"')]

    def test_a_later_claim_has_the_reused_generations(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="embed")
        harness.release(claim)
        assert harness.claim_one().reuses == {"extract": 0, "chunk": 0}

    def test_a_rewind_to_the_first_step_reuses_nothing(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="extract")
        assert harness.items(claim) == []
        harness.release(claim)
        assert harness.claim_one().reuses == {}

    def test_a_rewind_to_the_present_step_restarts_it(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="embed")
        assert harness.document().checkpoint.cursor is None
        assert harness.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"chunk"')]

    def test_new_items_replace_the_old_ones_at_their_positions(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        claim = harness.keep(claim, '"better"')
        assert harness.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"better"')]

    def test_old_items_are_readable_until_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        chunk = harness.plan.step_ids["chunk"]
        assert harness.store.read(claim.document_id, 0, chunk, 0, 9) == [(0, '"chunk"')]
        harness.finish(harness.keep(claim, '"better"'))
        assert harness.store.read(claim.document_id, 0, chunk, 0, 9) == []
        assert harness.store.read(claim.document_id, 1, chunk, 0, 9) == [(0, '"better"')]

    def test_reused_items_stay_when_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.finish(claim)
        assert harness.items(claim) == [("extract", 0, '"page"')]

    def test_items_that_another_claim_reuses_stay_when_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.release(claim)
        harness.finish(harness.claim_one())
        assert harness.items(claim) == [("extract", 0, '"page"')]

    def test_two_rewinds_reuse_each_step_from_its_own_generation(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        claim = harness.advance(harness.keep(claim, '"better"'))
        claim = _rewind(harness, claim, to="embed")
        assert claim.reuses == {"extract": 0, "chunk": 1}
        assert harness.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"better"')]
        harness.release(claim)
        assert harness.claim_one().reuses == {"extract": 0, "chunk": 1}

    def test_items_of_unused_generations_are_deleted_when_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="embed")
        claim = _rewind(harness, harness.keep(claim, '"second"'), to="embed")
        harness.finish(harness.keep(claim, '"third"'))
        embed = harness.plan.step_ids["embed"]
        kept = [harness.store.read(claim.document_id, generation, embed, 0, 9) for generation in range(3)]
        assert kept == [[], [], [(0, '"third"')]]

    def test_a_rewind_is_journalled_with_its_reason(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness)
        _rewind(harness, claim, to="chunk")
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.generation, entry.step, entry.cursor) == (
            "rewind",
            "ann",
            1,
            "chunk",
            None,
        )
        assert entry.detail == {"from": "embed", "cursor": 1, "to": "chunk", "reason": "the vectors are gone"}

    def test_a_stale_claim_cannot_rewind(self, harness: StoreHarness) -> None:
        stale = harness.advance(harness.submit_and_claim())
        harness.reclaim(gone=[harness.worker.id])
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        assert not harness.store.rewind(harness.plan, stale, to="extract", who="ann", reason="why")
        assert harness.document().checkpoint.generation == 0
        assert harness.verbs(fresh) == ["reclaim"]
        harness.advance(fresh)

    def test_a_released_claim_cannot_rewind(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        harness.release(claim)
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")

    @pytest.mark.parametrize("moves", [0, 2])
    def test_a_claim_with_an_outdated_checkpoint_cannot_rewind(self, harness: StoreHarness, moves: int) -> None:
        claim = harness.advance(harness.submit_and_claim())
        wrong = replace(claim, checkpoint=replace(claim.checkpoint, moves=moves))
        assert not harness.store.rewind(harness.plan, wrong, to="extract", who="ann", reason="why")

    def test_a_rewind_to_a_later_step_is_refused(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.submit_and_claim()), '"chunk"')
        with pytest.raises(StoreError, match="'a' is at 'chunk' and cannot be rewound to 'embed', which comes later"):
            harness.store.rewind(harness.plan, claim, to="embed", who="ann", reason="why")
        assert harness.document().checkpoint == claim.checkpoint
        assert harness.verbs(claim) == []
        harness.advance(claim)

    def test_a_rewind_happens_once(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        _rewind(harness, claim, to="extract")
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="again")
        assert harness.document().checkpoint.generation == 1

    def test_a_move_of_the_generation_before_is_lost(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        before = harness.forward(claim, items=[Item("chunk", 0, "1")])
        claim = _rewind(harness, claim, to="extract")
        assert harness.commit(before) == [LOST]
        assert harness.commit(harness.forward(claim)) == [ACCEPTED]

    def test_a_rewind_removes_the_deadline_of_the_step_that_was_left(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        claim = harness.advance(claim, timeout=SECOND)
        _rewind(harness, claim, to="extract")
        harness.clock.advance(SECOND * 2)
        assert harness.reclaim() == []

    def test_a_rewind_resets_crashes(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        claim = harness.claim_one()
        assert claim.crashes == 1
        _rewind(harness, claim, to="extract")
        assert (harness.document().attempts, harness.document().crashes) == (1, 0)

    def test_a_changed_document_after_a_rewind_drops_all_earlier_items(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.submit("a", fingerprint="f2")
        harness.finish(harness.claim_one())
        extract = harness.plan.step_ids["extract"]
        assert harness.store.read(claim.document_id, 0, extract, 0, 9) == []

    def test_only_documents_that_are_where_they_were_seen_are_rewound(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        ids, seen = [claim.document_id], {claim.document_id: claim.checkpoint.moves}
        harness.advance(claim)
        rewind = partial(harness.store.rewind_to, harness.plan, ids, to="extract", who="ann", reason="gone")
        assert rewind(at=seen) == []
        assert rewind(at={}) == []
        assert rewind(at={claim.document_id: claim.checkpoint.moves + 1}) == ids
        assert harness.document().checkpoint.generation == 1


WHO: dict[str, Any] = {"who": "cat", "reason": "a better model"}
STEPS = ("extract", "chunk", "embed")


def _through(harness: StoreHarness, claim: Claim, mark: str) -> None:
    """Move a document to its end. Keep one item at each remaining step."""
    while (step := claim.checkpoint.step) is not None:
        claim = harness.advance(claim, items=[Item(step, 0, f'"{mark} {step}"')])


def _done(harness: StoreHarness, key: str = "a") -> int:
    """Return a document that is done, with an item at each step."""
    claim = harness.submit_and_claim(key)
    _through(harness, claim, "old")
    return claim.document_id


def _served(harness: StoreHarness, document_id: int) -> list[str | bytes]:
    return [kept for _, _, kept in harness.store.served(document_id)]


def _all(mark: str) -> list[str]:
    return [f'"{mark} {step}"' for step in STEPS]


class RewindToConformance(Conformance):
    """Tests of rewind_to."""

    def test_a_finished_document_is_rewound_as_a_new_generation(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.clock.advance(SECOND)
        assert harness.store.rewind_to(harness.plan, [document_id], to="embed", **WHO) == [document_id]
        status = harness.document()
        assert status.checkpoint == Checkpoint(1, "embed", None, 4)
        assert (status.state, status.attempts, status.crashes, status.reason, status.error) == ("waiting", 0, 0, "", "")
        assert status.due_at == status.moved_at == harness.clock()
        claim = harness.claim_one()
        assert claim.reuses == {"extract": 0, "chunk": 0}
        _through(harness, claim, "new")
        assert [kept for _, _, kept in harness.items(claim)] == ['"old extract"', '"old chunk"', '"new embed"']

    def test_a_rewind_is_journalled_with_the_step_it_leads_to(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO)
        (line,) = harness.store.journal(document_id)
        assert (line.verb, line.who, line.generation, line.step, line.cursor) == ("rewind", "cat", 1, "chunk", None)
        place = {"from": None, "cursor": None, "to": "chunk"}
        assert line.detail == {"reason": "a better model", "was": "done", "state": "waiting", **place}

    def test_a_rewind_takes_a_claimed_document_from_its_worker(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.submit_and_claim()), '"half"')
        assert harness.store.rewind_to(harness.plan, [claim.document_id], to="chunk", **WHO)
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")
        (line,) = harness.store.journal(claim.document_id)
        assert (line.detail["was"], line.detail["from"], line.detail["cursor"]) == ("running", "chunk", 1)
        again = harness.claim_one(worker=harness.register_worker("bob"))
        harness.keep(again, '"whole"')

    def test_documents_before_the_step_are_not_rewound(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        b, c = harness.advance(b), harness.advance(harness.advance(c))
        ids = [claim.document_id for claim in (a, b, c)]
        assert harness.store.rewind_to(harness.plan, ids, to="chunk", **WHO) == [b.document_id, c.document_id]
        harness.advance(a)

    def test_a_rewound_dead_letter_is_no_longer_accepted(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        harness.store.accept([claim.document_id], **WHO)
        assert harness.store.rewind_to(harness.plan, [claim.document_id], to="extract", **WHO)
        status = harness.document()
        assert (status.state, status.accepted_by, status.error) == ("waiting", "", "")

    def test_a_rewind_may_park_the_document(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(
            harness.plan, [document_id], to="chunk", then="park", who="ann", reason="somebody has to look", code="look"
        )
        status = harness.document()
        assert (status.state, status.reason, status.code, status.due_at) == (
            "paused",
            "somebody has to look",
            "look",
            None,
        )
        assert harness.store.resume(harness.plan, [document_id], **WHO)
        assert harness.claim_one().checkpoint.step == "chunk"

    def test_a_second_rewind_reuses_the_same_items(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO)
        _through(harness, harness.claim_one(), "new")
        harness.store.rewind_to(harness.plan, [document_id], to="embed", **WHO)
        assert harness.claim_one().reuses == {"extract": 0, "chunk": 1}

    def test_documents_with_different_histories_are_rewound_together(self, harness: StoreHarness) -> None:
        ids = [_done(harness, key) for key in "abcd"]
        harness.store.rewind_to(harness.plan, ids[1:3], to="chunk", **WHO)
        for claim in harness.claim():
            _through(harness, claim, "new")
        harness.store.rewind_to(harness.plan, ids[2:3], to="extract", **WHO)
        assert harness.store.rewind_to(harness.plan, ids, to="embed", **WHO) == [ids[0], ids[1], ids[3]]
        reused = {claim.document_id: claim.reuses for claim in harness.claim()}
        old, new = {"extract": 0, "chunk": 0}, {"extract": 0, "chunk": 1}
        assert reused == {ids[0]: old, ids[1]: new, ids[2]: {}, ids[3]: old}

    def test_a_document_that_lacks_an_earlier_step_is_not_rewound(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        extract, chunk, embed = PAPERS.steps
        harness.clock.advance(SECOND)
        later = harness.store.declare(Shape("papers", (extract, chunk, StepShape("clean", "value"), embed)))
        assert harness.store.rewind_to(later, [document_id], to="embed", **WHO) == []
        assert harness.store.rewind_to(later, [document_id], to="clean", **WHO) == [document_id]

    def test_a_document_of_another_order_can_be_rewound_only_to_the_start(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        extract, chunk, _ = PAPERS.steps
        harness.clock.advance(SECOND)
        later = harness.store.declare(Shape("papers", (chunk, extract, StepShape("embed", "value"))))
        assert harness.store.rewind_to(later, [document_id], to="embed", **WHO) == []
        assert harness.store.rewind_to(later, [document_id], to="chunk", **WHO) == [document_id]
        assert harness.store.declare(Shape("papers", (chunk, extract, StepShape("embed", "value")))) == later

    def test_a_cleaned_up_document_can_be_rewound_only_to_the_start(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        _clean_up(harness, document_id)
        assert harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO) == []
        assert harness.store.rewind_to(harness.plan, [document_id], to="extract", **WHO) == [document_id]
        assert harness.document().cleaned_at is None
        assert _served(harness, document_id) == []

    def test_two_thousand_documents_are_rewound_in_one_slice(self, harness: StoreHarness) -> None:
        harness.submit(*(f"doc-{n}" for n in range(2000)))
        for claim in harness.claim(limit=100):
            harness.finish(claim)
        ids = harness.store.select("papers", limit=2000)
        assert harness.store.rewind_to(harness.plan, ids, to="extract", **WHO) == ids
        assert harness.balance().waiting == 2000


class ServedConformance(Conformance):
    """Tests of served: what readers get while a document is processed again."""

    def test_nothing_is_served_for_a_document_that_was_never_done(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), '"1"')
        assert _served(harness, claim.document_id) == []
        harness.store.rewind_to(harness.plan, [claim.document_id], to="extract", **WHO)
        assert _served(harness, claim.document_id) == []

    def test_the_items_of_a_finished_document_are_served(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        assert list(harness.store.served(document_id)) == list(harness.store.items(document_id))
        assert _served(harness, document_id) == _all("old")

    def test_the_old_items_are_served_until_the_new_ones_are_complete(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO)
        claim = harness.claim_one()
        for step in ("chunk", "embed"):
            assert _served(harness, document_id) == _all("old")
            claim = harness.advance(claim, items=[Item(step, 0, f'"new {step}"')])
        assert _served(harness, document_id) == ['"old extract"', '"new chunk"', '"new embed"']

    def test_the_generation_that_is_served_is_known_by_step(self, harness: StoreHarness) -> None:
        served = harness.store.served_generation
        claim = harness.submit_and_claim()
        assert served(claim.document_id, "extract") is None, "it was never done"
        _through(harness, claim, "old")
        harness.store.rewind_to(harness.plan, [claim.document_id], to="chunk", **WHO)
        assert [served(claim.document_id, step) for step in STEPS] == [0, 0, 0]
        _through(harness, harness.claim_one(), "new")
        assert [served(claim.document_id, step) for step in STEPS] == [0, 1, 1]
        assert served(claim.document_id, "never") is served(10**9, "chunk") is None

    def test_the_old_items_are_served_while_changed_content_is_processed(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.submit("a", fingerprint="changed")
        claim = harness.advance(harness.claim_one(), items=[Item("extract", 0, '"new extract"')])
        assert _served(harness, document_id) == _all("old")
        _through(harness, claim, "new")
        assert _served(harness, document_id) == ['"new extract"', '"new chunk"', '"new embed"']

    def test_the_last_complete_items_are_served_after_another_rewind_and_a_change(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO)
        harness.advance(harness.claim_one(), items=[Item("chunk", 0, '"half"')])
        harness.store.rewind_to(harness.plan, [document_id], to="embed", **WHO)
        assert _served(harness, document_id) == _all("old")
        harness.submit("a", fingerprint="changed")
        assert _served(harness, document_id) == _all("old")
        claim = harness.claim_one()
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")
        assert _served(harness, document_id) == _all("old")

    def test_a_dead_letter_serves_its_last_complete_items(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO)
        harness.make_dead(harness.claim_one())
        assert _served(harness, document_id) == _all("old")

    def test_reused_items_are_served_from_their_generation(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="chunk", **WHO)
        _through(harness, harness.claim_one(), "new")
        harness.store.rewind_to(harness.plan, [document_id], to="extract", **WHO)
        assert _served(harness, document_id) == ['"old extract"', '"new chunk"', '"new embed"']

    def test_a_document_done_past_a_gate_serves_the_new_items(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
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
    def test_failed_items_of_earlier_generations_are_deleted_when_the_document_is_done(
        self, harness: StoreHarness, gated: StoreHarness, end: str
    ) -> None:
        at = gated if end == "past a gate" else harness
        first, *_, last = at.plan.step_ids
        claim = at.submit_and_claim()
        aside = [FailedItem(0, 1, Failure("E", "torn"))]
        claim = at.advance(claim, items=[Item(first, 1, "1")], asides=aside)
        at.store.rewind_to(at.plan, [claim.document_id], to=first, **WHO)
        claim = at.claim_one()
        if end == "past a gate":
            at.park(at.pass_gate(claim, at="review"), at=last)
            at.store.resume(at.plan, [claim.document_id], **WHO)
        else:
            at.finish(claim)
        assert at.document().state == "done"
        assert _kept_aside(at, claim.document_id) == 0

    def test_failed_items_of_a_reused_generation_stay(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        claim = harness.advance(claim, items=[Item("extract", 1, "1")], asides=[FailedItem(0, 1, Failure("E", "torn"))])
        harness.finish(claim)
        harness.store.rewind_to(harness.plan, [claim.document_id], to="chunk", **WHO)
        harness.finish(harness.claim_one())
        assert [step for step, _ in harness.store.failed_items(claim.document_id)] == ["extract"]

    def test_a_reader_gets_an_error_when_new_items_replace_what_it_reads(self, harness: StoreHarness) -> None:
        document_id = _done(harness)
        harness.store.rewind_to(harness.plan, [document_id], to="extract", **WHO)
        reader = harness.store.served(document_id)
        assert next(reader)[2] == '"old extract"'
        _through(harness, harness.claim_one(), "new")
        try:
            rest = [kept for _, _, kept in reader]
        except StoreError as error:
            assert "read it again" in str(error)  # noqa: PT017
        else:
            assert rest == _all("old")[1:]  # of a store that reads all at once
        assert _served(harness, document_id) == _all("new")

    def test_an_unknown_document_serves_nothing(self, harness: StoreHarness) -> None:
        assert _served(harness, 10**9) == []


def _clean_up(harness: StoreHarness, document_id: int) -> None:
    """Clean up the items of a document, as the cleanup of finished documents does."""
    from msgspec.structs import replace

    tables = getattr(harness.store, "_tables", None)
    if tables is None:
        harness.sql(
            f"delete from hf_item where document_id = {document_id}",  # noqa: S608
            f"update hf_document set cleaned_at = moved_at where id = {document_id}",  # noqa: S608
        )
        return
    for place in list(tables.items):
        tables.items[place].clear()
    row = tables.documents[document_id]
    tables.documents[document_id] = replace(row, cleaned_at=row.moved_at)


def _kept_aside(harness: StoreHarness, document_id: int) -> int:
    """Count the failed items of a document in all generations."""
    tables = getattr(harness.store, "_tables", None)
    if tables is None:
        ((count,),) = harness.sql(f"select count(*) from hf_aside where document_id = {document_id}")  # noqa: S608
        return int(count)
    return sum(len(positions) for place, positions in tables.asides.items() if place[0] == document_id)
