"""A collection whose embedder is a service, and whose workers keep to its rate together."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.embedders.rate import Rate
from tests.rag.services.embeddings import OpenAIService


def test_a_collection_is_embedded_by_a_service_at_its_rate(service: OpenAIService, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    for number in range(5):
        (tmp_path / "letters" / f"{number}.txt").write_text(f"Letter {number} is about tides and moorings.")
    settings = rag.Settings(embedder=f"openai:{service.model}", rate=Rate(requests=60_000))
    with holdfast.open(f"sqlite:///{tmp_path}/rag.db") as store:
        library = rag.Library(store, settings=settings)
        assert library.ingest(str(tmp_path / "letters")).done == 5
        assert len(library.search("tides", by="meaning")) == 5
        with store.transaction() as tx:
            assert tx.execute("select name from rag_meter").fetchall() == [(f"openai:{service.model}",)]
        assert rag.Library(store).collection.settings.rate.requests == 60_000
