"""Documents from command-line arguments: files, folders, globs, URLs, lines on stdin. They are read one at a time."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.context import CliError
from holdfast.cli.pipeline_loader import LoadedPipeline, is_file, is_folder, user_code_errors
from holdfast.cli.shown_keys import shown_key
from holdfast.cli.system_limits import refused_by_system
from holdfast.core.model import NewDocument
from holdfast.engine.file_documents import Submittable, documents_of_url, names_file
from holdfast.sources import SourceFile, canonical_key, canonical_path, is_url, parse_source, stat_file
from holdfast.stores import files_of

CACHE_FOLDER = "__pycache__"


class _StdinDocument(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    payload: Any = None
    fingerprint: str = ""


_decode_line = msgspec.json.Decoder(_StdinDocument).decode


class LinkRule:
    """Which links in folders are followed: those to files inside the folder, or all links to files.

    Attributes:
        skipped: How many links were skipped, because they lead outside of their folder.
    """

    def __init__(self, *, follow: bool = False) -> None:
        self._follow = follow
        self._folders: dict[str, Path] = {}
        self._first = ""
        self.skipped = 0

    def allows(self, path: str, folder: str) -> bool:
        """Return True if a file belongs to a folder, also if there are links on the way to it."""
        if folder not in self._folders:
            self._folders[folder] = Path(folder).resolve()
        if self._follow or Path(path).resolve().is_relative_to(self._folders[folder]):
            return True
        self.skipped += 1
        self._first = self._first or path
        return False

    @property
    def message(self) -> str:
        """What was skipped, and how to submit it. Empty if nothing was."""
        if not self.skipped:
            return ""
        links = "1 link that leads" if self.skipped == 1 else f"{self.skipped:,} links that lead"
        example = shown_key(self._first)
        return f"skipped {links} outside of the folder, such as {example}; --follow-symlinks submits such files too"


def documents_from_args(
    args: Sequence[str], *, skip: Sequence[Path] = (), links: LinkRule | None = None, allow_private: bool = False
) -> Iterator[Submittable]:
    """Yield the documents that the arguments name. Raise CliError first if one of them names nothing.

    A file that several arguments name is yielded once.

    Args:
        args: Paths, globs and URLs. A dash stands for the lines of stdin.
        skip: Files that are not documents.
        links: Which links in folders are followed.
        allow_private: Also ask servers in private networks about URLs.
    """
    for arg in args:
        _require_match(arg)
    skipped = frozenset(map(canonical_path, map(str, skip)))
    found = _walk(args, skipped, links or LinkRule(), allow_private=allow_private)
    return _once(found) if len(args) > 1 else found


def documents_from_pipeline(loaded: LoadedPipeline) -> Iterator[Submittable]:
    """Yield the documents that `documents()` of the pipeline's file yields."""
    assert loaded.documents is not None
    with user_code_errors(f"documents() of {loaded.spec} failed", "correct it and run the command again"):
        yield from loaded.documents()


def files_to_skip(url: str, loaded: LoadedPipeline) -> list[Path]:
    """Return the files that are never documents: those of the store, and the pipeline's file."""
    return [*files_of(url), loaded.file] if loaded.file else files_of(url)


def _require_match(arg: str) -> None:
    if arg == "-" or names_file(_without_file_scheme(arg)):
        return
    if is_url(arg):
        parse_source(arg)
        return
    if not glob.has_magic(arg):
        raise CliError(f"there is no file or folder {arg}; check the path, or give keys on stdin with -")
    if not any(os.path.isfile(match) for match in glob.iglob(arg, recursive=True)):  # noqa: PTH113, PTH207
        raise CliError(f"no file matches {arg}")


def _walk(args: Sequence[str], skip: frozenset[str], links: LinkRule, *, allow_private: bool) -> Iterator[Submittable]:
    for arg in map(_without_file_scheme, args):
        if arg == "-":
            yield from _documents_from_stdin(allow_private=allow_private)
        elif names_file(arg):
            path = canonical_path(arg)
            found = _files_below(path, path, links) if is_folder(path) else [_stat(path)]
            yield from (seen for seen in found if seen.key not in skip or seen.key == path)
        elif is_url(arg):
            yield from documents_of_url(arg, allow_private=allow_private)
        else:
            matches = sorted(match for match in glob.iglob(arg, recursive=True) if is_file(match))  # noqa: PTH207
            root = _fixed_part(arg)
            yield from (_stat(canonical_path(match)) for match in matches if links.allows(match, root))


def _once(documents: Iterator[Submittable]) -> Iterator[Submittable]:
    """Leave out files that came before. Keys that are named twice stay: their payloads may differ."""
    seen: set[str] = set()
    for document in documents:
        if isinstance(document, SourceFile):
            if document.key in seen:
                continue
            seen.add(document.key)
        yield document


def _without_file_scheme(arg: str) -> str:
    """Return the path of a `file:` URL, and anything else as it is."""
    return canonical_key(arg) if is_url(arg) and arg[:5].lower() == "file:" else arg


def _fixed_part(pattern: str) -> str:
    """Return the folder before the first wildcard of a glob."""
    fixed = Path(pattern)
    while glob.has_magic(str(fixed)):
        fixed = fixed.parent
    return str(fixed)


def _files_below(folder: str, root: str, links: LinkRule) -> Iterator[SourceFile]:
    """Yield the files in a folder and below, sorted. Hidden files and links to folders are skipped."""
    try:
        with os.scandir(folder) as entries:
            wanted = sorted((entry for entry in entries if _is_wanted(entry)), key=lambda entry: entry.name)
    except OSError as error:
        if refused_by_system(error):
            raise
        raise CliError(f"the folder {folder} cannot be read: {error.strerror}; nothing of it was submitted") from error
    for entry in wanted:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path, root, links)
        elif entry.is_file(follow_symlinks=False) or (_is_link_to_file(entry) and links.allows(entry.path, root)):
            yield _stat(Path(entry.path).as_posix() if os.sep != "/" else entry.path)


def _is_link_to_file(entry: os.DirEntry[str]) -> bool:
    """Return True for a link to a file. A link that leads to itself or nowhere is none."""
    return entry.is_symlink() and os.path.isfile(entry.path)  # noqa: PTH113 - entry.is_file() raises for such a link


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.name != CACHE_FOLDER


def _stat(path: str) -> SourceFile:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise CliError(f"the name of the file {os.fsencode(path)!r} is not UTF-8, so it cannot be a key") from error
    return stat_file(path)


def _documents_from_stdin(*, allow_private: bool) -> Iterator[Submittable]:
    for number, raw in enumerate(sys.stdin, 1):
        line = raw.strip()
        if line.startswith("{"):
            yield _from_json(number, line)
        elif line and names_file(line):
            yield _stat(canonical_key(line))
        elif is_url(line):
            yield from documents_of_url(line, allow_private=allow_private)
        elif line:
            yield NewDocument(line, {"path": line})


def _from_json(number: int, line: str) -> NewDocument:
    try:
        document = _decode_line(line)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CliError(
            f'line {number} of stdin is not {{"key": "...", "payload": ...}}: {error}. The lines before it '
            "are submitted; correct this one and submit all of them again"
        ) from error
    if not document.key:
        raise CliError(f"line {number} of stdin has an empty key; give every document a key")
    return NewDocument(document.key, document.payload, document.fingerprint)


def is_source(arg: str) -> bool:
    """Return True if an argument names a source to ingest, not a pipeline."""
    if "://" in arg or arg.startswith("file:"):
        return True
    return is_folder(arg) or (not arg.endswith(".py") and (is_file(arg) or glob.has_magic(arg)))
