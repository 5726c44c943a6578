"""An embedder without a model: words hashed into a few numbers. For tests and benchmarks; it knows no meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np

WORD = re.compile(r"\w+")


class Hashing:
    """Embeds a text as the signed counts of its words' hashes: the same on every machine and in every process."""

    window = 256

    def __init__(self, dimension: int = 64) -> None:
        if dimension < 1:
            raise ValueError(f"a vector has at least one number, not {dimension}")
        self.dimension = dimension
        self.name = f"hash-{dimension}"

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Gives a row of length one for each text."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in WORD.findall(text.lower()):
                mark = crc32(word.encode())
                row[(mark >> 1) % self.dimension] += 1 if mark & 1 else -1
            if not row.any():
                row[0] = 1  # a text without words, or whose words cancel out, still points somewhere
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def embed_query(self, text: str) -> np.ndarray:
        """Gives the vector of a question: a text like others."""
        vector: np.ndarray = self.embed([text])[0]
        return vector
