"""Circuits: steps that are paused for all workers, and the one document that is tried there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from holdfast.core.circuit import CircuitStatus
from holdfast.core.model import Claim, Failure, WorkerRecord
from holdfast.core.plan import Shape
from holdfast.core.reasons import CIRCUIT_OPEN, SERVICE_FAILED
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import NOTHING, PAPERS, SECOND, Conformance, StoreHarness, papers

AWAY = Failure("ConnectError", "nobody answers", "Traceback ...", recoverable=True, category="unreachable")
DENIED = Failure("HTTPStatusError", "401", recoverable=False, category="authentication")
HOUR = timedelta(hours=1)


def open_(harness: StoreHarness, step: str = "extract", failure: Failure = AWAY, **more: Any) -> bool:
    """Open the circuit of a step. A document may be tried after five seconds."""
    options: dict[str, Any] = {"failures": 5, "wait": SECOND * 5, "who": "ann"} | more
    return harness.store.open_circuit(harness.plan, step, failure, **options)


def probe(
    harness: StoreHarness, step: str = "extract", *, worker: WorkerRecord | None = None, **more: Any
) -> Claim | None:
    """Try a document at a step. The next one may be tried after ten seconds."""
    options: dict[str, Any] = {"wait": SECOND * 10, "longest": HOUR} | more
    return harness.store.claim_probe(harness.plan, worker or harness.worker, step, **options)


def circuit_status(harness: StoreHarness) -> CircuitStatus:
    """Return the one circuit that was ever open."""
    (circuit,) = harness.store.circuits("papers")
    return circuit


class CircuitConformance(Conformance):
    """Tests of open_circuit, close_circuit and circuits."""

    def test_a_pipeline_has_no_circuits_at_first(self, harness: StoreHarness) -> None:
        assert harness.store.circuits("papers") == []
        assert harness.store.circuits("unknown") == []
        assert harness.store.hasten_probes(harness.plan) == 0
        assert not harness.store.close_circuit("papers", "extract", who="ann", reason="why")
        assert not harness.store.close_circuit("papers", "unknown", who="ann", reason="why")

    def test_an_open_circuit_says_since_when_and_why(self, harness: StoreHarness) -> None:
        assert open_(harness)
        assert circuit_status(harness) == CircuitStatus(
            pipeline="papers",
            step="extract",
            is_open=True,
            opened_at=harness.clock(),
            opened_by="ann",
            failures=5,
            error="ConnectError",
            category="unreachable",
            reason="ConnectError: nobody answers",
            probes=0,
            probe_at=harness.clock() + SECOND * 5,
            probe_in=SECOND * 5,
            closed_at=None,
            closed_by="",
            close_reason="",
        )
        assert circuit_status(harness).recoverable is True

    def test_a_circuit_opens_once(self, harness: StoreHarness, other: Store) -> None:
        assert open_(harness)
        harness.clock.advance(SECOND)
        again: dict[str, Any] = {"failures": 9, "wait": SECOND, "who": "bob"}
        assert not other.open_circuit(other.declare(PAPERS), "extract", DENIED, **again)
        circuit = circuit_status(harness)
        assert (circuit.opened_by, circuit.failures, circuit.error) == ("ann", 5, "ConnectError")

    def test_of_two_workers_that_open_a_circuit_at_once_one_does(self, harness: StoreHarness, other: Store) -> None:
        def open_at(store: Store) -> bool:
            plan = store.declare(PAPERS)
            return store.open_circuit(plan, "extract", AWAY, failures=5, wait=SECOND, who="ann")

        assert sorted(_at_once(open_at, [harness.store, other])) == [False, True]

    def test_a_closed_circuit_says_who_closed_it_and_can_open_again(self, harness: StoreHarness) -> None:
        open_(harness)
        harness.clock.advance(SECOND)
        assert harness.store.close_circuit("papers", "extract", who="ann", reason="the key is right now")
        closed = circuit_status(harness)
        assert (closed.is_open, closed.opened_at, closed.probe_at, closed.probe_in) == (False, None, None, None)
        assert (closed.closed_at, closed.closed_by) == (harness.clock(), "ann")
        assert closed.close_reason == "the key is right now"
        assert not harness.store.close_circuit("papers", "extract", who="bob", reason="why")
        assert open_(harness, failure=DENIED)
        assert (circuit_status(harness).is_open, circuit_status(harness).category) == (True, "authentication")

    def test_each_step_has_its_own_circuit(self, harness: StoreHarness) -> None:
        open_(harness, "embed")
        open_(harness, "extract", DENIED)
        harness.store.close_circuit("papers", "embed", who="ann", reason="why")
        assert [(one.step, one.is_open) for one in harness.store.circuits("papers")] == [
            ("extract", True),
            ("embed", False),
        ]

    def test_the_same_step_of_another_pipeline_has_another_circuit(self, harness: StoreHarness) -> None:
        open_(harness)
        other = StoreHarness(harness.store, harness.clock, Shape("books", PAPERS.steps))
        assert harness.store.circuits("books") == []
        assert open_(other)
        assert harness.store.close_circuit("books", "extract", who="ann", reason="why")
        assert circuit_status(harness).is_open

    def test_a_renamed_step_keeps_its_circuit(self, harness: StoreHarness) -> None:
        open_(harness, "chunk")
        harness.store.declare(papers("extract", "split", "embed", chunk="split"))
        assert [(one.step, one.is_open) for one in harness.store.circuits("papers")] == [("split", True)]

    def test_a_circuit_of_a_removed_step_pauses_nothing(self, harness: StoreHarness) -> None:
        open_(harness, "chunk")
        harness.plan = harness.store.declare(papers("extract", "embed"))
        assert harness.store.hasten_probes(harness.plan) == 0
        harness.submit("a")
        assert harness.keys_claimed(paused=["chunk"]) == ["a"]

    def test_documents_at_a_paused_step_are_not_claimed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.release(harness.advance(harness.claim_one()))
        assert harness.keys_claimed(paused=["extract"]) == ["a"]
        assert harness.keys_claimed(paused=["extract", "chunk"]) == []
        assert harness.keys_claimed(paused=[]) == ["b"]

    def test_a_paused_step_is_left_out_of_an_exchange_and_of_what_is_due(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        (first, _) = harness.claim()
        harness.submit("c")
        paused = ["extract"]
        _, claims = harness.store.exchange(
            harness.plan, [harness.forward(first)], harness.worker, limit=9, paused=paused
        )
        assert claims == []
        assert harness.store.next_due(harness.plan, paused=paused) is None
        assert harness.store.next_due(harness.plan) is not None

    def test_a_suspect_at_a_paused_step_is_not_due(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        assert harness.store.suspects_due(harness.plan)
        assert not harness.store.suspects_due(harness.plan, paused=["extract"])
        assert harness.claim(which="suspect", paused=["extract"]) == []

    def test_a_document_is_claimed_by_its_id_even_at_a_paused_step(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.claim_one(which=harness.document().id, batch=None).key == "a"

    def test_attempts_that_an_outage_cost_are_given_back(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c", "d")
        claims = {claim.key: claim for claim in harness.claim()}
        for claim in claims.values():
            harness.release(claim, failure=AWAY)
        again = harness.claim_one()
        harness.release(again, failure=AWAY)
        taken = harness.claim_one()
        assert (again.key, taken.key) == ("a", "a")
        give_back = [(again, 2), (claims["b"], 1), (claims["c"], 5)]
        open_(harness, give_back=give_back)
        assert {key: harness.document(key).attempts for key in "abcd"} == {"a": 1, "b": 0, "c": 0, "d": 1}

    def test_a_document_that_moved_since_gets_no_attempt_back(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, failure=AWAY)
        moved = harness.advance(harness.claim_one())
        harness.release(moved, failure=AWAY)
        open_(harness, "chunk", give_back=[(claim, 1)])
        assert harness.document().attempts == 1
        open_(harness, "chunk", give_back=[(moved, 1)])
        assert harness.document().attempts == 0

    def test_attempts_are_given_back_also_if_another_worker_opened_the_circuit(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, failure=AWAY)
        open_(harness)
        assert not open_(harness, give_back=[(claim, 1)])
        assert harness.document().attempts == 0

    def test_a_dead_letter_gets_no_attempt_back(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        open_(harness, give_back=[(claim, 1)])
        assert (harness.document().state, harness.document().attempts) == ("dead", 1)

    def test_documents_at_a_paused_step_have_a_cause_of_their_own(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        harness.release(harness.claim_one(), delay=SECOND, failure=AWAY)
        harness.release(harness.advance(harness.claim_one()))
        open_(harness)
        causes = harness.store.wait_causes("papers")
        assert [(one.kind, one.step, one.error, one.documents, one.key) for one in causes] == [
            ("circuit", "extract", "", 2, "a"),
            ("due", "chunk", "", 1, "b"),
        ]
        harness.store.close_circuit("papers", "extract", who="ann", reason="why")
        assert {one.kind for one in harness.store.wait_causes("papers")} == {"backoff", "due"}

    def test_any_text_can_be_the_reason(self, harness: StoreHarness) -> None:
        text = "naïve 文 🦀 'quoted' \"twice\" \\ \n\t"
        open_(harness, failure=Failure("Error", text), who=text)
        assert (circuit_status(harness).reason, circuit_status(harness).opened_by) == (f"Error: {text}", text)
        harness.store.close_circuit("papers", "extract", who=text, reason=text)
        assert circuit_status(harness).close_reason == text


class ProbeConformance(Conformance):
    """Tests of claim_probe, end_probe and hasten_probes: one document at a time is tried."""

    def test_a_document_is_tried_when_its_time_has_come(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness)
        harness.clock.advance(SECOND * 4)
        assert probe(harness) is None
        harness.clock.advance(SECOND)
        claim = probe(harness)
        assert claim is not None
        assert (claim.key, claim.attempts, harness.document("a").state) == ("a", 1, "running")

    def test_one_document_at_a_time_is_tried(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness, wait=NOTHING)
        assert probe(harness)
        harness.clock.advance(SECOND * 3600)
        assert probe(harness, worker=harness.register_worker("bob")) is None

    def test_of_two_workers_at_once_one_tries_a_document(self, harness: StoreHarness, other: Store) -> None:
        harness.submit("a", "b", "c")
        open_(harness, wait=NOTHING)

        def probe_at(store: Store) -> Claim | None:
            plan = store.declare(PAPERS)
            return store.claim_probe(plan, harness.worker, "extract", wait=SECOND, longest=HOUR)

        claims = _at_once(probe_at, [harness.store, other])
        assert sum(claim is not None for claim in claims) == 1
        assert harness.balance().running == 1

    def test_if_its_worker_dies_another_document_is_tried(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness, wait=NOTHING)
        victim = harness.register_worker("victim")
        assert probe(harness, worker=victim)
        harness.reclaim(gone=[victim.id])
        assert probe(harness) is None
        harness.clock.advance(SECOND * 10)
        assert probe(harness) is not None

    def test_a_probe_that_fails_makes_the_next_one_later(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness, wait=NOTHING)
        claim = probe(harness)
        assert claim is not None
        harness.release(claim, delay=SECOND, failure=DENIED)
        assert harness.store.end_probe(harness.plan, "extract", claim, wait=SECOND * 40, failure=DENIED)
        circuit = circuit_status(harness)
        assert (circuit.probes, circuit.probe_in, circuit.category) == (1, SECOND * 40, "authentication")
        harness.clock.advance(SECOND * 39)
        assert probe(harness) is None
        harness.clock.advance(SECOND)
        assert probe(harness) is not None

    def test_a_probe_that_says_nothing_is_not_counted(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness, wait=NOTHING)
        claim = probe(harness)
        assert claim is not None
        harness.make_dead(claim)
        assert harness.store.end_probe(harness.plan, "extract", claim, wait=NOTHING)
        assert (circuit_status(harness).probes, circuit_status(harness).error) == (0, "ConnectError")
        again = probe(harness)
        assert again is not None
        assert again.key == "b"

    def test_only_the_last_probe_can_end(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness, wait=NOTHING)
        first = probe(harness)
        assert first is not None
        harness.release(first)
        harness.clock.advance(SECOND * 10)
        assert probe(harness) is not None
        assert not harness.store.end_probe(harness.plan, "extract", first, wait=SECOND, failure=AWAY)
        assert circuit_status(harness).probes == 0

    def test_a_closed_circuit_tries_no_document(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert probe(harness) is None
        open_(harness, wait=NOTHING)
        claim = probe(harness)
        assert claim is not None
        harness.store.close_circuit("papers", "extract", who="ann", reason="why")
        assert not harness.store.end_probe(harness.plan, "extract", claim, wait=SECOND, failure=AWAY)
        harness.release(claim)
        assert probe(harness) is None

    def test_a_circuit_that_opens_again_forgets_the_last_probe(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        open_(harness, wait=NOTHING)
        claim = probe(harness)
        assert claim is not None
        harness.store.close_circuit("papers", "extract", who="ann", reason="why")
        open_(harness, wait=NOTHING)
        assert circuit_status(harness).probes == 0
        assert probe(harness) is not None

    def test_without_a_due_document_the_next_worker_may_try(self, harness: StoreHarness) -> None:
        open_(harness, wait=NOTHING)
        assert probe(harness) is None
        harness.submit("a")
        assert probe(harness) is not None

    def test_only_documents_at_the_step_and_of_the_batch_are_tried(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.submit("b", batch="april")
        open_(harness, "chunk", wait=NOTHING)
        assert probe(harness, "chunk") is None
        harness.release(harness.advance(harness.claim_one(batch="march")))
        assert probe(harness, "chunk", batch="april") is None
        claim = probe(harness, "chunk", batch="march", paused=["chunk"], timeouts={"chunk": HOUR})
        assert claim is not None
        assert (claim.key, claim.checkpoint.step) == ("a", "chunk")
        assert harness.document("a").deadline_at == harness.clock() + HOUR

    def test_a_document_that_did_not_fail_is_tried_first(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.release(harness.claim_one(), delay=NOTHING, failure=AWAY)
        open_(harness, wait=NOTHING)
        claim = probe(harness)
        assert claim is not None
        assert claim.key == "b"

    def test_documents_that_fail_are_tried_in_turn_whatever_their_priority(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        harness.store.prioritise([harness.document("b").id], priority=9, who="ann", reason="why")
        open_(harness, wait=NOTHING)
        tried = []
        for _ in range(6):
            claim = probe(harness)
            assert claim is not None
            tried.append(claim.key)
            harness.release(claim, delay=SECOND, failure=AWAY)
            assert harness.store.end_probe(harness.plan, "extract", claim, wait=SECOND, failure=AWAY)
            harness.clock.advance(SECOND * 2)
        assert tried == ["a", "b", "c"] * 2

    def test_a_suspect_is_tried_only_if_asked_for(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        open_(harness, wait=NOTHING)
        assert probe(harness) is None
        assert probe(harness, which="suspect") is not None

    def test_one_document_is_tried_by_its_id_if_it_is_due(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        open_(harness, wait=NOTHING)
        claim = probe(harness, which=harness.document("b").id)
        assert claim is not None
        assert claim.key == "b"
        assert harness.document("b").holder == "ann"

    def test_a_document_that_is_not_due_is_not_tried_by_its_id(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim("a")
        harness.release(claim, delay=SECOND * 60)
        harness.submit("b")
        open_(harness, wait=NOTHING)
        assert probe(harness, which=claim.document_id) is None

    def test_a_document_of_another_step_or_batch_is_not_tried_by_its_id(self, harness: StoreHarness) -> None:
        harness.submit("a")
        open_(harness, wait=NOTHING)
        number = harness.document("a").id
        assert probe(harness, which=number, batch="april") is None
        open_(harness, step="chunk", wait=NOTHING)
        assert probe(harness, step="chunk", which=number) is None
        assert probe(harness, which=number, batch="march") is not None

    def test_a_worker_that_was_taken_for_dead_tries_none(self, harness: StoreHarness) -> None:
        harness.submit("a")
        open_(harness, wait=NOTHING)
        harness.store.retire_worker(harness.worker)
        assert probe(harness) is None
        assert probe(harness, worker=harness.register_worker("bob")) is not None

    def test_a_worker_that_starts_may_try_at_once(self, harness: StoreHarness) -> None:
        harness.submit("a")
        open_(harness, wait=HOUR)
        assert probe(harness) is None
        assert harness.store.hasten_probes(harness.plan) == 1
        assert probe(harness) is not None

    def test_a_clock_that_was_set_back_does_not_end_the_probes(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(timedelta(days=30))
        open_(harness)
        harness.clock.advance(-timedelta(days=29))
        assert probe(harness, longest=HOUR) is not None


class WorksForOthersConformance(Conformance):
    """Tests of works_for_others: whether a failure may be held against a document."""

    def works(self, harness: StoreHarness, step: str = "extract") -> bool:
        """Ask whether the step worked for others since the document a first failed there."""
        return harness.store.works_for_others(harness.plan, step, harness.document("a").id)

    def fail(self, harness: StoreHarness, **more: Any) -> None:
        """Let the document a fail."""
        claim = harness.claim_one(which=harness.document("a").id)
        harness.release(claim, **{"failure": AWAY, "code": SERVICE_FAILED} | more)
        harness.clock.advance(SECOND)

    def test_a_document_that_did_not_fail_yet_has_nothing_to_compare_with(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        assert not self.works(harness)

    def test_a_step_works_if_a_document_passed_it_after_the_failure(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.add_step_times(harness.plan, {"extract": (7, 0.5)})
        harness.clock.advance(SECOND)
        self.fail(harness)
        assert not self.works(harness)
        harness.store.add_step_times(harness.plan, {"extract": (0, 0.5), "chunk": (1, 0.5)})
        assert not self.works(harness)
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        assert self.works(harness)

    def test_a_failure_that_was_put_off_counts(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness, verb="defer", code=CIRCUIT_OPEN)
        assert not self.works(harness)
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        assert self.works(harness)

    def test_a_failure_of_its_own_does_not_count(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness, failure=Failure("ValueError", "not a page"), code="")
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        assert not self.works(harness)

    def test_a_document_that_was_only_given_back_did_not_fail(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness, verb="release", failure=None, reason="the step is paused", code=CIRCUIT_OPEN)
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        assert not self.works(harness)

    def test_a_deferral_of_its_own_does_not_count(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness, verb="defer", failure=None, reason="not ready", code="")
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        assert not self.works(harness)

    def test_the_first_failure_counts(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness)
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        harness.clock.advance(SECOND)
        self.fail(harness)
        assert self.works(harness)

    def test_failures_in_one_line_count_from_the_first_one(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness, verb="defer", code=CIRCUIT_OPEN)
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        harness.clock.advance(SECOND)
        self.fail(harness, verb="defer", code=CIRCUIT_OPEN)
        assert self.works(harness)

    def test_it_counts_when_the_body_began_not_when_that_was_written(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness)
        passed, now = {"extract": (1, 0.5)}, harness.clock()
        harness.store.add_step_times(harness.plan, passed, worked={"extract": now - 2 * SECOND})
        assert not self.works(harness)
        harness.store.add_step_times(harness.plan, passed, worked={"extract": now - SECOND / 2})
        assert self.works(harness)

    def test_a_step_that_worked_in_the_future_says_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(HOUR)
        harness.store.add_step_times(harness.plan, {"extract": (1, 0.5)})
        harness.clock.advance(-HOUR)
        self.fail(harness)
        assert not self.works(harness)

    def test_a_circuit_that_was_closed_says_nothing(self, harness: StoreHarness) -> None:
        """A person may close it too early. A document that was tried says it by passing the step."""
        harness.submit("a")
        self.fail(harness)
        open_(harness)
        harness.store.close_circuit("papers", "extract", who="ann", reason="why")
        assert not self.works(harness)

    def test_failures_before_the_last_move_do_not_count(self, harness: StoreHarness) -> None:
        harness.submit("a")
        self.fail(harness)
        harness.store.add_step_times(harness.plan, {"chunk": (1, 0.5)})
        harness.clock.advance(SECOND)
        harness.release(harness.advance(harness.claim_one()), failure=AWAY)
        assert not self.works(harness, "chunk")


def _at_once(call: Callable[[Store], Any], stores: list[Store]) -> list[Any]:
    """Call all stores in threads that start together. Return the answers."""
    barrier, answers = threading.Barrier(len(stores)), [None] * len(stores)

    def run(number: int) -> None:
        barrier.wait()
        answers[number] = call(stores[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
