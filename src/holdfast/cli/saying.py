"""The one door to the terminal. Nothing that a terminal would obey goes out by it, wherever the words came from.

Keys, reasons, names and values were written by anybody: by whoever named a file, packed a capsule, or runs a service.
"""

from __future__ import annotations

import os
import re
from typing import IO, Any

import click
import msgspec

from holdfast.core.words import OBEYED, harmless, spelled

_OURS = f"\x1b{os.urandom(8).hex()}"
"""What our own styles begin with until they are out of the door. Nobody who wrote into a store can know it."""
_LINE = re.compile(f"{_OURS}([^m]*m)|{OBEYED.pattern}")
_LINES = re.compile(f"{_OURS}([^m]*m)|([\n\t])|{OBEYED.pattern}")


def say(words: object = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Says one line to a person: what would end it is replaced, too. With a style, as `click.style` has it."""
    text = styled(str(words), **style) if style else str(words)
    _out(_LINE.sub(_let_out, text), err=err, nl=nl)


def say_lines(words: object, *, err: bool = False, nl: bool = True) -> None:
    """Says several lines to a person."""
    _out(_LINES.sub(_let_out, str(words)), err=err, nl=nl)


def tell(facts: object, *, file: IO[Any] | None = None) -> None:
    """Tells a program something: JSON on one line, in which even a terminal finds nothing to obey."""
    written = msgspec.json.encode(facts).decode()
    _out(spelled(written), file=file)


def styled(text: str, **style: Any) -> str:
    """Gives text that looks as `click.style` has it, when it is said."""
    return click.style(harmless(text), **style).replace("\x1b", _OURS)  # noqa: TID251 - this is the door


def plain_lines(text: str) -> str:
    """Gives lines in which all that a terminal would obey is replaced."""
    return _LINES.sub(lambda found: found[2] or "\ufffd", text)


def _let_out(found: re.Match[str]) -> str:
    ours, *more = found.groups()
    return f"\x1b{ours}" if ours else next(filter(None, more), "\ufffd")


def _out(text: str, *, file: IO[Any] | None = None, err: bool = False, nl: bool = True) -> None:
    click.echo(text, file=file, err=err, nl=nl)  # noqa: TID251 - this is the door
