"""A connection that does not wait endlessly for an answer that will never come.

TCP notices a network that is gone. But something between us and the server, such as a pooler or a balancer, may keep
our side of a connection open after the server's side is gone, and acknowledge everything. So after a while without an
answer we ask over another connection what the server does for this one. If the server waits for us, or does not know
us, the connection is given up as lost. If it works, or waits for a lock, we wait on.

A server may also stop waiting for a standby, for example because of a statement_timeout. Then it answers that it has
committed, and adds a warning: the commit is on no standby yet. Such an answer does not count.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Self, TypeVar

import psycopg
from psycopg import Connection, Cursor, OperationalError
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import Composable

from holdfast.core.errors import TransactionEnded
from holdfast.core.moves import ends_transaction
from holdfast.core.text_limits import shorten
from holdfast.stores.postgres.session_state import SessionState, is_suspicious, reported

T = TypeVar("T")

SILENCE = 30.0
"""After how many seconds without an answer to ask."""

STILL_AT_WORK = """
select coalesce(bool_or(application_name = %(mark)s
                        and (coalesce(state, '') not like 'idle%%'
                             or state_change > now() - %(silence)s * interval '1 second')), false)
    or not coalesce(bool_or(application_name = %(asking)s and pid = pg_backend_pid()), false)
  from pg_stat_activity
"""
"""True also if marks do not reach the server, as behind a pooler that hides them: then nothing can be known."""

WAIT_FOR_STANDBY = "SyncRepWaitForLSN"
"""The function of the server that waits for a standby, and that warns if it stops waiting."""


class WatchedCursor(Cursor[tuple[Any, ...]]):
    """A cursor that shows its statements to its connection, also those of an ORM."""

    def execute(self, query: Any, *how: Any, **more: Any) -> Self:
        """Run a statement."""
        self.connection.watch_statement(query)  # type: ignore[attr-defined]  # all our connections have it
        return super().execute(query, *how, **more)

    def executemany(self, query: Any, *how: Any, **more: Any) -> None:
        """Run a statement for each of many parameters."""
        self.connection.watch_statement(query)  # type: ignore[attr-defined]  # all our connections have it
        super().executemany(query, *how, **more)


class WatchedConnection(Connection[tuple[Any, ...]]):
    """A connection that is given up if there is no answer and the server does not work for it."""

    _mark = ""
    _options: dict[str, Any] = {}
    unconfirmed = False
    """True if the server has stopped waiting for a standby."""
    runs_effects = False
    """True while effects run."""
    refused = ""
    """What an effect tried, such as COMMIT, and was refused. Empty if nothing was."""
    went_idle = False
    """True if an effect was outside of the transaction that it was given."""
    has_savepoints = False
    """True if an effect on this connection has set a savepoint. From then on, each effect has one of its own."""
    suspicious = False
    """True if a statement of an effect may have changed the session."""
    local_settings = ""
    """A statement that each transaction begins with: behind a pooler, settings end with their transaction."""
    session_state: SessionState | None = None
    reported: tuple[str | None, ...] = ()
    """What the session was before the first user code, and what the server reported about it."""

    @classmethod
    def connected(cls, options: dict[str, Any]) -> WatchedConnection:
        """Connect. The application_name is the mark by which the server knows the connection."""
        try:
            db = cls.connect(autocommit=True, prepare_threshold=None, cursor_factory=WatchedCursor, **options)
        except UnicodeError as error:  # the name of the host is invalid
            raise OperationalError(f"no host can be called {options.get('host')!r}") from error
        db._mark, db._options = options["application_name"], options
        db.add_notice_handler(db._on_notice)
        return db

    def _on_notice(self, notice: Diagnostic) -> None:
        if notice.source_function == WAIT_FOR_STANDBY:  # in every language; the code is that of any warning
            self.unconfirmed = True

    @contextmanager
    def effects_running(self) -> Iterator[None]:
        """Refuse to end the transaction or the connection while effects run."""
        self.runs_effects, self.refused, self.went_idle = True, "", False
        self.reported = self.reported or reported(self)
        try:
            yield
        finally:
            self.runs_effects = False
            self.row_factory, self.prepare_threshold = tuple_row, None  # as our own statements need them

    def watch_statement(self, statement: Any) -> None:
        """Refuse a statement of an effect that ends the transaction. Note one that may change the session."""
        if not self.runs_effects:
            return
        text = self._text(statement)
        if ends_transaction(text):
            self._refuse_effects(repr(shorten(text, 80)))
        self.has_savepoints = self.has_savepoints or "savepoint" in text.lower()
        self.suspicious = self.suspicious or is_suspicious(statement)

    def _text(self, statement: Any) -> str:
        if isinstance(statement, Composable):
            return statement.as_string(self)
        return statement.decode(errors="replace") if isinstance(statement, bytes) else str(statement)

    def commit(self) -> None:
        """Commit, but not for an effect."""
        self._refuse_effects("COMMIT")
        super().commit()

    def rollback(self) -> None:
        """Roll back, but not for an effect."""
        self._refuse_effects("ROLLBACK")
        super().rollback()

    def close(self) -> None:
        """Close the connection, but not for an effect."""
        self._refuse_effects("close()")
        super().close()

    def _refuse_effects(self, what: str) -> None:
        if self.runs_effects:
            self.refused = self.refused or what
            raise TransactionEnded(f"an effect tried to run {what}, which was refused: holdfast commits its rows")

    def wait(self, gen: Generator[Any, Any, T], *how: Any, **more: Any) -> T:
        """Wait for an answer, as long as there may be one."""
        try:
            return super().wait(self._watch(gen), *how, **more)
        finally:
            if self.runs_effects and self.pgconn.transaction_status == TransactionStatus.IDLE:
                self.went_idle = True

    def _watch(self, answer: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass on what arrives. psycopg reports several times a second if nothing does."""
        ready_at = monotonic()
        try:
            wanted = next(answer)
            while True:
                ready = yield wanted
                if ready:
                    ready_at = monotonic()
                elif monotonic() - ready_at > SILENCE and self._mark:
                    self._give_up_unless_at_work()
                    ready_at = monotonic()
                wanted = answer.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value

    def _give_up_unless_at_work(self) -> None:
        asking = f"{self._mark} asks"
        params = {"mark": self._mark, "asking": asking, "silence": SILENCE}
        try:
            with psycopg.connect(autocommit=True, **self._options | {"application_name": asking}) as db:
                at_work = db.execute(STILL_AT_WORK, params).fetchone() == (True,)
        except OperationalError:
            return  # no other connection is possible now: ask again later
        if not at_work:
            super().close()
            raise OperationalError(f"nothing was heard for {SILENCE:.0f} s, and the server does not work for us")


def require_confirmed(db: Connection[tuple[Any, ...]]) -> None:
    """Close the connection and raise OperationalError if its last commit was answered, but is on no standby yet."""
    if isinstance(db, WatchedConnection) and db.unconfirmed:
        db.close()
        raise OperationalError("the server has stopped waiting for its standby, so the last commit is not confirmed")
