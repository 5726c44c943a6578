"""An embedder as a user would write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import holdfast
from holdfast.pipelines.rag.embed.hashing import HashEmbedder


class CustomEmbedder:
    """Returns the vectors of a model, changed by a function."""

    name = "own-8"
    dimension = 8
    window = 4

    def __init__(self, change: Callable[[Any], Any] = lambda rows: rows) -> None:
        self._model = HashEmbedder(self.dimension)
        self._change = change

    def embed(self, texts: Sequence[str]) -> Any:
        return self._change(self._model.embed(texts))

    def embed_query(self, text: str) -> Any:
        return self.embed([text])[0]


class RefusingEmbedder(CustomEmbedder):
    """Rejects every text that contains a given word."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def embed(self, texts: Sequence[str]) -> Any:
        if any(self._word in text for text in texts):
            raise holdfast.Reject("it refuses this text")
        return super().embed(texts)
