"""Which documents are meant: filters, counted and walked in slices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Unpack

import pytest

from holdfast.core.model import Failure
from holdfast.stores.protocol import Which
from holdfast.testing.conformance.base import SECOND, Conformance, Desk


def _keys(desk: Desk, **which: Unpack[Which]) -> list[str]:
    """Asks in all three ways, which have to agree. Gives the keys, in order."""
    found = sorted(desk.store.standings("papers", **which), key=lambda one: one.id)
    assert desk.store.select("papers", **which) == [one.id for one in found]
    assert desk.store.count("papers", **which) == len(found)
    return [one.key for one in found]


class WhichConformance(Conformance):
    """What `Which` promises."""

    def test_without_a_filter_all_documents_are_meant(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.submit("a", batch="april")
        assert _keys(desk) == ["a", "b", "a"]

    def test_a_filter_that_is_none_says_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        assert _keys(desk, batch=None, key=None, state=None, step=None, error=None, text=None, plan=None) == ["a"]
        assert _keys(desk, idle=None, accepted=None) == ["a"]

    def test_documents_of_another_pipeline_are_never_meant(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a")
        gated.submit("b")
        assert _keys(desk) == ["a"]
        assert _keys(desk, batch="march", state="waiting", key="*") == ["a"]

    def test_documents_of_a_batch_are_meant(self, desk: Desk) -> None:
        desk.submit("a")
        desk.submit("b", batch="april")
        assert _keys(desk, batch="april") == ["b"]
        assert _keys(desk, batch="may") == []

    @pytest.mark.parametrize(
        ("key", "meant"),
        [
            ("a.pdf", ["a.pdf"]),
            ("A.PDF", ["A.PDF"]),
            ("*.pdf", ["a.pdf", "[a].pdf", "sub/a.pdf", "100%_a.pdf"]),
            ("?.pdf", ["a.pdf"]),
            ("*a?pdf*", ["a.pdf", "sub/a.pdf", "100%_a.pdf"]),
            ("[a]*", ["[a].pdf"]),
            ("100%*", ["100%_a.pdf"]),
            ("*_a*", ["100%_a.pdf"]),
            ("*\\*", ["back\\slash\nand more"]),
            ("back*more", ["back\\slash\nand more"]),
            ("*.doc", []),
        ],
    )
    def test_keys_may_have_stars_and_question_marks(self, desk: Desk, key: str, meant: list[str]) -> None:
        desk.submit("a.pdf", "A.PDF", "[a].pdf", "sub/a.pdf", "100%_a.pdf", "back\\slash\nand more")
        assert _keys(desk, key=key) == meant

    @pytest.mark.parametrize("key", ["****?*******^", "*a" * 20 + "b"])
    def test_a_pattern_of_many_stars_is_answered(self, desk: Desk, key: str) -> None:
        desk.submit("a" * 200)
        assert _keys(desk, key=key) == []
        assert _keys(desk, key=key[:-1]) == ["a" * 200]

    def test_states_are_told_apart(self, desk: Desk) -> None:
        desk.submit("waiting", "dead", "paused")
        for claim in desk.claim():
            desk.give_back(claim, state=claim.key)
        for state in ("waiting", "dead", "paused"):
            assert _keys(desk, state=state) == [state]
        assert _keys(desk, state="done") == []

    def test_documents_at_a_step_are_meant(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.advance(desk.claim()[1])
        assert _keys(desk, step="chunk") == ["b"]
        assert _keys(desk, step="never") == []

    def test_failures_are_told_apart_by_class_and_text(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, b, c = desk.claim()
        desk.give_back(a, failure=Failure("ValueError", "Page 7 is 100% torn"))
        desk.give_back(b, failure=Failure("KeyError", "no page_7"))
        desk.give_back(c, state="dead", failure=Failure("ValueError", "empty"))
        assert _keys(desk, error="ValueError") == ["a", "c"]
        assert _keys(desk, error="Value") == []
        assert _keys(desk, text="PAGE") == ["a", "b"]
        assert _keys(desk, text="100% t") == ["a"]
        assert _keys(desk, text="page_7") == ["b"]
        assert _keys(desk, text="valueerror", state="dead") == ["c"]

    def test_documents_that_moved_long_ago_are_meant(self, desk: Desk) -> None:
        desk.submit("a")
        desk.clock.advance(timedelta(hours=1))
        desk.submit("b")
        desk.clock.advance(SECOND)
        assert _keys(desk, idle=timedelta(hours=1)) == ["a"]
        assert _keys(desk, idle=timedelta(hours=1, seconds=1)) == []
        assert _keys(desk, idle=timedelta(0)) == ["a", "b"]

    def test_dead_letters_that_were_accepted_are_told_apart(self, desk: Desk) -> None:
        desk.submit("a", "b")
        for claim in desk.claim():
            desk.bury(claim)
        desk.store.accept(desk.store.select("papers", key="b"), who="cat", reason="fine")
        assert _keys(desk, state="dead", accepted=True) == ["b"]
        assert _keys(desk, state="dead", accepted=False) == ["a"]

    def test_documents_pinned_to_a_plan_are_meant(self, desk: Desk) -> None:
        desk.submit("a")
        assert _keys(desk, plan=desk.plan.plan_id) == ["a"]
        assert _keys(desk, plan=desk.plan.plan_id + 1) == []

    def test_slices_meet_without_a_gap(self, desk: Desk) -> None:
        desk.submit(*"abcdefg")
        after, slices = 0, []
        while found := desk.store.select("papers", after=after, limit=3, batch="march"):
            slices.append(found)
            after = found[-1]
        assert [len(one) for one in slices] == [3, 3, 1]
        assert [number for one in slices for number in one] == sorted(one.id for one in desk.store.standings("papers"))

    def test_a_filter_that_nobody_knows_is_refused(self, desk: Desk) -> None:
        unknown: Any = {"colour": "red"}
        for ask in (desk.store.standings, desk.store.select, desk.store.count):
            with pytest.raises(TypeError, match="colour"):
                ask("papers", **unknown)
