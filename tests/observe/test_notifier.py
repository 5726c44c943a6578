"""Notifications: what is sent, to which targets, and that a target never stops a worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.core.batches import ExpiredBatch, Reconciliation
from holdfast.core.errors import HoldfastError
from holdfast.core.future_times import FutureTimes
from holdfast.core.model import Failure
from holdfast.observe import notifier
from holdfast.observe.events import (
    BatchExpired,
    CircuitClosed,
    CircuitOpened,
    Claimed,
    ClockSetBack,
    Decided,
    Event,
    Reclaimed,
    ScanFindings,
    Scanned,
)
from holdfast.observe.notification_targets import DeliveryFailed
from holdfast.observe.notifications import KINDS, MAX_DOCUMENTS, notifications_of
from holdfast.observe.notifier import Notifier
from tests.support.pipeline_harness import PipelineHarness
from tests.support.polling import wait_for
from tests.support.services.local_service import Answer, HttpRequest, LocalService


class Hooks(LocalService):
    """A webhook that accepts everything."""

    def answer(self, request: HttpRequest) -> Answer:
        return Answer(204)

    @property
    def events(self) -> list[str]:
        return [request.json["event"] for request in self.requests]


class Collected:
    """A target that keeps what it is sent."""

    name = "collected"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def send(self, body: bytes) -> None:
        self.bodies.append(msgspec.json.decode(body))


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with Hooks() as hooks:
        yield hooks


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(notifier, "RETRY_SECONDS", (0.01, 0.01, 0.01))


@pytest.fixture
def failing(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> PipelineHarness:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> None:
        raise ValueError("not a page")

    return harness


def expired(harness: PipelineHarness) -> BatchExpired:
    batch = ExpiredBatch("b", datetime.now(UTC), "fail", (harness.document("a"),))
    return BatchExpired(batch, pipeline="p", worker="ann")


def test_a_dead_letter_is_posted_with_everything_that_is_known(failing: PipelineHarness, hooks: Hooks) -> None:
    failing.submit("a")
    with Notifier(f"{hooks.url}/secret", labels={"run_id": 7}) as notify:
        failing.drain(listeners=[notify], name="ann")
    (request,) = hooks.requests
    assert (request.method, request.path) == ("POST", "/secret")
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"
    body = request.json
    assert set(body) == {
        *("id", "time", "event", "level", "text", "pipeline", "worker", "count", "documents", "labels"),
    }
    assert (body["event"], body["level"], body["pipeline"], body["worker"]) == ("dead_letter", "error", "p", "ann")
    assert body["text"] == "p: new dead letters: 1 document: b/a at read: ValueError: not a page"
    assert (body["count"], body["labels"]) == (1, {"run_id": 7})
    assert body["documents"] == [
        {
            "batch": "b",
            "key": "a",
            "document": failing.document("a").id,
            "generation": 0,
            "step": "read",
            "cursor": None,
            "state": "dead",
            "code": "",
            "error": "ValueError",
            "recoverable": None,
            "reason": "ValueError: not a page",
            "attempts": 1,
            "crashes": 0,
        }
    ]


def test_many_dead_letters_share_a_notification(failing: PipelineHarness) -> None:
    failing.submit(*(f"doc-{number:03}" for number in range(100)))
    target = Collected()
    with Notifier(target) as notify:
        failing.drain(listeners=[notify])
    assert sum(body["count"] for body in target.bodies) == 100
    assert len(target.bodies) < 50
    assert all(len(body["documents"]) <= MAX_DOCUMENTS for body in target.bodies)


def test_documents_that_wait_for_a_person_are_notified(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def read(doc: holdfast.Document) -> None:
        if doc.key == "asks":
            raise holdfast.Pause("which page?")

    pipeline.gate("look")
    harness.submit("a", "asks")
    target = Collected()
    with Notifier(target) as notify:
        harness.drain(listeners=[notify])
    documents = [document for body in target.bodies for document in body["documents"]]
    assert {body["event"] for body in target.bodies} == {"paused"}
    assert {(one["key"], one["step"], one["code"]) for one in documents} == {
        ("a", "look", "at_gate"),
        ("asks", "read", "question"),
    }


def test_orphans_are_notified_by_strategy(failing: PipelineHarness) -> None:
    failing.submit("a", "b", "c")
    a, b, c = (failing.document(key) for key in "abc")
    documents = [msgspec.structs.replace(a, state="dead"), b, msgspec.structs.replace(c, state="paused")]
    found = [*notifications_of(Reclaimed(documents, pipeline="p", worker="ann"))]
    assert [(one.event, one.level, one.details.get("strategy")) for one in found] == [
        ("orphan_resolution", "info", "requeue"),
        ("orphan_resolution", "warning", "fail"),
        ("orphan_resolution", "warning", "review"),
        ("dead_letter", "error", None),
    ]


def test_a_closed_batch_is_notified_with_its_counts(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="read")(lambda doc: None)
    harness.submit("a", "b")
    harness.drain()
    harness.store.seal("p", "b", who="cat")
    target = Collected()
    with Notifier(target) as notify:
        report = holdfast.close(pipeline, harness.store, batch="b", who="cat", listeners=[notify])
    (body,) = target.bodies
    assert (body["event"], body["batch"], body["done"], body["expected"]) == ("batch_closed", "b", 2, 2)
    assert (body["closed_by"], body["report_sha256"]) == ("cat", report.sha256)
    assert body["text"] == "p: batch b is closed: 2 done, 0 dead, 0 cancelled of 2"


def test_a_scan_is_notified_if_it_found_something(failing: PipelineHarness) -> None:
    failing.submit("a")
    (counts,) = failing.store.batch_counts("p")
    assert isinstance(counts, Reconciliation)
    findings = ScanFindings(stale=(counts,), dead_letters={"b": 2})
    (found,) = notifications_of(Scanned(findings, pipeline="p", worker="ann"))
    assert found.details["stale_batches"] == ["b"]
    assert found.text == "p: nothing moves in b; 2 dead letters without a decision in b"
    assert [*notifications_of(Scanned(ScanFindings(), pipeline="p", worker="ann"))] == []


def test_every_kind_of_notification_is_made_by_some_event(failing: PipelineHarness) -> None:
    failing.submit("a")
    dead = msgspec.structs.replace(failing.document("a"), state="dead")
    events: list[Event] = [
        Reclaimed([dead], pipeline="p"),
        Decided("look", "reject", [1, 2], pipeline="p"),
        expired(failing),
        CircuitOpened("call", Failure("HTTPError", "401", category="authentication"), 5, pipeline="p"),
        CircuitClosed("call", pipeline="p"),
        ClockSetBack(FutureTimes(waiting=3, workers=1, ahead=timedelta(days=1)), pipeline="p"),
        Scanned(ScanFindings(ended=("b",)), pipeline="p"),
    ]
    made = {one.event for event in events for one in notifications_of(event)}
    assert made == {*KINDS} - {"paused", "batch_closed"}  # two other tests make those


def test_only_the_chosen_kinds_are_sent(failing: PipelineHarness) -> None:
    failing.submit("a")
    target = Collected()
    with Notifier(target, kinds=["batch_expired"]) as notify:
        failing.drain(listeners=[notify])
        notify(expired(failing))
    assert [body["event"] for body in target.bodies] == ["batch_expired"]
    with pytest.raises(HoldfastError, match="there are no notifications"):
        Notifier(target, kinds=["dead_leter"])


def test_a_service_that_is_away_for_a_moment_is_tried_again(failing: PipelineHarness, hooks: Hooks) -> None:
    hooks.queued_answers.extend([Answer(503), Answer(429), Answer(cut=True)])
    failing.submit("a")
    with Notifier(hooks.url) as notify:
        failing.drain(listeners=[notify])
        wait_for(lambda: len(hooks.requests) == 4)
    assert {request.json["id"] for request in hooks.requests} == {hooks.requests[0].json["id"]}


def test_a_request_that_is_wrong_is_not_repeated(
    failing: PipelineHarness, hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    hooks.queued_answers.extend([Answer(404), Answer(302, headers={"Location": "/other"})])
    failing.submit("a", "b")
    with caplog.at_level(logging.WARNING), Notifier(f"{hooks.url}/token-1234") as notify:
        failing.drain(listeners=[notify], threads=1, concurrency=1)
        notify(expired(failing))
        wait_for(lambda: len(hooks.requests) >= 2)
    assert "it answered 404" in caplog.text
    assert "it answered 302" in caplog.text
    assert "token-1234" not in caplog.text


def test_a_target_that_never_works_does_not_stop_the_worker(
    failing: PipelineHarness, caplog: pytest.LogCaptureFixture
) -> None:
    failing.submit("a")
    with caplog.at_level(logging.WARNING), Notifier("http://127.0.0.1:9/x") as notify:
        assert failing.drain(listeners=[notify]).dead == 1
    assert "a notification (dead_letter) was not sent to http://127.0.0.1:9: " in caplog.text


class Broken:
    """A target with a mistake."""

    name = "broken"

    def __init__(self) -> None:
        self.calls = 0

    def send(self, body: bytes) -> None:
        self.calls += 1
        raise RuntimeError("a mistake") if self.calls == 1 else DeliveryFailed("no", may_succeed=False)


def test_a_target_with_a_mistake_does_not_end_the_notifications(
    failing: PipelineHarness, caplog: pytest.LogCaptureFixture
) -> None:
    failing.submit("a")
    broken, target = Broken(), Collected()
    with caplog.at_level(logging.WARNING), Notifier(broken, target) as notify:
        failing.drain(listeners=[notify])
        wait_for(lambda: target.bodies)
        notify(expired(failing))
    assert [body["event"] for body in target.bodies] == ["dead_letter", "batch_expired"]
    assert "was not sent to broken: a mistake" in caplog.text


def test_a_worker_ends_although_a_target_hangs(
    failing: PipelineHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifier, "CLOSE_SECONDS", 0.05)
    release = threading.Event()

    class Hanging:
        name = "hanging"

        def send(self, body: bytes) -> None:
            release.wait(60)

    failing.submit("a")
    with caplog.at_level(logging.WARNING), Notifier(Hanging()) as notify:
        failing.drain(listeners=[notify])
    assert "hanging did not answer in time" in caplog.text
    release.set()


def test_an_event_that_cannot_be_read_does_not_stop_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Notifier() as notify:
        notify(Reclaimed(None, pipeline="p"))  # type: ignore[arg-type]
        notify(Claimed([], pipeline="p"))
    assert "could not be made into a notification" in caplog.text


def test_a_command_that_fails_says_what_it_wrote(failing: PipelineHarness, caplog: pytest.LogCaptureFixture) -> None:
    failing.submit("a")
    command = """command:sh -c 'cat > /dev/null; echo no mail today >&2; exit 3'"""
    with caplog.at_level(logging.WARNING), Notifier(command) as notify:
        failing.drain(listeners=[notify])
    assert "was not sent to command:sh: it ended with 3: no mail today" in caplog.text


def test_a_command_that_takes_too_long_is_killed(
    failing: PipelineHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdfast.observe.notification_targets.COMMAND_SECONDS", 0.05)
    failing.submit("a")
    with caplog.at_level(logging.WARNING), Notifier("command:sleep 60") as notify:
        failing.drain(listeners=[notify])
    assert "it ran for over 0.05 s and was killed" in caplog.text
