"""Indexes: find chunks by keyword and by vector. `protocol` says what an index does."""

from holdfast.pipelines.rag.index.protocol import DatabaseIndex, Index
from holdfast.pipelines.rag.index.values import (
    ChunkKey,
    DocumentName,
    EmbeddingModel,
    Hit,
    IndexEntry,
    StoredChunk,
    VersionVectors,
    Where,
    storable_metadata,
    storable_text,
)

__all__ = [
    "ChunkKey",
    "DatabaseIndex",
    "DocumentName",
    "EmbeddingModel",
    "Hit",
    "Index",
    "IndexEntry",
    "StoredChunk",
    "VersionVectors",
    "Where",
    "storable_metadata",
    "storable_text",
]
