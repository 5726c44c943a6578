"""Printing: all output goes through here, and control characters in it are replaced.

Keys, reasons, names and values can come from anyone who names a file, makes a capsule or runs a service. Without this,
they could contain escape sequences that the terminal would execute.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import IO, Any

import click
import msgspec

from holdfast.cli.guarded_output import stop_if_lost
from holdfast.core.formatting import CONTROL_CHARS, escape_control_chars, printable

STOP_WHEN_LOST: ContextVar[bool] = ContextVar("STOP_WHEN_LOST", default=False)
"""Set for commands that only print: they end when nobody can read what they print."""

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
