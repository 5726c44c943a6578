"""Ctrl-C: the second one ends the process at once, even while the main thread waits in a call to the database.

Python runs signal handlers only in the main thread and only between bytecodes, so a thread reads the signals from a
pipe (`signal.set_wakeup_fd`).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

import click

from holdfast.cli.context import CliContext
from holdfast.cli.exit_codes import INTERRUPTED
from holdfast.cli.output import print_line, print_lines
from holdfast.core.errors import StoreError
from holdfast.core.model import WorkerRecord
from holdfast.observe.events import Event, WorkerStarted
from holdfast.stores.protocol import Store

Command = TypeVar("Command", bound=Callable[..., Any])

RETIRE_SECONDS = 0.5
"""How long a worker may take to give its documents back. Another process may hold the write lock for long."""
EXIT_SECONDS = 1.0
"""How long after the second signal the process is ended, whatever its threads do."""
NOT_GIVEN_BACK = (
    "The store is busy, so the documents of this worker could not be given back. As after a crash, the next worker on "
    "this machine takes them over at once, and workers on other machines when the lease ends."
)
NO_MORE_SIGNALS = b"\0"
"""Ends the thread that reads the pipe. No signal has number 0. A forked child may keep the pipe open, so closing it
would not work."""
SHOW_CURSOR = "\x1b[?25h"


class StartedWorkers:
    """A listener that collects the workers of this process, so that a second Ctrl-C can give their documents back."""

    def __init__(self) -> None:
        self._workers: list[WorkerRecord] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            self._workers.append(event.worker)

    def retire(self, store: Store) -> bool:
        """Give all documents back. Return False if the store did not answer in time."""
        done = threading.Event()
        threading.Thread(target=self._retire, args=(store, done), name="holdfast-retire", daemon=True).start()
        return done.wait(RETIRE_SECONDS)

    def _retire(self, store: Store, done: threading.Event) -> None:
        with suppress(StoreError):
            for worker in self._workers:
                store.retire_worker(worker)
            done.set()


def print_resume_command(cli: CliContext) -> None:
    """Print that the command was stopped at once, and which command continues."""
    print_lines(f"Stopped at once; what was committed is saved. Continue with:\n  {cli.same_command('run')}", err=True)


def exit_now(cli: CliContext) -> NoReturn:
    """End the process at once, and print what happens to the documents that it holds."""
    try:
        if sys.stdout.isatty():
            click.echo(SHOW_CURSOR, nl=False)  # noqa: TID251 - the display may have had no time to do it
        print_line(NOT_GIVEN_BACK, err=True)
        print_resume_command(cli)
        sys.stdout.flush()
    finally:
        os._exit(INTERRUPTED)


@contextmanager
def exit_on_second_signal(cli: CliContext) -> Iterator[None]:
    """End the process soon after a second signal, if it does not end by itself. A thread counts the signals."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    writer_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_ignore_signals)
    threading.Thread(target=_count_signals, args=(cli, reader), name="holdfast-signals", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        raise  # closing may take long too, so the thread goes on counting
    except BaseException:  # re-raised; the thread must stop after any error
        _stop_counting(writer, writer_before)
        raise
    _stop_counting(writer, writer_before)


def _count_signals(cli: CliContext, reader: int) -> None:
    signals = 0
    while (number := os.read(reader, 1)) != NO_MORE_SIGNALS:
        signals += number[0] in (signal.SIGINT, signal.SIGTERM)
        if signals == 2:
            if not _ends_soon(reader):
                exit_now(cli)
            break
    os.close(reader)


def _ends_soon(reader: int) -> bool:
    """Return True if the work ends by itself in time. A third signal does not wait for that."""
    readable, _, _ = select.select([reader], [], [], EXIT_SECONDS)
    return bool(readable) and os.read(reader, 1) == NO_MORE_SIGNALS


def _stop_counting(writer: int, writer_before: int) -> None:
    signal.set_wakeup_fd(writer_before)
    os.write(writer, NO_MORE_SIGNALS)
    os.close(writer)


def _ignore_signals() -> None:
    """Count no signals of a forked child. A terminal sends Ctrl-C to it too, which is not a second Ctrl-C."""
    signal.set_wakeup_fd(-1)


def resumable(command: Command) -> Command:
    """Mark a command that continues when it is run again: after Ctrl-C, the command to run is printed."""
    command.resumable = True  # type: ignore[attr-defined]
    return command
