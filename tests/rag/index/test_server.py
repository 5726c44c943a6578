"""What is said when a Qdrant server cannot be asked, and what it is sent to be let in."""

from __future__ import annotations

import pytest

pytest.importorskip("qdrant_client", reason="this needs the extra qdrant")

from holdfast.pipelines.rag.index.qdrant.points import Among, QdrantAway, QdrantTrouble
from holdfast.pipelines.rag.index.qdrant.server import server_at
from tests.rag.services.local import Answer, Asked, LocalService, busy

NOT_SAFE = "ignore:Api key is used with an insecure connection:UserWarning"


class Qdrant(LocalService):
    """A server on which there is nothing."""

    def answer(self, asked: Asked) -> Answer:
        return Answer(body={"result": {"exists": False}, "status": "ok", "time": 0.0})


@pytest.mark.filterwarnings(NOT_SAFE)
def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "secret-42")
    with Qdrant() as service:
        points = server_at(service.url)
        assert points.count("space", Among()) == 0
        points.close()
    assert {one.headers["api-key"] for one in service.requests} == {"secret-42"}


@pytest.mark.filterwarnings(NOT_SAFE)
@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_does_not_let_us_in_is_a_sentence_that_names_the_variable(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "secret-42")
    with Qdrant() as service:
        service.troubles.append(Answer(status, "Invalid API key secret-42"))
        points = server_at(service.url)
        with pytest.raises(QdrantTrouble, match="QDRANT_API_KEY") as refused:
            points.prepare("space", 4)
        points.close()
    assert not isinstance(refused.value, QdrantAway), "waiting does not help"
    assert "secret" not in str(refused.value)


def test_a_server_that_is_busy_or_gone_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    with Qdrant() as service:
        service.troubles += [Answer(503, "starting"), busy(), busy("60"), Answer(cut=True)]
        points = server_at(service.url)
        for said in ("503", "429", "is busy"):
            with pytest.raises(QdrantAway, match=said):
                points.count("space", Among())
        with pytest.raises(QdrantAway, match="cannot be reached"):
            points.count("space", Among())
    with pytest.raises(QdrantAway, match="cannot be reached"):
        points.nearest("space", [1.0], Among(), limit=3)
    points.close()
