"""Reads: balances, batches, documents, journals, workers and plans."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from holdfast.core.errors import StoreGone, UnknownDocument
from holdfast.core.model import Balance
from holdfast.core.plan import Shape, StepShape
from holdfast.core.retry import count_retries
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
