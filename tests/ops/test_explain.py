"""Explanations of documents and batches: each says what a person can do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.errors import UnknownBatch
from holdfast.core.formatting import format_time
from holdfast.core.model import Failure
from holdfast.core.orphans import GRACE
from holdfast.core.plan import Shape, StepShape
from holdfast.core.reasons import AT_GATE, DAMAGED, DAMAGED_STEP, FOR_REVIEW, LOST_TOO_OFTEN, WORKER_GONE, sentence
from holdfast.core.retry import SUSPECT_LOSSES
from holdfast.process_identity import this_host
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import OrphanVerdict
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import LEASE, REVIEWS, SECOND, StoreHarness

MINUTE = timedelta(minutes=1)
TORN = Failure("OSError", "the page is torn")


@pytest.fixture
def harness() -> StoreHarness:
    clock = ManualClock()
    return StoreHarness(MemoryStore(clock=clock), clock)


@pytest.fixture
def gated(harness: StoreHarness) -> StoreHarness:
    return StoreHarness(harness.store, harness.clock, REVIEWS)


def explained(harness: StoreHarness, key: str = "a", **more: Any) -> holdfast.Explanation:
    return holdfast.explain(harness.store, harness.document(key), **more)


def of_batch(harness: StoreHarness, batch: str = "march") -> holdfast.Explanation:
    return holdfast.explain_batch(harness.store, harness.plan.pipeline, batch)


def test_a_due_document_waits_for_those_before_it(harness: StoreHarness) -> None:
    harness.submit(*"abc")
    explanation = explained(harness, "c")
    assert "It waits for a worker at step extract" in explanation.sentences[0]
    assert "2 documents come before it, by priority, then age" in explanation.sentences[0]
    assert explanation.sentences[0].endswith("To move it up: `holdfast doc priority 10 c --reason ...`.")
    assert (explanation.facts["cause"], explanation.facts["ahead"]) == ("due", 2)


def test_a_waiting_document_without_a_living_worker_says_so(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.clock.advance(LEASE * 2)
    explanation = explained(harness)
    assert explanation.sentences[1] == "No worker is alive: start one with `holdfast work PIPELINE.py`."
    assert explanation.facts["workers_alive"] == 0


def test_workers_that_live_are_counted_with_what_they_hold(harness: StoreHarness) -> None:
    harness.submit("a", "b")
    assert "1 worker is alive and holds no document of papers: if none of them works on it" in str(explained(harness))
    harness.claim(limit=1)
    assert "1 worker is alive and holds 1 document of papers" in str(explained(harness, "b"))


def test_a_backoff_is_explained_with_its_error_and_its_end(harness: StoreHarness) -> None:
    harness.store.release([harness.a_release(harness.submit_and_claim(), delay=MINUTE, failure=TORN)])
    explanation = explained(harness)
    until = harness.clock() + MINUTE
    assert f"It waits until {format_time(until)}, in 60 s, to be tried again at step extract" in str(explanation)
    assert "after OSError: the page is torn (1 attempt, 0 crashes so far)" in str(explanation)
    assert (explanation.facts["cause"], explanation.facts["until"], explanation.facts["error"]) == (
        "backoff",
        until,
        "OSError",
    )
    assert len(explanation.sentences) == 1


def test_a_document_that_lost_many_workers_is_worked_on_alone(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.lose(times=SUSPECT_LOSSES)
    explanation = explained(harness)
    assert (explanation.facts["cause"], explanation.facts["losses"]) == ("suspect", SUSPECT_LOSSES)
    assert "Its worker was lost 5 times since it last moved, and nobody knows why, so it is processed alone" in str(
        explanation
    )
    assert "Look for what kills the workers; the last one: " in str(explanation)


@pytest.mark.wording
def test_a_document_that_lost_many_workers_says_what_happened_last(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.lose(times=SUSPECT_LOSSES)
    assert "Look for what kills the workers; the last one: worker victim is gone" in str(explained(harness))


def test_a_document_that_waits_after_lost_workers_says_how_many(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.lose(times=2)
    victim = harness.register_worker("victim")
    harness.claim(worker=victim)
    harness.reclaim(gone=[victim.id], decide=lambda _: OrphanVerdict("waiting", SECOND))
    explanation = explained(harness)
    assert explanation.facts["losses"] == 3
    assert "0 attempts, 0 crashes, 3 lost workers so far" in str(explanation)


@pytest.mark.wording
def test_a_dead_letter_of_lost_workers_says_what_is_known_and_what_is_not(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.lose(times=6)
    victim = harness.register_worker("last")
    harness.store.claim(harness.plan, victim, limit=1, which="suspect")
    harness.reclaim(gone=[victim.id], decide=lambda _: OrphanVerdict("dead", code=LOST_TOO_OFTEN))
    explanation = explained(harness)
    assert "0 attempts, 0 crashes, 7 lost workers: its worker was lost 7 times at extract" in str(explanation)
    assert "with victim, last on here" in str(explanation)
    assert "Why is not known" in str(explanation)


def test_a_suspect_is_worked_on_alone(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.crash(times=2)
    explanation = explained(harness)
    assert "It crashed its workers 2 times, so it is processed alone at step extract" in explanation.sentences[0]
    assert explanation.facts["cause"] == "suspect"


def test_a_document_at_a_step_that_is_gone_is_not_claimed(harness: StoreHarness) -> None:
    claim = harness.submit_and_claim()
    harness.make_dead(claim)
    harness.store.declare(Shape("papers", (StepShape("read", "value"),)))
    assert isinstance(harness.store, MemoryStore)  # no verb does this; the test edits the tables
    harness.store._change(harness.store._tables.documents[claim.document_id], state="waiting", due_at=harness.clock())
    explanation = explained(harness)
    assert explanation.facts["cause"] == "stale plan"
    assert "It waits at step extract, which pipeline papers no longer has (its steps are read)" in str(explanation)
    assert of_batch(harness).sentences[1].startswith("1 waits at step extract, which the pipeline no longer has")


def test_a_running_document_is_explained_with_its_worker_and_its_item(harness: StoreHarness) -> None:
    harness.keep(harness.submit_and_claim(), "1", "2")
    harness.clock.advance(SECOND * 5)
    (explanation,) = explained(harness).sentences
    assert "Worker ann (pid 1) holds it since" in explanation
    assert "at step extract, item 2" in explanation
    assert "sent its last heartbeat 5.0 s ago" in explanation
    assert "(its lease is 30 s)" in explanation
    facts = explained(harness).facts
    assert (facts["cause"], facts["holder"], facts["alive"], facts["cursor"]) == ("worked on", "ann", True, 2)
    assert facts["lease_until"] == facts["heartbeat_at"] + LEASE


def test_a_deadline_is_explained(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.claim(timeouts={"extract": MINUTE})
    assert f"Its step has until {format_time(harness.clock() + MINUTE)}" in str(explained(harness))
    harness.clock.advance(MINUTE * 2)
    harness.store.heartbeat(harness.worker)
    explanation = explained(harness)
    assert explanation.facts["cause"] == "overdue"
    assert explanation.sentences[-1].endswith(
        "`holdfast doc orphans papers a --batch march --worker ann --grace 30s --strategy requeue --reason ...`."
    )


def test_a_document_of_a_silent_worker_can_be_taken_over(harness: StoreHarness) -> None:
    harness.submit_and_claim()
    harness.clock.advance(LEASE * 2)
    explanation = explained(harness)
    assert (explanation.facts["cause"], explanation.facts["alive"]) == ("silent", False)
    assert "sent its last heartbeat 60 s ago and is silent or dead, so the next worker of the pipeline takes" in str(
        explanation
    )


def test_taking_one_document_over_leaves_all_others_alone(harness: StoreHarness) -> None:
    harness.submit_and_claim()
    harness.clock.advance(LEASE * 2)
    only = "holdfast doc orphans papers a --batch march --worker ann --grace 30s --strategy requeue --reason ..."
    assert only in str(explained(harness))


def test_a_document_without_progress_is_explained_although_its_worker_is_alive(harness: StoreHarness) -> None:
    harness.submit_and_claim()
    harness.clock.advance(GRACE + SECOND)
    harness.store.heartbeat(harness.worker)
    explanation = explained(harness)
    assert explanation.facts["cause"] == "no progress"
    assert "It made no progress for 2 h 00 min, although its worker is alive" in explanation.sentences[-1]


def test_a_document_in_front_of_a_full_step_names_those_inside(harness: StoreHarness) -> None:
    harness.submit(*"abcde")
    harness.store.admit(harness.plan, "extract", harness.claim(), limit=4)
    explanation = explained(harness, "e")
    assert explanation.facts["cause"] == "full step"
    assert explanation.facts["inside"] == [*"abcd"]
    assert "It waits for room in step extract, which has reached its limit of documents" in explanation.sentences[1]
    assert "a, b, c and 1 more are in it" in explanation.sentences[1]
    assert explained(harness, "a").facts["cause"] == "worked on"


def test_a_document_at_a_gate_names_the_commands_that_decide(gated: StoreHarness) -> None:
    gated.park(gated.submit_and_claim(), at="review")
    (explanation,) = explained(gated).sentences
    assert "It waits at the gate review since" in explanation
    assert explanation.endswith("`holdfast review approve a --reason ...` or `holdfast review reject a --reason ...`.")
    assert explained(gated).facts["cause"] == "gate"


def test_a_pause_is_explained_with_who_and_why(harness: StoreHarness) -> None:
    claim = harness.submit_and_claim()
    harness.clock.advance(MINUTE)
    harness.release(claim, state="paused", verb="pause", reason="ask the author", costs="nothing")
    since = harness.clock()
    harness.clock.advance(MINUTE)
    (explanation,) = explained(harness).sentences
    assert (
        f"It is paused at step extract since {format_time(since)} by ann, until a person decides: ask the author"
        in explanation
    )
    assert "To let it go on: `holdfast doc resume a --reason ...`" in explanation


def test_a_pause_until_a_moment_ends_by_itself(harness: StoreHarness) -> None:
    until = harness.clock() + MINUTE
    harness.release(harness.submit_and_claim(), state="paused", verb="pause", until=until, reason="office hours")
    explanation = explained(harness)
    assert f"It goes on by itself at {format_time(until)}, in 60 s; earlier with `holdfast doc resume a" in str(
        explanation
    )
    assert (explanation.facts["cause"], explanation.facts["until"]) == ("until", until)


def test_an_orphan_kept_for_review_is_explained(harness: StoreHarness) -> None:
    harness.submit_and_claim()
    harness.reclaim(gone=[harness.worker.id], decide=lambda _: OrphanVerdict("paused", SECOND))
    reason = sentence(FOR_REVIEW, why=sentence(WORKER_GONE, worker="ann"))
    assert f"by bob, until a person decides: {reason}" in str(explained(harness))


def test_a_dead_letter_is_explained_with_its_reason_and_the_commands_that_help(harness: StoreHarness) -> None:
    harness.make_dead(harness.submit_and_claim())
    explanation = explained(harness)
    assert "after 1 attempt, 0 crashes: ValueError: not a page" in explanation.sentences[0]
    assert "`holdfast show a`" in explanation.sentences[0]
    assert explanation.sentences[0].endswith("`holdfast dead redrive a --reason ...`.")
    assert explanation.sentences[1].endswith("close --tolerate): `holdfast dead accept a --reason ...`.")


def test_a_cancelled_document_is_explained_with_who_and_why(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.store.cancel([harness.document().id], who="cat", reason="withdrawn")
    (explanation,) = explained(harness).sentences
    assert "It was cancelled by cat at" in explanation
    assert (
        "at step extract: withdrawn. To bring it back: `holdfast doc rewind a --to extract --reason ...`."
        in explanation
    )


def test_a_done_document_is_explained_with_its_generation(harness: StoreHarness) -> None:
    harness.finish(harness.submit_and_claim(fingerprint="1"))
    harness.finish(harness.submit_and_claim(fingerprint="2"))
    explanation = explained(harness)
    assert "as generation 1 (its content changed, or it was rewound)" in str(explanation)
    assert explanation.facts["generation"] == 1


def test_a_key_of_several_batches_is_named_with_its_batch(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.submit("a", batch="april")
    assert "`holdfast doc priority 10 a --pipeline papers --batch march --reason ...`" in str(explained(harness))


def test_explaining_changes_nothing(harness: StoreHarness) -> None:
    harness.submit("a", "b")
    harness.make_dead(harness.claim(limit=1)[0])
    before = harness.store.documents("papers")
    explained(harness)
    of_batch(harness)
    assert harness.store.documents("papers") == before


def test_commands_are_worded_by_whoever_asks(harness: StoreHarness) -> None:
    harness.submit("a")
    explanation = explained(harness, command=lambda *words: " ".join(("hf", *words, "--store", "x")))
    assert "`hf doc priority 10 a --reason ... --store x`" in str(explanation)


def test_a_batch_is_explained_by_what_keeps_it_the_most_first(harness: StoreHarness) -> None:
    harness.submit(*"abcdefg")
    a, b, c, d = harness.claim(limit=4)
    harness.finish(a)
    harness.make_dead(b)
    harness.release(c, state="paused", reason="ask ann")
    harness.clock.advance(MINUTE)
    harness.store.heartbeat(harness.worker)
    explanation = of_batch(harness)
    assert explanation.sentences[0].startswith("1 of 7 documents of batch march are done, and 5 are still open.")
    assert explanation.sentences[1].startswith(
        "3 wait for a worker at step extract (the oldest is e, last moved 60 s ago)."
    )
    assert explanation.sentences[2].startswith(
        "1 is paused at step extract until a person decides (c, last moved 60 s ago)."
    )
    assert explanation.sentences[3].startswith("1 is being worked on at step extract (d, ")
    assert explanation.sentences[4].startswith("1 worker is alive and holds 1 document of papers")
    assert explanation.sentences[5].startswith("1 is a dead letter at step extract, with ValueError (b, ")
    assert len(explanation.sentences) == 6
    assert [cause["kind"] for cause in explanation.facts["causes"]] == ["due", "dead", "person", "worked on"]
    assert d.key == "d"


def test_documents_of_a_batch_at_a_gate_wait_for_a_person(gated: StoreHarness) -> None:
    gated.submit("a", "b")
    for claim in gated.claim():
        gated.park(claim, at="review")
    explanation = of_batch(gated).sentences[1]
    assert explanation.startswith("2 wait at the gate review for a person to decide (the oldest is a, ")
    assert explanation.endswith("To decide: `holdfast review list --pipeline reviews --batch march`.")


def test_silent_and_overdue_documents_of_a_batch_lead_to_a_scan(harness: StoreHarness) -> None:
    harness.submit("a", "b", "c")
    harness.claim(limit=1, timeouts={"extract": SECOND})
    harness.claim(limit=2, worker=harness.register_worker("bob"))
    harness.clock.advance(LEASE * 2)
    harness.store.heartbeat(harness.worker)
    explanation = of_batch(harness).sentences
    scan = "look first: `holdfast doc orphans papers --batch march --grace 30s`."
    assert explanation[1].startswith("2 are held at step extract by a worker that is silent")
    assert explanation[2].startswith("1 is overdue at step extract")
    assert explanation[1].endswith(scan)
    assert explanation[2].endswith(scan)


def test_a_worker_that_was_just_killed_here_is_silent_at_once(harness: StoreHarness) -> None:
    harness.submit("a", "b", "c")
    here = harness.store.register_worker(name="bob", host=this_host(), pid=2**22 + 1, born="1", lease=LEASE)
    harness.claim(limit=2, worker=here)
    harness.claim(limit=1)
    harness.clock.advance(SECOND)
    explanation = of_batch(harness)
    assert explanation.sentences[1].startswith(
        "2 are held at step extract by a worker that is silent (the oldest is a, "
    )
    assert explanation.sentences[2].startswith("1 is being worked on at step extract (c, ")
    assert [(cause["kind"], cause["documents"]) for cause in explanation.facts["causes"]] == [
        ("silent", 2),
        ("worked on", 1),
    ]


def test_every_sentence_about_a_batch_says_what_to_do(harness: StoreHarness, gated: StoreHarness) -> None:
    harness.submit(*"abcdefgh")
    a, b, c, d, e, f = harness.claim(limit=6)
    harness.store.admit(harness.plan, "extract", [a, b], limit=1)
    harness.release(c, state="paused", until=harness.clock() + MINUTE)
    harness.store.release([harness.a_release(d, delay=timedelta(days=1), failure=TORN)])
    harness.make_dead(e)
    harness.store.cancel([f.document_id], who="cat", reason="no")
    for text in of_batch(harness).sentences:
        assert "`holdfast" in text or "=" in text, text


def test_a_finished_batch_says_what_keeps_it_from_being_closed(harness: StoreHarness) -> None:
    harness.submit("a", "b")
    a, b = harness.claim()
    harness.finish(a)
    harness.make_dead(b)
    explanation = of_batch(harness)
    assert explanation.sentences[0].startswith(
        "1 of 2 documents of batch march are done, and nothing is open any more."
    )
    assert explanation.sentences[-1] == (
        "What keeps the batch from being closed: 1 dead letter nobody accepted, unless the pipeline tolerates them "
        "(Pipeline(tolerates=), close --tolerate), and the batch is not sealed: "
        "`holdfast batch seal papers march --reason ...`."
    )
    assert explanation.facts["not_accepted"] == 1


def test_a_batch_that_is_done_and_sealed_can_be_closed(harness: StoreHarness) -> None:
    harness.finish(harness.submit_and_claim())
    harness.store.seal("papers", "march", who="cat")
    assert of_batch(harness).sentences[-1] == (
        "Nothing keeps the batch from being closed: `holdfast batch close PIPELINE.py march --reason ...`."
    )


@pytest.fixture
def closed(harness: StoreHarness) -> StoreHarness:
    """A closed batch with the document of its closing steps."""
    harness.finish(harness.submit_and_claim())
    harness.store.seal("papers", "march", who="cat")
    last = StoreHarness(harness.store, harness.clock, Shape("papers.closing", (StepShape("notify", "value"),)))
    harness.store.close_batch(harness.plan, "march", who="cat", reason="all in", closing=last.plan)
    return last


CLOSE = "`holdfast batch close PIPELINE.py march`"


def test_closing_steps_are_gone_on_with_by_closing_again(harness: StoreHarness, closed: StoreHarness) -> None:
    harness.clock.advance(LEASE * 2)
    assert (
        of_batch(harness).sentences[-1] == f"Its closing steps are waiting at step notify. To go on with them: {CLOSE}."
    )
    assert of_batch(harness).facts["closing"]["state"] == "waiting"
    for explanation in (explained(closed, "march"), of_batch(closed)):
        assert f"No worker is alive: go on with {CLOSE}." in explanation.sentences
        assert "holdfast work" not in str(explanation)


def test_dead_closing_steps_are_redriven_before_the_batch_is_closed_again(
    harness: StoreHarness, closed: StoreHarness
) -> None:
    closed.make_dead(closed.claim_one())
    redrive = "`holdfast dead redrive march --pipeline papers.closing --reason ...`"
    for explanation in (of_batch(harness), of_batch(closed)):
        assert explanation.sentences[-1].startswith(
            "Its closing steps are dead at step notify: ValueError: not a page. "
        )
        assert explanation.sentences[-1].endswith(f"To go on with them: {redrive}, then {CLOSE}.")
    assert explained(closed, "march").sentences[-1].endswith(f"After redriving it, go on with {CLOSE}.")


def test_closing_steps_that_are_over_need_nothing(harness: StoreHarness, closed: StoreHarness) -> None:
    closed.finish(closed.claim_one())
    assert of_batch(harness).sentences[-1] == "Its closing steps are done: nothing has to be done."


def changed(harness: StoreHarness) -> None:
    """Declare the same steps, the last one with another version."""
    *first, last = harness.shape.steps
    harness.store.declare(replace(harness.shape, steps=(*first, replace(last, version=last.version + 1))))


def test_work_of_an_earlier_plan_is_out_of_date(harness: StoreHarness) -> None:
    harness.finish(harness.submit_and_claim())
    assert len(explained(harness).sentences) == 1
    changed(harness)
    last = harness.shape.names[-1]
    explanation = explained(harness)
    assert explanation.sentences[-1] == (
        f"Its work is out of date: {last} changed: version 1 -> 2. To redo it from step {last} on: "
        "`holdfast doc rewind --stale PIPELINE.py --batch march`."
    )
    assert explanation.facts["stale"]["to"] == last
    assert f"The work of 1 document is out of date: {last} changed: version 1 -> 2: " in str(of_batch(harness))


def test_work_of_a_closed_batch_is_never_out_of_date(harness: StoreHarness) -> None:
    harness.finish(harness.submit_and_claim())
    harness.store.seal("papers", "march", who="cat")
    harness.store.close_batch(harness.plan, "march", who="cat", reason="all in")
    changed(harness)
    assert "out of date" not in str(explained(harness)) + str(of_batch(harness))


def test_a_damaged_document_is_set_back_and_not_resumed(harness: StoreHarness) -> None:
    harness.release(harness.advance(harness.submit_and_claim()), state="paused", reason="any words", code=DAMAGED_STEP)
    explanation = explained(harness)
    assert "to rewind it: `holdfast doc rewind a --to chunk --reason ...`" in str(explanation)
    assert "holdfast doc resume" not in str(explanation)
    assert (explanation.facts["cause"], explanation.facts["to"]) == ("damaged", "chunk")


def test_a_document_of_which_nothing_can_be_trusted_is_set_back_to_the_first_step(harness: StoreHarness) -> None:
    harness.release(harness.advance(harness.submit_and_claim()), state="paused", reason="any words", code=DAMAGED)
    assert explained(harness).facts["to"] == "extract"


def test_a_key_that_looks_like_an_option_comes_after_dashes(harness: StoreHarness) -> None:
    harness.submit("-a")
    assert "`holdfast doc priority --reason ... -- 10 -a`" in str(explained(harness, "-a"))


def test_a_priority_below_nothing_looks_like_an_option_too(harness: StoreHarness) -> None:
    harness.submit("a")
    harness.store.prioritise([harness.document().id], priority=-20, who="cat", reason="later")
    assert "`holdfast doc priority --reason ... -- -10 a`" in str(explained(harness))


def test_an_unknown_batch_is_refused(harness: StoreHarness) -> None:
    harness.submit("a")
    with pytest.raises(UnknownBatch, match="has no batch 'may'; it has: march"):
        of_batch(harness, "may")


DAY = timedelta(days=1)
PUT_RIGHT = "Workers put that right by themselves, when they start and then once in each lease."


def test_a_document_that_waits_too_long_says_that_the_clock_was_set_back(harness: StoreHarness) -> None:
    harness.clock.advance(DAY)
    harness.submit("a")
    harness.clock.advance(-DAY)
    explanation = explained(harness)
    until = format_time(harness.clock() + DAY)
    assert explanation.sentences[0] == (
        f"It waits at step extract until {until}, in 24 h 00 min, because the clock was set back by at least "
        f"24 h 00 min. It was meant to go on at once. {PUT_RIGHT}"
    )
    assert "start one with `holdfast work PIPELINE.py`" in explanation.sentences[1]
    facts = explanation.facts
    assert (facts["cause"], facts["clock_set_back_by"], facts["wait"]) == ("clock", DAY, timedelta(0))
    harness.store.reset_future_times(harness.plan, who="bob", timeouts={})
    assert explained(harness).facts["cause"] == "due"


def test_a_wait_that_is_too_long_says_how_long_it_was_meant(harness: StoreHarness) -> None:
    harness.clock.advance(DAY)
    harness.release(harness.submit_and_claim(), delay=MINUTE * 5, failure=TORN)
    harness.clock.advance(-DAY)
    assert "It was meant to go on after 5 min 00 s." in str(explained(harness))


def test_a_long_wait_that_was_meant_is_explained_as_one(harness: StoreHarness) -> None:
    harness.release(harness.submit_and_claim(), delay=DAY * 30, failure=TORN)
    assert explained(harness).facts["cause"] == "backoff"
    assert "clock" not in str(explained(harness)) + str(of_batch(harness))


def test_a_pause_until_a_moment_that_was_given_tomorrow_says_that_it_stays(harness: StoreHarness) -> None:
    claim = harness.submit_and_claim()
    harness.clock.advance(DAY)
    harness.store.pause([claim.document_id], who="cat", reason="later", until=harness.clock() + MINUTE)
    harness.clock.advance(-DAY)
    explanation = explained(harness)
    assert explanation.facts["cause"] == "until"
    assert explanation.sentences[-1] == (
        "The time was set when the clock was ahead by at least 24 h 00 min. It stays as it was given."
    )


def test_a_time_to_decide_that_was_set_tomorrow_says_that_it_is_put_right(gated: StoreHarness) -> None:
    claim = gated.submit_and_claim()
    gated.clock.advance(DAY)
    gated.commit(gated.forward(claim, state="paused", code=AT_GATE, timeout=MINUTE))
    gated.clock.advance(-DAY)
    explanation = explained(gated)
    assert explanation.facts["cause"] == "gate"
    assert explanation.sentences[-1] == (
        f"The time was set when the clock was ahead by at least 24 h 00 min. {PUT_RIGHT}"
    )


def test_a_heartbeat_in_the_future_says_that_the_clock_was_set_back(harness: StoreHarness) -> None:
    harness.clock.advance(DAY)
    harness.submit_and_claim()
    harness.store.heartbeat(harness.worker)
    harness.clock.advance(-DAY)
    assert explained(harness).sentences[-1] == (
        f"That heartbeat is in the future, because the clock was set back by at least 24 h 00 min. {PUT_RIGHT}"
    )


def test_a_batch_says_that_the_clock_was_set_back(harness: StoreHarness) -> None:
    harness.clock.advance(DAY)
    harness.submit("a", "b")
    harness.store.heartbeat(harness.worker)
    harness.clock.advance(-DAY)
    explanation = of_batch(harness)
    assert "2 wait too long at step extract, because the clock was set back (the oldest is a, " in str(explanation)
    assert (
        "The clock was set back by at least 24 h 00 min. Times in the future: 2 waiting documents, 1 heartbeat. "
        f"{PUT_RIGHT}" in explanation.sentences
    )
    assert [cause["kind"] for cause in explanation.facts["causes"]] == ["clock"]
    assert explanation.facts["clock_set_back_by"] == DAY
    harness.store.reset_future_times(harness.plan, who="bob", timeouts={})
    assert of_batch(harness).facts["clock_set_back_by"] is None
