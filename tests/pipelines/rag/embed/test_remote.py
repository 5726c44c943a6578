"""Services: requests, responses, and the errors when they refuse."""

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
from holdfast.pipelines.rag.embed import create_embedder, is_remote
from holdfast.pipelines.rag.embed.remote import AzureOpenAI, Ollama, OpenAI
from holdfast.pipelines.rag.embed.remote_base import HttpEmbedder
from holdfast.pipelines.rag.http_errors import MissingSetting, ServiceError
from tests.support.services.embeddings import KEY, LONGEST, AzureOpenAIService, OllamaService, OpenAIService
from tests.support.services.local_service import Answer, busy

TEXTS = ["the lease ends in May", "the tenant pays", "nothing else"]


@contextmanager
def closing(made: Any) -> Iterator[HttpEmbedder]:
    assert isinstance(made, HttpEmbedder)
    try:
        yield made
    finally:
        made.close()


def test_openai_gives_a_row_of_length_one_for_each_text(service: OpenAIService, embedder: OpenAI) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, service.hashing.embed(TEXTS), atol=1e-6)
    assert service.requests[0].json == {"model": "a-model", "input": TEXTS, "encoding_format": "float"}


def test_vectors_in_base64_are_decoded(service: OpenAIService, embedder: OpenAI) -> None:
    service.encoded = True
    np.testing.assert_allclose(embedder.embed(TEXTS), service.hashing.embed(TEXTS), atol=1e-6)


def test_shortened_vectors_count_as_another_model(service: OpenAIService) -> None:
    with closing(create_embedder("openai:text-embedding-3-small", dimension=4)) as short:
        assert short.embed(TEXTS).shape == (3, 4)
        assert short.name == "openai-text-embedding-3-small-4"
        assert service.requests[0].json["dimensions"] == 4


def test_azure_is_called_by_deployment_with_its_own_header(monkeypatch: pytest.MonkeyPatch) -> None:
    with AzureOpenAIService() as azure:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{azure.url}/")
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-01-01")
        with closing(create_embedder("azure:a-model")) as made:
            assert isinstance(made, AzureOpenAI)
            np.testing.assert_allclose(made.embed(TEXTS), azure.hashing.embed(TEXTS), atol=1e-6)
        assert azure.requests[0].path.endswith("?api-version=2025-01-01")
        assert "authorization" not in {name.lower() for name in azure.requests[0].headers}


def test_ollama_is_called_at_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with OllamaService() as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url.removeprefix("http://"))
        with closing(create_embedder("ollama:a-model")) as made:
            assert isinstance(made, Ollama)
            np.testing.assert_allclose(made.embed(TEXTS), ollama.hashing.embed(TEXTS), atol=1e-6)
            assert made.dimension == 8
            with pytest.raises(Reject, match="too long for ollama-a-model"):
                made.embed(["x" * (LONGEST + 1)])


def test_the_error_for_an_unknown_model_has_the_message_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with OllamaService() as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        with (
            closing(create_embedder("ollama:other")) as made,
            pytest.raises(ServiceError, match="try pulling it first"),
        ):
            made.embed(TEXTS)


def test_event_loops_do_not_wait_for_each_other(service: OpenAIService, embedder: OpenAI) -> None:
    async def both() -> list[np.ndarray]:
        return await asyncio.gather(embedder.embed_async(TEXTS[:1]), embedder.embed_async(TEXTS[1:]))

    assert is_remote(embedder)
    np.testing.assert_allclose(np.concatenate(asyncio.run(both())), service.hashing.embed(TEXTS), atol=1e-6)
    assert service.batches == [TEXTS]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_connection(service: OpenAIService, embedder: OpenAI) -> None:
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


def test_an_unknown_dimension_is_requested_once(service: OpenAIService, embedder: OpenAI) -> None:
    assert [embedder.dimension, embedder.dimension] == [8, 8]
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_short_wait_is_waited_out(service: OpenAIService, embedder: OpenAI, status: int) -> None:
    service.queued_answers.append(busy("0", status=status))
    assert embedder.embed(TEXTS).shape == (3, 8)
    assert len(service.requests) == 2


