"""Reads: balances, batches, documents, journals, workers, plans, and documents counted by why they wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from holdfast.core.errors import StoreGone, UnknownDocument
from holdfast.core.model import Balance, Failure, WorkerRecord
from holdfast.core.plan import Shape, StepShape
from holdfast.core.retry import count_retries
from holdfast.core.wait_causes import Cause
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import (
    LEASE,
    NOTHING,
    PAPERS,
    SECOND,
    Conformance,
    OpenStore,
    StoreHarness,
    writes,
)
from holdfast.testing.conformance.orphans import INSTANT, MINUTE


def one_of_each(harness: StoreHarness) -> None:
    """Make documents in all six states."""
    harness.submit("done", "dead", "cancelled", "paused", "running", "waiting")
    done, dead, cancelled, paused, _running = harness.claim(limit=5)
    harness.finish(done)
    harness.make_dead(dead)
    harness.store.cancel([cancelled.document_id], who="ann", reason="no")
    harness.release(paused, state="paused")


class ReadsConformance(Conformance):
    """Tests of the verbs that only read."""

    def test_a_balance_counts_every_state(self, harness: StoreHarness) -> None:
        one_of_each(harness)
        assert harness.balance("march") == Balance(6, waiting=1, running=1, paused=1, done=1, dead=1, cancelled=1)

    def test_the_balance_of_a_pipeline_is_that_of_its_batches(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a", "b", batch="march")
        harness.submit("a", batch="april")
        gated.submit("a")
        assert harness.balance() == Balance(3, waiting=3)
        assert harness.balance("april") == Balance(1, waiting=1)

    def test_the_balance_of_an_unknown_batch_is_zero(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.balance("never") == Balance(0)
        assert harness.store.balance("letters") == Balance(0)
        assert harness.store.batches("letters") == []

    def test_batches_are_listed_oldest_first_with_their_counts(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        created = harness.clock()
        harness.clock.advance(SECOND)
        harness.submit("a", "b", batch="april")
        harness.store.seal("papers", "april", who="cat")
        march, april = harness.store.batches("papers")
        assert (march.pipeline, march.name, march.state, march.created_at) == ("papers", "march", "open", created)
        assert (april.name, april.state, april.created_at) == ("april", "sealed", created + SECOND)
        assert (march.balance, april.balance) == (Balance(1, waiting=1), Balance(2, waiting=2))

    def test_a_batch_counts_open_documents_by_step(self, harness: StoreHarness) -> None:
        harness.submit(*"abcdef")
        a, b, c, d = harness.claim(limit=4)
        harness.advance(a)
        harness.advance(harness.advance(b))
        harness.finish(c)
        harness.make_dead(d)
        (batch,) = harness.store.batches("papers")
        assert batch.at_step == {"extract": 2, "chunk": 1, "embed": 1}

    def test_a_batch_of_finished_documents_has_no_open_documents_at_any_step(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        assert harness.store.batches("papers")[0].at_step == {}

    def test_the_error_for_an_unknown_document_names_it(self, harness: StoreHarness) -> None:
        harness.submit("a")
        for batch, key in (("march", "b"), ("april", "a")):
            with pytest.raises(UnknownDocument, match=f"batch '{batch}' of pipeline 'papers' has no document '{key}'"):
                harness.document(key, batch=batch)
        with pytest.raises(UnknownDocument):
            harness.store.document("letters", "march", "a")

    def test_documents_are_listed_last_moved_first(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        harness.clock.advance(SECOND)
        harness.advance(harness.claim_one())
        assert [one.key for one in harness.store.documents("papers")] == ["a", "c", "b"]

    def test_documents_are_listed_by_state(self, harness: StoreHarness) -> None:
        one_of_each(harness)
        for state in ("waiting", "running", "paused", "done", "dead", "cancelled"):
            assert [one.key for one in harness.store.documents("papers", state=state)] == [state]

    def test_documents_are_listed_by_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", batch="march")
        harness.submit("a", batch="april")
        assert [one.batch for one in harness.store.documents("papers", batch="april")] == ["april"]
        assert harness.store.documents("papers", batch="april", state="done") == []
        assert harness.store.documents("papers", batch="never") == []

    def test_documents_of_other_pipelines_are_not_listed(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.submit("a")
        assert harness.store.documents("papers") == []

    def test_documents_are_listed_up_to_a_limit(self, harness: StoreHarness) -> None:
        harness.submit(*(f"doc-{number:03}" for number in range(120)))
        assert len(harness.store.documents("papers")) == 100
        assert [one.key for one in harness.store.documents("papers", limit=2)] == ["doc-119", "doc-118"]

    def test_a_key_is_found_in_every_pipeline_and_batch(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a", "b", batch="march")
        harness.submit("a", batch="april")
        gated.submit("a", batch="march")
        found = [(one.pipeline, one.batch) for one in harness.store.find("a")]
        assert found == [("papers", "march"), ("papers", "april"), ("reviews", "march")]
        assert harness.store.find("never") == []

    def test_a_journal_is_in_the_order_of_events_whatever_the_clock_says(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, reason="first")
        harness.clock.advance(-SECOND * 60)
        harness.clock.advance(SECOND * 60)
        harness.release(harness.claim_one(), verb="defer", reason="second")
        harness.clock.advance(-SECOND * 60)
        harness.store.cancel([claim.document_id], who="bob", reason="third")
        journal = harness.store.journal(claim.document_id)
        assert [entry.detail["reason"] for entry in journal] == ["first", "second", "third"]
        assert [entry.who for entry in journal] == ["ann", "ann", "bob"]
        assert journal[2].at < journal[1].at

    def test_each_document_has_its_own_journal(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.release(first)
        assert harness.verbs(second) == []

    def test_retries_are_counted_by_the_state_of_documents_and_progress_keeps_them(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c", "d")
        a, b, c, _ = harness.claim()
        for claim in (a, b):
            harness.release(claim)
        harness.release(c, verb="defer")
        harness.advance(harness.claim_one(which=a.document_id))
        again = harness.claim_one(which=b.document_id)
        harness.make_dead(again)
        assert harness.store.count_retries("papers") == {"running": 1, "dead": 1}
        harness.store.redrive([b.document_id], who="ann", reason="it is mended")
        assert harness.store.count_retries("papers") == {"running": 1, "waiting": 2}
        assert harness.store.count_retries("missing") == {}
        for key, retries in {"a": 1, "b": 2, "c": 0, "d": 0}.items():
            assert count_retries(harness.store.journal(harness.document(key).id), generation=0) == retries

    def test_a_lost_worker_is_a_retry_and_a_parked_document_is_none(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose(times=2)
        assert harness.store.count_retries("papers") == {"waiting": 2}
        harness.release(harness.claim_one(), state="paused")
        assert harness.store.count_retries("papers") == {"paused": 2}

    def test_retries_of_earlier_generations_are_not_counted(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim())
        assert harness.store.count_retries("papers") == {"waiting": 1}
        harness.submit("a", fingerprint="changed")
        assert harness.store.count_retries("papers") == {}

    def test_workers_are_listed_in_the_order_of_registration(self, harness: StoreHarness) -> None:
        bob, cat = harness.register_worker("bob", lease=LEASE * 10), harness.register_worker("cat")
        registered = harness.clock()
        harness.clock.advance(LEASE + SECOND)
        harness.store.heartbeat(cat)
        assert harness.store.workers() == [
            (harness.worker, registered, True),
            (bob, registered, False),
            (cat, harness.clock(), False),
        ]

    def test_nothing_is_due_when_nothing_waits(self, harness: StoreHarness) -> None:
        assert harness.store.next_due(harness.plan) is None
        harness.submit_and_claim()
        assert harness.store.next_due(harness.plan) is None

    def test_the_next_due_time_of_a_due_document_is_zero_or_negative(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.store.next_due(harness.plan) == NOTHING
        harness.clock.advance(SECOND)
        assert harness.store.next_due(harness.plan) == -SECOND

    def test_the_next_due_time_is_the_soonest(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        for delay, claim in enumerate(harness.claim(), start=5):
            harness.release(claim, delay=SECOND * delay)
        assert harness.store.next_due(harness.plan) == SECOND * 5

    def test_the_next_due_time_can_be_read_for_a_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.release(harness.claim_one(), delay=SECOND)
        harness.submit("b", batch="april")
        assert harness.store.next_due(harness.plan, batch="march") == SECOND
        assert harness.store.next_due(harness.plan, batch="april") == NOTHING
        assert harness.store.next_due(harness.plan, batch="never") is None

    def test_running_documents_are_counted(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a", "b", batch="march")
        harness.submit("c", batch="april")
        gated.submit("a")
        gated.claim()
        assert harness.store.running(harness.plan) == 0
        harness.claim(limit=1)
        harness.claim(limit=1, batch="april", worker=harness.register_worker("bob"))
        assert harness.store.running(harness.plan) == 2
        assert harness.store.running(harness.plan, batch="april") == 1
        assert harness.store.running(harness.plan, batch="never") == 0

    def test_the_store_has_the_time_of_its_clock(self, harness: StoreHarness) -> None:
        assert harness.store.now() == harness.clock()
        assert harness.store.now().utcoffset() == NOTHING

    def test_a_disconnected_store_reconnects(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.disconnect()
        assert harness.document().holder == "ann"
        harness.store.disconnect()
        harness.store.disconnect()
        harness.advance(claim)

    def test_a_closed_store_says_so(self, open_store: OpenStore, store: Store) -> None:
        closed = open_store()
        if closed is store:
            pytest.skip("this store has one object for one database, and the suite still needs it")
        closed.close()
        with pytest.raises(StoreGone, match="was closed"):
            closed.pipelines()

    def test_a_closed_store_says_so_when_effects_shall_be_committed(
        self, open_store: OpenStore, harness: StoreHarness
    ) -> None:
        closed = open_store()
        if closed is harness.store:
            pytest.skip("this store has one object for one database, and the suite still needs it")
        move = harness.forward(harness.submit_and_claim(), effect=writes("a"))
        closed.close()
        with ThreadPoolExecutor(1) as thread, pytest.raises(StoreGone, match="was closed"):
            thread.submit(closed.commit, harness.plan, [move]).result()  # this thread has no connection yet

    def test_closing_one_store_leaves_the_others_open(self, open_store: OpenStore, harness: StoreHarness) -> None:
        opened = open_store()
        if opened is not harness.store:
            opened.close()
        harness.submit("a")

    def test_documents_are_found_by_their_ids(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, _, c = harness.claim()
        assert harness.store.documents_by_id([c.document_id, a.document_id, 404]) == [
            harness.document("a"),
            harness.document("c"),
        ]
        assert harness.store.documents_by_id([]) == []

    def test_documents_are_found_by_their_keys_in_one_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", 'c\u6587 "quoted"')
        harness.submit("a", batch="other")
        found = harness.store.documents_by_key("papers", "march", ['c\u6587 "quoted"', "a", "a", "missing"])
        assert found == [harness.document("a"), harness.document('c\u6587 "quoted"')]
        assert harness.store.documents_by_key("papers", "march", []) == []
        assert harness.store.documents_by_key("papers", "missing", ["a"]) == []
        assert harness.store.documents_by_key("missing", "march", ["a"]) == []

    def test_reused_generations_are_returned_by_step(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        harness.submit("b")
        assert harness.store.reuses([claim.document_id]) == {}
        assert harness.store.rewind(harness.plan, claim, to="embed", who="ann", reason="gone")
        rewound = {claim.document_id: {"extract": 0, "chunk": 0}}
        assert harness.store.reuses([claim.document_id, harness.document("b").id, 404]) == rewound

    def test_the_shape_of_an_earlier_plan_can_be_read(self, harness: StoreHarness) -> None:
        harness.submit("a")
        renamed = replace(PAPERS, steps=(*PAPERS.steps, StepShape("file", "value")))
        later = harness.store.declare(renamed)
        assert harness.store.shape_of(harness.document("a").plan_id) == PAPERS
        assert harness.store.shape_of(later.plan_id) == renamed
        assert harness.store.shape_of(404) is None

    def test_the_shape_of_a_plan_has_the_names_that_its_steps_have_now(self, harness: StoreHarness) -> None:
        harness.submit("a")
        extract, chunk, embed = PAPERS.steps
        now = Shape("papers", (extract, replace(chunk, name="split"), replace(embed, over="split")))
        later = harness.store.declare(replace(now, renamed={"chunk": "split"}))
        assert harness.store.shape_of(harness.document("a").plan_id) == now
        assert harness.store.shape_of(later.plan_id) == now


class WaitCausesConformance(Conformance):
    """Tests of wait_causes, holder, holders, count_ahead and documents_in_step."""

    def test_a_holder_has_its_last_heartbeat(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        sent_at = harness.clock()
        harness.clock.advance(LEASE)
        holder = harness.store.holder(claim.document_id)
        assert holder is not None
        assert (holder.worker, holder.heartbeat_at, holder.alive) == (harness.worker, sent_at, True)
        harness.clock.advance(INSTANT)
        assert _is_dead(harness, claim.document_id, harness.worker)

    def test_a_holder_that_was_given_up_is_not_alive(self, harness: StoreHarness, gated: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        gated.reclaim(gone=[harness.worker.id])
        assert _is_dead(harness, claim.document_id, harness.worker)

    def test_a_document_that_waits_has_no_holder(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.store.holder(harness.document().id) is None
        assert harness.store.holder(12345) is None

    def test_holders_are_listed_with_the_number_of_their_documents(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        harness.submit(*"abcd")
        gated.submit("e")
        bob = harness.register_worker("bob", lease=LEASE * 9)
        harness.claim(limit=1, worker=bob)
        harness.claim(limit=2)
        gated.claim(worker=bob)
        harness.clock.advance(LEASE * 2)
        held = [(one.worker.name, one.alive, documents) for one, documents in harness.store.holders("papers")]
        assert held == [("ann", False, 2), ("bob", True, 1)]
        assert harness.store.holders("nothing") == []

    def test_documents_ahead_are_those_that_are_claimed_first(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.clock.advance(SECOND)
        harness.submit("late")
        harness.submit("dear", priority=5)
        harness.submit("elsewhere", batch="april", priority=9)
        ahead = {key: harness.store.count_ahead(harness.document(key).id) for key in ("dear", "a", "b", "late")}
        assert ahead == {"dear": 1, "a": 2, "b": 3, "late": 4}
        assert harness.keys_claimed(limit=2) == ["elsewhere", "dear"]

    def test_documents_that_are_not_due_or_suspect_are_not_ahead(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("other")
        harness.submit("crashed")
        harness.crash(times=2)
        harness.submit("put off", priority=9)
        harness.release(harness.claim_one(), delay=SECOND)
        harness.submit("me")
        assert harness.store.count_ahead(harness.document("me").id) == 0
        assert harness.store.count_ahead(harness.document("crashed").id) == 0
        assert harness.store.count_ahead(12345) == 0

    def test_no_document_is_ahead_of_one_that_is_not_waiting(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.make_dead(harness.claim(limit=2)[1])
        assert harness.store.count_ahead(harness.document("b").id) == 0

    def test_documents_in_a_step_are_listed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        harness.store.admit(harness.plan, "extract", [a, b, c], limit=2)
        assert harness.store.documents_in_step("papers", "extract") == [(a.document_id, "a"), (b.document_id, "b")]
        harness.advance(a)
        assert harness.store.documents_in_step("papers", "extract") == [(b.document_id, "b")]
        assert harness.store.documents_in_step("papers", "chunk") == []
        assert harness.store.documents_in_step("papers", "nowhere") == []

    def test_a_document_that_another_worker_claimed_is_no_longer_in_the_step(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        a, _ = harness.claim()
        harness.store.admit(harness.plan, "extract", [a], limit=1)
        assert [cause.kind for cause in _causes(harness)] == ["worked on", "full step"]
        harness.reclaim(gone=[harness.worker.id])
        harness.claim(worker=harness.register_worker("bob"))
        assert harness.store.documents_in_step("papers", "extract") == []
        assert [(cause.kind, cause.documents) for cause in _causes(harness)] == [("worked on", 2)]

    def test_a_document_that_moved_on_is_no_longer_in_the_step(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        a, b = harness.claim()
        harness.store.admit(harness.plan, "extract", [a], limit=1)
        harness.advance(a)
        harness.advance(b)
        assert [(cause.kind, cause.step, cause.documents) for cause in _causes(harness)] == [("worked on", "chunk", 2)]

    def test_documents_are_counted_by_wait_cause(self, harness: StoreHarness) -> None:
        harness.submit(*"abcdefg")
        a, b, c, d, e, f, g = harness.claim()
        harness.finish(a)
        harness.make_dead(b)
        harness.make_dead(c)
        harness.release(d, state="paused", reason="ask ann")
        harness.release(e, state="paused", until=harness.clock() + MINUTE)
        harness.store.cancel([f.document_id], who="cat", reason="no")
        harness.advance(g)
        harness.submit("h", "i", "j")
        assert [(one.kind, one.state, one.step, one.error, one.documents, one.key) for one in _causes(harness)] == [
            ("due", "waiting", "extract", "", 3, "h"),
            ("dead", "dead", "extract", "ValueError", 2, "b"),
            ("person", "paused", "extract", "", 1, "d"),
            ("until", "paused", "extract", "", 1, "e"),
            ("cancelled", "cancelled", "extract", "", 1, "f"),
            ("worked on", "running", "chunk", "", 1, "g"),
        ]

    def test_a_backoff_is_counted_by_its_error_until_it_is_due(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        one, two = harness.claim()
        harness.release(one, delay=SECOND)
        harness.store.release([harness.a_release(two, delay=SECOND, failure=_torn())])
        assert [(cause.kind, cause.error) for cause in _causes(harness)] == [("backoff", ""), ("backoff", "OSError")]
        harness.clock.advance(SECOND)
        assert [(cause.kind, cause.error, cause.documents) for cause in _causes(harness)] == [("due", "", 2)]

    def test_suspects_have_their_own_wait_cause(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        assert [cause.kind for cause in _causes(harness)] == ["suspect"]

    def test_running_documents_are_counted_by_wait_cause(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        a, b = harness.claim(limit=2)
        harness.store.admit(harness.plan, "extract", [a, b], limit=1)
        harness.claim(limit=1, timeouts={"extract": SECOND})
        harness.claim(limit=1, worker=harness.register_worker("bob"))
        harness.clock.advance(LEASE + INSTANT)
        harness.store.heartbeat(harness.worker)
        found = [(cause.kind, cause.key) for cause in _causes(harness)]
        assert found == [("worked on", "a"), ("full step", "b"), ("overdue", "c"), ("silent", "d")]

    def test_wait_causes_are_for_a_pipeline_or_a_batch(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.submit("a")
        harness.submit("b")
        harness.submit("c", batch="april")
        (both,) = _causes(harness)
        (april,) = harness.store.wait_causes("papers", batch="april")
        assert (both.documents, both.key, both.batch) == (2, "b", "march")
        assert (april.documents, april.key, april.batch, april.moved_at) == (1, "c", "april", harness.clock())
        assert harness.store.wait_causes("papers", batch="may") == []
        assert harness.store.wait_causes("nothing") == []


def _causes(harness: StoreHarness) -> list[Cause]:
    return harness.store.wait_causes("papers")


def _torn() -> Failure:
    return Failure("OSError", "torn")


def _is_dead(harness: StoreHarness, document_id: int, worker: WorkerRecord) -> bool:
    holder = harness.store.holder(document_id)
    return holder is not None and holder.worker == worker and not holder.alive
