"""A connection that does not wait for ever for an answer that will never come.

A network that is gone is noticed by TCP. But something between us and the server, such as a pooler or a balancer, may
keep our side of a connection open after the server's is gone, and acknowledge everything. Whoever hears nothing for a
while therefore asks by another way what the server is doing for this connection. If it waits for us as we wait for it,
or knows nothing of us, the connection is given up as lost; if it works, or waits for a lock, we wait on.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, OperationalError

T = TypeVar("T")

SILENCE = 30.0
"""After how many seconds without a word to ask."""

STILL_AT_WORK = """
select coalesce(bool_or(application_name = %(mark)s
                        and (coalesce(state, '') not like 'idle%%'
                             or state_change > now() - %(silence)s * interval '1 second')), false)
    or not coalesce(bool_or(application_name = %(asking)s and pid = pg_backend_pid()), false)
  from pg_stat_activity
"""
"""True also where marks do not come through, as behind a pooler that hides them: then nothing can be known."""


class Listening(Connection[tuple[Any, ...]]):
    """A connection that is given up when the server is not at work for it any more, and nothing was heard."""

    _mark = ""
    _options: dict[str, Any] = {}

    @classmethod
    def connected(cls, options: dict[str, Any]) -> Listening:
        """Connects. The application_name is the mark by which the server knows the connection."""
        try:
            db = cls.connect(autocommit=True, prepare_threshold=None, **options)
        except UnicodeError as error:  # of a host's name, before anybody is asked for its address
            raise OperationalError(f"no host can be called {options.get('host')!r}") from error
        db._mark, db._options = options["application_name"], options
        return db

    def wait(self, gen: Generator[Any, Any, T], *how: Any, **more: Any) -> T:
        """Waits for an answer, for as long as there may be one."""
        return super().wait(self._patiently(gen), *how, **more)

    def _patiently(self, answer: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Passes on what is heard; psycopg says several times a second when that is nothing."""
        heard_at = monotonic()
        try:
            wanted = next(answer)
            while True:
                heard = yield wanted
                if heard:
                    heard_at = monotonic()
                elif monotonic() - heard_at > SILENCE and self._mark:
                    self._give_up_unless_at_work()
                    heard_at = monotonic()
                wanted = answer.send(heard)
        except StopIteration as end:
            given: T = end.value
            return given

    def _give_up_unless_at_work(self) -> None:
        asking = f"{self._mark} asks"
        asked = {"mark": self._mark, "asking": asking, "silence": SILENCE}
        try:
            with psycopg.connect(autocommit=True, **self._options | {"application_name": asking}) as db:
                at_work = db.execute(STILL_AT_WORK, asked).fetchone() == (True,)
        except OperationalError:
            return  # there is no other way now: we ask again later
        if not at_work:
            self.close()
            raise OperationalError(f"nothing was heard for {SILENCE:.0f} s, and the server does not work for us")
