"""Documents go on under other keys: their files were moved, and nothing is done again."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import CannotKeep
from holdfast.core.model import STATES, NewDocument, Receipt
from holdfast.core.moves import LOST, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, Desk
from holdfast.testing.conformance.operators import WHO, close_batch, in_every_state
from holdfast.testing.conformance.races import ROUNDS, at_once_in_threads


def renames(desk: Desk, batch: str = "march", fingerprint: str = "", /, **names: str) -> list[str]:
    """Renames documents: old=new."""
    documents = {old: NewDocument(new, {"path": new}, fingerprint) for old, new in names.items()}
    return desk.store.rename("papers", batch, documents, **WHO)


def _keys(desk: Desk) -> dict[str, int]:
    return {one.key: one.id for one in desk.store.standings("papers", batch="march")}


class NewKeyConformance(Conformance):
    """What a rename promises."""

    def test_an_effect_is_part_of_the_rename(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        new = {"a": NewDocument("x"), "missing": NewDocument("y"), "b": NewDocument("c")}

        def effect(tx: Tx, renamed: list[str]) -> None:
            tx.execute("create table renamed (key text)")
            assert renamed == ["a"]
            tx.execute("insert into renamed values ('a')")

        assert desk.store.rename("papers", "march", new, **WHO, effect=effect) == ["a"]
        with desk.store.reading() as tx:
            assert tx.execute("select key from renamed").fetchall() == [("a",)]

    def test_a_rename_whose_effect_fails_did_not_happen(self, desk: Desk) -> None:
        desk.submit("a")
        before = _keys(desk)

        def fails(tx: Tx, _: list[str]) -> None:
            tx.execute("create table renamed (key text)")
            raise LookupError

        with pytest.raises(LookupError):
            desk.store.rename("papers", "march", {"a": NewDocument("x")}, **WHO, effect=fails)
        assert _keys(desk) == before
        assert [line.verb for line in desk.store.journal(before["a"])] == []
        with desk.store.transaction() as tx:
            tx.execute("create table renamed (key text)")  # there is none yet

    def test_a_renamed_document_has_the_new_key_payload_and_fingerprint(self, desk: Desk) -> None:
        desk.submit("a", payload={"path": "a"}, fingerprint="f1", priority=3)
        before = desk.standing()
        new = NewDocument("b", {"path": "b"}, "f2", 9)
        assert desk.store.rename("papers", "march", {"a": new}, **WHO) == ["a"]
        here = desk.standing("b")
        assert (here.id, here.payload, here.fingerprint, here.priority) == (before.id, {"path": "b"}, "f2", 3)
        assert [one.id for one in desk.store.find("b")] == [before.id]
        assert desk.store.find("a") == []

    def test_a_renamed_document_keeps_its_checkpoint_and_what_it_kept(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), '"1"', '"2"')
        desk.give_back(claim, delay=5 * SECOND)
        before, kept = desk.standing(), desk.items(claim)
        renames(desk, a="b")
        here = desk.standing("b")
        assert (here.checkpoint, here.attempts, here.due_at) == (before.checkpoint, 1, before.due_at)
        assert (here.moved_at, here.submitted_at) == (before.moved_at, before.submitted_at)
        assert desk.items(claim) == kept
        desk.clock.advance(5 * SECOND)
        again = desk.claim_one()
        assert (again.key, again.payload, again.checkpoint.cursor) == ("b", {"path": "b"}, 2)

    def test_a_document_is_renamed_in_every_state(self, desk: Desk) -> None:
        ids = in_every_state(desk)
        names = {key: f"new-{key}" for key in ids}
        before = {key: desk.standing(key) for key in ids}
        assert renames(desk, **names) == [*ids]
        for state in STATES:
            here, was = desk.standing(f"new-{state}"), before[state]
            assert here.id == was.id
            assert here.state == ("waiting" if state == "running" else state)
            assert (here.checkpoint, here.reason, here.error) == (was.checkpoint, was.reason, was.error)

    def test_a_running_one_is_taken_from_its_worker_and_costs_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        claim = desk.keep(desk.claim_one(timeouts={"extract": SECOND}), '"1"')
        renames(desk, a="b")
        here = desk.standing("b")
        assert (here.state, here.holder, here.deadline_at) == ("waiting", "", None)
        assert (here.attempts, here.crashes, here.due_at) == (0, 0, here.submitted_at)
        assert desk.store.lost([claim]) == [claim.document_id]
        assert desk.commit(desk.within(claim, 2)) == [LOST]
        assert not desk.give_back(claim)
        again = desk.claim_one()
        assert (again.key, again.checkpoint.cursor, again.attempts) == ("b", 1, 1)
        assert again.fence > claim.fence

    def test_a_rename_is_one_line_in_the_journal(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.submit("c")
        renames(desk, a="b", c="d")
        (line,) = desk.store.journal(claim.document_id)
        assert (line.verb, line.who, line.at, line.step) == ("rename", "cat", desk.clock(), "extract")
        said = {"from": "a", "to": "b", "reason": "why", "was": "running", "state": "waiting"}
        assert line.detail == said
        (line,) = desk.store.journal(desk.standing("d").id)
        assert line.detail == {"from": "c", "to": "d", "reason": "why", "was": "waiting", "state": "waiting"}

    def test_a_submit_finds_a_renamed_document_unchanged(self, desk: Desk) -> None:
        desk.finish(desk.take_in(fingerprint="f1"))
        renames(desk, "march", "f1", a="b")
        assert desk.submit("b", fingerprint="f1") == Receipt(unchanged=1)
        assert desk.submit("b", fingerprint="f2") == Receipt(changed=1)

    def test_the_old_key_is_free_for_another_document(self, desk: Desk) -> None:
        desk.submit("a", fingerprint="f1")
        renames(desk, "march", "f1", a="b")
        assert desk.submit("a", "b", fingerprint="f1") == Receipt(new=1, unchanged=1)
        assert sorted(desk.keys_claimed()) == ["a", "b"]

    def test_what_is_not_there_is_left_alone(self, desk: Desk) -> None:
        desk.submit("a")
        assert renames(desk, x="y") == []
        assert renames(desk, "april", a="b") == []
        new = {"a": NewDocument("b")}
        assert desk.store.rename("nothing", "march", new, **WHO) == []
        assert desk.store.rename("papers", "march", {}, **WHO) == []
        assert [*_keys(desk)] == ["a"]
        assert desk.store.journal(desk.standing().id) == []

    def test_a_key_that_another_has_is_not_taken(self, desk: Desk) -> None:
        desk.submit("a", "b")
        before = desk.store.standings("papers")
        assert renames(desk, a="b") == []
        assert renames(desk, a="a") == []
        assert desk.store.standings("papers") == before

    def test_a_key_of_another_batch_is_free(self, desk: Desk) -> None:
        desk.submit("a")
        desk.submit("b", batch="april")
        assert renames(desk, a="b") == ["a"]

    def test_of_two_that_want_one_key_the_first_that_is_there_gets_it(self, desk: Desk) -> None:
        desk.submit("a", "b")
        ids = _keys(desk)
        assert renames(desk, x="new", b="new", a="new") == ["b"]
        assert _keys(desk) == {"a": ids["a"], "new": ids["b"]}

    def test_the_answer_is_in_the_order_given(self, desk: Desk) -> None:
        desk.submit(*"abcd")
        assert renames(desk, d="4", a="1", x="9", c="3") == ["d", "a", "c"]

    @pytest.mark.parametrize("order", ["abc", "cba", "bca"])
    def test_keys_may_be_handed_on_in_one_call(self, desk: Desk, order: str) -> None:
        desk.submit(*"abc")
        ids = _keys(desk)
        to = {"a": "b", "b": "c", "c": "d"}
        assert renames(desk, **{old: to[old] for old in order}) == [*order]
        assert _keys(desk) == {"b": ids["a"], "c": ids["b"], "d": ids["c"]}

    def test_two_documents_may_change_places(self, desk: Desk) -> None:
        desk.submit("a", "b")
        ids = _keys(desk)
        assert renames(desk, a="b", b="a") == ["a", "b"]
        assert _keys(desk) == {"a": ids["b"], "b": ids["a"]}
        assert desk.store.missing("papers", "march") == []

    def test_a_chain_whose_end_is_taken_is_left_alone(self, desk: Desk) -> None:
        desk.submit(*"abcz")
        before = desk.store.standings("papers")
        assert renames(desk, a="b", b="c", c="z") == []
        assert desk.store.standings("papers") == before

    def test_a_sealed_batch_allows_it_and_misses_nobody(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.store.seal("papers", "march", who="cat")
        assert renames(desk, a="c") == ["a"]
        assert desk.store.missing("papers", "march") == []
        (found,) = desk.store.census("papers", "march")
        assert (found.expected, found.balances) == (2, True)

    def test_a_closed_batch_is_left_alone(self, desk: Desk) -> None:
        desk.submit("a")
        close_batch(desk)
        report = desk.store.report("papers", "march")
        assert renames(desk, a="b") == []
        assert [*_keys(desk)] == ["a"]
        assert desk.store.report("papers", "march") == report

    def test_one_that_changed_since_it_was_taken_in_is_not_missing_under_its_old_key(self, desk: Desk) -> None:
        desk.submit("a", "b", fingerprint="f1")
        desk.submit("a", "c", fingerprint="f2")
        assert renames(desk, a="b", b="d", c="e") == ["a", "b", "c"]
        assert desk.store.missing("papers", "march") == []
        assert renames(desk, b="a", d="b", e="c") == ["b", "d", "e"]
        assert desk.store.missing("papers", "march") == []

    def test_keys_of_any_kind_are_renamed(self, desk: Desk) -> None:
        odd = 'O\'Hara, "x" \\ {ü},\n%s :a'
        desk.submit(odd)
        assert renames(desk, **{odd: odd * 2}) == [odd]
        said: dict[str, Any] = {"who": odd, "reason": odd}
        assert desk.store.rename("papers", "march", {odd * 2: NewDocument("ß")}, **said) == [odd * 2]
        line = desk.store.journal(desk.standing("ß").id)[-1]
        assert (line.who, line.detail["reason"], line.detail["from"]) == (odd, odd, odd * 2)
        assert desk.store.missing("papers", "march") == []

    def test_names_that_no_store_keeps_are_refused_or_unknown(self, desk: Desk) -> None:
        desk.submit("a")
        for name in ("a\0", "a\udcff"):
            with pytest.raises(CannotKeep, match="cannot be kept"):
                renames(desk, a=name)
            assert renames(desk, **{name: "b", "a": "a2"}) == ["a"]
            renames(desk, a2="a")

    def test_a_payload_that_cannot_be_kept_renames_nothing(self, desk: Desk) -> None:
        desk.submit("a", "b")
        before = desk.store.standings("papers")
        documents = {"a": NewDocument("c"), "b": NewDocument("d", {1, 2})}
        with pytest.raises(CannotKeep, match="the payload of 'd'"):
            desk.store.rename("papers", "march", documents, **WHO)
        assert desk.store.standings("papers") == before
        assert desk.store.journal(desk.standing("a").id) == []
        assert desk.store.missing("papers", "march") == []

    def test_of_a_submit_and_a_rename_one_gets_the_key(self, desk: Desk, other: Store) -> None:
        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                old, new = f"old-{turn}", f"new-{turn}"
                desk.submit(old)
                renamed, receipt = at_once(
                    lambda n: (
                        other.rename("papers", "march", {old: NewDocument(new)}, **WHO) if n == 0 else desk.submit(new)  # noqa: B023
                    )
                )
                assert (renamed, receipt) in (([old], Receipt(unchanged=1)), ([], Receipt(new=1)))
