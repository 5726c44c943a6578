"""What every connection to PostgreSQL needs, whatever the role or the database have as defaults.

A role or a database may have other defaults than PostgreSQL: `alter role ann set datestyle = german`. The driver cannot
read times or durations in some of them, and arrays or strings would be read as something else. So each new connection
is asked for its settings, in one round trip. What differs is set.

Settings that only matter to effects are left alone: time zone, search path, the order of day and month.

Behind a pooler that gives every transaction another session, a setting would stay with that session, and we would get
another one. There the settings must be right already, apart from those that poolers keep for each client.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import Connection

from holdfast.core.errors import StoreError


class Needed(NamedTuple):
    """A setting that must have a value, and whether poolers keep it for each client."""

    name: str
    value: str
    pooled: bool


NEEDED = (
    Needed("datestyle", "ISO", pooled=True),
    Needed("standard_conforming_strings", "on", pooled=True),
    Needed("intervalstyle", "postgres", pooled=False),
    Needed("array_nulls", "on", pooled=False),
    Needed("default_transaction_isolation", "read committed", pooled=False),
)
"""`ISO` leaves the order of day and month as it is: `ISO, DMY` will do."""

MAY_DIFFER_BEHIND_POOLERS = ("default_transaction_isolation",)
"""Transactions begin with their own isolation. A single statement that collides is repeated."""

ASK = f"select pg_backend_pid(), {', '.join(f'current_setting({needed.name!r})' for needed in NEEDED)}"


def apply_settings(db: Connection[tuple[Any, ...]], name: str) -> None:
    """Set on a new connection what it needs. Raise StoreError if a pooler makes that impossible."""
    ((pid, *values),) = db.execute(ASK).fetchall()
    differing = [
        needed for needed, value in zip(NEEDED, values, strict=True) if value.partition(",")[0] != needed.value
    ]
    is_pooled = pid != db.info.backend_pid
    for needed in differing:
        if not is_pooled or needed.pooled:
            db.execute("select set_config(%s, %s, false)", (needed.name, needed.value))
        elif needed.name not in MAY_DIFFER_BEHIND_POOLERS:
            raise StoreError(
                f"{name}: behind a pooler, {needed.name} must be {needed.value!r} for every session, and it is not. "
                f"Set it for the role: `alter role ... set {needed.name} = '{needed.value}'`, or use no pooler"
            )
