"""Keys as people read and type them: a file below the current folder by its path from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

from holdfast.sources import SourceRefused, canonical_key, is_url


def shown_key(key: str) -> str:
    """Return a key for a person. The key of a file below the current folder is its path from there."""
    folder = _current_folder()
    short = key.removeprefix(folder) if folder else key
    return key if short.startswith(("-", "~")) or not short or is_url(short) else short


def shown_place(batch: str, key: str) -> str:
    """Return a batch and a key for a person."""
    shown = shown_key(key)
    return f"{batch} {shown}" if shown.startswith("/") else f"{batch}/{shown}"


def possible_keys(typed: str) -> Iterator[str]:
    """Yield the keys that a person may mean: the text itself, then the file or URL that it names."""
    yield typed
    yield PurePath(typed).as_posix()
    try:
        yield canonical_key(typed)
    except (SourceRefused, OSError, ValueError):  # a URL that cannot be read, or no folder to start from
        return


def path_pattern(typed: str) -> str:
    """Return a pattern of the keys of files that a relative pattern of paths means."""
    return os.path.normpath(_current_folder() + typed) if _current_folder() else typed


def _current_folder() -> str:
    try:
        folder = Path(os.path.realpath(Path.cwd())).as_posix()
    except OSError:  # it was removed
        return ""
    return f"{folder.rstrip('/')}/"
