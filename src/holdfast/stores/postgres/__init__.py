"""The PostgreSQL store: fleets of workers on many machines."""

from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
