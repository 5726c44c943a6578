"""Services that answer slowly, without an end or with too much are cut off, by every client of document search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.embed.remote import Ollama
from holdfast.pipelines.rag.extract.azure_reader import MAX_TRIES_AWAY, AzureReader
from holdfast.pipelines.rag.http_errors import ServiceError
from holdfast.sources import FetchLimits, SourceFile, Unreachable, hash_file
from holdfast.sources.limited_http import ResponseLimits
from tests.support import sample_files
from tests.support.hostile_servers import ATTACKS, HostileServer, hostile_server

LIMITS = ResponseLimits(time=timedelta(seconds=0.2), size=200_000)


@pytest.fixture(params=ATTACKS, ids=lambda attack: attack.__name__)
def server(request: pytest.FixtureRequest) -> Iterator[HostileServer]:
    """A server with one of the attacks."""
    with hostile_server(request.param) as server:
        yield server


def test_an_embedder_cuts_it_off(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    embedder = Ollama("m", timeout=LIMITS.time, response_bytes=LIMITS.size)
    with closing(embedder), pytest.raises(ServiceError):
        embedder.embed(["a text"])
    assert server.requests == 1


def test_the_reader_of_azure_cuts_it_off(server: HostileServer, tmp_path: Path) -> None:
    document = sample_files.write_file(tmp_path / "a.pdf", sample_files.pdf(["one page"]))
    reader = AzureReader(server.url, "key", limits=LIMITS, sleep=lambda _: None)
    with pytest.raises(ServiceError, match="cannot be reached"):
        list(reader.pages_of(document))
    assert server.requests == MAX_TRIES_AWAY


def test_a_qdrant_server_is_cut_off(server: HostileServer) -> None:
    pytest.importorskip("qdrant_client", reason="Qdrant needs the extra qdrant")
    from holdfast.pipelines.rag.index.qdrant.protocol import QdrantUnavailable
    from holdfast.pipelines.rag.index.qdrant.server import open_server

    points = open_server(server.url, limits=LIMITS)
    with closing(points), pytest.raises(QdrantUnavailable):
        points.create("space", 4)


def test_a_url_is_cut_off(server: HostileServer) -> None:
    limits = FetchLimits(size=LIMITS.size, time=LIMITS.time, silence=LIMITS.time, resumptions=0)
    with pytest.raises((Reject, Unreachable)):
        hash_file(SourceFile("a", f"{server.url}/a.txt", -1, 0), allow_private=True, limits=limits)
