"""The ledger answers questions: counts, standings, journals and workers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.errors import StoreGone, UnknownDocument
from holdfast.core.model import Balance
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, NOTHING, PAPERS, SECOND, Conformance, Desk, OpenStore


def one_of_each(desk: Desk) -> None:
    """Leaves documents in all six states."""
    desk.submit("done", "dead", "cancelled", "paused", "running", "waiting")
    done, dead, cancelled, paused, _running = desk.claim(limit=5)
    desk.finish(done)
    desk.bury(dead)
    desk.store.cancel([cancelled.document_id], who="ann", reason="no")
    desk.give_back(paused, state="paused")


class LedgerConformance(Conformance):
    """What the ledger answers."""

    def test_a_balance_counts_every_state(self, desk: Desk) -> None:
        one_of_each(desk)
        assert desk.balance("march") == Balance(6, waiting=1, running=1, paused=1, done=1, dead=1, cancelled=1)

    def test_the_balance_of_a_pipeline_is_that_of_its_batches(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a", "b", batch="march")
        desk.submit("a", batch="april")
        gated.submit("a")
        assert desk.balance() == Balance(3, waiting=3)
        assert desk.balance("april") == Balance(1, waiting=1)

    def test_what_is_unknown_balances_at_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.balance("never") == Balance(0)
        assert desk.store.balance("letters") == Balance(0)
        assert desk.store.batches("letters") == []

    def test_batches_come_oldest_first_with_their_counts(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        created = desk.clock()
        desk.clock.advance(SECOND)
        desk.submit("a", "b", batch="april")
        desk.store.seal("papers", "april", who="cat")
        march, april = desk.store.batches("papers")
        assert (march.pipeline, march.name, march.state, march.created_at) == ("papers", "march", "open", created)
        assert (april.name, april.state, april.created_at) == ("april", "sealed", created + SECOND)
        assert (march.balance, april.balance) == (Balance(1, waiting=1), Balance(2, waiting=2))

    def test_a_batch_tells_how_many_open_documents_stand_at_each_step(self, desk: Desk) -> None:
        desk.submit(*"abcdef")
        a, b, c, d = desk.claim(limit=4)
        desk.advance(a)
        desk.advance(desk.advance(b))
        desk.finish(c)
        desk.bury(d)
        (batch,) = desk.store.batches("papers")
        assert batch.at_step == {"extract": 2, "chunk": 1, "embed": 1}

    def test_a_batch_of_ended_documents_stands_at_no_step(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        assert desk.store.batches("papers")[0].at_step == {}

    def test_an_unknown_document_is_named(self, desk: Desk) -> None:
        desk.submit("a")
        for batch, key in (("march", "b"), ("april", "a")):
            with pytest.raises(UnknownDocument, match=f"batch '{batch}' of pipeline 'papers' has no document '{key}'"):
                desk.standing(key, batch=batch)
        with pytest.raises(UnknownDocument):
            desk.store.standing("letters", "march", "a")

    def test_standings_come_with_the_last_moved_first(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        desk.clock.advance(SECOND)
        desk.advance(desk.claim_one())
        assert [one.key for one in desk.store.standings("papers")] == ["a", "c", "b"]

    def test_standings_are_filtered_by_state(self, desk: Desk) -> None:
        one_of_each(desk)
        for state in ("waiting", "running", "paused", "done", "dead", "cancelled"):
            assert [one.key for one in desk.store.standings("papers", state=state)] == [state]

    def test_standings_are_filtered_by_batch(self, desk: Desk) -> None:
        desk.submit("a", "b", batch="march")
        desk.submit("a", batch="april")
        assert [one.batch for one in desk.store.standings("papers", batch="april")] == ["april"]
        assert desk.store.standings("papers", batch="april", state="done") == []
        assert desk.store.standings("papers", batch="never") == []

    def test_standings_are_of_one_pipeline(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        assert desk.store.standings("papers") == []

    def test_standings_stop_at_their_limit(self, desk: Desk) -> None:
        desk.submit(*(f"doc-{number:03}" for number in range(120)))
        assert len(desk.store.standings("papers")) == 100
        assert [one.key for one in desk.store.standings("papers", limit=2)] == ["doc-119", "doc-118"]

    def test_a_key_is_found_in_every_pipeline_and_batch(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a", "b", batch="march")
        desk.submit("a", batch="april")
        gated.submit("a", batch="march")
        found = [(one.pipeline, one.batch) for one in desk.store.find("a")]
        assert found == [("papers", "march"), ("papers", "april"), ("reviews", "march")]
        assert desk.store.find("never") == []

    def test_a_journal_is_in_the_order_of_events_whatever_the_clock(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.give_back(claim, reason="first")
        desk.clock.advance(-SECOND * 60)
        desk.clock.advance(SECOND * 60)
        desk.give_back(desk.claim_one(), verb="defer", reason="second")
        desk.clock.advance(-SECOND * 60)
        desk.store.cancel([claim.document_id], who="bob", reason="third")
        journal = desk.store.journal(claim.document_id)
        assert [entry.detail["reason"] for entry in journal] == ["first", "second", "third"]
        assert [entry.who for entry in journal] == ["ann", "ann", "bob"]
        assert journal[2].at < journal[1].at

    def test_a_journal_is_of_one_document(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.give_back(first)
        assert desk.verbs(second) == []

    def test_workers_come_in_the_order_they_enlisted(self, desk: Desk) -> None:
        bob, cat = desk.enlist("bob", lease=LEASE * 10), desk.enlist("cat")
        enlisted = desk.clock()
        desk.clock.advance(LEASE + SECOND)
        desk.store.beat(cat)
        assert desk.store.workers() == [
            (desk.worker, enlisted, True),
            (bob, enlisted, False),
            (cat, desk.clock(), False),
        ]

    def test_nothing_is_due_when_nothing_waits(self, desk: Desk) -> None:
        assert desk.store.next_due(desk.plan) is None
        desk.take_in()
        assert desk.store.next_due(desk.plan) is None

    def test_what_is_due_already_is_due_in_nothing_or_less(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.store.next_due(desk.plan) == NOTHING
        desk.clock.advance(SECOND)
        assert desk.store.next_due(desk.plan) == -SECOND

    def test_the_next_due_is_the_soonest(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        for delay, claim in enumerate(desk.claim(), start=5):
            desk.give_back(claim, delay=SECOND * delay)
        assert desk.store.next_due(desk.plan) == SECOND * 5

    def test_the_next_due_is_asked_by_batch(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        desk.give_back(desk.claim_one(), delay=SECOND)
        desk.submit("b", batch="april")
        assert desk.store.next_due(desk.plan, batch="march") == SECOND
        assert desk.store.next_due(desk.plan, batch="april") == NOTHING
        assert desk.store.next_due(desk.plan, batch="never") is None

    def test_the_documents_that_workers_hold_are_counted(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a", "b", batch="march")
        desk.submit("c", batch="april")
        gated.submit("a")
        gated.claim()
        assert desk.store.running(desk.plan) == 0
        desk.claim(limit=1)
        desk.claim(limit=1, batch="april", worker=desk.enlist("bob"))
        assert desk.store.running(desk.plan) == 2
        assert desk.store.running(desk.plan, batch="april") == 1
        assert desk.store.running(desk.plan, batch="never") == 0

    def test_the_store_tells_the_time_of_its_clock(self, desk: Desk) -> None:
        assert desk.store.now() == desk.clock()
        assert desk.store.now().utcoffset() == NOTHING

    def test_a_store_that_rested_goes_on(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.rest()
        assert desk.standing().holder == "ann"
        desk.store.rest()
        desk.store.rest()
        desk.advance(claim)

    def test_a_closed_store_says_so(self, open_store: OpenStore, store: Store) -> None:
        closed = open_store()
        if closed is store:
            pytest.skip("this store has one object for one database, and the suite still needs it")
        closed.close()
        with pytest.raises(StoreGone, match="was closed"):
            closed.pipelines()

    def test_closing_one_store_leaves_the_others_open(self, open_store: OpenStore, desk: Desk) -> None:
        opened = open_store()
        if opened is not desk.store:
            opened.close()
        desk.submit("a")

    def test_documents_are_found_by_their_numbers(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, _, c = desk.claim()
        assert desk.store.look([c.document_id, a.document_id, 404]) == [desk.standing("a"), desk.standing("c")]
        assert desk.store.look([]) == []

    def test_what_a_rewound_document_reuses_is_told_by_step(self, desk: Desk) -> None:
        claim = desk.advance(desk.advance(desk.take_in()))
        desk.submit("b")
        assert desk.store.reuses([claim.document_id]) == {}
        assert desk.store.rewind(desk.plan, claim, to="embed", who="ann", reason="gone")
        rewound = {claim.document_id: {"extract": 0, "chunk": 0}}
        assert desk.store.reuses([claim.document_id, desk.standing("b").id, 404]) == rewound

    def test_the_shape_of_a_plan_is_told_also_when_another_came_after_it(self, desk: Desk) -> None:
        desk.submit("a")
        renamed = replace(PAPERS, steps=(*PAPERS.steps, StepShape("file", "value")))
        later = desk.store.declare(renamed)
        assert desk.store.shape_of(desk.standing("a").plan_id) == PAPERS
        assert desk.store.shape_of(later.plan_id) == renamed
        assert desk.store.shape_of(404) is None

    def test_the_shape_of_a_plan_has_the_names_that_its_steps_have_now(self, desk: Desk) -> None:
        desk.submit("a")
        extract, chunk, embed = PAPERS.steps
        now = Shape("papers", (extract, replace(chunk, name="split"), replace(embed, over="split")))
        later = desk.store.declare(replace(now, renamed={"chunk": "split"}))
        assert desk.store.shape_of(desk.standing("a").plan_id) == now
        assert desk.store.shape_of(later.plan_id) == now
