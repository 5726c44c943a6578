"""The second Ctrl-C ends at once, even while the main thread waits in the database, where Python hears no signal."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

from holdfast.cli.asked import INTERRUPTED, Asked
from holdfast.cli.saying import say, say_lines
from holdfast.core.errors import StoreError
from holdfast.core.model import Worker
from holdfast.engine.events import Enlisted, Event
from holdfast.stores.protocol import Store

PATIENCE_TO_RETIRE = 0.5
"""Seconds in which a worker may let go of its documents. Who holds the write lock may hold it for long."""
PATIENCE_TO_END = 1.0
"""Seconds after the second signal; then the process ends, wherever its threads are."""
STILL_HELD = (
    "The store is busy, so the documents held here could not be given back: as after a crash, the next worker on this "
    "machine takes them over at once, and those elsewhere when the lease ends."
)
OVER = b"\0"
"""No signal has this number. The end of the pipe would not do: a forked child may keep it open."""
SHOW_CURSOR = "\x1b[?25h"


class Roster:
    """Remembers who works here, so that a second Ctrl-C can let go of what it holds: it is no crash."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Enlisted):
            self._workers.append(event.worker)

    def leave(self, store: Store) -> bool:
        """Lets go of everything. Answers False when the store did not let it in time."""
        gone = threading.Event()
        threading.Thread(target=self._retire, args=(store, gone), name="holdfast-retire", daemon=True).start()
        return gone.wait(PATIENCE_TO_RETIRE)

    def _retire(self, store: Store, gone: threading.Event) -> None:
        with suppress(StoreError):
            for worker in self._workers:
                store.retire(worker)
            gone.set()


def say_how_to_go_on(asked: Asked) -> None:
    """Says that it was stopped at once, and which command goes on."""
    say_lines(f"Stopped at once; what was committed is saved. Go on with:\n  {asked.same_command('run')}", err=True)


def end_at_once(asked: Asked) -> NoReturn:
    """Ends the process wherever its threads are, and says what becomes of the documents that it holds."""
    try:
        if sys.stdout.isatty():
            click.echo(SHOW_CURSOR, nl=False)  # noqa: TID251 - the display may have had no time to
        say(STILL_HELD, err=True)
        say_how_to_go_on(asked)
        sys.stdout.flush()
    finally:
        os._exit(INTERRUPTED)


@contextmanager
def ending_at_once(asked: Asked) -> Iterator[None]:
    """Ends the process soon after a second signal, if it did not end by itself. Signals are counted by a thread."""
    if threading.current_thread() is not threading.main_thread():
        yield  # as with signals themselves
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_hear_nothing)
    threading.Thread(target=_listen, args=(asked, heard), name="holdfast-at-once", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        raise  # what closes after this may take long too: the thread listens on
    except BaseException:
        _stop_listening(told, before)
        raise
    _stop_listening(told, before)


def _listen(asked: Asked, heard: int) -> None:
    signals = 0
    while (number := os.read(heard, 1)) != OVER:
        signals += number[0] in (signal.SIGINT, signal.SIGTERM)
        if signals == 2:
            if not _is_over_soon(heard):
                end_at_once(asked)
            break
    os.close(heard)


def _is_over_soon(heard: int) -> bool:
    """Answers whether the work came to its end after all. A third signal does not wait for that."""
    news, _, _ = select.select([heard], [], [], PATIENCE_TO_END)
    return bool(news) and os.read(heard, 1) == OVER


def _stop_listening(told: int, before: int) -> None:
    signal.set_wakeup_fd(before)
    os.write(told, OVER)
    os.close(told)


def _hear_nothing() -> None:
    """A terminal sends Ctrl-C to forked children too; they must not be counted as a second one."""
    signal.set_wakeup_fd(-1)
