"""An API with pages: its last page has no next token, and it throttles. Workers are killed at every commit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

import holdfast
from holdfast.testing.crash import crash_everywhere
from holdfast.testing.crash.child_process import run_in_child
from tests.support.pipeline_harness import SOON, PipelineHarness

PAGES = {"": (["a", "b"], "p2"), "p2": (["c"], "p3"), "p3": (["d", "e"], None)}
"""The records of each page, and the token of the next one."""


class PagedService:
    """A server that answers every third request with 429."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.throttles = True
        self.throttled = 0
        self._lock = Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def ask(self, token: str | None) -> Any:
        """Return a page."""
        with urlopen(f"{self.url}?after={quote(token or '')}", timeout=30) as answer:
            return json.load(answer)

    def _handler(service) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is that of the handler below
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token = self.path.partition("?after=")[2]
                with service._lock:
                    service.asked.append(token)
                    is_throttled = service.throttles and len(service.asked) % 3 == 0
                    service.throttled += is_throttled
                self.send_response(429 if is_throttled else 200)
                if is_throttled:
                    self.send_header("Retry-After", "0.1")
                self.end_headers()
                if not is_throttled:
                    records, following = PAGES[token]
                    self.wfile.write(json.dumps({"records": records, "next_token": following}).encode())

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        return Handler


@pytest.fixture
def service() -> Iterator[PagedService]:
    service = PagedService()
    yield service
    service.server.shutdown()
    service.server.server_close()


def add_loading(pipeline: holdfast.Pipeline, service: PagedService) -> None:
    """Add the step of the page on writing pipelines, with the rows of its records."""

    @pipeline.step(commit_every=1)
    def load(doc: holdfast.Document, cursor: str | None = None) -> Iterator[holdfast.At[list[str]]]:
        while True:
            try:
                page = service.ask(cursor)
            except HTTPError as refusal:
                if refusal.code != 429:
                    raise
                wait = float(refusal.headers.get("Retry-After", 60))
                raise holdfast.RetryLater("too many requests", after=wait) from refusal
            cursor = page["next_token"]
            yield holdfast.At(cursor, page["records"])

    @load.rows("record")
    def records(doc: holdfast.Document, pages: list[list[str]]) -> list[dict[str, object]]:
        return [{"name": name} for page in pages for name in page]


def create_table(tx: holdfast.Tx) -> None:
    tx.execute("create table record (document_id integer, name text)")


def test_all_pages_are_loaded_and_throttling_costs_no_attempt(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, service: PagedService
) -> None:
    add_loading(pipeline, service)
    with harness.store.transaction() as tx:
        create_table(tx)
    harness.submit("a")
    assert harness.drain().done == 1
    assert service.asked == ["", "p2", "p3", "p3"]
    assert harness.kept("load") == [["a", "b"], ["c"], ["d", "e"]]
    assert harness.verbs() == ["defer"]
    with harness.store.transaction() as tx:
        assert tx.execute("select name from record order by name").fetchall() == [(name,) for name in "abcde"]


def test_a_kill_at_any_commit_loses_no_page_and_keeps_none_twice(
    pipeline: holdfast.Pipeline, service: PagedService
) -> None:
    add_loading(pipeline, service)
    assert crash_everywhere(pipeline, [("a", {"year": 1}), ("b", {"year": 2})], prepare=create_table).kills > 0
    assert service.throttled > 0


def _die_once(mark: Path) -> None:
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("killed_at", "asked_again"),
    [
        pytest.param("last page", ["p3"], id="before the commit of the last page"),
        pytest.param("next step", [], id="after the commit of the last page"),
    ],
)
def test_a_worker_that_is_killed_around_the_last_page_asks_only_for_what_is_not_kept(
    tmp_path: Path, pipeline: holdfast.Pipeline, service: PagedService, killed_at: str, asked_again: list[str]
) -> None:
    mark, url = tmp_path / "mark", f"sqlite:///{tmp_path}/killed.db"

    @pipeline.step(commit_every=1, retry=SOON)
    def load(doc: holdfast.Document, cursor: str | None = None) -> Iterator[holdfast.At[list[str]]]:
        while True:
            page = service.ask(cursor)
            cursor = page["next_token"]
            if cursor is None and killed_at == "last page":
                _die_once(mark)
            yield holdfast.At(cursor, page["records"])

    @pipeline.step(retry=SOON)
    def count(doc: holdfast.Document) -> int:
        if killed_at == "next step":
            _die_once(mark)
        return sum(map(len, doc.each(load)))

    def work() -> bytes:
        with holdfast.open(url) as store:
            holdfast.submit(pipeline, store, batch="b", documents=[("a", None)])
            holdfast.drain(pipeline, store, threads=1)
        return b""

    service.throttles = False
    assert run_in_child(work, answer=tmp_path / "answer", time_limit=60).killed
    assert service.asked == ["", "p2", "p3"]
    service.asked.clear()
    assert not run_in_child(work, answer=tmp_path / "answer", time_limit=60).killed
    assert service.asked == asked_again
    with holdfast.open(url) as store:
        here = store.document("p", "b", "a")
        assert [value for step, _, value in store.items(here.id) if step == "count"] == ["5"]
