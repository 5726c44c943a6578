"""The index in a SQLite database."""

from holdfast.pipelines.rag.index.sqlite.index import SqliteIndex

__all__ = ["SqliteIndex"]
