"""Document filters: select, count and documents agree on which documents match."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Unpack

import pytest

from holdfast.core.model import Failure
from holdfast.stores.protocol import DocumentFilter
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness


def _keys(harness: StoreHarness, **which: Unpack[DocumentFilter]) -> list[str]:
    """Return the keys of the documents that match a filter, in order. Check that all three reads agree."""
    found = sorted(harness.store.documents("papers", **which), key=lambda one: one.id)
    assert harness.store.select("papers", **which) == [one.id for one in found]
    assert harness.store.count("papers", **which) == len(found)
    return [one.key for one in found]


class DocumentFilterConformance(Conformance):
    """Tests of select, count and documents with the filter `Which`."""

    def test_no_filter_selects_all_documents(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.submit("a", batch="april")
        assert _keys(harness) == ["a", "b", "a"]

    def test_a_filter_of_none_selects_all_documents(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert _keys(harness, batch=None, key=None, state=None, step=None, error=None, text=None, plan=None) == ["a"]
        assert _keys(harness, idle=None, accepted=None) == ["a"]

    def test_documents_of_another_pipeline_are_never_selected(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a")
        gated.submit("b")
        assert _keys(harness) == ["a"]
        assert _keys(harness, batch="march", state="waiting", key="*") == ["a"]

    def test_documents_are_selected_by_batch(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.submit("b", batch="april")
        assert _keys(harness, batch="april") == ["b"]
        assert _keys(harness, batch="may") == []

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
    def test_documents_are_selected_by_a_key_pattern(self, harness: StoreHarness, key: str, meant: list[str]) -> None:
        harness.submit("a.pdf", "A.PDF", "[a].pdf", "sub/a.pdf", "100%_a.pdf", "back\\slash\nand more")
        assert _keys(harness, key=key) == meant

    @pytest.mark.parametrize("key", ["****?*******^", "*a" * 20 + "b"])
    def test_a_key_pattern_with_many_stars_is_answered(self, harness: StoreHarness, key: str) -> None:
        harness.submit("a" * 200)
        assert _keys(harness, key=key) == []
        assert _keys(harness, key=key[:-1]) == ["a" * 200]

    def test_documents_are_selected_by_state(self, harness: StoreHarness) -> None:
        harness.submit("waiting", "dead", "paused")
        for claim in harness.claim():
            harness.release(claim, state=claim.key)
        for state in ("waiting", "dead", "paused"):
            assert _keys(harness, state=state) == [state]
        assert _keys(harness, state="done") == []

    def test_documents_are_selected_by_step(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.advance(harness.claim()[1])
        assert _keys(harness, step="chunk") == ["b"]
        assert _keys(harness, step="never") == []

    def test_documents_are_selected_by_error_class_and_text(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        harness.release(a, failure=Failure("ValueError", "Page 7 is 100% torn"))
        harness.release(b, failure=Failure("KeyError", "no page_7"))
        harness.release(c, state="dead", failure=Failure("ValueError", "empty"))
        assert _keys(harness, error="ValueError") == ["a", "c"]
        assert _keys(harness, error="Value") == []
        assert _keys(harness, text="PAGE") == ["a", "b"]
        assert _keys(harness, text="100% t") == ["a"]
        assert _keys(harness, text="page_7") == ["b"]
        assert _keys(harness, text="valueerror", state="dead") == ["c"]

    def test_documents_are_selected_by_the_time_since_their_last_move(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(timedelta(hours=1))
        harness.submit("b")
        harness.clock.advance(SECOND)
        assert _keys(harness, idle=timedelta(hours=1)) == ["a"]
        assert _keys(harness, idle=timedelta(hours=1, seconds=1)) == []
        assert _keys(harness, idle=timedelta(0)) == ["a", "b"]

    def test_dead_letters_are_selected_by_acceptance(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        for claim in harness.claim():
            harness.make_dead(claim)
        harness.store.accept(harness.store.select("papers", key="b"), who="cat", reason="fine")
        assert _keys(harness, state="dead", accepted=True) == ["b"]
        assert _keys(harness, state="dead", accepted=False) == ["a"]

    def test_documents_are_selected_by_their_plan(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert _keys(harness, plan=harness.plan.plan_id) == ["a"]
        assert _keys(harness, plan=harness.plan.plan_id + 1) == []

    def test_slices_have_no_gap_between_them(self, harness: StoreHarness) -> None:
        harness.submit(*"abcdefg")
        after, slices = 0, []
        while found := harness.store.select("papers", after=after, limit=3, batch="march"):
            slices.append(found)
            after = found[-1]
        assert [len(one) for one in slices] == [3, 3, 1]
        assert [number for one in slices for number in one] == sorted(
            one.id for one in harness.store.documents("papers")
        )

    def test_an_unknown_filter_is_refused(self, harness: StoreHarness) -> None:
        unknown: Any = {"colour": "red"}
        for ask in (harness.store.documents, harness.store.select, harness.store.count):
            with pytest.raises(TypeError, match="colour"):
                ask("papers", **unknown)
