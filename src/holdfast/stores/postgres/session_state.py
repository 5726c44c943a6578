"""What an effect leaves behind in the session of its connection: settings, a role, temporary tables, locks.

The next effect would run with it, and so would our own statements. Nothing of it may reach another document:

- Statements that can change a session are recognised by their text, which costs nothing to speak of. Some settings are
  also reported by the server. Only after such a statement the session is compared with what it was.
- If the session differs at the end of a group with several effects, the group is rolled back and each effect runs in a
  transaction of its own. So no effect runs with what another one has set.
- If it still differs after the commit, the connection is replaced. So it is after other user code that gets a
  transaction: an undo, the effect of a rename, `with store.transaction()` and `with store.reading()`.

Behind a pooler the session belongs to others too. There, effects may only use what ends with the transaction, such as
`set local`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from holdfast.stores.postgres.connection_watchdog import WatchedConnection

SUSPICIOUS = re.compile(
    r"(?:^|;)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:set|reset|prepare|deallocate|discard|declare|listen|load|do|call|select\s+[\w.\"]+\s*\()"
    r"|\btemp|\bset_config\b|\bpg_(?:try_)?advisory_",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that may change the session: by itself, or by a function that it calls."""

REPORTED = ("search_path", "session_authorization", "is_superuser", "default_transaction_read_only", "TimeZone")
"""Settings that the server reports when they change. Before PostgreSQL 18 the search path is not one of them."""

SETTINGS = (
    "role",
    "search_path",
    "default_transaction_read_only",
    "default_transaction_isolation",
    "default_transaction_deferrable",
    "statement_timeout",
    "lock_timeout",
    "datestyle",
    "intervalstyle",
    "timezone",
    "client_encoding",
    "client_min_messages",
    "array_nulls",
    "standard_conforming_strings",
    "bytea_output",
    "row_security",
    "session_replication_role",
    "synchronous_commit",
    "application_name",
)

INSIDE = f"""
select pg_catalog.concat_ws(
         ' ', session_user, current_user, {", ".join(f"pg_catalog.current_setting('{name}')" for name in SETTINGS)},
         exists (select from pg_catalog.pg_prepared_statements),
         exists (select from pg_catalog.pg_cursors where is_holdable and pg_catalog.left(name, 3) <> 'hf_'),
         exists (select from pg_catalog.pg_class where relnamespace = pg_catalog.pg_my_temp_schema()))
"""  # noqa: S608 - our own names
"""What must be the same before and after an effect, as one text."""

OUTSIDE = f"""
{INSIDE} || pg_catalog.concat_ws(
         ' ', pg_catalog.current_setting('idle_in_transaction_session_timeout'),
         (select pg_catalog.count(*) from pg_catalog.pg_listening_channels()), pg_catalog.pg_advisory_unlock_all())
"""  # noqa: S608 - our own names
"""The same outside of a transaction, and what a transaction changes. Locks of the session are released."""


class SessionState(NamedTuple):
    """The session of a connection before its first effect, inside and outside of a transaction."""

    inside: str
    outside: str


def is_suspicious(statement: Any) -> bool:
    """Return True if a statement of an effect may change its session."""
    text = statement.decode(errors="replace") if isinstance(statement, bytes) else statement
    return not isinstance(text, str) or SUSPICIOUS.search(text) is not None


def remember_session(db: WatchedConnection) -> None:
    """Remember the session of a connection before its first effect."""
    if db.session_state is None:
        ((inside, outside),) = db.execute(f"select ({INSIDE}), ({OUTSIDE})").fetchall()
        if db.local_settings:
            db.execute(f"begin;{db.local_settings}")
            ((inside,),) = db.execute(INSIDE).fetchall()
            db.execute("rollback")
        db.session_state = SessionState(inside, outside)
        db.reported = db.reported or reported(db)


def reported(db: WatchedConnection) -> tuple[str | None, ...]:
    """Return what the server has reported about a session. It costs no round trip."""
    return tuple(db.info.parameter_status(name) for name in REPORTED)


def session_differs(db: WatchedConnection) -> bool:
    """Return True if effects have changed the session of a connection, within their transaction."""
    db.suspicious = db.suspicious or reported(db) != db.reported
    if not db.suspicious or db.session_state is None:
        return False
    return db.execute(INSIDE).fetchone() != (db.session_state.inside,)


def is_clean(db: WatchedConnection) -> bool:
    """Return True if nothing of the last effects is left in the session of a connection, after their transaction."""
    db.suspicious = False
    return db.session_state is not None and db.execute(OUTSIDE).fetchone() == (db.session_state.outside,)
