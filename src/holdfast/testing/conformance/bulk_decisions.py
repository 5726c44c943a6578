"""Decisions about many documents: bulk verbs, and the filters that choose documents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Unpack

import pytest

from holdfast.core.model import Failure
from holdfast.core.moves import LOST
from holdfast.stores.protocol import DocumentFilter
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness

WHO: dict[str, Any] = {"who": "cat", "reason": "why"}
DECISIONS: dict[str, tuple[Callable[[StoreHarness, list[int]], list[int]], list[str]]] = {
    "resume": (lambda harness, ids: harness.store.resume(harness.plan, ids, **WHO), ["paused"]),
    "reject": (lambda harness, ids: harness.store.reject(ids, **WHO), ["paused"]),
    "pause": (lambda harness, ids: harness.store.pause(ids, **WHO), ["waiting", "running"]),
    "cancel": (lambda harness, ids: harness.store.cancel(ids, **WHO), ["waiting", "running", "paused"]),
    "redrive": (lambda harness, ids: harness.store.redrive(ids, **WHO), ["dead"]),
    "accept": (lambda harness, ids: harness.store.accept(ids, **WHO), ["dead"]),
    "prioritise": (
        lambda harness, ids: harness.store.prioritise(ids, priority=3, **WHO),
        ["waiting", "running", "paused", "dead"],
    ),
    "rewind": (
        lambda harness, ids: harness.store.rewind_to(harness.plan, ids, to="extract", **WHO),
        ["waiting", "running", "paused", "done", "dead", "cancelled"],
    ),
}
each = pytest.mark.parametrize("verb", DECISIONS)


def close_batch(harness: StoreHarness, batch: str = "march") -> None:
    """Close a batch. Open documents are cancelled, dead letters are tolerated."""
    harness.store.cancel(harness.store.select(harness.plan.pipeline, batch=batch), **WHO)
    harness.store.seal(harness.plan.pipeline, batch, who="cat")
    harness.store.close_batch(harness.plan, batch, tolerate=1.0, **WHO)


def in_every_state(harness: StoreHarness) -> dict[str, int]:
    """Make documents in every state. The key of each is the name of its state."""
    harness.submit("waiting", "running", "paused", "done", "dead", "cancelled")
    claims = {claim.key: claim for claim in harness.claim()}
    harness.release(claims["waiting"])
    harness.release(claims["paused"], state="paused")
    harness.finish(claims["done"])
    harness.make_dead(claims["dead"])
    harness.store.cancel([claims["cancelled"].document_id], **WHO)
    return {key: claim.document_id for key, claim in claims.items()}


class EveryDecisionConformance(Conformance):
    """Tests that hold for every decision."""

    @each
    def test_a_decision_changes_documents_it_applies_to_and_returns_their_ids(
        self, harness: StoreHarness, verb: str
    ) -> None:
        ids = in_every_state(harness)
        decide, applies = DECISIONS[verb]
        before = {key: harness.document(key) for key in ids}
        assert decide(harness, [*ids.values(), 10**9]) == sorted(ids[key] for key in applies)
        changed = [key for key in ids if harness.document(key) != before[key]]
        assert changed == [key for key in ids if key in applies]

    @each
    def test_a_decision_is_one_journal_line_with_who_why_before_and_after(
        self, harness: StoreHarness, verb: str
    ) -> None:
        ids = in_every_state(harness)
        lines = {key: len(harness.store.journal(number)) for key, number in ids.items()}
        decide, applies = DECISIONS[verb]
        decide(harness, [*ids.values()])
        for key, number in ids.items():
            new = harness.store.journal(number)[lines[key] :]
            assert [(one.verb, one.who) for one in new] == [(verb, "cat")] * (key in applies)
            for line in new:
                assert line.at == harness.clock()
                assert (line.detail["reason"], line.detail["was"]) == ("why", key)
                assert line.detail["state"] == harness.document(key).state

    @each
    def test_a_repeated_decision_changes_nothing(self, harness: StoreHarness, verb: str) -> None:
        ids = [*in_every_state(harness).values()]
        decide, applies = DECISIONS[verb]
        assert len(decide(harness, ids)) == len(applies)
        again = decide(harness, ids)
        assert again == (sorted(ids) if verb == "rewind" else [])

    @each
    def test_a_document_named_twice_is_decided_once(self, harness: StoreHarness, verb: str) -> None:
        ids = in_every_state(harness)
        decide, applies = DECISIONS[verb]
        number = ids[applies[0]]
        lines = len(harness.store.journal(number))
        assert decide(harness, [number, number]) == [number]
        assert len(harness.store.journal(number)) == lines + 1

    @each
    def test_no_document_of_a_closed_batch_is_decided(self, harness: StoreHarness, verb: str) -> None:
        ids = in_every_state(harness)
        harness.submit("open", batch="april")
        close_batch(harness)
        before = harness.store.documents("papers")
        decide, _ = DECISIONS[verb]
        assert decide(harness, [*ids.values()]) == []
        assert harness.store.documents("papers") == before

    @each
    def test_a_decision_about_no_documents_does_nothing(self, harness: StoreHarness, verb: str) -> None:
        harness.submit("a")
        before = harness.document()
        decide, _ = DECISIONS[verb]
        assert decide(harness, []) == []
        assert harness.document() == before

    @each
    def test_a_reason_may_be_any_text(self, harness: StoreHarness, verb: str) -> None:
        ids = in_every_state(harness)
        words = 'so "quoted", \\ and ünïcode\n{}'
        options: dict[str, Any] = {"who": 'O\'Hara "x"', "reason": words}
        more: dict[str, dict[str, Any]] = {"prioritise": {"priority": 3}, "rewind": {"to": "extract"}}
        decide = getattr(harness.store, "rewind_to" if verb == "rewind" else verb)
        about = [*ids.values()]
        arguments = (harness.plan, about) if verb in ("resume", "rewind") else (about,)
        (first, *_) = decide(*arguments, **options, **more.get(verb, {}))
        line = harness.store.journal(first)[-1]
        assert (line.who, line.detail["reason"]) == (options["who"], words)


class BulkDecisionConformance(Conformance):
    """Tests of pause, accept, prioritise and redrive at a rate."""

    def test_a_paused_document_is_taken_from_its_worker_and_costs_no_attempt(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        assert harness.store.pause([claim.document_id], **WHO)
        status = harness.document()
        assert (status.state, status.reason, status.holder, status.attempts) == ("paused", "why", "", 0)
        assert status.checkpoint.cursor == 1
        assert harness.commit(harness.within(claim, 2)) == [LOST]
        assert not harness.release(claim)
        assert harness.reclaim(gone=[harness.worker.id]) == []

    def test_a_pause_may_have_an_end(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.pause(harness.store.select("papers"), until=harness.clock() + SECOND, **WHO)
        assert harness.store.wake(harness.plan, who="bob") == 0
        harness.clock.advance(SECOND)
        assert harness.store.wake(harness.plan, who="bob") == 1
        assert harness.keys_claimed() == ["a"]

    def test_a_held_document_continues_where_it_was_after_a_resume(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.store.pause([claim.document_id], **WHO)
        harness.store.resume(harness.plan, [claim.document_id], **WHO)
        again = harness.claim_one()
        assert (again.checkpoint.step, again.checkpoint.cursor) == ("extract", 2)
        harness.keep(again, "3", start=2)

    def test_dead_letters_are_redriven_at_a_rate(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        for claim in harness.claim():
            harness.make_dead(claim)
        ids = harness.store.select("papers")
        assert harness.store.redrive(ids, every=SECOND, after=5 * SECOND, **WHO) == ids
        due = [harness.document(key).due_at for key in "abc"]
        assert due == [harness.clock() + (5 + place) * SECOND for place in range(3)]
        harness.clock.advance(6 * SECOND)
        assert harness.keys_claimed() == ["a", "b"]

    def test_an_accepted_dead_letter_has_its_accepter_until_it_is_redriven(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        harness.store.accept([claim.document_id], **WHO)
        status = harness.document()
        assert (status.state, status.accepted_by, status.reason) == ("dead", "cat", "ValueError: not a page")
        harness.store.redrive([claim.document_id], **WHO)
        status = harness.document()
        assert (status.accepted_by, status.error, status.reason) == ("", "", "")

    def test_only_the_first_acceptance_counts(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        assert harness.store.accept([claim.document_id], who="cat", reason="why")
        assert harness.store.accept([claim.document_id], who="dan", reason="why") == []
        assert harness.document().accepted_by == "cat"

    def test_the_highest_priority_is_claimed_first(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        b = harness.document("b").id
        assert harness.store.prioritise([b], priority=2, **WHO) == [b]
        assert harness.claim_one().key == "b"
        (line,) = harness.store.journal(b)
        assert line.detail == {"reason": "why", "was": "waiting", "state": "waiting", "from": 0, "to": 2}

    def test_prioritising_a_claimed_document_leaves_it_with_its_worker(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.store.prioritise([claim.document_id], priority=2, **WHO)
        harness.advance(claim)

    def test_rejected_documents_are_found_by_a_filter(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        gated.park(claim, at="review")
        gated.store.reject([claim.document_id], **WHO)
        assert gated.store.count("reviews", state="dead", error="Rejected") == 1

    def test_a_decision_about_documents_of_another_pipeline_has_no_effect(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        claim = harness.submit_and_claim()
        assert gated.store.rewind_to(gated.plan, [claim.document_id], to="read", **WHO) == []
        harness.release(claim, state="paused")
        assert gated.store.resume(gated.plan, [claim.document_id], **WHO) == []
        assert harness.document().state == "paused"

    def test_lost_claims_returns_the_claims_that_were_lost(self, harness: StoreHarness) -> None:
        harness.submit(*"abcdef")
        a, b, c, d, e, f = claims = harness.claim()
        assert harness.store.lost_claims(claims) == []
        harness.store.cancel([a.document_id], **WHO)
        harness.store.pause([b.document_id], **WHO)
        harness.store.rewind_to(harness.plan, [c.document_id], to="extract", **WHO)
        harness.submit("d", fingerprint="changed")
        harness.claim(worker=harness.register_worker("bob"))  # c and d are another's now
        assert sorted(harness.store.lost_claims(claims)) == [one.document_id for one in (a, b, c, d)]
        assert harness.store.lost_claims([harness.advance(e), f]) == []
        assert harness.store.lost_claims([]) == []


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
