"""Embedding services that speak OpenAI's, Azure OpenAI's and Ollama's protocols."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from holdfast.pipelines.rag.embedders.hashing import Hashing
from tests.rag.services.local import Answer, Asked, LocalService

KEY = "sk-a-secret-of-nobody"
LONGEST = 500
"""Characters that a text may have."""
POISON = "poison"
"""A word that makes the whole request fail."""


class EmbeddingService(LocalService):
    """The rules that all share. Vectors are not of length one: clients have to see to that."""

    model = "a-model"

    def __init__(self, dimension: int = 8) -> None:
        super().__init__()
        self.hashing = Hashing(dimension)

    @property
    def batches(self) -> list[list[str]]:
        """The texts of each request so far."""
        return [asked.json["input"] for asked in self.requests]

    def answer(self, asked: Asked) -> Answer:
        refusal = self.refusal(asked)
        if refusal:
            return refusal
        texts = asked.json["input"]
        if any(POISON in text for text in texts):
            return Answer(500, {"error": {"message": "internal error"}})
        if any(len(text) > LONGEST for text in texts):
            return self.too_long()
        return Answer(200, self.body(3 * self.hashing.embed(texts), asked.json))

    def refusal(self, asked: Asked) -> Answer | None:
        return None

    def too_long(self) -> Answer:
        said = f"This model's maximum context length is {LONGEST} tokens"
        return Answer(400, {"error": {"message": said, "code": "context_length_exceeded"}})

    def body(self, vectors: np.ndarray, asked: Any) -> Any:
        raise NotImplementedError


class OpenAIService(EmbeddingService):
    """Answers out of order, which the protocol's `index` allows; with base64 if `encoded`, whatever was asked for."""

    encoded = False

    def refusal(self, asked: Asked) -> Answer | None:
        if asked.path != "/v1/embeddings":
            return Answer(404, {"error": {"message": f"no {asked.path}"}})
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            given = asked.headers.get("authorization")
            return Answer(401, {"error": {"message": f"Incorrect API key provided: {given}"}})
        return None

    def body(self, vectors: np.ndarray, asked: Any) -> Any:
        rows = list(enumerate(vectors[:, : asked.get("dimensions")]))
        return {
            "object": "list",
            "model": asked["model"],
            "data": [
                {"object": "embedding", "index": index, "embedding": self.written(row)} for index, row in rows[::-1]
            ],
        }

    def written(self, row: np.ndarray) -> Any:
        return b64encode(row.astype("<f4").tobytes()).decode() if self.encoded else row.tolist()


class AzureOpenAIService(OpenAIService):
    def refusal(self, asked: Asked) -> Answer | None:
        parts = urlsplit(asked.path)
        if parts.path != f"/openai/deployments/{self.model}/embeddings":
            return Answer(404, {"error": {"code": "DeploymentNotFound"}})
        if not parse_qs(parts.query).get("api-version"):
            return Answer(404, {"error": {"message": "Resource not found"}})
        if asked.headers.get("api-key") != KEY:
            return Answer(401, {"error": {"message": "Access denied due to invalid subscription key"}})
        return None


class OllamaService(EmbeddingService):
    def refusal(self, asked: Asked) -> Answer | None:
        if asked.path != "/api/embed":
            return Answer(404)
        if asked.json["model"] != self.model:
            return Answer(404, {"error": f'model "{asked.json["model"]}" not found, try pulling it first'})
        return None

    def too_long(self) -> Answer:
        return Answer(400, {"error": "the input length exceeds the context length"})

    def body(self, vectors: np.ndarray, asked: Any) -> Any:
        return {"model": asked["model"], "embeddings": vectors.tolist()}
