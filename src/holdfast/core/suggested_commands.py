"""Commands that messages suggest. A person can paste them into a shell, whatever the names of documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from holdfast.core.formatting import CONTROL_CHARS

PIPELINE_FILE = "PIPELINE.py"
"""Stands for the file of a pipeline. A store does not know it."""

REASON_ARGS = ("--reason", "...")
"""The option for a reason, to be filled in by the person."""


def command_args(verb: Sequence[str], *names: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words of a command. If a name looks like an option, names come last, after `--`."""
    if any(name.startswith("-") for name in names):
        return (*verb, *options, "--", *names)
    return (*verb, *names, *options)


def format_command(words: Sequence[str], *, store: Sequence[str] = (), program: str = "holdfast") -> str:
    """Return a command as typed in a shell. The options of the store come before a `--`."""
    end = words.index("--") if "--" in words else len(words)
    return " ".join(map(_typed, [program, *words[:end], *store, *words[end:]]))


def _typed(word: str) -> str:
    """Quote a word for a shell. Control characters are escaped, as in $'a\\x1bb'."""
    if not CONTROL_CHARS.search(word):
        return shlex.quote(word)
    spelled = CONTROL_CHARS.sub(_spelled, word.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{spelled}'"


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
