"""Azure Document Intelligence in the pipeline: all workers of a store share its limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.observe.events import Claimed, GaveBack
from holdfast.pipelines import rag
from holdfast.pipelines.rag.extract.azure_reader import ENDPOINT
from holdfast.pipelines.rag.extract.azure_reader import KEY as KEY_VARIABLE
from holdfast.stores.protocol import Store
from tests.pipelines.rag.extract.test_azure_reader import pdf
from tests.support.services.document_intelligence import KEY, DocumentService
from tests.support.services.local_service import Answer, HttpRequest, busy

DOCUMENTS, PAGES = 8, 2


class CountingService(DocumentService):
    """Counts the running analyses, and blocks the first ones until `released`."""

    def __init__(self) -> None:
        super().__init__(running=1)
        self.pause = "0"
        self.released = threading.Event()
        self.asked = threading.Semaphore(0)
        self.most = 0
        self._open = 0
        self._counting = threading.Lock()

    def answer(self, asked: HttpRequest) -> Answer:
        if asked.method == "POST":
            self._count(1)
            self.asked.release()
            assert self.released.wait(20)
        answer = super().answer(asked)
        if asked.method == "GET" and answer.body["status"] == "succeeded":
            self._count(-1)
        return answer

    def _count(self, more: int) -> None:
        with self._counting:
            self._open += more
            self.most = max(self.most, self._open)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingService]:
    with CountingService() as running:
        monkeypatch.setenv(ENDPOINT, running.url)
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    for number in range(DOCUMENTS):
        pdf(folder / f"{number}.pdf", [f"scan {number}, page {page}" for page in range(PAGES)])
    return folder


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    url = f"sqlite:///{tmp_path}/rag.db"
    with holdfast.open(url) as one, holdfast.open(url) as other:
        yield one, other


@pytest.mark.parametrize("at_once", [1, 3])
def test_two_workers_together_keep_the_limit_of_a_service(
    service: CountingService, folder: Path, stores: tuple[Store, Store], at_once: int
) -> None:
    """Both workers hold as many documents as they can. Documents above the limit wait before the step."""
    settings = rag.CollectionSettings(embedder="hash:64", reader="azure", at_once=at_once)
    libraries = [rag.Library(store, settings=settings) for store in stores]
    libraries[0].submit_changes(str(folder))
    all_in_hand = threading.Semaphore(0)

    def heard(event: object) -> None:
        if isinstance(event, Claimed):
            for _ in event.claims:
                all_in_hand.release()

    with ThreadPoolExecutor(2) as pool:
        reports = [
            pool.submit(holdfast.drain, library.pipeline, library.store, threads=DOCUMENTS // 2, listeners=[heard])
            for library in libraries
        ]
        for _ in range(DOCUMENTS):
            assert all_in_hand.acquire(timeout=20)
        for _ in range(at_once):
            assert service.asked.acquire(timeout=20)
        service.released.set()
        assert sum(report.result().done for report in reports) == DOCUMENTS
    assert service.most == at_once
    assert len(service.posts) == DOCUMENTS * PAGES


def test_a_busy_service_costs_no_attempt(service: CountingService, folder: Path, stores: tuple[Store, Store]) -> None:
    """The service says so at the second page of the only document. The first page is kept, and the rest waits."""
    service.released.set()
    store = stores[0]
    library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64", reader="azure"))
    library.submit_changes(str(folder / "0.pdf"))
    service.handle = _busy_from(service, page=2)  # type: ignore[method-assign, assignment]
    budget = holdfast.Budget()

    def heard(event: object) -> None:
        if isinstance(event, GaveBack):
            budget.stop("it was put off")

    holdfast.drain(library.pipeline, store, budget=budget, listeners=[heard])
    (here,) = store.documents("documents")
    assert (here.state, here.attempts, here.checkpoint.step) == ("waiting", 0, "extract")
    assert here.due_at is not None
    assert here.due_at - store.now() > timedelta(minutes=9)
    assert [one.items for one in store.outputs(here.id)] == [1]
    assert "busy" in here.reason


def _busy_from(service: CountingService, *, page: int) -> Callable[[HttpRequest], Answer]:
    def handle(request: HttpRequest) -> Answer:
        if request.method == "POST" and len(service.posts) == page - 1:
            return busy("600")
        return type(service).handle(service, request)

    return handle
