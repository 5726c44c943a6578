"""The SQLite store: embedded, durable, several processes at once."""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
