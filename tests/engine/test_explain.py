"""Why a document is where it is, and why a batch does not finish: each answer ends in what a person can do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.damage import parked_because
from holdfast.core.errors import UnknownBatch
from holdfast.core.model import Failure
from holdfast.core.orphans import GRACE
from holdfast.core.plan import Shape, StepShape
from holdfast.core.words import moment
from holdfast.engine.hosts import this_host
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import LEASE, REVIEWS, SECOND, Desk

MINUTE = timedelta(minutes=1)
TORN = Failure("OSError", "the page is torn")


@pytest.fixture
def desk() -> Desk:
    clock = ManualClock()
    return Desk(MemoryStore(clock=clock), clock)


@pytest.fixture
def gated(desk: Desk) -> Desk:
    return Desk(desk.store, desk.clock, REVIEWS)


def explained(desk: Desk, key: str = "a", **more: Any) -> holdfast.Explanation:
    return holdfast.explain(desk.store, desk.standing(key), **more)


def of_batch(desk: Desk, batch: str = "march") -> holdfast.Explanation:
    return holdfast.explain_batch(desk.store, desk.plan.pipeline, batch)


def test_a_due_document_waits_for_those_before_it(desk: Desk) -> None:
    desk.submit(*"abc")
    told = explained(desk, "c")
    assert "It waits for a worker at step extract" in told.sentences[0]
    assert "2 documents come before it, by priority, then age" in told.sentences[0]
    assert told.sentences[0].endswith("To move it up: `holdfast priority 10 c --reason ...`.")
    assert (told.facts["cause"], told.facts["ahead"]) == ("due", 2)


def test_a_waiting_document_without_a_living_worker_says_so(desk: Desk) -> None:
    desk.submit("a")
    desk.clock.advance(LEASE * 2)
    told = explained(desk)
    assert told.sentences[1] == "No worker is alive: start one with `holdfast work PIPELINE.py`."
    assert told.facts["workers_alive"] == 0


def test_workers_that_live_are_counted_with_what_they_hold(desk: Desk) -> None:
    desk.submit("a", "b")
    assert "1 worker is alive, with nothing of papers in hand: if none of them works on it" in str(explained(desk))
    desk.claim(limit=1)
    assert "1 worker is alive, with 1 document of papers in hand" in str(explained(desk, "b"))


def test_a_backoff_is_told_with_its_error_and_its_end(desk: Desk) -> None:
    desk.store.give_back([desk.ending(desk.take_in(), delay=MINUTE, failure=TORN)])
    told = explained(desk)
    until = desk.clock() + MINUTE
    assert f"It waits until {moment(until)}, in 60 s, to be tried again at step extract" in str(told)
    assert "after OSError: the page is torn (1 attempt, 0 crashes so far)" in str(told)
    assert (told.facts["cause"], told.facts["until"], told.facts["error"]) == ("backoff", until, "OSError")
    assert len(told.sentences) == 1


def test_a_suspect_is_worked_on_alone(desk: Desk) -> None:
    desk.submit("a")
    desk.crash(times=2)
    told = explained(desk)
    assert "It crashed its workers 2 times, so it is worked on alone at step extract" in told.sentences[0]
    assert told.facts["cause"] == "suspect"


def test_a_document_at_a_step_that_is_gone_is_not_claimed(desk: Desk) -> None:
    claim = desk.take_in()
    desk.bury(claim)
    desk.store.declare(Shape("papers", (StepShape("read", "value"),)))
    assert isinstance(desk.store, MemoryStore)  # no verb leads there; a hand in the tables does
    desk.store._change(desk.store._tables.documents[claim.document_id], state="waiting", due_at=desk.clock())
    told = explained(desk)
    assert told.facts["cause"] == "stale plan"
    assert "It waits at step extract, which pipeline papers has no more (its steps are read)" in str(told)
    assert of_batch(desk).sentences[1].startswith("1 waits at step extract, which the pipeline has no more")


def test_a_running_document_is_told_with_its_worker_and_its_item(desk: Desk) -> None:
    desk.keep(desk.take_in(), "1", "2")
    desk.clock.advance(SECOND * 5)
    (told,) = explained(desk).sentences
    assert "Worker ann (pid 1) holds it since" in told
    assert "at step extract, item 2" in told
    assert "was last heard 5.0 s ago" in told
    assert "(its lease is 30 s)" in told
    facts = explained(desk).facts
    assert (facts["cause"], facts["holder"], facts["alive"], facts["cursor"]) == ("worked on", "ann", True, 2)
    assert facts["lease_until"] == facts["heard_at"] + LEASE


def test_a_deadline_is_told(desk: Desk) -> None:
    desk.submit("a")
    desk.claim(timeouts={"extract": MINUTE})
    assert f"Its step has until {moment(desk.clock() + MINUTE)}" in str(explained(desk))
    desk.clock.advance(MINUTE * 2)
    desk.store.beat(desk.worker)
    told = explained(desk)
    assert told.facts["cause"] == "overdue"
    assert told.sentences[-1].endswith(
        "`holdfast orphans papers a --batch march --worker ann --grace 30s --strategy requeue --reason ...`."
    )


def test_a_document_of_a_silent_worker_can_be_taken_over(desk: Desk) -> None:
    desk.take_in()
    desk.clock.advance(LEASE * 2)
    told = explained(desk)
    assert (told.facts["cause"], told.facts["alive"]) == ("silent", False)
    assert "was last heard 60 s ago and is silent or gone, so the next worker of the pipeline takes" in str(told)


def test_taking_one_document_over_leaves_all_others_alone(desk: Desk) -> None:
    desk.take_in()
    desk.clock.advance(LEASE * 2)
    only = "holdfast orphans papers a --batch march --worker ann --grace 30s --strategy requeue --reason ..."
    assert only in str(explained(desk))


def test_a_document_without_progress_is_told_though_its_worker_lives(desk: Desk) -> None:
    desk.take_in()
    desk.clock.advance(GRACE + SECOND)
    desk.store.beat(desk.worker)
    told = explained(desk)
    assert told.facts["cause"] == "no progress"
    assert "It made no progress for 2 h 00 min although its worker lives" in told.sentences[-1]


def test_a_document_in_front_of_a_full_step_names_those_inside(desk: Desk) -> None:
    desk.submit(*"abcde")
    desk.store.admit(desk.plan, "extract", desk.claim(), limit=4)
    told = explained(desk, "e")
    assert told.facts["cause"] == "full step"
    assert told.facts["inside"] == [*"abcd"]
    assert "It stands in front of step extract, which lets only so many in at once" in told.sentences[1]
    assert "a, b, c and 1 more are inside" in told.sentences[1]
    assert explained(desk, "a").facts["cause"] == "worked on"


def test_a_document_at_a_gate_names_the_commands_that_decide(gated: Desk) -> None:
    gated.park(gated.take_in(), at="review")
    (told,) = explained(gated).sentences
    assert "It waits at the gate review since" in told
    assert told.endswith("`holdfast review approve a --reason ...` or `holdfast review reject a --reason ...`.")
    assert explained(gated).facts["cause"] == "gate"


def test_a_pause_is_told_with_who_and_why(desk: Desk) -> None:
    claim = desk.take_in()
    desk.clock.advance(MINUTE)
    desk.give_back(claim, state="paused", verb="pause", reason="ask the author", costs="nothing")
    since = desk.clock()
    desk.clock.advance(MINUTE)
    (told,) = explained(desk).sentences
    assert f"It is paused at step extract since {moment(since)} by ann, until a person decides: ask the author" in told
    assert "To let it go on: `holdfast resume a --reason ...`" in told


def test_a_pause_until_a_moment_ends_by_itself(desk: Desk) -> None:
    until = desk.clock() + MINUTE
    desk.give_back(desk.take_in(), state="paused", verb="pause", until=until, reason="office hours")
    told = explained(desk)
    assert f"It goes on by itself at {moment(until)}, in 60 s; earlier with `holdfast resume a" in str(told)
    assert (told.facts["cause"], told.facts["until"]) == ("until", until)


def test_an_orphan_kept_for_review_is_told(desk: Desk) -> None:
    desk.take_in()
    desk.reclaim(gone=[desk.worker.id], verdict=lambda *_: ("paused", SECOND))
    assert "by bob, until a person decides: kept for review: worker ann is gone" in str(explained(desk))


def test_a_dead_letter_is_told_with_its_reason_and_its_ways_out(desk: Desk) -> None:
    desk.bury(desk.take_in())
    told = explained(desk)
    assert "after 1 attempt and 0 crashes: ValueError: not a page" in told.sentences[0]
    assert "`holdfast show a`" in told.sentences[0]
    assert told.sentences[0].endswith("`holdfast dead redrive a --reason ...`.")
    assert told.sentences[1].endswith("close --tolerate): `holdfast dead accept a --reason ...`.")


def test_a_cancelled_document_is_told_with_who_and_why(desk: Desk) -> None:
    desk.submit("a")
    desk.store.cancel([desk.standing().id], who="cat", reason="withdrawn")
    (told,) = explained(desk).sentences
    assert "It was cancelled by cat at" in told
    assert "at step extract: withdrawn. To bring it back: `holdfast rewind a --to extract --reason ...`." in told


def test_a_done_document_is_told_with_its_generation(desk: Desk) -> None:
    desk.finish(desk.take_in(fingerprint="1"))
    desk.finish(desk.take_in(fingerprint="2"))
    told = explained(desk)
    assert "as generation 1 (its content changed, or it was rewound)" in str(told)
    assert told.facts["generation"] == 1


def test_a_key_of_several_batches_is_named_with_its_batch(desk: Desk) -> None:
    desk.submit("a")
    desk.submit("a", batch="april")
    assert "`holdfast priority 10 a --pipeline papers --batch march --reason ...`" in str(explained(desk))


def test_explaining_changes_nothing(desk: Desk) -> None:
    desk.submit("a", "b")
    desk.bury(desk.claim(limit=1)[0])
    before = desk.store.standings("papers")
    explained(desk)
    of_batch(desk)
    assert desk.store.standings("papers") == before


def test_commands_are_worded_by_whoever_asks(desk: Desk) -> None:
    desk.submit("a")
    told = explained(desk, command=lambda *words: " ".join(("hf", *words, "--store", "x")))
    assert "`hf priority 10 a --reason ... --store x`" in str(told)


def test_a_batch_is_explained_by_what_keeps_it_the_most_first(desk: Desk) -> None:
    desk.submit(*"abcdefg")
    a, b, c, d = desk.claim(limit=4)
    desk.finish(a)
    desk.bury(b)
    desk.give_back(c, state="paused", reason="ask ann")
    desk.clock.advance(MINUTE)
    desk.store.beat(desk.worker)
    told = of_batch(desk)
    assert told.sentences[0].startswith("1 of 7 documents of batch march are done, and 5 are still open.")
    assert told.sentences[1].startswith("3 wait for a worker at step extract (the oldest is e, last moved 60 s ago).")
    assert told.sentences[2].startswith("1 is paused at step extract until a person decides (c, last moved 60 s ago).")
    assert told.sentences[3].startswith("1 is being worked on at step extract (d, ")
    assert told.sentences[4].startswith("1 worker is alive, with 1 document of papers in hand")
    assert told.sentences[5].startswith("1 is a dead letter at step extract, with ValueError (b, ")
    assert len(told.sentences) == 6
    assert [cause["kind"] for cause in told.facts["causes"]] == ["due", "dead", "person", "worked on"]
    assert d.key == "d"


def test_documents_of_a_batch_at_a_gate_wait_for_a_person(gated: Desk) -> None:
    gated.submit("a", "b")
    for claim in gated.claim():
        gated.park(claim, at="review")
    told = of_batch(gated).sentences[1]
    assert told.startswith("2 wait at the gate review for a person to decide (the oldest is a, ")
    assert told.endswith("To decide: `holdfast review list --pipeline reviews --batch march`.")


def test_silent_and_overdue_documents_of_a_batch_lead_to_a_scan(desk: Desk) -> None:
    desk.submit("a", "b", "c")
    desk.claim(limit=1, timeouts={"extract": SECOND})
    desk.claim(limit=2, worker=desk.enlist("bob"))
    desk.clock.advance(LEASE * 2)
    desk.store.beat(desk.worker)
    told = of_batch(desk).sentences
    scan = "look first: `holdfast orphans papers --batch march --grace 30s`."
    assert told[1].startswith("2 are held at step extract by a worker that is silent")
    assert told[2].startswith("1 is overdue at step extract")
    assert told[1].endswith(scan)
    assert told[2].endswith(scan)


def test_a_worker_that_was_just_killed_here_is_silent_at_once(desk: Desk) -> None:
    desk.submit("a", "b", "c")
    here = desk.store.enlist(name="bob", host=this_host(), pid=2**22 + 1, born="1", lease=LEASE)
    desk.claim(limit=2, worker=here)
    desk.claim(limit=1)
    desk.clock.advance(SECOND)
    told = of_batch(desk)
    assert told.sentences[1].startswith("2 are held at step extract by a worker that is silent (the oldest is a, ")
    assert told.sentences[2].startswith("1 is being worked on at step extract (c, ")
    assert [(cause["kind"], cause["documents"]) for cause in told.facts["causes"]] == [("silent", 2), ("worked on", 1)]


def test_every_sentence_about_a_batch_says_what_to_do(desk: Desk, gated: Desk) -> None:
    desk.submit(*"abcdefgh")
    a, b, c, d, e, f = desk.claim(limit=6)
    desk.store.admit(desk.plan, "extract", [a, b], limit=1)
    desk.give_back(c, state="paused", until=desk.clock() + MINUTE)
    desk.store.give_back([desk.ending(d, delay=timedelta(days=1), failure=TORN)])
    desk.bury(e)
    desk.store.cancel([f.document_id], who="cat", reason="no")
    for sentence in of_batch(desk).sentences:
        assert "`holdfast" in sentence or "=" in sentence, sentence


def test_a_finished_batch_says_what_keeps_it_from_being_closed(desk: Desk) -> None:
    desk.submit("a", "b")
    a, b = desk.claim()
    desk.finish(a)
    desk.bury(b)
    told = of_batch(desk)
    assert told.sentences[0].startswith("1 of 2 documents of batch march are done, and nothing is open any more.")
    assert told.sentences[-1] == (
        "What keeps the batch from being closed: 1 dead letter nobody accepted, unless the pipeline tolerates them "
        "(Pipeline(tolerates=), close --tolerate), and the batch is not sealed: "
        "`holdfast seal papers march --reason ...`."
    )
    assert told.facts["not_accepted"] == 1


def test_a_batch_that_is_done_and_sealed_can_be_closed(desk: Desk) -> None:
    desk.finish(desk.take_in())
    desk.store.seal("papers", "march", who="cat")
    assert of_batch(desk).sentences[-1] == (
        "Nothing keeps the batch from being closed: `holdfast close PIPELINE.py march --reason ...`."
    )


@pytest.fixture
def closed(desk: Desk) -> Desk:
    """The document of the closing steps of a batch that is closed."""
    desk.finish(desk.take_in())
    desk.store.seal("papers", "march", who="cat")
    last = Desk(desk.store, desk.clock, Shape("papers.closing", (StepShape("notify", "value"),)))
    desk.store.close_batch(desk.plan, "march", who="cat", reason="all in", closing=last.plan)
    return last


CLOSE = "`holdfast close PIPELINE.py march`"


def test_closing_steps_are_gone_on_with_by_closing_again(desk: Desk, closed: Desk) -> None:
    desk.clock.advance(LEASE * 2)
    assert of_batch(desk).sentences[-1] == f"Its closing steps are waiting at step notify. To go on with them: {CLOSE}."
    assert of_batch(desk).facts["closing"]["state"] == "waiting"
    for told in (explained(closed, "march"), of_batch(closed)):
        assert f"No worker is alive: go on with {CLOSE}." in told.sentences
        assert "holdfast work" not in str(told)


def test_dead_closing_steps_are_redriven_before_the_batch_is_closed_again(desk: Desk, closed: Desk) -> None:
    closed.bury(closed.claim_one())
    redrive = "`holdfast dead redrive march --pipeline papers.closing --reason ...`"
    for told in (of_batch(desk), of_batch(closed)):
        assert told.sentences[-1].startswith("Its closing steps are dead at step notify: ValueError: not a page. ")
        assert told.sentences[-1].endswith(f"To go on with them: {redrive}, then {CLOSE}.")
    assert explained(closed, "march").sentences[-1].endswith(f"Redriven, go on with {CLOSE}.")


def test_closing_steps_that_are_over_need_nothing(desk: Desk, closed: Desk) -> None:
    closed.finish(closed.claim_one())
    assert of_batch(desk).sentences[-1] == "Its closing steps are done: nothing has to be done."


def changed(desk: Desk) -> None:
    """Declares the same steps, the last of them in another version."""
    *first, last = desk.shape.steps
    desk.store.declare(replace(desk.shape, steps=(*first, replace(last, version=last.version + 1))))


def test_work_of_an_earlier_plan_is_out_of_date(desk: Desk) -> None:
    desk.finish(desk.take_in())
    assert len(explained(desk).sentences) == 1
    changed(desk)
    last = desk.shape.names[-1]
    told = explained(desk)
    assert told.sentences[-1] == (
        f"Its work is out of date: {last} changed: version 1 -> 2. To redo what is, from step {last} on: "
        "`holdfast rewind --stale PIPELINE.py --batch march`."
    )
    assert told.facts["stale"]["to"] == last
    assert f"The work of 1 document is out of date: {last} changed: version 1 -> 2: " in str(of_batch(desk))


def test_work_of_a_closed_batch_is_never_out_of_date(desk: Desk) -> None:
    desk.finish(desk.take_in())
    desk.store.seal("papers", "march", who="cat")
    desk.store.close_batch(desk.plan, "march", who="cat", reason="all in")
    changed(desk)
    assert "out of date" not in str(explained(desk)) + str(of_batch(desk))


def test_a_damaged_document_is_set_back_and_not_resumed(desk: Desk) -> None:
    reason = parked_because("it is torn", to="chunk") + ", or submit it again if its payload is gone"
    desk.give_back(desk.take_in(), state="paused", reason=reason)
    told = explained(desk)
    assert "to set it back: `holdfast rewind a --to chunk --reason ...`" in str(told)
    assert "holdfast resume" not in str(told)
    assert (told.facts["cause"], told.facts["to"]) == ("damaged", "chunk")


def test_a_key_that_looks_like_an_option_comes_after_dashes(desk: Desk) -> None:
    desk.submit("-a")
    assert "`holdfast priority --reason ... -- 10 -a`" in str(explained(desk, "-a"))


def test_a_priority_below_nothing_looks_like_an_option_too(desk: Desk) -> None:
    desk.submit("a")
    desk.store.prioritise([desk.standing().id], priority=-20, who="cat", reason="later")
    assert "`holdfast priority --reason ... -- -10 a`" in str(explained(desk))


def test_an_unknown_batch_is_refused(desk: Desk) -> None:
    desk.submit("a")
    with pytest.raises(UnknownBatch, match="has no batch 'may'; it has: march"):
        of_batch(desk, "may")
