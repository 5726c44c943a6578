"""What steps keep: items by position, whole values, bytes, big values, and items set aside."""

from __future__ import annotations

import pytest

from holdfast.core.model import WHOLE, Aside, Claim, Failure, Item
from holdfast.core.moves import ACCEPTED, Refused
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, Desk, after

BIG = "x" * 70_000


def _keep(desk: Desk, claim: Claim, *items: Item) -> Claim:
    move = desk.within(claim, claim.checkpoint.moves + 1, items=items)
    assert desk.commit(move) == [ACCEPTED]
    return after(claim, move)


def _read(desk: Desk, claim: Claim, start: int = -1, stop: int = 10**6, *, step: str = "extract") -> list[object]:
    return list(desk.store.read(claim.document_id, claim.checkpoint.generation, desk.plan.step_ids[step], start, stop))


class KeptConformance(Conformance):
    """What is kept comes back as it was."""

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
    def test_a_value_comes_back_exactly(self, desk: Desk, value: str | bytes) -> None:
        claim = _keep(desk, desk.take_in(), Item("extract", 0, value))
        assert _read(desk, claim) == [(0, value)]
        assert desk.items(claim) == [("extract", 0, value)]

    def test_a_whole_value_stands_before_the_first_position(self, desk: Desk) -> None:
        claim = _keep(desk, desk.take_in(), Item("extract", WHOLE, '{"pages": 3}'))
        assert _read(desk, claim, WHOLE, WHOLE + 1) == [(WHOLE, '{"pages": 3}')]
        assert _read(desk, claim, 0) == []

    def test_a_step_may_keep_a_whole_value_and_items(self, desk: Desk) -> None:
        claim = _keep(desk, desk.take_in(), Item("extract", 0, "1"), Item("extract", WHOLE, "2"))
        assert desk.items(claim) == [("extract", WHOLE, "2"), ("extract", 0, "1")]

    def test_items_are_read_by_position_whatever_the_order_they_came_in(self, desk: Desk) -> None:
        claim = _keep(desk, desk.take_in(), Item("extract", 5, "5"), Item("extract", 1, "1"))
        claim = _keep(desk, claim, Item("extract", 3, "3"))
        assert _read(desk, claim) == [(1, "1"), (3, "3"), (5, "5")]

    @pytest.mark.parametrize(("start", "stop", "found"), [(0, 9, [1, 3, 5]), (1, 5, [1, 3]), (2, 3, []), (5, 6, [5])])
    def test_a_range_with_holes_gives_what_is_there(self, desk: Desk, start: int, stop: int, found: list[int]) -> None:
        claim = _keep(desk, desk.take_in(), *(Item("extract", place, str(place)) for place in (1, 3, 5)))
        assert _read(desk, claim, start, stop) == [(place, str(place)) for place in found]

    def test_the_extent_is_one_past_the_last_position(self, desk: Desk) -> None:
        claim = desk.take_in()
        extract = desk.plan.step_ids["extract"]
        assert desk.store.extent(claim.document_id, 0, extract) == 0
        claim = _keep(desk, claim, Item("extract", WHOLE, "1"))
        assert desk.store.extent(claim.document_id, 0, extract) == 0
        claim = _keep(desk, claim, Item("extract", 0, "1"), Item("extract", 7, "1"))
        assert desk.store.extent(claim.document_id, 0, extract) == 8
        assert desk.store.extent(claim.document_id, 1, extract) == 0

    def test_steps_and_documents_keep_apart(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        first = _keep(desk, first, Item("extract", 0, "1"), Item("chunk", 0, "2"))
        second = _keep(desk, second, Item("extract", 0, "3"))
        assert _read(desk, first) == [(0, "1")]
        assert _read(desk, first, step="chunk") == [(0, "2")]
        assert _read(desk, second) == [(0, "3")]

    def test_many_items_of_one_move_are_all_kept(self, desk: Desk) -> None:
        claim = _keep(desk, desk.take_in(), *(Item("extract", place, str(place)) for place in range(2500)))
        assert desk.store.extent(claim.document_id, 0, desk.plan.step_ids["extract"]) == 2500
        assert _read(desk, claim, 1000, 1003) == [(1000, "1000"), (1001, "1001"), (1002, "1002")]
        assert [position for _, position, _ in desk.items(claim)] == list(range(2500))

    def test_a_big_value_may_be_kept_by_many_documents(self, desk: Desk) -> None:
        desk.submit("a", "b")
        for claim in desk.claim():
            kept = _keep(
                desk, claim, Item("extract", 0, BIG), Item("extract", 1, BIG), Item("extract", 2, BIG.encode())
            )
            assert _read(desk, kept) == [(0, BIG), (1, BIG), (2, BIG.encode())]

    def test_a_big_value_of_a_refused_move_can_be_kept_later(self, desk: Desk) -> None:
        claim = desk.take_in()
        twice = [Item("extract", 0, BIG), Item("extract", 0, BIG)]
        (answer,) = desk.commit(desk.within(claim, 1, items=twice))
        assert isinstance(answer, Refused)
        claim = _keep(desk, claim, Item("extract", 0, BIG))
        assert _read(desk, claim) == [(0, BIG)]

    def test_what_one_store_keeps_another_reads(self, desk: Desk, other: Store) -> None:
        claim = _keep(desk, desk.take_in(), Item("extract", 0, "1"))
        assert list(other.items(claim.document_id)) == [("extract", 0, "1")]

    def test_items_are_walked_by_step_and_position(self, desk: Desk) -> None:
        claim = desk.keep(desk.advance(desk.keep(desk.take_in(), "1", "2")), "3", "4")
        assert desk.items(claim) == [("extract", 0, "1"), ("extract", 1, "2"), ("chunk", 0, "3"), ("chunk", 1, "4")]

    def test_a_walk_does_not_hinder_writing(self, desk: Desk, other: Store) -> None:
        claim = desk.keep(desk.take_in(), *"123456789")
        walk = desk.store.items(claim.document_id)
        assert next(walk) == ("extract", 0, "1")
        other.seal("papers", "march")
        assert desk.store.beat(desk.worker)
        assert len(list(walk)) == 8

    def test_a_document_that_never_was_has_nothing(self, desk: Desk) -> None:
        assert list(desk.store.items(10**9)) == []
        assert desk.store.outputs(10**9) == []
        assert desk.store.asides(10**9) == []
        assert desk.store.journal(10**9) == []


class AsideConformance(Conformance):
    """Items that a step could not do are set aside, tried again, and mended."""

    torn = Failure("ValueError", "torn", "line 1")

    def _set_aside(self, desk: Desk, claim: Claim, *asides: Aside, mended: tuple[int, ...] = ()) -> Claim:
        move = desk.within(claim, claim.checkpoint.moves + 1, asides=asides, mended=mended)
        assert desk.commit(move) == [ACCEPTED]
        return after(claim, move)

    def test_an_item_is_set_aside_with_its_error(self, desk: Desk) -> None:
        claim = self._set_aside(desk, desk.take_in(), Aside(7, 2, self.torn), Aside(3, 1, self.torn))
        assert desk.store.asides(claim.document_id) == [
            ("extract", Aside(3, 1, self.torn)),
            ("extract", Aside(7, 2, self.torn)),
        ]

    def test_an_item_set_aside_again_has_its_last_error(self, desk: Desk) -> None:
        claim = self._set_aside(desk, desk.take_in(), Aside(7, 1, self.torn))
        last = Aside(7, 2, Failure("OSError", "gone"))
        claim = self._set_aside(desk, claim, last)
        assert desk.store.asides(claim.document_id) == [("extract", last)]

    def test_a_mended_item_is_aside_no_more(self, desk: Desk) -> None:
        claim = self._set_aside(desk, desk.take_in(), Aside(3, 1, self.torn), Aside(7, 1, self.torn))
        claim = self._set_aside(desk, claim, mended=(3,))
        assert desk.store.asides(claim.document_id) == [("extract", Aside(7, 1, self.torn))]

    def test_mending_what_was_not_aside_does_nothing(self, desk: Desk) -> None:
        claim = self._set_aside(desk, desk.take_in(), mended=(3,))
        assert desk.store.asides(claim.document_id) == []

    def test_asides_belong_to_the_step_that_the_move_left(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in(), asides=[Aside(0, 1, self.torn)])
        assert [step for step, _ in desk.store.asides(claim.document_id)] == ["extract"]

    def test_an_aside_without_a_try_is_forbidden(self, desk: Desk) -> None:
        (answer,) = desk.commit(desk.within(desk.take_in(), 1, asides=[Aside(0, 0, self.torn)]))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, self.forbidden)

    def test_asides_of_a_lost_move_are_not_written(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.cancel([claim.document_id], who="ann", reason="no")
        desk.commit(desk.within(claim, 1, asides=[Aside(0, 1, self.torn)]))
        assert desk.store.asides(claim.document_id) == []

    def test_a_rewind_puts_asides_out_of_sight(self, desk: Desk) -> None:
        claim = self._set_aside(desk, desk.take_in(), Aside(0, 1, self.torn))
        desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")
        assert desk.store.asides(claim.document_id) == []

    def test_outputs_count_items_and_asides(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        first_at = desk.clock()
        desk.clock.advance(SECOND)
        claim = desk.keep(claim, "3", start=2)
        claim = self._set_aside(desk, claim, Aside(9, 1, self.torn))
        (output,) = desk.store.outputs(claim.document_id)
        assert (output.step, output.items, output.aside) == ("extract", 3, 1)
        assert (output.first_at, output.last_at) == (first_at, desk.clock())

    def test_outputs_come_in_the_order_they_were_made(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", step="embed")
        desk.clock.advance(SECOND)
        claim = desk.keep(claim, "1", step="extract")
        assert [output.step for output in desk.store.outputs(claim.document_id)] == ["embed", "extract"]
