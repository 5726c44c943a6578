"""Items that were set aside: they are listed over all documents, and tried again as a new generation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from holdfast.core.model import Checkpoint, Claim, FailedItem, Failure, Item
from holdfast.core.moves import ACCEPTED, LOST
from holdfast.core.plan import StepShape
from holdfast.core.reasons import ITEMS_REDRIVEN
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, Conformance, StoreHarness, after

WHO: dict[str, Any] = {"who": "cat", "reason": "the service is back"}
TORN = Failure("ValueError", "the page is torn")
STEPS = ("extract", "chunk", "embed", "index")
SHAPE = replace(PAPERS, steps=(*PAPERS.steps, StepShape("index", "value")))


def _into_embed(harness: StoreHarness, key: str = "a", *, chunks: int = 4) -> Claim:
    """Move a new document to the step `embed`, over some chunks."""
    claim = harness.submit_and_claim(key)
    for step in ("extract", "chunk"):
        items = [Item(step, position, f'"{step} {position}"') for position in range(chunks)]
        claim = harness.advance(claim, items=items, extents={step: chunks})
    return claim


def _embed(harness: StoreHarness, claim: Claim, *bad: int, big: int | None = None, **more: Any) -> Claim:
    """Process the four chunks of a document, and set some aside. The document stays in the step."""
    good = [position for position in range(4) if position not in bad]
    items = [Item("embed", position, f'"{"x" * 70_000 if position == big else position}"') for position in good]
    asides = [FailedItem(position, 2, TORN) for position in bad]
    cursor = {"next": 4, "aside": [[position, 2] for position in bad]} if bad else 4
    move = harness.within(claim, cursor, items=items, asides=asides, **more)
    assert harness.commit(move) == [ACCEPTED]
    return after(claim, move)


def _done(harness: StoreHarness, *bad: int, key: str = "a", **more: Any) -> int:
    """Move a new document to its end. Return its id."""
    claim = _embed(harness, _into_embed(harness, key), *bad, **more)
    claim = harness.advance(claim, extents={"embed": 4, "chunk": 4})
    harness.advance(claim, items=[Item("index", -1, '"old"')])
    return claim.document_id


def _redrive(harness: StoreHarness, items: dict[int, list[int]], **more: Any) -> dict[int, list[int]]:
    return harness.store.redrive_items(harness.plan, items, step="embed", **WHO | more)


class ItemRedrivesConformance(Conformance):
    """Tests of redrive_items."""

    @staticmethod
    def _papers(harness: StoreHarness) -> StoreHarness:
        return StoreHarness(harness.store, harness.clock, SHAPE)

    def test_a_redriven_document_begins_inside_the_step_with_what_it_kept(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1, 2)
        assert _redrive(papers, {number: [1]}) == {number: [1]}
        status = papers.document()
        assert (status.state, status.reason, status.attempts) == ("waiting", "", 0)
        cursor = {"next": 1, "done": [[2, 4]], "aside": [[2, 2]]}
        assert status.checkpoint == Checkpoint(1, "embed", cursor, 6)
        claim = papers.claim_one()
        assert (claim.checkpoint, claim.reuses) == (status.checkpoint, {"extract": 0, "chunk": 0})
        kept = [(step, position) for step, position, _ in papers.items(claim)]
        assert kept[-2:] == [("embed", 0), ("embed", 3)]
        assert [(step, one.position, one.tries) for step, one in papers.store.failed_items(number)] == [("embed", 2, 2)]
        (state,) = papers.store.kept_state(papers.plan, [claim])
        assert state.steps is not None
        assert (state.steps["embed"].items, state.steps["embed"].aside) == (2, 1)

    def test_the_item_is_done_and_the_document_ends(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        _redrive(papers, {number: [1]})
        claim = papers.claim_one()
        move = papers.within(claim, 4, items=[Item("embed", 1, '"new"')])
        assert papers.commit(move) == [ACCEPTED]
        claim = papers.advance(after(claim, move))
        papers.advance(claim, items=[Item("index", -1, '"new"')])
        kept = {(step, position): value for step, position, value in papers.store.served(number)}
        assert [kept["embed", position] for position in range(4)] == ['"0"', '"new"', '"2"', '"3"']
        assert kept["index", -1] == '"new"'
        assert papers.store.set_aside_items("papers") == []
        assert papers.store.next_position(number, 0, papers.plan.step_ids["embed"]) == 0, "earlier items are deleted"

    def test_readers_see_the_earlier_items_until_the_document_is_done_again(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        before = list(papers.store.served(number))
        _redrive(papers, {number: [1]})
        assert list(papers.store.served(number)) == before

    def test_large_values_are_kept_without_a_copy(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1, big=3)
        _redrive(papers, {number: [1]})
        harness.clock.advance(timedelta(hours=3))
        assert papers.store.cleanup_blobs(after=b"", limit=100)[0] == 0
        assert max(len(value) for _, _, value in papers.store.items(number)) > 70_000

    def test_the_decision_is_in_the_journal_with_the_items(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1, 2)
        _redrive(papers, {number: [1, 2]})
        entry = papers.store.journal(number)[-1]
        assert (entry.verb, entry.who, entry.code) == ("rewind", "cat", ITEMS_REDRIVEN)
        assert (entry.generation, entry.step, entry.cursor) == (1, "embed", None)
        why = {"reason": "the service is back", "was": "done", "state": "waiting"}
        assert entry.detail == why | {"from": None, "cursor": None, "to": "embed", "items": [1, 2]}

    def test_only_items_that_are_set_aside_now_are_redriven(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        before = papers.document()
        assert _redrive(papers, {number: [0, 2, 9], 10**9: [1]}) == {}
        assert _redrive(papers, {}) == {}
        assert papers.document() == before
        assert _redrive(papers, {number: [0, 1, 1]}) == {number: [1]}
        after_it = papers.document()
        assert _redrive(papers, {number: [1]}) == {}, "it is not set aside any more"
        assert papers.document() == after_it

    def test_the_only_item_of_a_step_is_redriven(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        claim = _into_embed(papers, chunks=1)
        move = papers.within(claim, {"next": 1, "aside": [[0, 1]]}, asides=[FailedItem(0, 1, TORN)])
        papers.commit(move)
        papers.finish(after(claim, move))
        assert _redrive(papers, {claim.document_id: [0]}) == {claim.document_id: [0]}
        assert papers.document().checkpoint.cursor == 0

    def test_a_worker_that_holds_the_document_can_no_longer_write(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        claim = _embed(papers, _into_embed(papers), 1)
        assert _redrive(papers, {claim.document_id: [1]}) == {claim.document_id: [1]}
        assert papers.commit(papers.forward(claim)) == [LOST]
        assert papers.document().checkpoint == Checkpoint(1, "embed", {"next": 1, "done": [[2, 4]]}, 4)

    def test_a_dead_letter_in_the_step_waits_again(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        claim = _embed(papers, _into_embed(papers), 1, 3)
        papers.make_dead(claim)
        papers.store.accept([claim.document_id], who="ann", reason="fine")
        _redrive(papers, {claim.document_id: [3]})
        status = papers.document()
        assert (status.state, status.accepted_by, status.error) == ("waiting", "", "")
        assert status.checkpoint.cursor == {"next": 3, "aside": [[1, 2]]}

    def test_rows_of_the_step_count_as_rows_of_the_new_generation(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        claim = _embed(papers, _into_embed(papers), 1, effects={"embed": 0})
        claim = papers.advance(claim)
        papers.advance(claim, effects={"index": 0})
        _redrive(papers, {claim.document_id: [1]})
        assert papers.claim_one().effects == {"embed": 1, "index": 0}

    def test_a_step_without_rows_gets_none_by_a_redrive(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        _redrive(papers, {number: [1]})
        assert papers.claim_one().effects == {}

    def test_documents_that_a_person_stopped_are_left_as_they_are(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        cancelled = _embed(papers, _into_embed(papers, "a"), 1).document_id
        papers.store.cancel([cancelled], **WHO)
        held = _embed(papers, _into_embed(papers, "b"), 1).document_id
        papers.store.pause([held], **WHO)
        assert _redrive(papers, {cancelled: [1], held: [1]}) == {}

    def test_documents_of_a_closed_batch_are_left_as_they_are(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        papers.store.seal("papers", "march", who="cat")
        papers.store.close_batch(papers.plan, "march", **WHO)
        assert _redrive(papers, {number: [1]}) == {}

    def test_documents_that_were_done_with_other_settings_are_left_as_they_are(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        steps = [replace(step, settings={"size": 1}) if step.name == "embed" else step for step in SHAPE.steps]
        changed = StoreHarness(papers.store, papers.clock, replace(SHAPE, steps=tuple(steps)))
        assert _redrive(changed, {number: [1]}) == {}
        assert _redrive(papers, {number: [1]}) == {number: [1]}, "by a worker with the plan of the document"

    def test_a_step_that_is_not_over_items_has_none_to_redrive(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        assert papers.store.redrive_items(papers.plan, {number: [1]}, step="chunk", **WHO) == {}

    def test_of_two_that_redrive_the_same_item_one_does_it(self, harness: StoreHarness, other: Store) -> None:
        papers = self._papers(harness)
        number = _done(papers, 1)
        theirs = StoreHarness(other, papers.clock, SHAPE)
        with ThreadPoolExecutor(2) as threads:
            answers = [*threads.map(lambda one: _redrive(one, {number: [1]}), [papers, theirs])]
        assert sorted(answers, key=len) == [{}, {number: [1]}]
        assert papers.document().checkpoint.generation == 1

    def test_items_of_many_documents_are_redriven_in_one_call(self, harness: StoreHarness) -> None:
        papers = self._papers(harness)
        numbers = [_done(papers, 1, place % 4, key=f"doc-{place}") for place in range(12)]
        positions = {number: sorted({1, place % 4}) for place, number in enumerate(numbers)}
        assert _redrive(papers, positions) == positions
        assert papers.balance().waiting == 12


class SetAsideItemsConformance(Conformance):
    """Tests of set_aside_items."""

    def test_items_of_all_documents_are_listed_in_order(self, harness: StoreHarness) -> None:
        papers = ItemRedrivesConformance._papers(harness)
        first, second = _done(papers, 3, 1, key="b"), _done(papers, 2, key="a")
        items = papers.store.set_aside_items("papers")
        assert [(one.document_id, one.key, one.position) for one in items] == [
            (first, "b", 1),
            (first, "b", 3),
            (second, "a", 2),
        ]
        assert {(one.batch, one.step, one.state, one.tries, one.error) for one in items} == {
            ("march", "embed", "done", 2, TORN)
        }

    def test_items_are_listed_one_slice_after_the_other(self, harness: StoreHarness) -> None:
        papers = ItemRedrivesConformance._papers(harness)
        for key in "abc":
            _done(papers, 1, 3, key=key)
        found, place = [], None
        while page := papers.store.set_aside_items("papers", after=place, limit=2):
            assert len(page) == 2
            found += page
            place = (page[-1].document_id, page[-1].step, page[-1].position)
        assert found == papers.store.set_aside_items("papers")

    def test_a_filter_selects_by_every_given_value(self, harness: StoreHarness) -> None:
        papers = ItemRedrivesConformance._papers(harness)
        _done(papers, 1, key="a%")
        _done(papers, 2, key="b_")

        def keys(**which: Any) -> list[str]:
            return [one.key for one in papers.store.set_aside_items("papers", **which)]

        assert keys(key="a%") == keys(key="a*") == keys(batch="march", key="?%", step="embed") == ["a%"]
        assert keys(error="ValueError") == keys(text="PAGE is torn") == keys(text="valueerror: the") == ["a%", "b_"]
        assert (
            keys(batch="april") == keys(step="chunk") == keys(error="Value") == keys(text="p_ge") == keys(key="_") == []
        )

    def test_items_of_earlier_generations_and_of_cancelled_documents_are_not_listed(
        self, harness: StoreHarness
    ) -> None:
        papers = ItemRedrivesConformance._papers(harness)
        number = _done(papers, 1, key="a")
        cancelled = _embed(papers, _into_embed(papers, "b"), 1).document_id
        papers.store.cancel([cancelled], **WHO)
        assert [one.document_id for one in papers.store.set_aside_items("papers")] == [number]
        papers.store.rewind_to(papers.plan, [number], to="index", **WHO)
        assert len(papers.store.set_aside_items("papers")) == 1, "they are reused"
        papers.store.rewind_to(papers.plan, [number], to="embed", **WHO)
        assert papers.store.set_aside_items("papers") == papers.store.set_aside_items("letters") == []
