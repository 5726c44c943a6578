"""The index in a PostgreSQL database."""

from holdfast.pipelines.rag.index.postgres.index import PostgresIndex
from holdfast.pipelines.rag.index.postgres.schema import NoPgvector

__all__ = ["NoPgvector", "PostgresIndex"]
