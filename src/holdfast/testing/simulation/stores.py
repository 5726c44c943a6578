"""Stores that are watched: there is a point before each transaction and one after it, and what it changed is looked at.

A process that is killed at the point after a transaction never learns that it was committed; so is one that is cut off.
On SQLite a process may also end on both sides of each COMMIT, and what that made durable is looked at: a verb that
commits twice is caught in between.
Each call of a verb that writes is remembered, so that it can be delivered once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from sqlite3 import Connection, Cursor, Error
from typing import Any, NamedTuple, cast

from holdfast.core.moves import Ending
from holdfast.stores.memory import MemoryStore
from holdfast.stores.memory.tables import Tables
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.connection import Connections
from holdfast.stores.sqlite.turnstile import Turnstile
from holdfast.testing.simulation.machine import START, Machine, Process, Thread

LEASE = timedelta(seconds=2.4)
WRITE = (
    "beat",
    "cancel",
    "claim",
    "claim_suspect",
    "commit",
    "enlist",
    "exchange",
    "give_back",
    "pause",
    "prioritise",
    "reclaim",
    "redrive",
    "reject",
    "resume",
    "retire",
    "rewind",
    "rewind_to",
    "submit",
    "surrender",
    "wake",
)
"""The verbs by which documents change."""


class Call(NamedTuple):
    """One call of a verb: who asked, and for what."""

    process: Process
    verb: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    again: Callable[[], Any]
    at: datetime = START
    """What the clock of whoever asked said."""


def ending_of(call: Call, document_id: int, fence: int) -> Ending | None:
    """Gives how a call gives back a document that is held under a fence, if it does."""
    endings = call.arguments[0] if call.verb == "give_back" else ()
    held = (document_id, fence)  # a claim that was lost may be given back beside one that was not
    return next((one for one in endings if (one.claim.document_id, one.claim.fence) == held), None)


class Watch:
    """What is done at transactions: points before and after them, and a look at what they changed."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.look: Callable[[Call | None], None] = lambda _call: None
        self._depth = 0
        self._call: Call | None = None
        self._calls: dict[Thread | None, Call] = {}
        self.enlisted: Callable[[int, Process], None] = lambda _worker, _process: None
        self.reclaimed: Callable[[Call], None] = lambda _call: None
        self.delivered: list[Call] = []
        """Every call that was made, the oldest first."""

    def around(self, verb: str, carry_out: Callable[..., Any]) -> Callable[..., Any]:
        """Gives a verb that is remembered whenever it is called."""

        @wraps(carry_out)
        def called(*arguments: Any, **options: Any) -> Any:
            current = self._machine.current
            if current is None or current in self._calls:
                return carry_out(*arguments, **options)
            current.skew = current.process.skew
            call = Call(current.process, verb, arguments, options, lambda: carry_out(*arguments, **options))
            self.delivered.append(call)
            return self.carry_out(call)

        return called

    def carry_out(self, call: Call) -> Any:
        """Carries out a call, for the first time or once more."""
        current = self._machine.current
        self._calls[current] = call = call._replace(at=self._machine.clock())
        try:
            answer = call.again()
            if call.verb == "enlist":
                self.enlisted(answer.id, call.process)
            if call.verb == "reclaim":
                self.reclaimed(call)
            return answer
        finally:
            del self._calls[current]

    def before(self) -> None:
        """Puts a point before the outermost transaction."""
        if not self._depth:
            self._machine.point("before")
            self._call = self._calls.get(self._machine.current)
        self._machine.require_life()
        self._depth += 1

    def left(self) -> None:
        """Leaves a transaction, whatever came of it."""
        self._depth -= 1

    def before_commit(self) -> None:
        """Lets the process end before what it wrote is durable."""
        self._machine.brink("before")

    def committed(self) -> None:
        """Looks at what became durable, and lets the process end."""
        self.look_at_changes()
        self._machine.brink("after")

    def look_at_changes(self) -> None:
        """Looks at what was changed. A heartbeat changes no document."""
        if self._call is None or self._call.verb != "beat":
            self.look(self._call)

    def after(self) -> None:
        """Puts a point after the outermost transaction."""
        if not self._depth:
            self._machine.point("after")


class _Reading:
    """A look at the tables of a memory store. There are hundreds in a schedule, so it is no generator."""

    __slots__ = ("_tables", "_watch")

    def __init__(self, watch: Watch, tables: Tables) -> None:
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
    """A transaction of a memory store, as its own: kept at the end, taken back on any error."""

    __slots__ = ("_effects", "_tables", "_watch")

    def __init__(self, watch: Watch, tables: Tables, effects: Connection) -> None:
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
            self._tables.take_back()
            with suppress(Error):
                self._effects.execute("rollback")
        self._tables.undo.clear()
        self._watch.left()
        if kind is None:
            self._watch.look_at_changes()
            self._watch.after()


class WatchedMemory(MemoryStore):
    """A memory store that is watched."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(clock=machine.clock)
        self.watch = Watch(machine)
        self._looking = _Reading(self.watch, self._tables)
        self._changing = _Writing(self.watch, self._tables, self._effects)
        _remember_calls(self, self.watch)

    def _reading(self) -> _Reading:  # type: ignore[override]
        return self._looking

    def _writing(self) -> _Writing:  # type: ignore[override]
        return self._changing


class _Committing:
    """A connection of which every COMMIT is watched."""

    __slots__ = ("_connection", "_watch")

    def __init__(self, watch: Watch, connection: Connection) -> None:
        self._watch = watch
        self._connection = connection

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
    """The connections of a SQLite store that is watched."""

    watch: Watch

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

    def _mine(self) -> tuple[Connection, Turnstile]:
        connection, turnstile = super()._mine()
        return cast("Connection", _Committing(self.watch, connection)), turnstile


class WatchedSqlite(SqliteStore):
    """A SQLite store that is watched."""

    def __init__(self, machine: Machine, file: Path) -> None:
        super().__init__(f"sqlite:///{file}?synchronous=normal", clock=machine.clock)
        self._db.close()
        self._db = WatchedConnections(self.url)
        self.watch = self._db.watch = Watch(machine)
        _remember_calls(self, self.watch)


Watched = WatchedMemory | WatchedSqlite


def _remember_calls(store: Store, watch: Watch) -> None:
    for verb in WRITE:
        setattr(store, verb, watch.around(verb, getattr(store, verb)))
