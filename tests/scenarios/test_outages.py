"""Services that are away or refuse a key: steps are paused for all documents, and none of them is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app
from holdfast.core.reasons import CIRCUIT_OPEN
from holdfast.observe.events import CircuitClosed, CircuitOpened, Event
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import SOON
from tests.support.polling import wait_for

QUICK = holdfast.Circuit(probe=timedelta(milliseconds=20), ceiling=timedelta(milliseconds=50))
PATIENT = holdfast.Retry(attempts=3, base=timedelta(milliseconds=10), ceiling=timedelta(milliseconds=50))


class Refused(Exception):
    """An answer with another status than 200, as HTTP libraries raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the service answered {status}")
        self.status_code = status


class Service:
    """A real server that answers with a status, and counts its calls."""

    def __init__(self) -> None:
        self.status = 200
        self.calls = 0
        service = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.calls += 1
                self.send_response(service.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def get(self) -> None:
        """Call the service. Raise an error with its status unless that is 200."""
        connection = HTTPConnection(self.address, timeout=10)
        try:
            connection.request("GET", "/")
            status = connection.getresponse().status
        finally:
            connection.close()
        if status != 200:
            raise Refused(status)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A service on loopback."""
    service = Service()
    yield service
    service.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind."""
    urls: dict[str, Callable[[], str]] = {
        "memory": lambda: "memory://",
        "sqlite": lambda: f"sqlite:///{tmp_path}/any.db",
        "postgres": lambda: request.getfixturevalue("postgres_url"),
    }
    store = open_store(urls[request.param]())
    yield store
    store.close()


class Worker:
    """A worker in a thread of its own."""

    def __init__(self, pipeline: holdfast.Pipeline, store: Store, **options: Any) -> None:
        self.budget = holdfast.Budget()
        self.events: list[Event] = []
        self.report: holdfast.Report | None = None
        self._thread = threading.Thread(target=self._work, args=(pipeline, store), kwargs=options)
        self._thread.start()

    def _work(self, pipeline: holdfast.Pipeline, store: Store, **options: Any) -> None:
        listeners = [self.events.append]
        self.report = holdfast.work(pipeline, store, budget=self.budget, listeners=listeners, **options)

    def stop(self) -> None:
        self.budget.stop("the test is over")
        self._thread.join()


def submit(pipeline: holdfast.Pipeline, store: Store, count: int) -> None:
    holdfast.submit(pipeline, store, batch="b", documents=[(f"d{n:03}", None) for n in range(count)])


def failed(store: Store, key: str) -> int:
    """Return how often a document failed."""
    return sum(line.times for line in store.journal(store.document("p", "b", key).id))


def pipeline_over_items(service: Service) -> holdfast.Pipeline:
    """A pipeline whose documents have 20 items each, of which a tenth may fail."""
    pipeline = holdfast.Pipeline("p")

    @pipeline.step
    def parts(doc: holdfast.Document) -> list[int]:
        return list(range(20))

    @pipeline.step(over=parts, size=20, failure_rate=0.1, retry=PATIENT, circuit=QUICK)
    def call(doc: holdfast.Document, items: list[int]) -> list[int]:
        service.get()
        return items

    return pipeline


def test_200_documents_with_a_wrong_key_cost_few_calls_and_go_on_when_the_key_is_right(
    any_store: Store, service: Service
) -> None:
    pipeline = pipeline_over_items(service)
    submit(pipeline, any_store, 200)
    service.status = 401
    report = holdfast.drain(pipeline, any_store, threads=4)
    balance = any_store.balance("p")
    assert (balance.dead, balance.waiting, report.dead) == (0, 200, 0)
    threads, tries = 4, 3
    assert 5 + tries <= service.calls <= 5 + 2 * threads + tries
    assert report.stopped_by
    (circuit,) = any_store.circuits("p")
    assert (circuit.is_open, circuit.step, circuit.category) == (True, "call", "authentication")
    assert circuit.recoverable is False
    service.status = 200
    report = holdfast.drain(pipeline, any_store, threads=4)
    assert (report.done, report.stopped_by) == (200, "")
    assert not any_store.circuits("p")[0].is_open
    assert {one.attempts for one in any_store.documents("p")} == {0}


def test_workers_that_keep_running_go_on_by_themselves(any_store: Store, service: Service) -> None:
    pipeline = pipeline_over_items(service)
    submit(pipeline, any_store, 60)
    service.status = 503
    workers = [Worker(pipeline, any_store, threads=2) for _ in range(2)]
    try:
        wait_for(lambda: any(one.is_open and one.probes for one in any_store.circuits("p")))
        assert any_store.balance("p").dead == 0
        service.status = 200
        wait_for(lambda: any_store.balance("p").done == 60)
    finally:
        for worker in workers:
            worker.stop()
    kinds = [type(event) for worker in workers for event in worker.events]
    assert kinds.count(CircuitOpened) == kinds.count(CircuitClosed) >= 1
    assert any_store.balance("p").done == 60


def test_one_document_does_not_die_of_an_outage(any_store: Store, service: Service) -> None:
    """With one document there are never five failures in a row before its attempts are used up."""
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=PATIENT, circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        service.get()
        return "done"

    submit(pipeline, any_store, 1)
    service.status = 502
    worker = Worker(pipeline, any_store)
    try:
        wait_for(lambda: any(one.probes >= 3 for one in any_store.circuits("p")))
        here = any_store.document("p", "b", "d000")
        assert here.state in ("waiting", "running")
        service.status = 200
        wait_for(lambda: any_store.balance("p").done == 1)
    finally:
        worker.stop()
    lines = any_store.journal(here.id)
    assert [line.verb for line in lines if line.code != CIRCUIT_OPEN] == ["fail", "fail"]
    assert len(lines) <= 4


def test_a_document_whose_own_server_is_away_dies_while_the_step_works_for_others(any_store: Store) -> None:
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=PATIENT, circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        if doc.key == "d007":
            raise ConnectionRefusedError("this server is gone")
        if doc.key > "d007":
            wait_for(lambda: failed(any_store, "d007"))
        return "done"

    submit(pipeline, any_store, 30)
    report = holdfast.drain(pipeline, any_store, threads=2)
    dead = any_store.document("p", "b", "d007")
    assert (dead.state, dead.recoverable) == ("dead", True)
    assert (report.done, report.stopped_by) == (29, "")


def test_the_last_document_of_a_batch_does_not_die_of_an_outage_that_begins_before_it(
    any_store: Store, service: Service
) -> None:
    """The others have just passed. That says nothing about now."""
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=PATIENT, circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        if doc.key == "d029":
            service.status = 503
        service.get()
        return "done"

    submit(pipeline, any_store, 30)
    report = holdfast.drain(pipeline, any_store, threads=1)
    assert (report.done, report.dead) == (29, 0)
    assert any_store.document("p", "b", "d029").state == "waiting"
    assert report.stopped_by, "few documents failed, so it does not wait long"


def test_a_document_that_opened_the_circuit_alone_dies_when_others_worked_since(any_store: Store) -> None:
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=holdfast.Retry(attempts=1, base=timedelta(milliseconds=1)), circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        if doc.key == "d000":
            raise ConnectionRefusedError("this server is gone")
        return "done"

    submit(pipeline, any_store, 1)
    assert holdfast.drain(pipeline, any_store, threads=1).stopped_by
    submit(pipeline, any_store, 2)
    report = holdfast.drain(pipeline, any_store, threads=1)
    assert (any_store.balance("p").dead, report.done, report.stopped_by) == (1, 1, "")


def test_an_outage_of_one_step_does_not_stop_the_others(any_store: Store, service: Service) -> None:
    pipeline = holdfast.Pipeline("p")

    @pipeline.step
    def parse(doc: holdfast.Document) -> str:
        return "text"

    @pipeline.step(retry=PATIENT, circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        service.get()
        return "done"

    submit(pipeline, any_store, 50)
    service.status = 403
    holdfast.drain(pipeline, any_store, threads=2)
    (batch,) = any_store.batches("p")
    assert batch.at_step == {"call": 50}
    assert service.calls < 30
    assert {one.attempts for one in any_store.documents("p")} == {0}


def test_without_a_circuit_documents_die_as_before(any_store: Store) -> None:
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=SOON, circuit=None)
    def call(doc: holdfast.Document) -> str:
        raise ConnectionRefusedError("gone")

    submit(pipeline, any_store, 10)
    assert holdfast.drain(pipeline, any_store).dead == 10


def test_errors_of_documents_open_no_circuit(any_store: Store) -> None:
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=SOON)
    def call(doc: holdfast.Document) -> str:
        raise ValueError("not a PDF")

    submit(pipeline, any_store, 10)
    assert holdfast.drain(pipeline, any_store).dead == 10
    assert any_store.circuits("p") == []


