"""Embedders behind services: OpenAI and compatible services, Azure OpenAI, Ollama."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from holdfast.pipelines.rag.embed.remote_base import HttpEmbedder
from holdfast.pipelines.rag.http_errors import require_env

KNOWN_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


class OpenAI(HttpEmbedder):
    """OpenAI, or a compatible service at OPENAI_BASE_URL. The key is in OPENAI_API_KEY."""

    key_variable = "OPENAI_API_KEY"
    default_url = "https://api.openai.com/v1"

    def __init__(self, model: str, *, dimension: int | None = None, **settings: Any) -> None:
        super().__init__(model, dimension=dimension or KNOWN_DIMENSIONS.get(model), **settings)
        self._shortened = dimension if dimension != KNOWN_DIMENSIONS.get(model) else None

    @property
    def name(self) -> str:
        """The identity of the model. Shortened vectors count as another model."""
        return f"openai-{self.model}" + (f"-{self._shortened}" if self._shortened else "")

    def url(self) -> str:
        return (os.environ.get("OPENAI_BASE_URL", "").strip() or self.default_url).rstrip("/") + "/embeddings"

    def key(self) -> str:
        """Return the key. A server at OPENAI_BASE_URL may need none."""
        if os.environ.get("OPENAI_BASE_URL", "").strip():
            return super().key()
        return require_env(self.key_variable, "the key of OpenAI")

    def request_body(self, texts: Sequence[str]) -> dict[str, Any]:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        return body | ({"dimensions": self._shortened} if self._shortened else {})

    def vectors_in(self, response: Any) -> list[Any]:
        return [entry["embedding"] for entry in sorted(response["data"], key=lambda entry: entry["index"])]


class AzureOpenAI(OpenAI):
    """A deployment at AZURE_OPENAI_ENDPOINT. The key is AZURE_OPENAI_API_KEY; AZURE_OPENAI_API_VERSION is optional."""

    key_variable = "AZURE_OPENAI_API_KEY"

    @property
    def name(self) -> str:
        """The name of the deployment. The service does not say which model it is."""
        return f"azure-{self.model}" + (f"-{self._shortened}" if self._shortened else "")

    def url(self) -> str:
        endpoint = require_env("AZURE_OPENAI_ENDPOINT", "the address of Azure OpenAI").rstrip("/")
        version = os.environ.get("AZURE_OPENAI_API_VERSION", "").strip() or "2024-10-21"
        return f"{endpoint}/openai/deployments/{quote(self.model, safe='')}/embeddings?api-version={quote(version)}"

    def key(self) -> str:
        return require_env(self.key_variable, "the key of Azure OpenAI")

    def headers(self, key: str) -> dict[str, str]:
        return {"api-key": key}


class Ollama(HttpEmbedder):
    """A model that Ollama serves at OLLAMA_HOST. Default: this machine."""

    def url(self) -> str:
        host = os.environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1:11434"
        return f"{host if '://' in host else f'http://{host}'}".rstrip("/") + "/api/embed"

    def request_body(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"model": self.model, "input": list(texts), "truncate": False}

    def vectors_in(self, response: Any) -> list[Any]:
        return list(response["embeddings"])
