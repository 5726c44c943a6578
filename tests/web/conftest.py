"""A small collection, and its application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")
pytest.importorskip("starlette", reason="serving needs the extra web")
pytest.importorskip("httpx2", reason="asking needs httpx2, which the extra rag brings")

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.search.service import SearchService

if TYPE_CHECKING:
    from starlette.testclient import TestClient

HERE = frozenset({"localhost", "127.0.0.1"})
LETTERS = {
    "tides.txt": "On tides\n\nThe spring tide comes twice a month, at new and at full moon.",
    "anchors.md": "# Anchors <script>alert(1)</script>\n\nAn anchor of twenty kilos holds a boat in sand & mud.",
    "<b>bold.txt": "A tide in a file whose name is <i>markup</i>.",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a store with letters."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "letters").mkdir()
    for name, text in LETTERS.items():
        (folder / "letters" / name).write_text(text)
    url = f"sqlite:///{folder}/web.db"
    with holdfast.open(url) as store:
        rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64")).ingest(str(folder / "letters"))
    return url


@pytest.fixture(scope="module")
def service(database: str) -> Iterator[SearchService]:
    with holdfast.open(database) as store, closing(SearchService(store)) as service:
        yield service


@pytest.fixture(scope="module")
def client(service: SearchService) -> Iterator[TestClient]:
    from starlette.testclient import TestClient

    from holdfast.web.app import search_app

    with TestClient(search_app(service, allowed_hosts=HERE), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="module")
def source(database: str) -> str:
    return str(Path(database.removeprefix("sqlite:///")).parent / "letters")
