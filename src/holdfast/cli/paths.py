"""Words that may name files or folders. One that cannot name any, because it is too long for that, names none."""

from __future__ import annotations

import os
from pathlib import Path


def is_folder(word: str | Path) -> bool:
    """Answers whether a word names a folder; pathlib would raise over some words."""
    return os.path.isdir(word)  # noqa: PTH112


def is_file(word: str | Path) -> bool:
    """Answers whether a word names a file."""
    return os.path.isfile(word)  # noqa: PTH113
