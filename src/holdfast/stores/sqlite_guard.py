"""Keep effects from ending the transaction that they are given, on connections of Python's sqlite3.

An effect can get at the connection of the driver, and an ORM works with it. So the guard is in SQLite itself:

- While effects run, an authorizer refuses begin, commit and rollback. SQLite asks it when it compiles a statement, so
  it costs nothing for statements that were compiled before. Our own statements have texts of their own (BEGIN, COMMIT,
  ROLLBACK): sqlite3 keeps compiled statements by their text, and nobody may reuse ours.
- Some statements roll back the whole transaction without saying so: `insert or rollback`, a trigger's
  `raise(rollback)`. After that the connection is outside of a transaction, which is checked after each effect.
- A savepoint is set before the first effect and released after the last one. If it is gone, the transaction is another
  one, however that came about. It has a random name, so that no effect can have set it.

What an effect leaves behind in the connection must not reach the effects of other documents, or our own statements:

- The authorizer also refuses pragmas that set something, and attached files, which would not commit with the rest.
- Methods of the connection that would change it for all others are refused, such as `set_progress_handler`.
- Temporary tables, views and triggers are dropped after the effect that created them. Cursors are closed, and functions
  are removed.
- An effect could roll back to a savepoint of another effect, and take its rows away. So once an effect on a connection
  has set a savepoint, each effect runs within a savepoint of its own. The group in which that is noticed is rolled
  back, and its effects run one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

from holdfast.core.errors import BodyError, StoreError, TransactionEnded
from holdfast.core.moves import Move, effect_name, transaction_ended
from holdfast.stores.group_commit import CALLED_INSIDE_TRANSACTION, EffectFailed, EffectsDisturbed, run_effects
from holdfast.stores.sqlite_session_state import CleanedConnection

BEGIN = "begin immediate /* holdfast */"
BEGIN_TO_READ = "begin /* holdfast */"
COMMIT = "commit /* holdfast */"
ROLLBACK = "rollback /* holdfast */"

HARMLESS_PRAGMAS = {
    *("application_id", "data_version", "defer_foreign_keys", "foreign_key_check", "foreign_key_list", "index_info"),
    *("index_list", "index_xinfo", "integrity_check", "quick_check", "table_info", "table_list", "table_xinfo"),
    "user_version",
}
"""Pragmas that take an argument, and either only read or end with the transaction."""
TEMPORARY = {
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
}
FILES = {sqlite3.SQLITE_ATTACH: "attach", sqlite3.SQLITE_DETACH: "detach"}


def require_transaction(db: sqlite3.Connection) -> None:
    """Raise TransactionEnded for a statement of an effect whose transaction has ended: it would commit by itself."""
    if not db.in_transaction:
        raise TransactionEnded(
            "the transaction has ended, so nothing more can be written with it: an earlier statement rolled it back "
            "(`insert or rollback`, a trigger's raise(rollback)), or it was used after its end"
        )


def refuse_inside_transaction(db: sqlite3.Connection) -> None:
    """Raise BodyError for a call of the store inside a transaction of the same thread. The transaction goes on."""
    if db.in_transaction:
        raise BodyError(CALLED_INSIDE_TRANSACTION)


class GuardedConnection(CleanedConnection):
    """A connection that can guard its transaction while effects run."""

    _guard: TransactionGuard | None = None

    @property
    def guard(self) -> TransactionGuard:
        """The guard of this connection. It is made with the first effect, because it slows down compiling a little."""
        if self._guard is None:
            self._guard = TransactionGuard()
            self.set_authorizer(self._guard.authorize)
        return self._guard

    @property
    def runs_effects(self) -> bool:
        """True while effects run."""
        return self._guard is not None and self._guard.active

    def close(self) -> None:
        """Close the connection, but not for an effect."""
        if self._guard is not None and self._guard.refuses("close()"):
            raise TransactionEnded("an effect tried to run close(), which was refused: holdfast commits its rows")
        super().close()

    def set_authorizer(self, *how: Any, **more: Any) -> None:
        """Set a function that allows or refuses statements, but not for an effect: the guard is one."""
        self._refuse_change("set_authorizer()")
        super().set_authorizer(*how, **more)

    def set_progress_handler(self, *how: Any, **more: Any) -> None:
        """Set a function that can interrupt statements, but not for an effect: it would interrupt all later ones."""
        self._refuse_change("set_progress_handler()")
        super().set_progress_handler(*how, **more)

    def set_trace_callback(self, *how: Any, **more: Any) -> None:
        """Set a function that sees all statements, but not for an effect: it would see those of others."""
        self._refuse_change("set_trace_callback()")
        super().set_trace_callback(*how, **more)

    def setconfig(self, *how: Any) -> None:
        """Set an option of the connection, but not for an effect: it would apply to all later ones."""
        self._refuse_change("setconfig()")
        super().setconfig(*how)  # type: ignore[misc, unused-ignore]  # new in Python 3.12

    def setlimit(self, category: int, limit: int, /) -> int:
        """Set a limit for statements, but not for an effect: it would apply to all later ones."""
        self._refuse_change("setlimit()")
        return super().setlimit(category, limit)

    def _refuse_change(self, what: str) -> None:
        if self._guard is not None and self._guard.refuses_change(what):
            raise BodyError(f"an effect tried to run {what}, which was refused: others use the same connection")


def refuse_inside_effect(connection: GuardedConnection) -> None:
    """Raise BodyError if effects run on a connection: an effect may not close the store."""
    if connection.runs_effects:
        raise BodyError(CALLED_INSIDE_TRANSACTION)


class TransactionGuard:
    """Refuses statements that end a transaction or change its connection, while effects run.

    The thread of the connection uses it.
    """

    def __init__(self) -> None:
        self.active = False
        """True while effects run."""
        self._refused = self._changed = ""
        self._has_temporary = self._has_savepoints = False
        self._savepoint = f"hf_{token_hex(8)}"
        self._savepoint_of_effect = f"{self._savepoint}_effect"

    def authorize(self, action: int, name: str | None, argument: str | None, *_: Any) -> int:
        """Answer SQLite whether a statement may be compiled."""
        if action == sqlite3.SQLITE_SAVEPOINT and argument != self._savepoint:
            self._has_savepoints = True
        if not self.active:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_TRANSACTION and self.refuses(name or ""):
            return sqlite3.SQLITE_DENY
        sets_pragma = action == sqlite3.SQLITE_PRAGMA and argument is not None and name not in HARMLESS_PRAGMAS
        if sets_pragma or action in FILES:
            self._changed = FILES.get(action, f"pragma {name} = {argument}")
            return sqlite3.SQLITE_DENY
        self._has_temporary = self._has_temporary or action in TEMPORARY
        return sqlite3.SQLITE_OK

    def refuses(self, what: str) -> bool:
        """Return True, and remember what an effect tried, if effects run."""
        if self.active:
            self._refused = self._refused or what
        return self.active

    def refuses_change(self, what: str) -> bool:
        """Return True, and remember what an effect tried, if effects run. It would change the connection."""
        if self.active:
            self._changed = self._changed or what
        return self.active

    def run_effects(self, db: GuardedConnection, moves: Sequence[Move], run: Callable[[Move], None]) -> None:
        """Run the effects of moves with `run`. Raise EffectFailed if one fails, or ends the transaction."""
        separate = self._has_savepoints

        def run_guarded(move: Move) -> None:
            if separate:
                db.execute(f"savepoint {self._savepoint_of_effect}")
            try:
                run(move)
            except StoreError:  # the transaction may have ended because of it
                raise
            except Exception as error:  # user code: an effect may raise anything
                self._refuse_an_end(db, effect_name(move), error)
                raise
            finally:
                db.clean()
            if self._refused or self._changed or not db.in_transaction:
                self._refuse_an_end(db, effect_name(move), None)
            if self._has_temporary:
                self._has_temporary = False
                _drop_temporary(db)
            if separate and not _is_released(db, self._savepoint_of_effect):
                raise transaction_ended(effect_name(move))

        try:
            with self._active_in(db):
                run_effects(moves, run_guarded)
                if self._has_savepoints and not separate and sum(move.effect is not None for move in moves) > 1:
                    raise EffectsDisturbed
        except _SavepointGone as error:  # it is not known which effect did it, unless there is only one
            first = next(move for move in moves if move.effect is not None)
            raise EffectFailed(None, transaction_ended(effect_name(first))) from error

    @contextmanager
    def guarding(self, db: GuardedConnection, what: str) -> Iterator[None]:
        """Guard user code that is not the effect of a move, and that messages call `what`."""
        try:
            with self._active_in(db):
                try:
                    yield
                except StoreError:  # the transaction may have ended because of it
                    raise
                except Exception as error:  # user code, as above
                    self._refuse_an_end(db, what, error)
                    raise
                finally:
                    db.clean()
                self._refuse_an_end(db, what, None)
                if self._has_temporary:
                    _drop_temporary(db)
        except _SavepointGone as error:
            raise transaction_ended(what) from error

    @contextmanager
    def _active_in(self, db: GuardedConnection) -> Iterator[None]:
        db.execute(f"savepoint {self._savepoint}")
        self.active, self._refused, self._changed, self._has_temporary = True, "", "", False
        db.note_opened()
        try:
            yield
        finally:
            db.forget_opened()
            self.active = False
        if not _is_released(db, self._savepoint):
            raise _SavepointGone

    def _refuse_an_end(self, db: sqlite3.Connection, what: str, error: Exception | None) -> None:
        if not db.in_transaction:
            raise transaction_ended(what) from error
        if self._refused:
            raise transaction_ended(what, how=self._refused) from error
        if self._changed:
            raise BodyError(
                f"{what} tried to run {self._changed}, which was refused: it would change the connection for the "
                "effects of other documents. Effects write rows; set up a connection before the run"
            ) from error


class _SavepointGone(Exception):
    """The savepoint of the guard is gone: the transaction is another one."""


def _is_released(db: sqlite3.Connection, savepoint: str) -> bool:
    """Release a savepoint, with all that were set after it. Return False if it is gone."""
    try:
        db.execute(f"release {savepoint}")
    except sqlite3.OperationalError:
        return False
    return True


def _drop_temporary(db: sqlite3.Connection) -> None:
    """Drop what an effect created in the temporary schema, so that no other effect finds it."""
    created = db.execute("select type, name from sqlite_temp_master order by type = 'table'").fetchall()
    for kind, name in created:
        if kind == "index" or name.startswith("sqlite_"):  # these go with their tables
            continue
        quoted = name.replace('"', '""')
        db.execute(f'drop {kind} if exists temp."{quoted}"')
