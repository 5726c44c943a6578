"""Items: values by position, whole values, bytes, big values, and items that were set aside and are tried again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model import WHOLE, Checkpoint, Claim, FailedItem, Failure, Item, ItemCounts
from holdfast.core.moves import ACCEPTED, LOST, Refused
from holdfast.core.plan import StepShape
from holdfast.core.reasons import ITEMS_REDRIVEN
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, StoreHarness, after, papers

BIG = "x" * 70_000


def _keep(harness: StoreHarness, claim: Claim, *items: Item) -> Claim:
    move = harness.within(claim, claim.checkpoint.moves + 1, items=items)
    assert harness.commit(move) == [ACCEPTED]
    return after(claim, move)


def _read(
    harness: StoreHarness, claim: Claim, start: int = -1, stop: int = 10**6, *, step: str = "extract"
) -> list[object]:
    return list(
        harness.store.read(claim.document_id, claim.checkpoint.generation, harness.plan.step_ids[step], start, stop)
    )


class ItemsConformance(Conformance):
    """Tests of items, read and next_position: values come back as they were written."""

    @pytest.mark.parametrize(
        "value",
        [
            "null",
            '""',
            "[]",
            '{"b": 1,   "a":2.0}',
            '"\\u0000 \\ud83e\\udd80"',
            '"naïve 文 🦀"',
            "123456789012345678901234567890",
            "1.0",
            "-0.0",
            '"' + BIG + '"',
            '"' + "文" * 40_000 + '"',
            b"",
            b"\x00\xff\xfe",
            b"null",
            b"\x00" * 70_000,
        ],
        ids=lambda value: f"{type(value).__name__}-{len(value)}",
    )
    def test_a_value_comes_back_unchanged(self, harness: StoreHarness, value: str | bytes) -> None:
        claim = _keep(harness, harness.submit_and_claim(), Item("extract", 0, value))
        assert _read(harness, claim) == [(0, value)]
        assert harness.items(claim) == [("extract", 0, value)]

    def test_a_whole_value_is_at_position_minus_one(self, harness: StoreHarness) -> None:
        claim = _keep(harness, harness.submit_and_claim(), Item("extract", WHOLE, '{"pages": 3}'))
        assert _read(harness, claim, WHOLE, WHOLE + 1) == [(WHOLE, '{"pages": 3}')]
        assert _read(harness, claim, 0) == []

    def test_a_step_may_keep_a_whole_value_and_items(self, harness: StoreHarness) -> None:
        claim = _keep(harness, harness.submit_and_claim(), Item("extract", 0, "1"), Item("extract", WHOLE, "2"))
        assert harness.items(claim) == [("extract", WHOLE, "2"), ("extract", 0, "1")]

    def test_items_are_read_by_position_whatever_the_order_of_writing(self, harness: StoreHarness) -> None:
        claim = _keep(harness, harness.submit_and_claim(), Item("extract", 5, "5"), Item("extract", 1, "1"))
        claim = _keep(harness, claim, Item("extract", 3, "3"))
        assert _read(harness, claim) == [(1, "1"), (3, "3"), (5, "5")]

    @pytest.mark.parametrize(("start", "stop", "found"), [(0, 9, [1, 3, 5]), (1, 5, [1, 3]), (2, 3, []), (5, 6, [5])])
    def test_a_range_with_gaps_returns_the_items_that_exist(
        self, harness: StoreHarness, start: int, stop: int, found: list[int]
    ) -> None:
        claim = _keep(harness, harness.submit_and_claim(), *(Item("extract", place, str(place)) for place in (1, 3, 5)))
        assert _read(harness, claim, start, stop) == [(place, str(place)) for place in found]

    def test_the_next_position_is_one_past_the_last(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        extract = harness.plan.step_ids["extract"]
        assert harness.store.next_position(claim.document_id, 0, extract) == 0
        claim = _keep(harness, claim, Item("extract", WHOLE, "1"))
        assert harness.store.next_position(claim.document_id, 0, extract) == 0
        claim = _keep(harness, claim, Item("extract", 0, "1"), Item("extract", 7, "1"))
        assert harness.store.next_position(claim.document_id, 0, extract) == 8
        assert harness.store.next_position(claim.document_id, 1, extract) == 0

    def test_the_items_of_a_step_are_counted_by_the_state_of_their_documents(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c", "d")
        a, b, c, _ = harness.claim()
        a = _keep(harness, a, *(Item("extract", place, str(place)) for place in range(3)))
        _keep(harness, harness.advance(a), Item("chunk", 0, "1"))
        _keep(harness, b, Item("extract", 0, "1"), Item("extract", 1, "1"))
        _keep(harness, c, Item("extract", WHOLE, "1"))
        harness.store.cancel([b.document_id], who="ann", reason="no need")
        assert harness.store.count_items("papers", "extract") == {"running": ItemCounts(3), "cancelled": ItemCounts(2)}
        assert harness.store.count_items("papers", "chunk") == {"running": ItemCounts(1)}
        assert harness.store.count_items("papers", "embed") == {}
        assert harness.store.count_items("papers", "missing") == {}
        assert harness.store.count_items("missing", "extract") == {}

    def test_items_that_a_rewound_document_reuses_are_counted(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.keep(harness.submit_and_claim(), "1", "2")), "3", "4")
        assert harness.store.rewind(harness.plan, claim, to="chunk", who="ann", reason="gone")
        assert harness.store.count_items("papers", "extract") == {"running": ItemCounts(2)}
        assert harness.store.count_items("papers", "chunk") == {}

    def test_items_of_steps_and_documents_are_separate(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        first = harness.advance(_keep(harness, first, Item("extract", 0, "1")))
        first = _keep(harness, first, Item("chunk", 0, "2"))
        second = _keep(harness, second, Item("extract", 0, "3"))
        assert _read(harness, first) == [(0, "1")]
        assert _read(harness, first, step="chunk") == [(0, "2")]
        assert _read(harness, second) == [(0, "3")]

    def test_many_items_of_one_move_are_all_stored(self, harness: StoreHarness) -> None:
        claim = _keep(
            harness, harness.submit_and_claim(), *(Item("extract", place, str(place)) for place in range(2500))
        )
        assert harness.store.next_position(claim.document_id, 0, harness.plan.step_ids["extract"]) == 2500
        assert _read(harness, claim, 1000, 1003) == [(1000, "1000"), (1001, "1001"), (1002, "1002")]
        assert [position for _, position, _ in harness.items(claim)] == list(range(2500))

    def test_many_documents_may_share_a_big_value(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        for claim in harness.claim():
            kept = _keep(
                harness, claim, Item("extract", 0, BIG), Item("extract", 1, BIG), Item("extract", 2, BIG.encode())
            )
            assert _read(harness, kept) == [(0, BIG), (1, BIG), (2, BIG.encode())]

    def test_a_big_value_of_a_refused_move_can_be_stored_later(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        twice = [Item("extract", 0, BIG), Item("extract", 0, BIG)]
        (answer,) = harness.commit(harness.within(claim, 1, items=twice))
        assert isinstance(answer, Refused)
        claim = _keep(harness, claim, Item("extract", 0, BIG))
        assert _read(harness, claim) == [(0, BIG)]

    def test_items_stored_through_one_store_are_read_by_another(self, harness: StoreHarness, other: Store) -> None:
        claim = _keep(harness, harness.submit_and_claim(), Item("extract", 0, "1"))
        assert list(other.items(claim.document_id)) == [("extract", 0, "1")]

    def test_items_are_iterated_by_step_and_position(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.keep(harness.submit_and_claim(), "1", "2")), "3", "4")
        assert harness.items(claim) == [("extract", 0, "1"), ("extract", 1, "2"), ("chunk", 0, "3"), ("chunk", 1, "4")]

    def test_an_iteration_does_not_block_writers(self, harness: StoreHarness, other: Store) -> None:
        claim = harness.keep(harness.submit_and_claim(), *"123456789")
        walk = harness.store.items(claim.document_id)
        assert next(walk) == ("extract", 0, "1")
        other.seal("papers", "march", who="cat")
        assert harness.store.heartbeat(harness.worker)
        assert len(list(walk)) == 8

    def test_an_unknown_document_has_no_items(self, harness: StoreHarness) -> None:
        assert list(harness.store.items(10**9)) == []
        assert harness.store.outputs(10**9) == []
        assert harness.store.failed_items(10**9) == []
        assert harness.store.journal(10**9) == []


class FailedItemsConformance(Conformance):
    """Tests of failed_items and outputs: a failed item is set aside, tried again and mended."""

    torn = Failure("ValueError", "torn", "line 1")

    def _set_aside(
        self, harness: StoreHarness, claim: Claim, *asides: FailedItem, mended: tuple[int, ...] = ()
    ) -> Claim:
        move = harness.within(claim, (claim.checkpoint.cursor or 0) + 1, asides=asides, mended=mended)
        assert harness.commit(move) == [ACCEPTED]
        return after(claim, move)

    def test_a_failed_item_is_stored_with_its_error(self, harness: StoreHarness) -> None:
        claim = self._set_aside(
            harness, harness.submit_and_claim(), FailedItem(7, 2, self.torn), FailedItem(3, 1, self.torn)
        )
        assert harness.store.failed_items(claim.document_id) == [
            ("extract", FailedItem(3, 1, self.torn)),
            ("extract", FailedItem(7, 2, self.torn)),
        ]

    def test_an_item_that_failed_again_has_its_last_error(self, harness: StoreHarness) -> None:
        claim = self._set_aside(harness, harness.submit_and_claim(), FailedItem(7, 1, self.torn))
        last = FailedItem(7, 2, Failure("OSError", "gone"))
        claim = self._set_aside(harness, claim, last)
        assert harness.store.failed_items(claim.document_id) == [("extract", last)]

    def test_a_mended_item_is_no_longer_a_failed_item(self, harness: StoreHarness) -> None:
        claim = self._set_aside(
            harness, harness.submit_and_claim(), FailedItem(3, 1, self.torn), FailedItem(7, 1, self.torn)
        )
        claim = self._set_aside(harness, claim, mended=(3,))
        assert harness.store.failed_items(claim.document_id) == [("extract", FailedItem(7, 1, self.torn))]

    def test_mending_an_item_that_did_not_fail_does_nothing(self, harness: StoreHarness) -> None:
        claim = self._set_aside(harness, harness.submit_and_claim(), mended=(3,))
        assert harness.store.failed_items(claim.document_id) == []

    def test_failed_items_belong_to_the_step_that_the_move_left(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim(), asides=[FailedItem(0, 1, self.torn)])
        assert [step for step, _ in harness.store.failed_items(claim.document_id)] == ["extract"]

    def test_a_failed_item_without_a_try_is_refused(self, harness: StoreHarness) -> None:
        (answer,) = harness.commit(harness.within(harness.submit_and_claim(), 1, asides=[FailedItem(0, 0, self.torn)]))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, self.forbidden)

    def test_failed_items_of_a_lost_move_are_not_written(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.cancel([claim.document_id], who="ann", reason="no")
        harness.commit(harness.within(claim, 1, asides=[FailedItem(0, 1, self.torn)]))
        assert harness.store.failed_items(claim.document_id) == []

    def test_a_rewind_hides_failed_items(self, harness: StoreHarness) -> None:
        claim = self._set_aside(harness, harness.submit_and_claim(), FailedItem(0, 1, self.torn))
        harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")
        assert harness.store.failed_items(claim.document_id) == []

    def test_outputs_count_items_and_failed_items(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        first_at = harness.clock()
        harness.clock.advance(SECOND)
        claim = harness.keep(claim, "3", start=2)
        claim = self._set_aside(harness, claim, FailedItem(9, 1, self.torn))
        (output,) = harness.store.outputs(claim.document_id)
        assert (output.step, output.items, output.aside) == ("extract", 3, 1)
        assert (output.first_at, output.last_at) == (first_at, harness.clock())

    def test_failed_items_are_counted_by_the_state_of_their_documents(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        failed = [FailedItem(position, 1, self.torn) for position in (5, 7)]
        a = self._set_aside(harness, harness.keep(a, "1", "2"), *failed)
        self._set_aside(harness, a, mended=(5,))
        self._set_aside(harness, b, FailedItem(0, 1, self.torn))
        harness.keep(c, "1")
        harness.store.cancel([b.document_id], who="ann", reason="no need")
        counted = {"running": ItemCounts(3, 1), "cancelled": ItemCounts(0, 1)}
        assert harness.store.count_items("papers", "extract") == counted
        assert harness.store.count_items("papers", "chunk") == {}

    def test_failed_items_of_earlier_generations_are_not_counted(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim(), asides=[FailedItem(0, 1, self.torn)])
        claim = self._set_aside(harness, claim, FailedItem(3, 1, self.torn))
        assert harness.store.rewind(harness.plan, claim, to="chunk", who="ann", reason="gone")
        assert harness.store.count_items("papers", "extract") == {"running": ItemCounts(0, 1)}
        assert harness.store.count_items("papers", "chunk") == {}

    def test_outputs_are_listed_in_the_order_they_were_made(self, harness: StoreHarness) -> None:
        harness.plan = harness.store.declare(papers("chunk", "extract", "embed"))  # their ids have another order
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.clock.advance(SECOND)
        claim = harness.keep(harness.advance(claim), "1")
        assert [output.step for output in harness.store.outputs(claim.document_id)] == ["chunk", "extract"]


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
