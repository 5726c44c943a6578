"""Document search with a custom embedder: any object with a name, a dimension and two methods.

    python examples/own_embedder.py FOLDER

This one counts letter triples, so it finds words with typing errors. The name identifies the model: vectors of equal
names are comparable. Use a new name when its vectors change; all documents are then embedded again.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence

import numpy as np

import holdfast
from holdfast.pipelines import rag


class Triples:
    """Embed texts by their letter triples."""

    name = "triples-512"
    dimension = 512
    window = 64

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self.embed_query(text) for text in texts], np.float32).reshape(-1, self.dimension)

    def embed_query(self, text: str) -> np.ndarray:
        padded = f"  {text.lower()} "
        triples = [zlib.crc32(padded[at : at + 3].encode()) % self.dimension for at in range(len(padded) - 2)]
        vector = np.bincount(triples, minlength=self.dimension).astype(np.float32)
        return vector / np.linalg.norm(vector)


def library(store) -> rag.Library:
    return rag.Library(store, "typos", embedder=Triples())


def main(folder: str) -> None:
    with holdfast.open("sqlite:///typos.db") as store:
        print(library(store).ingest(folder))
        for found in library(store).search("ankor in the sannd", limit=3):
            print(f"{found.key}, page {found.page}: {found.snippet}")


if __name__ == "__main__":
    main(sys.argv[1])