def test_a_circuit_can_count_errors_of_its_own(any_store: Store) -> None:
    pipeline = holdfast.Pipeline("p")
    circuit = holdfast.Circuit(
        failures=2, categories=(), errors=(LookupError,), probe=timedelta(milliseconds=10), patience=timedelta(0)
    )

    @pipeline.step(retry=PATIENT, circuit=circuit)
    def call(doc: holdfast.Document) -> str:
        raise KeyError("the table is empty")

    submit(pipeline, any_store, 10)
    report = holdfast.drain(pipeline, any_store, threads=1)
    assert (report.dead, any_store.balance("p").waiting) == (0, 10)
    assert report.stopped_by


def run(url: str, *arguments: str) -> Any:
    """Run a command. Return its JSON."""
    result = CliRunner().invoke(app, [*arguments, "--json", "--store", url])
    assert not result.exception or isinstance(result.exception, SystemExit), result.output
    return json.loads(result.stdout)


@pytest.fixture
def away(tmp_path: Path) -> str:
    """The URL of a store with three documents at a step that is paused for an hour, and one that is done."""
    url = f"sqlite:///{tmp_path}/away.db"
    pipeline = holdfast.Pipeline("p")
    hour = timedelta(hours=1)

    @pipeline.step(retry=SOON, circuit=holdfast.Circuit(failures=1, probe=hour, ceiling=hour, patience=timedelta(0)))
    def call(doc: holdfast.Document) -> str:
        if doc.key == "d000":
            return "done"
        raise Refused(401)

    with holdfast.open(url) as store:
        submit(pipeline, store, 4)
        holdfast.drain(pipeline, store, threads=1)
    return url


