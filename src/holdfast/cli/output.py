"""Printing: all output goes through here. Control characters are replaced, and output may be lost (`| head`).

Keys, reasons, names and values can come from anyone who names a file, makes a capsule or runs a service. Without this,
they could contain escape sequences that the terminal would execute.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import IO, Any, TypeVar

import click
import msgspec

from holdfast.cli.exit_codes import OK, OUTPUT_CLOSED, SYSTEM_ERROR
from holdfast.core.formatting import CONTROL_CHARS, escape_control_chars, printable

Command = TypeVar("Command", bound=Callable[..., Any])

STDOUT, STDERR = 1, 2


class OutputLost(BaseException):
    """A command that only prints cannot print any more. Not an Exception: no handler of an error may catch it."""


class _GuardedFile(io.RawIOBase):
    """The descriptor of stdout or stderr. After the first error, all that is written is thrown away.

    Attributes:
        error: The first error, or None.
    """

    def __init__(self, descriptor: int, *, is_closed: bool) -> None:
        self._descriptor = descriptor
        self._is_closed = is_closed
        self.error: OSError | None = None

    def write(self, data: io.ReadableBuffer, /) -> int:  # type: ignore[name-defined]
        size = len(memoryview(data).cast("B"))
        if self.error is None:
            try:
                return self._write(data)
            except OSError as error:
                self.error = error
        return size

    def _write(self, data: bytes) -> int:
        if self._is_closed:
            raise OSError(errno.EBADF, "it is closed")
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # another program made the pipe non-blocking, and its reader is slow
                select.select([], [self._descriptor], [])

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return not self._is_closed and os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True


class GuardedStream(io.TextIOWrapper):
    """A text stream whose writes never raise because of the file under it."""

    @property
    def lost(self) -> OSError | None:
        """The error after which nothing was written any more, or None."""
        file = self.buffer.raw  # type: ignore[attr-defined]
        assert isinstance(file, _GuardedFile)
        return file.error


def guard_output() -> GuardedStream:
    """Replace stdout and stderr by guarded streams. Return stdout.

    Descriptors 0 to 2 that are closed are opened to nothing. Otherwise a database or a lock would get one of these
    numbers, and what a library prints would be written into it.
    """
    closed = [number for number in (0, STDOUT, STDERR) if _is_closed(number)]
    for _ in closed:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - it takes the lowest free number
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the rest of the process
    stdout = _guarded(sys.stdout, STDOUT, is_closed=STDOUT in closed)
    sys.stderr = _guarded(sys.stderr, STDERR, is_closed=STDERR in closed)
    sys.stdout = stdout
    return stdout


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def _guarded(stream: Any, descriptor: int, *, is_closed: bool) -> GuardedStream:
    raw = _GuardedFile(descriptor, is_closed=is_closed)
    errors = "backslashreplace" if descriptor == STDERR else "strict"
    return GuardedStream(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream else "utf-8",
        errors=stream.errors if stream else errors,
        line_buffering=raw.isatty() or descriptor == STDERR,
        write_through=stream.write_through if stream else False,
    )


def stop_if_lost() -> None:
    """Raise OutputLost if stdout cannot be written any more."""
    if getattr(sys.stdout, "lost", None) is not None:
        raise OutputLost


def final_exit_code(stdout: GuardedStream, code: int) -> int:
    """Write what is left of the output, and return the exit code of the process.

    Args:
        stdout: The guarded stdout.
        code: The exit code of the command. If it is not 0, it stays.

    Returns:
        The code, or the one that says that output was lost. A sentence on stderr says why.
    """
    stdout.flush()
    sys.stderr.flush()
    if stdout.lost is None or code != OK:
        return code
    if stdout.lost.errno == errno.EPIPE:  # the reader has seen enough, as with `| head`
        return OUTPUT_CLOSED
    sys.stderr.write(
        f"Error: stdout cannot be written: {stdout.lost.strerror}. The command has ended and its work is saved, but "
        "the rest of its output is lost. Use > /dev/null if you do not need it\n"
    )
    sys.stderr.flush()
    return SYSTEM_ERROR


STOP_WHEN_LOST: ContextVar[bool] = ContextVar("STOP_WHEN_LOST", default=False)
"""Set for commands that only print: they end when nobody can read what they print."""


def only_prints(command: Command) -> Command:
    """Mark a command that changes nothing: it ends when stdout is lost. The others finish their work first."""
    command.only_prints = True  # type: ignore[attr-defined]
    return command


_STYLE_PREFIX = f"\x1b{os.urandom(8).hex()}"
"""Marks our own styles until they are printed. It is random, so that no text in a store can contain it."""
_IN_LINE = re.compile(f"{_STYLE_PREFIX}([^m]*m)|{CONTROL_CHARS.pattern}")
_IN_LINES = re.compile(f"{_STYLE_PREFIX}([^m]*m)|([\n\t])|{CONTROL_CHARS.pattern}")


def print_line(text: object = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print one line. Line breaks in the text are replaced. `style` is that of `click.style`."""
    line = styled(str(text), **style) if style else str(text)
    _print(_IN_LINE.sub(_replace, line), err=err, nl=nl)


def print_lines(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print text of several lines."""
    _print(_IN_LINES.sub(_replace, str(text)), err=err, nl=nl)


def print_json(value: object, *, file: IO[Any] | None = None) -> None:
    """Print a value as JSON on one line, with control characters escaped."""
    text = msgspec.json.encode(value).decode()
    _print(escape_control_chars(text), file=file)


def styled(text: str, **style: Any) -> str:
    """Return text with a style as in `click.style`, for the functions above."""
    return click.style(printable(text), **style).replace("\x1b", _STYLE_PREFIX)  # noqa: TID251 - the one place for it


def plain_lines(text: str) -> str:
    """Return lines in which control characters are replaced."""
    return _IN_LINES.sub(lambda match: match[2] or "\ufffd", text)


def _replace(match: re.Match[str]) -> str:
    style, *kept = match.groups()
    return f"\x1b{style}" if style else next(filter(None, kept), "\ufffd")


def _print(text: str, *, file: IO[Any] | None = None, err: bool = False, nl: bool = True) -> None:
    click.echo(text, file=file, err=err, nl=nl)  # noqa: TID251 - the one place for it
    if STOP_WHEN_LOST.get():
        stop_if_lost()
