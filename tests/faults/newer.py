"""The holdfast of tomorrow: the present one with one migration more, which its queries need.

`python -m tests.faults.newer ...` is its command line. The migration adds a column, which a holdfast that does not know
of it need not mind, and renames a table that workers write to now and then, which it must.
"""

from __future__ import annotations

from typing import Any

import holdfast.cli
from holdfast.stores.postgres import base as postgres_base
from holdfast.stores.postgres import store as postgres_store
from holdfast.stores.queries import Query
from holdfast.stores.sqlite import base as sqlite_base
from holdfast.stores.sqlite import store as sqlite_store

MIGRATION = "alter table hf_document add column lab_note text;\nalter table hf_pace rename to hf_tempo"


def become_newer(store: Any, sql: Any) -> None:
    """Turns what this process knows of a kind of store into what a newer holdfast knows."""
    store.NEWEST += 1
    store.MIGRATIONS.append((store.NEWEST, MIGRATION))
    for name, query in sql.items():
        sql[name] = Query(query.replace("hf_pace", "hf_tempo"))


if __name__ == "__main__":
    become_newer(sqlite_store, sqlite_base.SQL)
    become_newer(postgres_store, postgres_base.SQL)
    holdfast.cli.main()
