"""Embedders behind services: OpenAI and what speaks like it, Azure OpenAI, Ollama."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from holdfast.pipelines.rag.asking import from_environment
from holdfast.pipelines.rag.embedders.service import Service

KNOWN_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


class OpenAI(Service):
    """OpenAI, or any service that speaks like it at OPENAI_BASE_URL. Key: OPENAI_API_KEY."""

    key_variable = "OPENAI_API_KEY"
    home_page = "https://api.openai.com/v1"

    def __init__(self, model: str, *, dimension: int | None = None, **settings: Any) -> None:
        super().__init__(model, dimension=dimension or KNOWN_DIMENSIONS.get(model), **settings)
        self._shortened = dimension if dimension != KNOWN_DIMENSIONS.get(model) else None

    @property
    def name(self) -> str:
        """The model's identity; a shortened vector is another model's."""
        return f"openai-{self.model}" + (f"-{self._shortened}" if self._shortened else "")

    def address(self) -> str:
        return (os.environ.get("OPENAI_BASE_URL", "").strip() or self.home_page).rstrip("/") + "/embeddings"

    def key(self) -> str:
        """Gives the key. A server of one's own may need none."""
        if os.environ.get("OPENAI_BASE_URL", "").strip():
            return super().key()
        return from_environment(self.key_variable, "the key of OpenAI")

    def question(self, texts: Sequence[str]) -> dict[str, Any]:
        asked = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        return asked | ({"dimensions": self._shortened} if self._shortened else {})

    def vectors(self, answer: Any) -> list[Any]:
        return [one["embedding"] for one in sorted(answer["data"], key=lambda one: one["index"])]


class AzureOpenAI(OpenAI):
    """A deployment at AZURE_OPENAI_ENDPOINT. Key: AZURE_OPENAI_API_KEY; AZURE_OPENAI_API_VERSION may be set."""

    key_variable = "AZURE_OPENAI_API_KEY"

    @property
    def name(self) -> str:
        """The deployment's name: what model stands behind it is not told."""
        return f"azure-{self.model}" + (f"-{self._shortened}" if self._shortened else "")

    def address(self) -> str:
        endpoint = from_environment("AZURE_OPENAI_ENDPOINT", "the address of Azure OpenAI").rstrip("/")
        version = os.environ.get("AZURE_OPENAI_API_VERSION", "").strip() or "2024-10-21"
        return f"{endpoint}/openai/deployments/{quote(self.model, safe='')}/embeddings?api-version={quote(version)}"

    def key(self) -> str:
        return from_environment(self.key_variable, "the key of Azure OpenAI")

    def headers(self, key: str) -> dict[str, str]:
        return {"api-key": key}


class Ollama(Service):
    """A model that Ollama serves at OLLAMA_HOST, by default on this machine."""

    def address(self) -> str:
        host = os.environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1:11434"
        return f"{host if '://' in host else f'http://{host}'}".rstrip("/") + "/api/embed"

    def question(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"model": self.model, "input": list(texts), "truncate": False}

    def vectors(self, answer: Any) -> list[Any]:
        return list(answer["embeddings"])
