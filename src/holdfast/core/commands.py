"""Commands as they are advised: a person can paste them, whatever documents and batches are called."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

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
    return shlex.join(["holdfast", *words[:end], *store, *words[end:]])
