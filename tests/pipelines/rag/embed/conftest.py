"""Fake services on loopback, and embedders that call them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.pipelines.rag.embed.remote import OpenAI
from tests.support.services.embeddings import KEY, OpenAIService


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIService]:
    with OpenAIService() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


@pytest.fixture
def embedder(service: OpenAIService) -> Iterator[OpenAI]:
    made = OpenAI(service.model)
    yield made
    made.close()
