"""Documents are taken in: new, changed, unchanged, named twice, and refused."""

from __future__ import annotations

import pytest

from holdfast.core.errors import BatchSealed, CannotKeep, DuplicateKey, UnknownBatch
from holdfast.core.model import Checkpoint, NewDocument, Receipt
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import NOTHING, SECOND, Conformance, Desk


def _documents(*keys: str, fingerprint: str = "") -> list[NewDocument]:
    return [NewDocument(key, None, fingerprint) for key in keys]


class IntakeConformance(Conformance):
    """What submit and seal promise."""

    def test_new_documents_wait_at_the_first_step(self, desk: Desk) -> None:
        assert desk.submit("a", "b", payload={"path": "a.pdf"}, fingerprint="f1", priority=3) == Receipt(new=2)
        here = desk.standing("b")
        assert here.state == "waiting"
        assert here.checkpoint == Checkpoint(0, "extract", None, 0)
        assert (here.pipeline, here.batch, here.key) == ("papers", "march", "b")
        assert (here.payload, here.fingerprint, here.priority) == ({"path": "a.pdf"}, "f1", 3)
        assert (here.attempts, here.crashes, here.reason, here.holder) == (0, 0, "", "")

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "\udcff.zip"])
    def test_a_batch_whose_name_no_database_keeps_is_refused(self, desk: Desk, name: str) -> None:
        with pytest.raises(CannotKeep, match=r"the batch .* cannot be kept"):
            desk.store.submit(desk.plan, name, _documents("a"), submission=1, part=0)
        assert desk.store.batches("papers") == []

    def test_a_priority_is_kept_up_to_32_bits(self, desk: Desk) -> None:
        for priority in (-(2**31), 2**31 - 1):
            desk.submit(f"at {priority}", priority=priority)
            assert desk.standing(f"at {priority}").priority == priority
        with pytest.raises(CannotKeep, match="over 32 bits"):
            desk.submit("beyond", priority=2**31)

    def test_new_documents_are_due_at_once(self, desk: Desk) -> None:
        desk.submit("a")
        here = desk.standing()
        assert here.submitted_at == here.moved_at == here.due_at == desk.clock()

    def test_submitting_again_changes_nothing(self, desk: Desk) -> None:
        desk.submit("a", "b", fingerprint="f1")
        before = [desk.standing("a"), desk.standing("b")]
        desk.clock.advance(SECOND)
        assert desk.submit("a", "b", fingerprint="f1") == Receipt(unchanged=2)
        assert [desk.standing("a"), desk.standing("b")] == before

    def test_submitting_again_leaves_a_document_with_its_worker(self, desk: Desk) -> None:
        claim = desk.take_in(fingerprint="f1")
        desk.submit("a", fingerprint="f1")
        desk.advance(claim)

    def test_an_unchanged_fingerprint_keeps_the_first_payload(self, desk: Desk) -> None:
        desk.submit("a", payload=1, fingerprint="f1")
        desk.submit("a", payload=2, fingerprint="f1")
        assert desk.standing().payload == 1

    def test_new_changed_and_unchanged_documents_are_told_apart(self, desk: Desk) -> None:
        desk.submit("same", "other", fingerprint="f1")
        documents = [*_documents("same", "new", fingerprint="f1"), *_documents("other", fingerprint="f2")]
        receipt = desk.store.submit(desk.plan, "march", documents, submission=99, part=0)
        assert receipt == Receipt(new=1, changed=1, unchanged=1)

    def test_a_batch_expects_every_new_document_once(self, desk: Desk) -> None:
        desk.submit("a", "b", fingerprint="f1")
        desk.submit("b", "c", fingerprint="f2")
        assert desk.balance("march").expected == 3

    def test_the_same_key_in_two_batches_is_two_documents(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        assert desk.submit("a", batch="april") == Receipt(new=1)
        assert desk.standing(batch="march").id != desk.standing(batch="april").id

    def test_the_same_key_in_two_pipelines_is_two_documents(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a")
        assert gated.submit("a") == Receipt(new=1)
        assert desk.balance().expected == gated.balance().expected == 1

    def test_a_submit_of_nothing_opens_the_batch(self, desk: Desk) -> None:
        assert desk.submit(batch="april") == Receipt()
        assert [batch.name for batch in desk.store.batches("papers")] == ["april"]

    def test_keys_and_payloads_come_back_as_they_were(self, desk: Desk) -> None:
        key = "Ünïcødé/'quoted' \"twice\" \\ \n 文書 🦀.pdf"
        payload = {"nul": "\x00", "deep": [[1, 2.5, None, True]], "": "empty", "big": 2**53}
        desk.submit(key, payload=payload, fingerprint="ß")
        here = desk.standing(key)
        assert (here.key, here.payload, here.fingerprint) == (key, payload, "ß")
        assert desk.submit(key, payload=payload, fingerprint="ß") == Receipt(unchanged=1)

    @pytest.mark.parametrize("payload", ["text", "", 0, 1.5, True, None, [], {}, "null", '"', "[1]"])
    def test_a_payload_may_be_any_json(self, desk: Desk, payload: object) -> None:
        claim = desk.take_in(payload=payload)
        assert claim.payload == payload
        assert type(claim.payload) is type(payload)
        assert desk.standing().payload == payload

    def test_keys_that_differ_in_case_or_spaces_are_different(self, desk: Desk) -> None:
        assert desk.submit("a", "A", "a ", " a", "1", "01", "1.0", "1e0").new == 8

    @pytest.mark.parametrize("key", ["a\x00b", "\x00", "caf\udce9.pdf"])
    def test_a_key_that_no_database_keeps_is_refused(self, desk: Desk, key: str) -> None:
        with pytest.raises(CannotKeep, match="cannot be kept"):
            desk.submit(key)

    def test_a_payload_that_is_not_json_is_refused_with_its_key(self, desk: Desk) -> None:
        with pytest.raises(CannotKeep, match=r"the payload of 'b'.*\['when'\]"):
            desk.store.submit(
                desk.plan, "march", [NewDocument("a"), NewDocument("b", {"when": {1}})], submission=1, part=0
            )
        assert desk.balance().expected == 0

    def test_a_key_named_twice_in_a_part_is_refused(self, desk: Desk) -> None:
        with pytest.raises(DuplicateKey, match="'b' was named twice"):
            desk.submit("a", "b", "b")
        assert desk.balance().expected == 0

    def test_a_key_named_in_an_earlier_part_is_refused(self, desk: Desk) -> None:
        desk.store.submit(desk.plan, "march", _documents("a", "b"), submission=7, part=0)
        with pytest.raises(DuplicateKey, match="'b' was named twice"):
            desk.store.submit(desk.plan, "march", _documents("c", "b"), submission=7, part=1)
        assert desk.balance().expected == 2

    def test_a_changed_key_named_in_an_earlier_part_is_refused(self, desk: Desk) -> None:
        desk.submit("a", fingerprint="f1")
        desk.store.submit(desk.plan, "march", _documents("a", fingerprint="f2"), submission=7, part=0)
        with pytest.raises(DuplicateKey):
            desk.store.submit(desk.plan, "march", _documents("a", fingerprint="f3"), submission=7, part=1)
        assert desk.standing().fingerprint == "f2"

    def test_whoever_names_a_key_twice_is_told_what_was_taken_in(self, desk: Desk) -> None:
        says = "Nothing of the slice that names it again was taken in; the slices before it stay submitted"
        desk.store.submit(desk.plan, "march", _documents("a", "b"), submission=7, part=0)
        with pytest.raises(DuplicateKey, match=says):
            desk.store.submit(desk.plan, "march", _documents("c", "d", "d"), submission=7, part=1)
        with pytest.raises(DuplicateKey, match=says):
            desk.store.submit(desk.plan, "march", _documents("c", "b"), submission=7, part=1)
        assert sorted(one.key for one in desk.store.standings("papers")) == ["a", "b"]

    @pytest.mark.parametrize("fingerprint", ["f1", "f2"])
    def test_an_unchanged_key_named_in_an_earlier_part_is_refused(self, desk: Desk, fingerprint: str) -> None:
        desk.submit("a", "b", "c", fingerprint="f1")
        for number, keys in enumerate(["a", "bc"]):
            named = _documents(*keys, fingerprint="f1")
            desk.store.submit(desk.plan, "march", named, submission=7, part=number)
        with pytest.raises(DuplicateKey, match="'a' was named twice"):
            desk.store.submit(desk.plan, "march", _documents("a", fingerprint=fingerprint), submission=7, part=2)
        assert desk.standing().fingerprint == "f1"

    def test_a_part_that_is_tried_again_and_the_next_submission_name_unchanged_keys_anew(self, desk: Desk) -> None:
        desk.submit("a", "b", fingerprint="f1")
        same = _documents("a", "b", fingerprint="f1")
        for submission, part in [(7, 0), (7, 0), (8, 0)]:
            receipt = desk.store.submit(desk.plan, "march", same, submission=submission, part=part)
            assert receipt == Receipt(unchanged=2)

    def test_a_later_submission_may_name_a_key_again(self, desk: Desk) -> None:
        desk.store.submit(desk.plan, "march", _documents("a"), submission=7, part=0)
        assert desk.store.submit(desk.plan, "march", _documents("a"), submission=8, part=1).unchanged == 1

    def test_a_repeated_part_changes_nothing(self, desk: Desk) -> None:
        desk.submit("old", fingerprint="f1")
        part = [*_documents("a", "b"), *_documents("old", fingerprint="f2")]
        desk.store.submit(desk.plan, "march", part, submission=7, part=3)
        before = desk.store.standings("papers")
        desk.clock.advance(SECOND)
        receipt = desk.store.submit(desk.plan, "march", part, submission=7, part=3)
        assert receipt.total == 3
        assert desk.store.standings("papers") == before

    def test_a_big_part_is_taken_in_whole(self, desk: Desk) -> None:
        keys = [f"doc-{number:04}" for number in range(1500)]
        assert desk.submit(*keys).new == 1500
        assert desk.submit(*keys).unchanged == 1500

    def test_a_sealed_batch_takes_no_more_documents(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.seal("papers", "march", who="cat")
        with pytest.raises(BatchSealed, match="'march' of 'papers' is sealed"):
            desk.submit("b")
        assert desk.balance("march").expected == 1

    def test_what_a_sealed_batch_has_unchanged_is_no_matter(self, desk: Desk) -> None:
        desk.submit("a", fingerprint="1")
        desk.store.seal("papers", "march", who="cat")
        assert desk.submit("a", fingerprint="1").unchanged == 1
        with pytest.raises(BatchSealed):
            desk.submit("a", fingerprint="2")

    def test_a_sealed_batch_takes_no_changes(self, desk: Desk) -> None:
        desk.submit("a", fingerprint="f1")
        desk.store.seal("papers", "march", who="cat")
        with pytest.raises(BatchSealed):
            desk.submit("a", fingerprint="f2")
        assert desk.standing().fingerprint == "f1"

    def test_a_sealed_batch_is_worked_on(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.seal("papers", "march", who="cat")
        desk.finish(desk.claim_one())
        assert desk.standing().state == "done"

    def test_sealing_one_batch_leaves_the_others_open(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a")
        gated.submit("a")
        desk.submit("a", batch="april")
        desk.store.seal("papers", "march", who="cat")
        desk.submit("b", batch="april")
        gated.submit("b")

    def test_sealing_twice_is_sealing_once(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.seal("papers", "march", who="cat")
        desk.store.seal("papers", "march", who="cat")
        assert [batch.state for batch in desk.store.batches("papers")] == ["sealed"]

    def test_sealing_a_batch_that_is_not_there_names_those_that_are(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("a", batch="april")
        gated.submit("a", batch="may")
        with pytest.raises(UnknownBatch, match=r"pipeline 'papers' has no batch 'may'; it has: march, april$"):
            desk.store.seal("papers", "may", who="cat")
        assert {batch.state for batch in desk.store.batches("papers")} == {"open"}

    @pytest.mark.parametrize("pipeline", ["papers", "nowhere"])
    def test_sealing_a_batch_where_there_are_none_says_so(self, desk: Desk, pipeline: str) -> None:
        with pytest.raises(UnknownBatch, match=f"pipeline '{pipeline}' has no batch 'may'; it has none yet"):
            desk.store.seal(pipeline, "may", who="cat")

    def test_a_refused_submit_does_not_open_its_batch(self, desk: Desk) -> None:
        with pytest.raises(DuplicateKey):
            desk.submit("a", "a", batch="april")
        assert desk.store.batches("papers") == []

    def test_what_one_store_takes_in_another_sees(self, desk: Desk, other: Store) -> None:
        desk.submit("a")
        assert other.standing("papers", "march", "a") == desk.standing()


class ChangeConformance(Conformance):
    """What a changed fingerprint does."""

    def test_a_changed_document_begins_anew_as_a_new_generation(self, desk: Desk) -> None:
        desk.finish(desk.take_in(payload=1, fingerprint="f1", priority=1))
        desk.clock.advance(SECOND)
        assert desk.submit("a", payload=2, fingerprint="f2", priority=5) == Receipt(changed=1)
        here = desk.standing()
        assert (here.state, here.payload, here.fingerprint, here.priority) == ("waiting", 2, "f2", 5)
        assert here.checkpoint == Checkpoint(1, "extract", None, 4)
        assert here.moved_at == here.due_at == desk.clock()
        assert here.submitted_at == desk.clock() - SECOND

    def test_a_changed_document_is_taken_from_its_worker(self, desk: Desk) -> None:
        claim = desk.take_in(fingerprint="f1")
        desk.submit("a", fingerprint="f2")
        assert desk.standing().holder == ""
        assert desk.commit(desk.forward(claim)) == [LOST]
        assert not desk.give_back(claim)

    def test_a_worker_that_lost_a_changed_document_cannot_write_after_it_is_claimed_anew(self, desk: Desk) -> None:
        stale = desk.take_in(fingerprint="f1")
        desk.submit("a", fingerprint="f2")
        fresh = desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(stale)) == [LOST]
        desk.advance(fresh)

    @pytest.mark.parametrize("state", ["paused", "dead", "cancelled", "done"])
    def test_a_changed_document_begins_anew_from_every_state(self, desk: Desk, state: str) -> None:
        claim = desk.take_in(fingerprint="f1")
        if state == "done":
            desk.finish(claim)
        elif state == "cancelled":
            desk.store.cancel([claim.document_id], who="ann", reason="no")
        else:
            desk.give_back(claim, state=state, reason="why")
        desk.submit("a", fingerprint="f2")
        here = desk.standing()
        assert (here.state, here.reason, here.attempts, here.crashes) == ("waiting", "", 0, 0)

    def test_a_change_forgets_attempts_and_crashes(self, desk: Desk) -> None:
        desk.submit("a", fingerprint="f1")
        desk.crash(times=2)
        desk.give_back(*desk.store.claim_suspect(desk.plan, desk.worker))
        desk.submit("a", fingerprint="f2")
        assert (desk.standing().attempts, desk.standing().crashes) == (0, 0)

    def test_a_change_is_journalled_with_where_the_document_stood(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(fingerprint="f1"), "1", "2")
        desk.submit("a", fingerprint="f2")
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.generation, entry.step, entry.cursor) == (
            "change",
            "submit",
            0,
            "extract",
            2,
        )
        assert entry.detail == {"from": "f1", "to": "f2", "state": "running"}

    def test_a_change_does_not_count_the_document_again(self, desk: Desk) -> None:
        desk.submit("a", fingerprint="f1")
        desk.submit("a", fingerprint="f2")
        assert desk.balance("march").expected == 1

    def test_items_of_the_earlier_content_are_out_of_sight(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(fingerprint="f1"), "1")
        desk.submit("a", fingerprint="f2")
        assert desk.items(claim) == []
        assert desk.store.outputs(claim.document_id) == []

    def test_items_of_the_earlier_content_are_readable_until_the_document_is_done(self, desk: Desk) -> None:
        old = desk.keep(desk.take_in(fingerprint="f1"), "1")
        desk.submit("a", fingerprint="f2")
        fresh = desk.claim_one()
        extract = desk.plan.step_ids["extract"]
        assert desk.store.read(old.document_id, 0, extract, 0, 9) == [(0, "1")]
        desk.finish(fresh)
        assert desk.store.read(old.document_id, 0, extract, 0, 9) == []

    def test_a_changed_document_reuses_nothing(self, desk: Desk) -> None:
        claim = desk.advance(desk.keep(desk.take_in(fingerprint="f1"), "1"))
        assert desk.store.rewind(desk.plan, claim, to="chunk", who="ann", reason="why")
        desk.submit("a", fingerprint="f2")
        assert desk.claim_one().reuses is None

    def test_a_changed_document_waits_behind_older_ones(self, desk: Desk) -> None:
        desk.submit("a", "b", fingerprint="f1")
        desk.clock.advance(SECOND)
        desk.submit("a", fingerprint="f2")
        assert desk.keys_claimed(limit=1) == ["b"]

    def test_a_change_is_due_at_once_whatever_was_put_off(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(fingerprint="f1"), delay=SECOND * 3600)
        desk.submit("a", fingerprint="f2")
        assert desk.store.next_due(desk.plan) == NOTHING
