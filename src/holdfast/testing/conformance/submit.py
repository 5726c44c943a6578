"""Submissions: new, changed and unchanged documents, repeated keys, and refusals."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.core.errors import BatchSealed, CannotKeep, DuplicateKey, UnknownBatch
from holdfast.core.model import Checkpoint, NewDocument, SubmitResult
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import NOTHING, SECOND, Conformance, StoreHarness


def _documents(*keys: str, fingerprint: str = "") -> list[NewDocument]:
    return [NewDocument(key, None, fingerprint) for key in keys]


class SubmitConformance(Conformance):
    """Tests of submit and seal."""

    def test_new_documents_wait_at_the_first_step(self, harness: StoreHarness) -> None:
        assert harness.submit("a", "b", payload={"path": "a.pdf"}, fingerprint="f1", priority=3) == SubmitResult(new=2)
        status = harness.document("b")
        assert status.state == "waiting"
        assert status.checkpoint == Checkpoint(0, "extract", None, 0)
        assert (status.pipeline, status.batch, status.key) == ("papers", "march", "b")
        assert (status.payload, status.fingerprint, status.priority) == ({"path": "a.pdf"}, "f1", 3)
        assert (status.attempts, status.crashes, status.reason, status.holder) == (0, 0, "", "")

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "\udcff.zip"])
    def test_a_batch_name_that_cannot_be_stored_is_refused(self, harness: StoreHarness, name: str) -> None:
        with pytest.raises(CannotKeep, match=r"the batch .* cannot be kept"):
            harness.store.submit(harness.plan, name, _documents("a"), submission=1, part=0)
        assert harness.store.batches("papers") == []

    def test_a_priority_is_kept_up_to_32_bits(self, harness: StoreHarness) -> None:
        for priority in (-(2**31), 2**31 - 1):
            harness.submit(f"at {priority}", priority=priority)
            assert harness.document(f"at {priority}").priority == priority
        with pytest.raises(CannotKeep, match="over 32 bits"):
            harness.submit("beyond", priority=2**31)

    def test_new_documents_are_due_at_once(self, harness: StoreHarness) -> None:
        harness.submit("a")
        status = harness.document()
        assert status.submitted_at == status.moved_at == status.due_at == harness.clock()

    def test_submitting_again_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", fingerprint="f1")
        before = [harness.document("a"), harness.document("b")]
        harness.clock.advance(SECOND)
        assert harness.submit("a", "b", fingerprint="f1") == SubmitResult(unchanged=2)
        assert [harness.document("a"), harness.document("b")] == before

    def test_submitting_again_leaves_a_document_with_its_worker(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim(fingerprint="f1")
        harness.submit("a", fingerprint="f1")
        harness.advance(claim)

    def test_an_unchanged_fingerprint_keeps_the_first_payload(self, harness: StoreHarness) -> None:
        harness.submit("a", payload=1, fingerprint="f1")
        harness.submit("a", payload=2, fingerprint="f1")
        assert harness.document().payload == 1

    def test_new_changed_and_unchanged_documents_are_told_apart(self, harness: StoreHarness) -> None:
        harness.submit("same", "other", fingerprint="f1")
        documents = [*_documents("same", "new", fingerprint="f1"), *_documents("other", fingerprint="f2")]
        receipt = harness.store.submit(harness.plan, "march", documents, submission=99, part=0)
        assert receipt == SubmitResult(new=1, changed=1, unchanged=1)

    def test_a_touched_file_is_unchanged_and_its_new_time_is_saved(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", payload=1, fingerprint="file:5:100:abc")
        before = harness.document("a")
        harness.clock.advance(SECOND)
        assert harness.submit("a", payload=2, fingerprint="file:5:200:abc") == SubmitResult(unchanged=1)
        assert harness.document("a") == structs.replace(before, fingerprint="file:5:200:abc")
        assert harness.document("b").fingerprint == "file:5:100:abc"

    def test_a_touched_file_stays_with_its_worker(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim(fingerprint="file:5:100:abc")
        harness.submit("a", fingerprint="file:5:200:abc")
        harness.advance(claim)
        assert harness.document().fingerprint == "file:5:200:abc"

    @pytest.mark.parametrize("now", ["file:5:100:abd", "file:5:200:", "5:100:abc", "f1"])
    def test_a_file_with_other_content_is_changed(self, harness: StoreHarness, now: str) -> None:
        harness.submit("a", fingerprint="file:5:100:abc")
        assert harness.submit("a", fingerprint=now) == SubmitResult(changed=1)

    def test_files_without_a_hash_are_compared_by_size_and_time(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="file:5:100:")
        assert harness.submit("a", fingerprint="file:5:100:") == SubmitResult(unchanged=1)
        assert harness.submit("a", fingerprint="file:5:200:") == SubmitResult(changed=1)

    def test_a_touched_file_changes_nothing_in_a_sealed_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="file:5:100:abc")
        harness.store.seal("papers", "march", who="cat")
        before = harness.document()
        assert harness.submit("a", fingerprint="file:5:200:abc") == SubmitResult(unchanged=1)
        assert harness.document() == before

    def test_a_touched_file_named_in_an_earlier_part_is_refused(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="file:5:100:abc")
        store, plan = harness.store, harness.plan
        store.submit(plan, "march", _documents("a", fingerprint="file:5:200:abc"), submission=99, part=0)
        with pytest.raises(DuplicateKey):
            store.submit(plan, "march", _documents("a", fingerprint="file:5:300:abc"), submission=99, part=1)

    def test_a_batch_expects_every_new_document_once(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", fingerprint="f1")
        harness.submit("b", "c", fingerprint="f2")
        assert harness.balance("march").expected == 3

    def test_the_same_key_in_two_batches_is_two_documents(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        assert harness.submit("a", batch="april") == SubmitResult(new=1)
        assert harness.document(batch="march").id != harness.document(batch="april").id

    def test_the_same_key_in_two_pipelines_is_two_documents(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a")
        assert gated.submit("a") == SubmitResult(new=1)
        assert harness.balance().expected == gated.balance().expected == 1

    def test_a_submit_of_nothing_opens_the_batch(self, harness: StoreHarness) -> None:
        assert harness.submit(batch="april") == SubmitResult()
        assert [batch.name for batch in harness.store.batches("papers")] == ["april"]

    def test_keys_and_payloads_come_back_unchanged(self, harness: StoreHarness) -> None:
        key = "Ünïcødé/'quoted' \"twice\" \\ \n 文書 🦀.pdf"
        payload = {"nul": "\x00", "deep": [[1, 2.5, None, True]], "": "empty", "big": 2**53}
        harness.submit(key, payload=payload, fingerprint="ß")
        status = harness.document(key)
        assert (status.key, status.payload, status.fingerprint) == (key, payload, "ß")
        assert harness.submit(key, payload=payload, fingerprint="ß") == SubmitResult(unchanged=1)

    @pytest.mark.parametrize("payload", ["text", "", 0, 1.5, True, None, [], {}, "null", '"', "[1]"])
    def test_a_payload_may_be_any_json(self, harness: StoreHarness, payload: object) -> None:
        claim = harness.submit_and_claim(payload=payload)
        assert claim.payload == payload
        assert type(claim.payload) is type(payload)
        assert harness.document().payload == payload

    def test_keys_that_differ_in_case_or_spaces_are_different(self, harness: StoreHarness) -> None:
        assert harness.submit("a", "A", "a ", " a", "1", "01", "1.0", "1e0").new == 8

    @pytest.mark.parametrize("key", ["a\x00b", "\x00", "caf\udce9.pdf"])
    def test_a_key_that_cannot_be_stored_is_refused(self, harness: StoreHarness, key: str) -> None:
        with pytest.raises(CannotKeep, match="cannot be kept"):
            harness.submit(key)

    def test_a_payload_that_is_not_json_is_refused_with_its_key(self, harness: StoreHarness) -> None:
        with pytest.raises(CannotKeep, match=r"the payload of 'b'.*\['when'\]"):
            harness.store.submit(
                harness.plan, "march", [NewDocument("a"), NewDocument("b", {"when": {1}})], submission=1, part=0
            )
        assert harness.balance().expected == 0

    def test_a_key_named_twice_in_a_part_is_refused(self, harness: StoreHarness) -> None:
        with pytest.raises(DuplicateKey, match="'b' was named twice"):
            harness.submit("a", "b", "b")
        assert harness.balance().expected == 0

    def test_a_key_named_in_an_earlier_part_is_refused(self, harness: StoreHarness) -> None:
        harness.store.submit(harness.plan, "march", _documents("a", "b"), submission=7, part=0)
        with pytest.raises(DuplicateKey, match="'b' was named twice"):
            harness.store.submit(harness.plan, "march", _documents("c", "b"), submission=7, part=1)
        assert harness.balance().expected == 2

    def test_a_changed_key_named_in_an_earlier_part_is_refused(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="f1")
        harness.store.submit(harness.plan, "march", _documents("a", fingerprint="f2"), submission=7, part=0)
        with pytest.raises(DuplicateKey):
            harness.store.submit(harness.plan, "march", _documents("a", fingerprint="f3"), submission=7, part=1)
        assert harness.document().fingerprint == "f2"

    def test_the_error_for_a_repeated_key_says_what_was_submitted(self, harness: StoreHarness) -> None:
        message = r"Nothing of the slice that names it again was taken in\..* the slices before it stay submitted"
        harness.store.submit(harness.plan, "march", _documents("a", "b"), submission=7, part=0)
        with pytest.raises(DuplicateKey, match=message):
            harness.store.submit(harness.plan, "march", _documents("c", "d", "d"), submission=7, part=1)
        with pytest.raises(DuplicateKey, match=message):
            harness.store.submit(harness.plan, "march", _documents("c", "b"), submission=7, part=1)
        assert sorted(one.key for one in harness.store.documents("papers")) == ["a", "b"]

    @pytest.mark.parametrize("fingerprint", ["f1", "f2"])
    def test_an_unchanged_key_named_in_an_earlier_part_is_refused(
        self, harness: StoreHarness, fingerprint: str
    ) -> None:
        harness.submit("a", "b", "c", fingerprint="f1")
        for number, keys in enumerate(["a", "bc"]):
            named = _documents(*keys, fingerprint="f1")
            harness.store.submit(harness.plan, "march", named, submission=7, part=number)
        with pytest.raises(DuplicateKey, match="'a' was named twice"):
            harness.store.submit(harness.plan, "march", _documents("a", fingerprint=fingerprint), submission=7, part=2)
        assert harness.document().fingerprint == "f1"

    def test_a_retried_part_and_the_next_submission_may_name_unchanged_keys_again(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", fingerprint="f1")
        same = _documents("a", "b", fingerprint="f1")
        for submission, part in [(7, 0), (7, 0), (8, 0)]:
            receipt = harness.store.submit(harness.plan, "march", same, submission=submission, part=part)
            assert receipt == SubmitResult(unchanged=2)

    def test_a_later_submission_may_name_a_key_again(self, harness: StoreHarness) -> None:
        harness.store.submit(harness.plan, "march", _documents("a"), submission=7, part=0)
        assert harness.store.submit(harness.plan, "march", _documents("a"), submission=8, part=1).unchanged == 1

    def test_a_repeated_part_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit("old", fingerprint="f1")
        part = [*_documents("a", "b"), *_documents("old", fingerprint="f2")]
        harness.store.submit(harness.plan, "march", part, submission=7, part=3)
        before = harness.store.documents("papers")
        harness.clock.advance(SECOND)
        receipt = harness.store.submit(harness.plan, "march", part, submission=7, part=3)
        assert receipt.total == 3
        assert harness.store.documents("papers") == before

    def test_a_big_part_is_submitted_completely(self, harness: StoreHarness) -> None:
        keys = [f"doc-{number:04}" for number in range(1500)]
        assert harness.submit(*keys).new == 1500
        assert harness.submit(*keys).unchanged == 1500

    def test_a_sealed_batch_takes_no_more_documents(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.seal("papers", "march", who="cat")
        with pytest.raises(BatchSealed, match="'march' of 'papers' is sealed"):
            harness.submit("b")
        assert harness.balance("march").expected == 1

    def test_unchanged_documents_may_be_submitted_to_a_sealed_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="1")
        harness.store.seal("papers", "march", who="cat")
        assert harness.submit("a", fingerprint="1").unchanged == 1
        with pytest.raises(BatchSealed):
            harness.submit("a", fingerprint="2")

    def test_a_sealed_batch_takes_no_changes(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="f1")
        harness.store.seal("papers", "march", who="cat")
        with pytest.raises(BatchSealed):
            harness.submit("a", fingerprint="f2")
        assert harness.document().fingerprint == "f1"

    def test_documents_of_a_sealed_batch_are_claimed(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.seal("papers", "march", who="cat")
        harness.finish(harness.claim_one())
        assert harness.document().state == "done"

    def test_sealing_one_batch_leaves_the_others_open(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a")
        gated.submit("a")
        harness.submit("a", batch="april")
        harness.store.seal("papers", "march", who="cat")
        harness.submit("b", batch="april")
        gated.submit("b")

    def test_sealing_a_sealed_batch_has_no_effect(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.seal("papers", "march", who="cat")
        harness.store.seal("papers", "march", who="cat")
        assert [batch.state for batch in harness.store.batches("papers")] == ["sealed"]

    def test_sealing_an_unknown_batch_lists_the_known_ones(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("a", batch="april")
        gated.submit("a", batch="may")
        with pytest.raises(UnknownBatch, match=r"pipeline 'papers' has no batch 'may'; it has: march, april$"):
            harness.store.seal("papers", "may", who="cat")
        assert {batch.state for batch in harness.store.batches("papers")} == {"open"}

    @pytest.mark.parametrize("pipeline", ["papers", "nowhere"])
    def test_sealing_in_a_pipeline_without_batches_says_so(self, harness: StoreHarness, pipeline: str) -> None:
        with pytest.raises(UnknownBatch, match=f"pipeline '{pipeline}' has no batch 'may'; it has none yet"):
            harness.store.seal(pipeline, "may", who="cat")

    def test_a_refused_submit_does_not_open_its_batch(self, harness: StoreHarness) -> None:
        with pytest.raises(DuplicateKey):
            harness.submit("a", "a", batch="april")
        assert harness.store.batches("papers") == []

    def test_documents_submitted_through_one_store_are_seen_by_another(
        self, harness: StoreHarness, other: Store
    ) -> None:
        harness.submit("a")
        assert other.document("papers", "march", "a") == harness.document()


class ChangedContentConformance(Conformance):
    """Tests of submit with a changed fingerprint."""

    def test_a_changed_document_starts_over_as_a_new_generation(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim(payload=1, fingerprint="f1", priority=1))
        harness.clock.advance(SECOND)
        assert harness.submit("a", payload=2, fingerprint="f2", priority=5) == SubmitResult(changed=1)
        status = harness.document()
        assert (status.state, status.payload, status.fingerprint, status.priority) == ("waiting", 2, "f2", 5)
        assert status.checkpoint == Checkpoint(1, "extract", None, 4)
        assert status.moved_at == status.due_at == harness.clock()
        assert status.submitted_at == harness.clock() - SECOND

    def test_a_changed_document_is_taken_from_its_worker(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim(fingerprint="f1")
        harness.submit("a", fingerprint="f2")
        assert harness.document().holder == ""
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert not harness.release(claim)

    def test_a_worker_that_lost_a_changed_document_cannot_write_after_it_is_claimed_again(
        self, harness: StoreHarness
    ) -> None:
        stale = harness.submit_and_claim(fingerprint="f1")
        harness.submit("a", fingerprint="f2")
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(stale)) == [LOST]
        harness.advance(fresh)

    @pytest.mark.parametrize("state", ["paused", "dead", "cancelled", "done"])
    def test_a_changed_document_starts_over_from_every_state(self, harness: StoreHarness, state: str) -> None:
        claim = harness.submit_and_claim(fingerprint="f1")
        if state == "done":
            harness.finish(claim)
        elif state == "cancelled":
            harness.store.cancel([claim.document_id], who="ann", reason="no")
        else:
            harness.release(claim, state=state, reason="why")
        harness.submit("a", fingerprint="f2")
        status = harness.document()
        assert (status.state, status.reason, status.attempts, status.crashes) == ("waiting", "", 0, 0)

    def test_a_change_resets_attempts_and_crashes(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="f1")
        harness.crash(times=2)
        harness.release(*harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect"))
        harness.submit("a", fingerprint="f2")
        assert (harness.document().attempts, harness.document().crashes) == (0, 0)

    def test_a_change_is_journalled_with_where_the_document_stood(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(fingerprint="f1"), "1", "2")
        harness.submit("a", fingerprint="f2")
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.generation, entry.step, entry.cursor) == (
            "change",
            "submit",
            0,
            "extract",
            2,
        )
        assert entry.detail == {"from": "f1", "to": "f2", "state": "running"}

    def test_a_change_does_not_count_the_document_again(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="f1")
        harness.submit("a", fingerprint="f2")
        assert harness.balance("march").expected == 1

    def test_items_of_the_earlier_content_are_not_visible(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(fingerprint="f1"), "1")
        harness.submit("a", fingerprint="f2")
        assert harness.items(claim) == []
        assert harness.store.outputs(claim.document_id) == []

    def test_items_of_the_earlier_content_are_readable_until_the_document_is_done(self, harness: StoreHarness) -> None:
        old = harness.keep(harness.submit_and_claim(fingerprint="f1"), "1")
        harness.submit("a", fingerprint="f2")
        fresh = harness.claim_one()
        extract = harness.plan.step_ids["extract"]
        assert harness.store.read(old.document_id, 0, extract, 0, 9) == [(0, "1")]
        harness.finish(fresh)
        assert harness.store.read(old.document_id, 0, extract, 0, 9) == []

    def test_a_changed_document_reuses_nothing(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(fingerprint="f1"), "1"))
        assert harness.store.rewind(harness.plan, claim, to="chunk", who="ann", reason="why")
        harness.submit("a", fingerprint="f2")
        assert harness.claim_one().reuses is None

    def test_a_changed_document_waits_behind_older_ones(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", fingerprint="f1")
        harness.clock.advance(SECOND)
        harness.submit("a", fingerprint="f2")
        assert harness.keys_claimed(limit=1) == ["b"]

    def test_a_changed_document_is_due_at_once_even_if_it_was_delayed(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(fingerprint="f1"), delay=SECOND * 3600)
        harness.submit("a", fingerprint="f2")
        assert harness.store.next_due(harness.plan) == NOTHING
