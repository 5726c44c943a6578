"""Commands as they are advised: a person can paste them, whatever documents and batches are called."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from holdfast.core.words import OBEYED

FILE = "PIPELINE.py"
"""Stands for the file of a pipeline, which a store does not know."""

WHY = ("--reason", "...")
"""The place for a reason."""


def about(verb: Sequence[str], *names: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Gives the words of a command about what is named. A name that looks like an option comes last, after `--`."""
    if any(name.startswith("-") for name in names):
        return (*verb, *options, "--", *names)
    return (*verb, *names, *options)


def pasteable(words: Sequence[str], *, store: Sequence[str] = ()) -> str:
    """Gives a command as it is typed, with the options that name the store before a `--`."""
    end = words.index("--") if "--" in words else len(words)
    return " ".join(map(_typed, ["holdfast", *words[:end], *store, *words[end:]]))


def _typed(word: str) -> str:
    """Gives a word as shells take it; what a terminal would obey is spelled, as in $'a\\x1bb'."""
    if not OBEYED.search(word):
        return shlex.quote(word)
    spelled = OBEYED.sub(_spelled, word.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{spelled}'"


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
