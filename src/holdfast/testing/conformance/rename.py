"""Renames: a document gets another key because its file was moved. No step is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import CannotKeep
from holdfast.core.model import STATES, NewDocument, SubmitResult
from holdfast.core.moves import LOST, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.bulk_decisions import WHO, close_batch, in_every_state
from holdfast.testing.conformance.races import ROUNDS, at_once_in_threads


def renames(harness: StoreHarness, batch: str = "march", fingerprint: str = "", /, **names: str) -> list[str]:
    """Rename documents: old=new."""
    documents = {old: NewDocument(new, {"path": new}, fingerprint) for old, new in names.items()}
    return harness.store.rename("papers", batch, documents, **WHO)


def _keys(harness: StoreHarness) -> dict[str, int]:
    return {one.key: one.id for one in harness.store.documents("papers", batch="march")}


class RenameConformance(Conformance):
    """Tests of rename."""

    def test_an_effect_is_part_of_the_rename(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        new = {"a": NewDocument("x"), "missing": NewDocument("y"), "b": NewDocument("c")}

        def effect(tx: Tx, renamed: list[str]) -> None:
            tx.execute("create table renamed (key text)")
            assert renamed == ["a"]
            tx.execute("insert into renamed values ('a')")

        assert harness.store.rename("papers", "march", new, **WHO, effect=effect) == ["a"]
        with harness.store.reading() as tx:
            assert tx.execute("select key from renamed").fetchall() == [("a",)]

    def test_a_rename_whose_effect_fails_is_rolled_back(self, harness: StoreHarness) -> None:
        harness.submit("a")
        before = _keys(harness)

        def fails(tx: Tx, _: list[str]) -> None:
            tx.execute("create table renamed (key text)")
            raise LookupError

        with pytest.raises(LookupError):
            harness.store.rename("papers", "march", {"a": NewDocument("x")}, **WHO, effect=fails)
        assert _keys(harness) == before
        assert [line.verb for line in harness.store.journal(before["a"])] == []
        with harness.store.transaction() as tx:
            tx.execute("create table renamed (key text)")  # there is none yet

    def test_a_renamed_document_has_the_new_key_payload_and_fingerprint(self, harness: StoreHarness) -> None:
        harness.submit("a", payload={"path": "a"}, fingerprint="f1", priority=3)
        before = harness.document()
        new = NewDocument("b", {"path": "b"}, "f2", 9)
        assert harness.store.rename("papers", "march", {"a": new}, **WHO) == ["a"]
        status = harness.document("b")
        assert (status.id, status.payload, status.fingerprint, status.priority) == (before.id, {"path": "b"}, "f2", 3)
        assert [one.id for one in harness.store.find("b")] == [before.id]
        assert harness.store.find("a") == []

    def test_a_renamed_document_keeps_its_checkpoint_and_items(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), '"1"', '"2"')
        harness.release(claim, delay=5 * SECOND)
        before, kept = harness.document(), harness.items(claim)
        renames(harness, a="b")
        status = harness.document("b")
        assert (status.checkpoint, status.attempts, status.due_at) == (before.checkpoint, 1, before.due_at)
        assert (status.moved_at, status.submitted_at) == (before.moved_at, before.submitted_at)
        assert harness.items(claim) == kept
        harness.clock.advance(5 * SECOND)
        again = harness.claim_one()
        assert (again.key, again.payload, again.checkpoint.cursor) == ("b", {"path": "b"}, 2)

    def test_a_document_can_be_renamed_in_every_state(self, harness: StoreHarness) -> None:
        ids = in_every_state(harness)
        names = {key: f"new-{key}" for key in ids}
        before = {key: harness.document(key) for key in ids}
        assert renames(harness, **names) == [*ids]
        for state in STATES:
            status, was = harness.document(f"new-{state}"), before[state]
            assert status.id == was.id
            assert status.state == ("waiting" if state == "running" else state)
            assert (status.checkpoint, status.reason, status.error) == (was.checkpoint, was.reason, was.error)

    def test_renaming_a_running_document_takes_it_from_its_worker_and_costs_no_attempt(
        self, harness: StoreHarness
    ) -> None:
        harness.submit("a")
        claim = harness.keep(harness.claim_one(timeouts={"extract": SECOND}), '"1"')
        renames(harness, a="b")
        status = harness.document("b")
        assert (status.state, status.holder, status.deadline_at) == ("waiting", "", None)
        assert (status.attempts, status.crashes, status.due_at) == (0, 0, status.submitted_at)
        assert harness.store.lost_claims([claim]) == [claim.document_id]
        assert harness.commit(harness.within(claim, 2)) == [LOST]
        assert not harness.release(claim)
        again = harness.claim_one()
        assert (again.key, again.checkpoint.cursor, again.attempts) == ("b", 1, 1)
        assert again.fence > claim.fence

    def test_a_rename_is_one_line_in_the_journal(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.submit("c")
        renames(harness, a="b", c="d")
        (line,) = harness.store.journal(claim.document_id)
        assert (line.verb, line.who, line.at, line.step) == ("rename", "cat", harness.clock(), "extract")
        assert line.detail == {"from": "a", "to": "b", "reason": "why", "was": "running", "state": "waiting"}
        (line,) = harness.store.journal(harness.document("d").id)
        assert line.detail == {"from": "c", "to": "d", "reason": "why", "was": "waiting", "state": "waiting"}

    def test_a_submit_finds_a_renamed_document_unchanged(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim(fingerprint="f1"))
        renames(harness, "march", "f1", a="b")
        assert harness.submit("b", fingerprint="f1") == SubmitResult(unchanged=1)
        assert harness.submit("b", fingerprint="f2") == SubmitResult(changed=1)

    def test_the_old_key_is_free_for_another_document(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="f1")
        renames(harness, "march", "f1", a="b")
        assert harness.submit("a", "b", fingerprint="f1") == SubmitResult(new=1, unchanged=1)
        assert sorted(harness.keys_claimed()) == ["a", "b"]

    def test_renaming_an_unknown_document_does_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert renames(harness, x="y") == []
        assert renames(harness, "april", a="b") == []
        new = {"a": NewDocument("b")}
        assert harness.store.rename("nothing", "march", new, **WHO) == []
        assert harness.store.rename("papers", "march", {}, **WHO) == []
        assert [*_keys(harness)] == ["a"]
        assert harness.store.journal(harness.document().id) == []

    def test_a_document_is_not_renamed_to_a_key_that_exists(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        before = harness.store.documents("papers")
        assert renames(harness, a="b") == []
        assert renames(harness, a="a") == []
        assert harness.store.documents("papers") == before

    def test_a_document_may_be_renamed_to_a_key_of_another_batch(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.submit("b", batch="april")
        assert renames(harness, a="b") == ["a"]

    def test_of_two_renames_to_one_key_the_first_known_document_gets_it(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        ids = _keys(harness)
        assert renames(harness, x="new", b="new", a="new") == ["b"]
        assert _keys(harness) == {"a": ids["a"], "new": ids["b"]}

    def test_renamed_documents_are_returned_in_the_order_given(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        assert renames(harness, d="4", a="1", x="9", c="3") == ["d", "a", "c"]

    @pytest.mark.parametrize("order", ["abc", "cba", "bca"])
    def test_a_chain_of_keys_may_be_renamed_in_one_call(self, harness: StoreHarness, order: str) -> None:
        harness.submit(*"abc")
        ids = _keys(harness)
        to = {"a": "b", "b": "c", "c": "d"}
        assert renames(harness, **{old: to[old] for old in order}) == [*order]
        assert _keys(harness) == {"b": ids["a"], "c": ids["b"], "d": ids["c"]}

    def test_two_documents_may_swap_keys(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        ids = _keys(harness)
        assert renames(harness, a="b", b="a") == ["a", "b"]
        assert _keys(harness) == {"a": ids["b"], "b": ids["a"]}
        assert harness.store.missing("papers", "march") == []

    def test_a_chain_whose_last_key_exists_is_not_renamed(self, harness: StoreHarness) -> None:
        harness.submit(*"abcz")
        before = harness.store.documents("papers")
        assert renames(harness, a="b", b="c", c="z") == []
        assert harness.store.documents("papers") == before

    def test_a_rename_in_a_sealed_batch_leaves_no_missing_document(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.store.seal("papers", "march", who="cat")
        assert renames(harness, a="c") == ["a"]
        assert harness.store.missing("papers", "march") == []
        (found,) = harness.store.batch_counts("papers", "march")
        assert (found.expected, found.balances) == (2, True)

    def test_no_document_of_a_closed_batch_is_renamed(self, harness: StoreHarness) -> None:
        harness.submit("a")
        close_batch(harness)
        report = harness.store.report("papers", "march")
        assert renames(harness, a="b") == []
        assert [*_keys(harness)] == ["a"]
        assert harness.store.report("papers", "march") == report

    def test_a_changed_document_is_not_missing_under_its_old_key(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", fingerprint="f1")
        harness.submit("a", "c", fingerprint="f2")
        assert renames(harness, a="b", b="d", c="e") == ["a", "b", "c"]
        assert harness.store.missing("papers", "march") == []
        assert renames(harness, b="a", d="b", e="c") == ["b", "d", "e"]
        assert harness.store.missing("papers", "march") == []

    def test_keys_with_any_characters_are_renamed(self, harness: StoreHarness) -> None:
        odd = 'O\'Hara, "x" \\ {ü},\n%s :a'
        harness.submit(odd)
        assert renames(harness, **{odd: odd * 2}) == [odd]
        options: dict[str, Any] = {"who": odd, "reason": odd}
        assert harness.store.rename("papers", "march", {odd * 2: NewDocument("ß")}, **options) == [odd * 2]
        line = harness.store.journal(harness.document("ß").id)[-1]
        assert (line.who, line.detail["reason"], line.detail["from"]) == (odd, odd, odd * 2)
        assert harness.store.missing("papers", "march") == []

    def test_keys_that_cannot_be_stored_are_refused_or_unknown(self, harness: StoreHarness) -> None:
        harness.submit("a")
        for name in ("a\0", "a\udcff"):
            with pytest.raises(CannotKeep, match="cannot be kept"):
                renames(harness, a=name)
            assert renames(harness, **{name: "b", "a": "a2"}) == ["a"]
            renames(harness, a2="a")

    def test_a_payload_that_cannot_be_stored_renames_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        before = harness.store.documents("papers")
        documents = {"a": NewDocument("c"), "b": NewDocument("d", {1, 2})}
        with pytest.raises(CannotKeep, match="the payload of 'd'"):
            harness.store.rename("papers", "march", documents, **WHO)
        assert harness.store.documents("papers") == before
        assert harness.store.journal(harness.document("a").id) == []
        assert harness.store.missing("papers", "march") == []

    def test_a_submit_and_a_rename_at_once_give_the_key_to_one_document(
        self, harness: StoreHarness, other: Store
    ) -> None:
        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                old, new = f"old-{turn}", f"new-{turn}"
                harness.submit(old)
                renamed, receipt = at_once(
                    lambda n: (
                        other.rename("papers", "march", {old: NewDocument(new)}, **WHO)  # noqa: B023
                        if n == 0
                        else harness.submit(new)  # noqa: B023
                    )
                )
                assert (renamed, receipt) in (([old], SubmitResult(unchanged=1)), ([], SubmitResult(new=1)))
