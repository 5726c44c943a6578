"""A newer version of holdfast: the present one with one more migration, which its queries need.

`python -m tests.faults.newer_version ...` is its command line. The migration adds a column, which does not disturb an
older holdfast, and renames a table that workers write to from time to time, which does.
"""

from __future__ import annotations

from typing import Any

import holdfast.cli
from holdfast.stores.postgres import dialect as postgres_dialect
from holdfast.stores.postgres import store as postgres_store
from holdfast.stores.sql.query_files import Query
from holdfast.stores.sqlite import dialect as sqlite_dialect
from holdfast.stores.sqlite import store as sqlite_store

MIGRATION = "alter table hf_document add column fault_note text;\nalter table hf_step_time rename to hf_tempo"


def become_newer(store: Any, sql: Any) -> None:
    """Change the migrations and queries of one kind of store to those of the newer version."""
    store.NEWEST += 1
    store.MIGRATIONS.append((store.NEWEST, MIGRATION))
    for name, query in sql.items():
        sql[name] = Query(query.replace("hf_step_time", "hf_tempo"))


if __name__ == "__main__":
    become_newer(sqlite_store, sqlite_dialect.SQL)
    become_newer(postgres_store, postgres_dialect.SQL)
    holdfast.cli.main()