def test_a_long_wait_postpones_the_document_for_that_time(service: OpenAIService, embedder: OpenAI) -> None:
    service.queued_answers.append(busy("120"))
    with pytest.raises(RetryLater) as put_off:
        embedder.embed(TEXTS)
    assert put_off.value.after == timedelta(seconds=120)
    assert len(service.requests) == 1


def test_a_wait_until_a_date_is_parsed(service: OpenAIService, embedder: OpenAI) -> None:
    service.queued_answers.append(busy(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)))
    with pytest.raises(RetryLater) as put_off:
        embedder.embed(TEXTS)
    assert put_off.value.after is not None
    assert timedelta(minutes=55) < put_off.value.after <= timedelta(hours=1)


def test_a_service_that_stays_busy_postpones_the_document(service: OpenAIService, embedder: OpenAI) -> None:
    service.queued_answers.extend(busy("0") for _ in range(20))
    with pytest.raises(RetryLater, match="still busy"):
        embedder.embed(TEXTS)


def test_a_refused_key_names_the_variable_and_not_the_key(
    service: OpenAIService, embedder: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with pytest.raises(ServiceError, match="OPENAI_API_KEY") as refused:
        embedder.embed(TEXTS)
    assert "sk-wrong" not in str(refused.value)
    assert refused.value.is_outage


def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with closing(create_embedder("openai:text-embedding-3-small")) as made:
        assert made.dimension == 1536
        with pytest.raises(MissingSetting, match="OPENAI_API_KEY"):
            made.embed(TEXTS)


def test_an_embedder_keeps_no_key(service: OpenAIService, embedder: OpenAI) -> None:
    embedder.embed(TEXTS)
    client = embedder._client
    assert client is not None
    assert KEY not in repr([vars(embedder), vars(client), client.http.headers])


def test_a_key_that_a_service_repeats_is_not_passed_on(service: OpenAIService, embedder: OpenAI) -> None:
    service.queued_answers.append(Answer(404, {"error": f"no model for {KEY}"}))
    with pytest.raises(ServiceError, match=r"no model for \*\*\*"):
        embedder.embed(TEXTS)


def test_a_cut_connection_is_an_error_that_can_be_tried_again(service: OpenAIService, embedder: OpenAI) -> None:
    service.queued_answers.append(Answer(cut=True))
    with pytest.raises(ServiceError, match="cannot be reached") as cut:
        embedder.embed(TEXTS)
    assert cut.value.is_outage
    assert embedder.embed(TEXTS).shape == (3, 8)


def test_a_service_that_does_not_answer_times_out(service: OpenAIService) -> None:
    never = threading.Event()
    service.queued_answers.append(Answer(after=never))
    with closing(OpenAI(service.model, timeout=timedelta(milliseconds=200))) as impatient:
        with pytest.raises(ServiceError, match=r"did not answer within 0\.2 s") as silent:
            impatient.embed(TEXTS)
        assert silent.value.is_outage
        never.set()


def test_a_redirect_is_not_followed(service: OpenAIService, embedder: OpenAI) -> None:
    with OpenAIService() as other:
        service.queued_answers.append(Answer(307, headers={"Location": f"{other.url}/v1/embeddings"}))
        with pytest.raises(ServiceError, match="307"):
            embedder.embed(TEXTS)
        assert other.requests == []


@pytest.mark.parametrize(
    "body", [{"data": []}, {"data": [{"index": 0}]}, [], {"data": [{"index": 0, "embedding": "%"}]}]
)
def test_an_invalid_response_is_an_error(service: OpenAIService, embedder: OpenAI, body: Any) -> None:
    service.body = lambda vectors, asked: body  # type: ignore[method-assign]
    with pytest.raises(ServiceError) as invalid:
        embedder.embed(TEXTS)
    assert (invalid.value.error_category, invalid.value.is_outage) == ("server_error", False)


def test_an_unknown_spec_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="openai:MODEL"):
        create_embedder("word2vec")


@pytest.mark.parametrize(
    "body", ["[" * 5000, '{"embeddings": [[[1, 2]]]}', '{"embeddings": [7]}', '{"embeddings": [["a"]]}']
)
def test_a_response_without_vectors_is_an_error(body: str) -> None:
    answer = httpx2.Response(200, content=body.encode())
    with pytest.raises(ServiceError, match="cannot be decoded"):
        Ollama("a-model")._read(answer, 1)
