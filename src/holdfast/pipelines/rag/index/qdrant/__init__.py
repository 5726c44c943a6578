"""The index whose vectors are in Qdrant."""

from holdfast.pipelines.rag.index.qdrant.index import QdrantIndex
from holdfast.pipelines.rag.index.qdrant.protocol import QdrantError

__all__ = ["QdrantError", "QdrantIndex"]
