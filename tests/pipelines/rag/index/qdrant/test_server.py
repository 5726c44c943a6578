"""Errors of a Qdrant server, and the key that it is sent."""

from __future__ import annotations

import pytest

pytest.importorskip("qdrant_client", reason="this needs the extra qdrant")

from holdfast.pipelines.rag.index.qdrant.protocol import PointFilter, QdrantError, QdrantUnavailable
from holdfast.pipelines.rag.index.qdrant.server import open_server
from tests.support.services.local_service import Answer, HttpRequest, LocalService, busy

NOT_SAFE = "ignore:Api key is used with an insecure connection:UserWarning"


class Qdrant(LocalService):
    """A server without collections."""

    def answer(self, asked: HttpRequest) -> Answer:
        return Answer(body={"result": {"exists": False}, "status": "ok", "time": 0.0})


@pytest.mark.filterwarnings(NOT_SAFE)
def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "secret-42")
    with Qdrant() as service:
        points = open_server(service.url)
        assert points.count("space", PointFilter()) == 0
        points.close()
    assert {one.headers["api-key"] for one in service.requests} == {"secret-42"}


@pytest.mark.filterwarnings(NOT_SAFE)
@pytest.mark.parametrize("status", [401, 403])
def test_a_denied_access_names_the_environment_variable(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "secret-42")
    with Qdrant() as service:
        service.queued_answers.append(Answer(status, "Invalid API key secret-42"))
        points = open_server(service.url)
        with pytest.raises(QdrantError, match="QDRANT_API_KEY") as refused:
            points.create("space", 4)
        points.close()
    assert not isinstance(refused.value, QdrantUnavailable), "waiting does not help"
    assert "secret" not in str(refused.value)


def test_a_busy_or_unreachable_server_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    with Qdrant() as service:
        service.queued_answers += [Answer(503, "starting"), busy(), busy("60"), Answer(cut=True)]
        points = open_server(service.url)
        for said in ("503", "429", "is busy"):
            with pytest.raises(QdrantUnavailable, match=said):
                points.count("space", PointFilter())
        with pytest.raises(QdrantUnavailable, match="cannot be reached"):
            points.count("space", PointFilter())
    with pytest.raises(QdrantUnavailable, match="cannot be reached"):
        points.nearest("space", [1.0], PointFilter(), limit=3)
    points.close()