def test_commands_say_which_steps_are_paused_and_why(away: str) -> None:
    (pipeline,) = run(away, "status")["pipelines"]
    (paused,) = pipeline["paused_steps"]
    assert (paused["step"], paused["category"], paused["recoverable"]) == ("call", "authentication", False)
    (listed,) = run(away, "pipeline", "circuit", "list")["circuits"]
    assert listed["is_open"]
    facts = run(away, "explain", "d002")
    assert (facts["cause"], facts["category"], facts["recoverable"]) == ("circuit", "authentication", False)
    batch = run(away, "explain", "--pipeline", "p", "--batch", "b")
    assert batch["paused_steps"] == ["call"]
    assert [(cause["kind"], cause["documents"]) for cause in batch["causes"]] == [("circuit", 3)]
    assert run(away, "store", "metrics")[0]["paused_steps"] == ["call"]


@pytest.mark.wording
def test_people_read_what_to_do(away: str) -> None:
    for arguments in (["status"], ["explain", "d002"], ["pipeline", "circuit", "list"], ["explain", "--batch", "b"]):
        shown = CliRunner().invoke(app, [*arguments, "--store", away]).output
        assert "Step call is paused for all documents" in shown, arguments
        assert "Check the key or the password" in shown, arguments
        assert "circuit close p call --reason" in shown, arguments


def test_a_person_can_let_a_paused_step_go_on(away: str) -> None:
    closed = run(away, "pipeline", "circuit", "close", "p", "call", "--reason", "the key is right now", "--who", "ann")
    assert closed == {"pipeline": "p", "step": "call", "closed": True}
    (circuit,) = run(away, "pipeline", "circuit", "list")["circuits"]
    assert (circuit["is_open"], circuit["closed_by"]) == (False, "ann")
    again = CliRunner().invoke(app, ["pipeline", "circuit", "close", "p", "call", "--reason", "why", "--store", away])
    assert again.exit_code == 1
    assert run(away, "explain", "d002")["cause"] in ("due", "backoff")


def test_a_run_that_ends_at_a_paused_step_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("away.py").write_text(
        """
from datetime import timedelta

import holdfast

p = holdfast.Pipeline("p")
circuit = holdfast.Circuit(probe=timedelta(milliseconds=10), patience=timedelta(0))


@p.step(circuit=circuit, retry=holdfast.Retry(base=timedelta(milliseconds=1)))
def call(doc):
    raise ConnectionRefusedError("nobody is there")


def documents():
    return [("a", None)]
"""
    )
    result = CliRunner().invoke(app, ["run", "away.py", "--json", "--store", "sqlite:///away.db"])
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.exit_code, last["exit_code"], last["paused_steps"]) == (4, 4, ["call"])
    assert (last["balance"]["waiting"], last["balance"]["dead"]) == (1, 0)
    assert last["report"]["stopped_by"]
    assert len(last["report"]["warnings"]) == 1
