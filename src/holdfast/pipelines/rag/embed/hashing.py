"""An embedder without a model: it hashes words. For tests and benchmarks; it does not know what words mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np

WORD = re.compile(r"\w+")


class HashEmbedder:
    """Embed a text as signed counts of the hashes of its words. All machines and processes get the same vectors."""

    window = 256

    def __init__(self, dimension: int = 64) -> None:
        if dimension < 1:
            raise ValueError(f"the dimension of a vector must be at least 1, not {dimension}")
        self.dimension = dimension
        self.name = f"hash-{dimension}"

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row of length one for each text."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in WORD.findall(text.lower()):
                code = crc32(word.encode())
                row[(code >> 1) % self.dimension] += 1 if code & 1 else -1
            if not row.any():
                row[0] = 1  # a text without words, or whose words cancel out, needs a direction too
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def embed_query(self, text: str) -> np.ndarray:
        """Return the vector of a question. Questions and texts are embedded in the same way."""
        vector: np.ndarray = self.embed([text])[0]
        return vector
