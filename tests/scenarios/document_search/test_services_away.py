"""Services of document search that go away, come back, or refuse a key: no document fails because of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.status import read_progress, read_status
from holdfast.pipelines.rag.extract import azure_reader
from holdfast.stores.protocol import Store
from tests.pipelines.rag.extract.test_azure_reader import pdf
from tests.support.polling import wait_for
from tests.support.services import document_intelligence
from tests.support.services.document_intelligence import DocumentService
from tests.support.services.embeddings import KEY, OpenAIService

DOCUMENTS = 8


class Ingest:
    """An ingest in a thread of its own."""

    def __init__(self, library: rag.Library, folder: Path, seen: Store) -> None:
        self.library = library
        self.seen = seen
        self.budget = holdfast.Budget()
        self.reports: list[holdfast.Report] = []
        self._thread = threading.Thread(target=self._run, args=(folder,))
        self._thread.start()

    def _run(self, folder: Path) -> None:
        self.reports.append(self.library.ingest(str(folder), budget=self.budget, threads=4))

    def wait_until_paused(self, step: str) -> None:
        """Wait until a step is paused."""
        wait_for(
            lambda: any(one.is_open and one.step == step for one in self.seen.circuits("documents")), time_limit=60
        )

    def hasten(self) -> None:
        """Let the next document be tried now, as a worker that starts does."""
        plan = self.seen.plan("documents")
        assert plan is not None
        self.seen.hasten_probes(plan)

    def finish(self) -> holdfast.Report:
        self._thread.join(120)
        (report,) = self.reports
        return report

    def stop(self) -> None:
        self.budget.stop("the test is over")
        self._thread.join(120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for number in range(DOCUMENTS):
        (folder / f"{number}.txt").write_text(f"Letter {number} about anchors and tides.")
    return folder


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIService]:
    with OpenAIService() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


def seen_store(store: Store) -> AbstractContextManager[Store]:
    """Open the store again, to look at it from outside: workers close all connections of theirs when they fork."""
    return holdfast.open(store.url)


def library_of(store: Store, **settings: Any) -> rag.Library:
    return rag.Library(store, settings=rag.CollectionSettings(**settings))


def test_an_embedder_that_goes_away_and_comes_back_costs_no_document(
    each_store: Store, service: OpenAIService, folder: Path
) -> None:
    with seen_store(each_store) as seen, closing(library_of(each_store, embedder="openai:a-model")) as library:
        service.go_away()
        ingest = Ingest(library, folder, seen)
        ingest.wait_until_paused("embed")
        status = read_status(seen, "documents")
        assert "FAILED" not in status.states
        assert "cannot be reached" in status.paused_steps["embed"]
        service.come_back()
        ingest.hasten()
        report = ingest.finish()
        assert (report.done, report.dead) == (DOCUMENTS, 0)
        assert read_status(each_store, "documents").states == {"COMPLETED": DOCUMENTS}
        assert library.search("anchors", by="meaning")


def test_an_embedder_that_refuses_the_key_costs_no_document_and_few_calls(
    store: Store, service: OpenAIService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with seen_store(store) as seen, closing(library_of(store, embedder="openai:a-model")) as library:
        ingest = Ingest(library, folder, seen)
        ingest.wait_until_paused("embed")
        (circuit,) = seen.circuits("documents")
        assert (circuit.category, circuit.recoverable) == ("authentication", False)
        assert "OPENAI_API_KEY" in circuit.reason
        calls = len(service.requests)
        assert calls <= 3 * DOCUMENTS
        progress = [read_progress(seen, one) for one in seen.documents("documents")]
        assert {one.status for one in progress} == {"EMBEDDING"}
        assert False in {one.recoverable for one in progress}
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        ingest.hasten()
        report = ingest.finish()
    assert (report.done, report.dead) == (DOCUMENTS, 0)


def test_a_service_for_scans_that_goes_away_and_comes_back_costs_no_document(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    for number in range(DOCUMENTS):
        pdf(folder / f"{number}.pdf", [f"scan {number} about anchors"])
    quick = holdfast.Retry(base=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=1))
    monkeypatch.setattr(azure_reader, "BACKOFF", quick)
    with DocumentService() as service:
        service.pause = "0"
        monkeypatch.setenv(azure_reader.ENDPOINT, service.url)
        monkeypatch.setenv(azure_reader.KEY, document_intelligence.KEY)
        with seen_store(store) as seen, closing(library_of(store, embedder="hash:64", reader="azure")) as library:
            service.go_away()
            ingest = Ingest(library, folder, seen)
            ingest.wait_until_paused("extract")
            assert "FAILED" not in read_status(seen, "documents").states
            service.come_back()
            ingest.hasten()
            report = ingest.finish()
            assert (report.done, report.dead) == (DOCUMENTS, 0)


def test_texts_go_on_while_the_service_for_scans_is_away_and_no_scan_fails(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the step works for texts says nothing about the service."""
    for number in range(3):
        pdf(folder / f"scan{number}.pdf", [f"scan {number} about anchors"])
    quick = holdfast.Retry(base=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=1))
    monkeypatch.setattr(azure_reader, "BACKOFF", quick)
    with DocumentService() as service:
        service.pause = "0"
        monkeypatch.setenv(azure_reader.ENDPOINT, service.url)
        monkeypatch.setenv(azure_reader.KEY, document_intelligence.KEY)
        with seen_store(store) as seen, closing(library_of(store, embedder="hash:64", reader="azure")) as library:
            service.go_away()
            ingest = Ingest(library, folder, seen)
            wait_for(lambda: read_status(seen, "documents").states.get("COMPLETED") == DOCUMENTS, time_limit=60)
            ingest.wait_until_paused("extract")
            assert "FAILED" not in read_status(seen, "documents").states
            service.come_back()
            ingest.hasten()
            report = ingest.finish()
            assert (report.done, report.dead) == (DOCUMENTS + 3, 0)
