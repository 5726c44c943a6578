"""What user code leaves behind in a connection of Python's sqlite3: open cursors, functions, collations, factories.

An open cursor holds back the next transaction of its connection: SQLite answers that the database is locked. A function
or a collation would replace those of SQLite for our own statements and for other documents. So a connection notes what
user code opens and creates, and closes and removes it when the user code ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakSet

from holdfast.core.errors import BodyError

C = TypeVar("C")

_execute = sqlite3.Connection.execute
"""It is called for every statement, and `super()` would take twice the time."""
BUILT_IN_COLLATIONS = {"binary", "nocase", "rtrim"}


class CleanedConnection(sqlite3.Connection):
    """A connection that removes what user code has left behind."""

    _opened: WeakSet[Any] | None = None
    """Cursors and blobs that user code has opened. None while no user code runs."""
    _removals: list[Callable[[], object]]
    """What removes the functions and collations that user code has created."""

    def note_opened(self) -> None:
        """Begin to note what is opened and created: user code runs."""
        self._opened, self._removals = WeakSet(), []

    def clean(self) -> None:
        """Close and remove what user code has left behind, and go on to note."""
        for opened in list(self._opened or ()):
            with suppress(sqlite3.Error):
                opened.close()
        self.row_factory, self.text_factory = None, str  # as other user code and our own statements need them
        if self._opened:
            self._opened.clear()
        while self._removals:
            self._removals.pop()()

    def forget_opened(self) -> None:
        """Note nothing more: the user code has ended."""
        self._opened = None

    def reset_isolation(self) -> None:
        """Set the isolation level of the driver as it was, outside of a transaction: within one it would commit."""
        if self.isolation_level is not None and not self.in_transaction:
            self.isolation_level = None

    @contextmanager
    def keeping_functions(self) -> Iterator[None]:
        """Keep the functions that are created in a block. They are those of a library, not those of a document."""
        opened, self._opened = self._opened, None
        try:
            yield
        finally:
            self._opened = opened

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        """Return a new cursor."""
        return self._noted(super().cursor(factory))

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement and return its cursor."""
        cursor = _execute(self, sql, parameters)
        if self._opened is not None and cursor.description is not None:  # others are not left open
            self._opened.add(cursor)
        return cursor

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement for each of many parameters."""
        cursor = super().executemany(sql, parameters)
        return self._noted(cursor) if cursor.description is not None else cursor

    def blobopen(self, *where: Any, **more: Any) -> sqlite3.Blob:
        """Open a value to read or write parts of it."""
        return self._noted(super().blobopen(*where, **more))

    def create_function(self, name: str, narg: int, func: Any, *, deterministic: bool = False) -> None:
        """Create a function in SQL. That of user code is removed after it."""
        self._refuse_built_in(name, self._built_in_functions)
        super().create_function(name, narg, func, deterministic=deterministic)
        self._removed_later(lambda: super(CleanedConnection, self).create_function(name, narg, None))

    def create_aggregate(self, name: str, n_arg: int, aggregate_class: Any) -> None:
        """Create an aggregate function in SQL. That of user code is removed after it."""
        self._refuse_built_in(name, self._built_in_functions)
        super().create_aggregate(name, n_arg, aggregate_class)
        self._removed_later(lambda: super(CleanedConnection, self).create_function(name, n_arg, None))

    def create_window_function(self, name: str, num_params: int, aggregate_class: Any, /) -> None:
        """Create a window function in SQL. That of user code is removed after it."""
        self._refuse_built_in(name, self._built_in_functions)
        super().create_window_function(name, num_params, aggregate_class)
        self._removed_later(lambda: super(CleanedConnection, self).create_window_function(name, num_params, None))

    def create_collation(self, name: str, callback: Any, /) -> None:
        """Create a collation. That of user code is removed after it."""
        self._refuse_built_in(name, BUILT_IN_COLLATIONS)
        super().create_collation(name, callback)
        self._removed_later(lambda: super(CleanedConnection, self).create_collation(name, None))

    @cached_property
    def _built_in_functions(self) -> set[str]:
        rows = super().execute("select lower(name) from pragma_function_list where builtin").fetchall()
        return {name for (name,) in rows}

    def _noted(self, opened: C) -> C:
        if self._opened is not None:
            self._opened.add(opened)
        return opened

    def _removed_later(self, remove: Callable[[], object]) -> None:
        if self._opened is not None:
            self._removals.append(remove)

    def _refuse_built_in(self, name: str, built_in: set[str]) -> None:
        if self._opened is not None and name.lower() in built_in:
            raise BodyError(
                f"user code tried to replace {name!r} of SQLite, which was refused: others use the same connection. "
                "Give your own function another name"
            )
