"""The documents that a person names: files, folders, globs, or lines on stdin. Walked, never held."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.asked import Trouble
from holdfast.cli.paths import is_file, is_folder
from holdfast.cli.pipelines import Loaded, telling_their_errors
from holdfast.core.model import NewDocument
from holdfast.engine.api import Submittable, file_mark
from holdfast.stores import files_of

CACHE = "__pycache__"


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    payload: Any = None


_decode_line = msgspec.json.Decoder(_Line).decode


def named(words: Sequence[str], *, leaving_out: Sequence[Path] = ()) -> Iterator[Submittable]:
    """Walks the documents that the words name. Words that name nothing are refused before the first is given."""
    for word in words:
        _refuse_nothing(word)
    return _walk(words, frozenset(map(os.path.abspath, leaving_out)))


def offered(loaded: Loaded) -> Iterator[Submittable]:
    """Walks the documents that the pipeline's own file offers."""
    assert loaded.documents is not None
    with telling_their_errors(f"documents() of {loaded.spec} failed", "mend it and run the command again"):
        yield from loaded.documents()


def own_files(url: str, loaded: Loaded) -> list[Path]:
    """Gives the files that are never documents: the store's own, and the pipeline's."""
    return [*files_of(url), loaded.file] if loaded.file else files_of(url)


def _refuse_nothing(word: str) -> None:
    if word == "-" or os.path.lexists(word):
        return
    if not glob.has_magic(word):
        raise Trouble(f"there is no file or folder {word}; check the path, or give keys on stdin with -")
    if not any(os.path.isfile(match) for match in glob.iglob(word, recursive=True)):  # noqa: PTH113, PTH207
        raise Trouble(f"no file matches {word}")


def _walk(words: Sequence[str], leaving_out: frozenset[str]) -> Iterator[Submittable]:
    for word in words:
        if word == "-":
            yield from _lines()
        elif os.path.isdir(word):  # noqa: PTH112
            own = {os.path.basename(path) for path in leaving_out}  # noqa: PTH119
            for path in _files_below(word):
                if os.path.basename(path) not in own or os.path.abspath(path) not in leaving_out:  # noqa: PTH100, PTH119
                    yield _file(path)
        elif os.path.lexists(word):
            yield _file(word)
        else:
            matches = sorted(match for match in glob.iglob(word, recursive=True) if os.path.isfile(match))  # noqa: PTH113, PTH207
            yield from map(_file, matches)


def _files_below(folder: str) -> Iterator[str]:
    """Walks a folder in order, one folder's names in memory at a time. Hidden names and links to folders are left."""
    try:
        with os.scandir(folder) as entries:
            here = sorted((entry for entry in entries if _is_wanted(entry)), key=lambda entry: entry.name)
    except OSError as error:
        raise Trouble(f"the folder {folder} cannot be read: {error.strerror}; nothing of it was submitted") from error
    for entry in here:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        elif entry.is_file():
            yield entry.path


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.name != CACHE


def _file(path: str) -> NewDocument:
    key = Path(path).as_posix()
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise Trouble(f"the name of the file {os.fsencode(path)!r} is not UTF-8, so it cannot be a key") from error
    return NewDocument(key, {"path": key}, file_mark(key))


def _lines() -> Iterator[Submittable]:
    for number, raw in enumerate(sys.stdin, 1):
        line = raw.strip()
        if line.startswith("{"):
            yield _from_json(number, line)
        elif line:
            yield _file(line) if os.path.lexists(line) else NewDocument(line, {"path": line})


def _from_json(number: int, line: str) -> tuple[str, Any]:
    try:
        said = _decode_line(line)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Trouble(
            f'line {number} of stdin is not {{"key": "...", "payload": ...}}: {error}. What came before it is '
            "submitted; mend the line and submit all again"
        ) from error
    if not said.key:
        raise Trouble(f"line {number} of stdin has an empty key; every document needs its own")
    return said.key, said.payload


def is_source(word: str) -> bool:
    """Answers whether a word names something to ingest rather than a pipeline."""
    if "://" in word or word.startswith("file:"):
        return True
    return is_folder(word) or (not word.endswith(".py") and (is_file(word) or glob.has_magic(word)))
