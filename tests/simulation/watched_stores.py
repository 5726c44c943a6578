"""Watched stores: a switch point before and after each transaction, and a check of what it changed.

- A process that is killed or cut off after a transaction never learns that it was committed.
- On SQLite a process may also end on both sides of each COMMIT. The state is checked after each COMMIT, so a verb that
  commits twice is found.
- Each call of a verb that writes is recorded, so that it can be delivered a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from sqlite3 import Connection, Cursor, Error
from typing import Any, NamedTuple, cast

from holdfast.core.moves import Release
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.tables import Tables
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.connection import Connections
from holdfast.stores.sqlite.writer_lock import WriterLock
from tests.simulation.fake_os import START, Machine, SimulatedProcess, SimulatedThread

LEASE = timedelta(seconds=2.4)
WRITE_VERBS = (
    "heartbeat",
    "cancel",
    "claim",
    "claim_probe",
    "close_circuit",
    "commit",
    "end_probe",
    "register_worker",
    "exchange",
    "release",
    "open_circuit",
    "pause",
    "prioritise",
    "reclaim",
    "redrive",
    "reject",
    "resume",
    "retire_worker",
    "rewind",
    "rewind_to",
    "submit",
    "release_unknown",
    "reset_future_times",
    "wake",
    "withdraw",
)
"""The verbs that change documents."""


class Call(NamedTuple):
    """One call of a verb: the caller and the arguments."""

    process: SimulatedProcess
    verb: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    repeat: Callable[[], Any]
    at: datetime = START
    """The time of the call, by the caller's clock."""


def release_of(call: Call, document_id: int, fence: int) -> Release | None:
    """Return the release in a call for a document that is held under a fence, if there is one."""
    releases = call.arguments[0] if call.verb == "release" else ()
    held = (document_id, fence)  # a call may also release claims that were lost
    return next((release for release in releases if (release.claim.document_id, release.claim.fence) == held), None)


class TransactionWatch:
    """Is called around each transaction: makes switch points and checks what changed."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.check: Callable[[Call | None], None] = lambda _call: None
        self._depth = 0
        self._call: Call | None = None
        self._calls: dict[SimulatedThread | None, Call] = {}
        self.on_register: Callable[[int, SimulatedProcess], None] = lambda _worker, _process: None
        self.on_reclaim: Callable[[Call], None] = lambda _call: None
        self.delivered: list[Call] = []
        """Every call so far, oldest first."""

    def recorded(self, verb: str, run_call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the verb with recording of its calls."""

        @wraps(run_call)
        def called(*arguments: Any, **options: Any) -> Any:
            current = self._machine.current
            if current is None or current in self._calls:
                return run_call(*arguments, **options)
            current.skew = current.process.skew
            call = Call(current.process, verb, arguments, options, lambda: run_call(*arguments, **options))
            self.delivered.append(call)
            return self.run_call(call)

        return called

    def run_call(self, call: Call) -> Any:
        """Run a call, for the first or the second time."""
        current = self._machine.current
        self._calls[current] = call = call._replace(at=self._machine.clock())
        try:
            answer = call.repeat()
            if call.verb == "register_worker":
                self.on_register(answer.id, call.process)
            if call.verb == "reclaim":
                self.on_reclaim(call)
            return answer
        finally:
            del self._calls[current]

    def before(self) -> None:
        """Make a switch point before the outermost transaction."""
        if not self._depth:
            self._machine.switch_point("before")
            self._call = self._calls.get(self._machine.current)
        self._machine.raise_if_killed()
        self._depth += 1

    def left(self) -> None:
        """Leave a transaction, committed or not."""
        self._depth -= 1

    def before_commit(self) -> None:
        """Let a fault end the process before the commit."""
        self._machine.commit_point("before")

    def committed(self) -> None:
        """Check what was committed. Then let a fault end the process."""
        self.check_changes()
        self._machine.commit_point("after")

    def check_changes(self) -> None:
        """Check what changed. A heartbeat changes no document."""
        if self._call is None or self._call.verb != "heartbeat":
            self.check(self._call)

    def after(self) -> None:
        """Make a switch point after the outermost transaction."""
        if not self._depth:
            self._machine.switch_point("after")


class _Reading:
    """A read of a memory store. A schedule has hundreds, so this is no generator."""

    __slots__ = ("_tables", "_watch")

    def __init__(self, watch: TransactionWatch, tables: Tables) -> None:
        self._watch = watch
        self._tables = tables

    def __enter__(self) -> Tables:
        self._watch.before()
        return self._tables

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._watch.left()
        if kind is None:
            self._watch.after()


class _Writing:
    """A transaction of a memory store: committed at the end, rolled back on any error."""

    __slots__ = ("_effects", "_tables", "_watch")

    def __init__(self, watch: TransactionWatch, tables: Tables, effects: Connection) -> None:
        self._watch = watch
        self._tables = tables
        self._effects = effects

    def __enter__(self) -> Tables:
        self._watch.before()
        self._effects.execute("begin")
        return self._tables

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._effects.execute("commit")
        else:
            self._tables.roll_back()
            with suppress(Error):
                self._effects.execute("rollback")
        self._tables.undo.clear()
        self._watch.left()
        if kind is None:
            self._watch.check_changes()
            self._watch.after()


class WatchedMemory(MemoryStore):
    """A memory store that is watched."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(clock=machine.clock)
        self.watch = TransactionWatch(machine)
        self._reader = _Reading(self.watch, self._tables)
        self._writer = _Writing(self.watch, self._tables, self._effects)
        _record_calls(self, self.watch)

    def _reading(self) -> _Reading:  # type: ignore[override]
        return self._reader

    def _writing(self) -> _Writing:  # type: ignore[override]
        return self._writer


class _WatchedConnection:
    """A connection that is watched at every COMMIT."""

    __slots__ = ("_connection", "_watch")

    def __init__(self, watch: TransactionWatch, connection: Connection) -> None:
        object.__setattr__(self, "_watch", watch)
        object.__setattr__(self, "_connection", connection)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._connection, name, value)

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        if sql[:6].lower() != "commit":
            return self._connection.execute(sql, parameters)
        self._watch.before_commit()
        cursor = self._connection.execute(sql, parameters)
        self._watch.committed()
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class WatchedConnections(Connections):
    """The connections of a watched SQLite store."""

    watch: TransactionWatch

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        self.watch.before()
        try:
            with super().writing() as connection:
                yield connection
        finally:
            self.watch.left()
        self.watch.after()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        self.watch.before()
        try:
            with super().reading() as connection:
                yield connection
        finally:
            self.watch.left()
        self.watch.after()

    def _mine(self) -> tuple[Connection, WriterLock]:
        connection, lock = super()._mine()
        return cast("Connection", _WatchedConnection(self.watch, connection)), lock


class WatchedSqlite(SqliteStore):
    """A SQLite store that is watched."""

    def __init__(self, machine: Machine, file: Path) -> None:
        super().__init__(f"sqlite:///{file}?synchronous=normal", clock=machine.clock)
        self._db.close()
        self._db = WatchedConnections(self.url)
        self.watch = self._db.watch = TransactionWatch(machine)
        _record_calls(self, self.watch)


WatchedStore = WatchedMemory | WatchedSqlite


def _record_calls(store: Store, watch: TransactionWatch) -> None:
    for verb in WRITE_VERBS:
        setattr(store, verb, watch.recorded(verb, getattr(store, verb)))
