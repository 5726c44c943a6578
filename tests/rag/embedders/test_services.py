"""Services: what is asked, what is understood, and what is said when they refuse."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import numpy as np
import pytest

from holdfast import Reject, RetryLater
from holdfast.pipelines.rag.asking import MissingSetting, ServiceError
from holdfast.pipelines.rag.embedders import embedder_named, is_remote
from holdfast.pipelines.rag.embedders.service import Service
from holdfast.pipelines.rag.embedders.services import AzureOpenAI, Ollama, OpenAI
from tests.rag.services.embeddings import KEY, LONGEST, AzureOpenAIService, OllamaService, OpenAIService
from tests.rag.services.local import Answer, busy

TEXTS = ["the lease ends in May", "the tenant pays", "nothing else"]


@contextmanager
def closing(made: Any) -> Iterator[Service]:
    assert isinstance(made, Service)
    try:
        yield made
    finally:
        made.close()


def test_openai_gives_a_row_of_length_one_for_each_text(service: OpenAIService, embedder: OpenAI) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, service.hashing.embed(TEXTS), atol=1e-6)
    assert service.requests[0].json == {"model": "a-model", "input": TEXTS, "encoding_format": "float"}


def test_openai_is_understood_in_base64_too(service: OpenAIService, embedder: OpenAI) -> None:
    service.encoded = True
    np.testing.assert_allclose(embedder.embed(TEXTS), service.hashing.embed(TEXTS), atol=1e-6)


def test_a_shortened_vector_is_another_models(service: OpenAIService) -> None:
    with closing(embedder_named("openai:text-embedding-3-small", dimension=4)) as short:
        assert short.embed(TEXTS).shape == (3, 4)
        assert short.name == "openai-text-embedding-3-small-4"
        assert service.requests[0].json["dimensions"] == 4


def test_azure_is_asked_by_deployment_with_its_own_header(monkeypatch: pytest.MonkeyPatch) -> None:
    with AzureOpenAIService() as azure:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{azure.url}/")
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-01-01")
        with closing(embedder_named("azure:a-model")) as made:
            assert isinstance(made, AzureOpenAI)
            np.testing.assert_allclose(made.embed(TEXTS), azure.hashing.embed(TEXTS), atol=1e-6)
        assert azure.requests[0].path.endswith("?api-version=2025-01-01")
        assert "authorization" not in {name.lower() for name in azure.requests[0].headers}


def test_ollama_is_asked_where_its_host_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with OllamaService() as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url.removeprefix("http://"))
        with closing(embedder_named("ollama:a-model")) as made:
            assert isinstance(made, Ollama)
            np.testing.assert_allclose(made.embed(TEXTS), ollama.hashing.embed(TEXTS), atol=1e-6)
            assert made.dimension == 8
            with pytest.raises(Reject, match="too long for ollama-a-model"):
                made.embed(["x" * (LONGEST + 1)])


def test_a_model_that_is_not_there_is_said_in_the_services_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with OllamaService() as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        with closing(embedder_named("ollama:other")) as made, pytest.raises(ServiceError, match="try pulling it first"):
            made.embed(TEXTS)


def test_loops_ask_without_waiting_for_each_other(service: OpenAIService, embedder: OpenAI) -> None:
    async def both() -> list[np.ndarray]:
        return await asyncio.gather(embedder.embed_async(TEXTS[:1]), embedder.embed_async(TEXTS[1:]))

    assert is_remote(embedder)
    np.testing.assert_allclose(np.concatenate(asyncio.run(both())), service.hashing.embed(TEXTS), atol=1e-6)
    assert service.batches == [TEXTS]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_asks_by_itself(service: OpenAIService, embedder: OpenAI) -> None:
    embedder.embed(TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: it is what is tested
        child = os.fork()
    if not child:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if embedder.embed(["from a child"]).shape == (1, 8) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert service.batches == [TEXTS, ["from a child"]]


def test_no_texts_need_no_request(service: OpenAIService, embedder: OpenAI) -> None:
    assert len(embedder.embed([])) == 0
    assert service.requests == []


def test_a_dimension_that_is_not_known_is_asked_for_once(service: OpenAIService, embedder: OpenAI) -> None:
    assert [embedder.dimension, embedder.dimension] == [8, 8]
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_short_wait_is_waited_out(service: OpenAIService, embedder: OpenAI, status: int) -> None:
    service.troubles.append(busy("0", status=status))
    assert embedder.embed(TEXTS).shape == (3, 8)
    assert len(service.requests) == 2


def test_a_long_wait_puts_the_document_off_for_as_long(service: OpenAIService, embedder: OpenAI) -> None:
    service.troubles.append(busy("120"))
    with pytest.raises(RetryLater) as put_off:
        embedder.embed(TEXTS)
    assert put_off.value.after == timedelta(seconds=120)
    assert len(service.requests) == 1


def test_a_wait_until_a_date_is_understood(service: OpenAIService, embedder: OpenAI) -> None:
    service.troubles.append(busy(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)))
    with pytest.raises(RetryLater) as put_off:
        embedder.embed(TEXTS)
    assert put_off.value.after is not None
    assert timedelta(minutes=55) < put_off.value.after <= timedelta(hours=1)


def test_a_service_that_stays_busy_puts_the_document_off(service: OpenAIService, embedder: OpenAI) -> None:
    service.troubles.extend(busy("0") for _ in range(20))
    with pytest.raises(RetryLater, match="still busy"):
        embedder.embed(TEXTS)


def test_a_refused_key_names_the_variable_and_not_the_key(
    service: OpenAIService, embedder: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with pytest.raises(ServiceError, match="OPENAI_API_KEY") as refused:
        embedder.embed(TEXTS)
    assert "sk-wrong" not in str(refused.value)


def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with closing(embedder_named("openai:text-embedding-3-small")) as made:
        assert made.dimension == 1536
        with pytest.raises(MissingSetting, match="OPENAI_API_KEY"):
            made.embed(TEXTS)


def test_an_embedder_keeps_no_key(service: OpenAIService, embedder: OpenAI) -> None:
    embedder.embed(TEXTS)
    home = embedder._home
    assert home is not None
    assert KEY not in repr([vars(embedder), vars(home), home.client.headers])


def test_a_key_that_a_service_repeats_is_not_passed_on(service: OpenAIService, embedder: OpenAI) -> None:
    service.troubles.append(Answer(404, {"error": f"no model for {KEY}"}))
    with pytest.raises(ServiceError, match=r"no model for \*\*\*"):
        embedder.embed(TEXTS)


def test_a_cut_connection_is_an_error_that_can_be_tried_again(service: OpenAIService, embedder: OpenAI) -> None:
    service.troubles.append(Answer(cut=True))
    with pytest.raises(ServiceError, match="cannot be reached"):
        embedder.embed(TEXTS)
    assert embedder.embed(TEXTS).shape == (3, 8)


def test_a_service_that_does_not_answer_is_given_up(service: OpenAIService) -> None:
    never = threading.Event()
    service.troubles.append(Answer(after=never))
    with closing(OpenAI(service.model, timeout=timedelta(milliseconds=200))) as impatient:
        with pytest.raises(ServiceError, match=r"did not answer within 0\.2 s"):
            impatient.embed(TEXTS)
        never.set()


def test_a_redirect_is_not_followed(service: OpenAIService, embedder: OpenAI) -> None:
    with OpenAIService() as other:
        service.troubles.append(Answer(307, headers={"Location": f"{other.url}/v1/embeddings"}))
        with pytest.raises(ServiceError, match="307"):
            embedder.embed(TEXTS)
        assert other.requests == []


@pytest.mark.parametrize(
    "body", [{"data": []}, {"data": [{"index": 0}]}, [], {"data": [{"index": 0, "embedding": "%"}]}]
)
def test_an_answer_that_makes_no_sense_is_an_error(service: OpenAIService, embedder: OpenAI, body: Any) -> None:
    service.body = lambda vectors, asked: body  # type: ignore[method-assign]
    with pytest.raises(ServiceError):
        embedder.embed(TEXTS)


def test_a_spec_that_names_nothing_says_what_there_is() -> None:
    with pytest.raises(ValueError, match="openai:MODEL"):
        embedder_named("word2vec")


@pytest.mark.parametrize(
    "body", ["[" * 5000, '{"embeddings": [[[1, 2]]]}', '{"embeddings": [7]}', '{"embeddings": [["a"]]}']
)
def test_an_answer_that_is_no_list_of_vectors_is_told(body: str) -> None:
    answer = httpx2.Response(200, content=body.encode())
    with pytest.raises(ServiceError, match="cannot be understood"):
        Ollama("a-model")._read(answer, 1)
