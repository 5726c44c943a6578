"""Items: values by position, whole values, bytes, big values, and failed items."""

from __future__ import annotations

import pytest

from holdfast.core.model import WHOLE, Claim, FailedItem, Failure, Item, ItemCounts
from holdfast.core.moves import ACCEPTED, Refused
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness, after, papers

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
