"""Local embedding services with the protocols of OpenAI, Azure OpenAI and Ollama."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from holdfast.pipelines.rag.embed.hashing import HashEmbedder
from tests.support.services.local_service import Answer, HttpRequest, LocalService

KEY = "sk-a-secret-of-nobody"
LONGEST = 500
"""The maximum length of a text, in characters."""
POISON = "poison"
"""A word that makes the whole request fail."""


class EmbeddingService(LocalService):
    """What all services share. Vectors are not of length one: the client has to normalise them."""

    model = "a-model"

    def __init__(self, dimension: int = 8) -> None:
        super().__init__()
        self.hashing = HashEmbedder(dimension)

    @property
    def batches(self) -> list[list[str]]:
        """The texts of each request so far."""
        return [request.json["input"] for request in self.requests]

    def answer(self, request: HttpRequest) -> Answer:
        refusal = self.refusal(request)
        if refusal:
            return refusal
        texts = request.json["input"]
        if any(POISON in text for text in texts):
            return Answer(500, {"error": {"message": "internal error"}})
        if any(len(text) > LONGEST for text in texts):
            return self.too_long()
        return Answer(200, self.body(3 * self.hashing.embed(texts), request.json))

    def refusal(self, request: HttpRequest) -> Answer | None:
        return None

    def too_long(self) -> Answer:
        message = f"This model's maximum context length is {LONGEST} tokens"
        return Answer(400, {"error": {"message": message, "code": "context_length_exceeded"}})

    def body(self, vectors: np.ndarray, request: Any) -> Any:
        raise NotImplementedError


class OpenAIService(EmbeddingService):
    """Returns vectors out of order, which the field `index` allows. With `encoded`, always returns base64."""

    encoded = False

    def refusal(self, request: HttpRequest) -> Answer | None:
        if request.path != "/v1/embeddings":
            return Answer(404, {"error": {"message": f"no {request.path}"}})
        if request.headers.get("authorization") != f"Bearer {KEY}":
            given = request.headers.get("authorization")
            return Answer(401, {"error": {"message": f"Incorrect API key provided: {given}"}})
        return None

    def body(self, vectors: np.ndarray, request: Any) -> Any:
        rows = list(enumerate(vectors[:, : request.get("dimensions")]))
        return {
            "object": "list",
            "model": request["model"],
            "data": [
                {"object": "embedding", "index": index, "embedding": self.as_json(row)} for index, row in rows[::-1]
            ],
        }

    def as_json(self, row: np.ndarray) -> Any:
        return b64encode(row.astype("<f4").tobytes()).decode() if self.encoded else row.tolist()


class AzureOpenAIService(OpenAIService):
    def refusal(self, request: HttpRequest) -> Answer | None:
        parts = urlsplit(request.path)
        if parts.path != f"/openai/deployments/{self.model}/embeddings":
            return Answer(404, {"error": {"code": "DeploymentNotFound"}})
        if not parse_qs(parts.query).get("api-version"):
            return Answer(404, {"error": {"message": "Resource not found"}})
        if request.headers.get("api-key") != KEY:
            return Answer(401, {"error": {"message": "Access denied due to invalid subscription key"}})
        return None


class OllamaService(EmbeddingService):
    def refusal(self, request: HttpRequest) -> Answer | None:
        if request.path != "/api/embed":
            return Answer(404)
        if request.json["model"] != self.model:
            return Answer(404, {"error": f'model "{request.json["model"]}" not found, try pulling it first'})
        return None

    def too_long(self) -> Answer:
        return Answer(400, {"error": "the input length exceeds the context length"})

    def body(self, vectors: np.ndarray, request: Any) -> Any:
        return {"model": request["model"], "embeddings": vectors.tolist()}
