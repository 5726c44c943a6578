"""Folders of this machine, looked through quickly: names and numbers only, no objects for paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from stat import S_ISREG

from holdfast.pipelines.rag.sources.ignoring import Ignoring
from holdfast.pipelines.rag.sources.source import Missed, Seen, SourceRefused

Report = Callable[[Missed], None]

_by_name = attrgetter("name")


def walk(root: str, ignoring: Ignoring, *, report: Report, depth: int | None = None) -> Iterator[Seen]:
    """Gives the files below a folder, those of a folder before those of its subfolders, both by name.

    One folder's names are in memory at a time. Links to files are followed, links to folders are not: what they lead
    to is found where it is, and no loop is entered. `depth` says how many folders deep to look, 1 being the root's
    own files. What cannot be read is reported, and the walk goes on; only a root that cannot be read is refused.
    """
    folders = [(root, "", 1)]
    hides = ignoring.hides
    while folders:
        folder, prefix, level = folders.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=_by_name)
        except OSError as error:
            if folder is root:
                raise SourceRefused(f"the folder {root} cannot be read: {error.strerror}") from error
            if not isinstance(error, FileNotFoundError):  # it went away meanwhile, and is not there to be missed
                report(Missed(prefix, folder, f"the folder cannot be read: {error.strerror}"))
            continue
        below = []
        for entry in entries:
            name = entry.name
            key = prefix + name
            if entry.is_dir(follow_symlinks=False):
                if not hides(key + "/", name + "/"):
                    below.append((entry.path, key + "/", level + 1))
            elif not hides(key, name) and (seen := _look(entry, key, report)):
                yield seen
        if depth is None or level < depth:
            folders += [folder for folder in reversed(below) if _has_a_name(folder[1], folder[0], report)]


def look_at(path: str, key: str) -> Seen | None:
    """Gives one file as it is, or nothing if it is none."""
    found = os.stat(path)  # noqa: PTH116
    return Seen(key, path, found.st_size, found.st_mtime_ns) if S_ISREG(found.st_mode) else None


def _look(entry: os.DirEntry[str], key: str, report: Report) -> Seen | None:
    if not key.isascii() and not _has_a_name(key, entry.path, report):
        return None
    try:
        if entry.is_file():
            found = entry.stat()
            return Seen(key, entry.path, found.st_size, found.st_mtime_ns)
        if entry.is_symlink():
            why = "a link to a folder; name that folder as well" if entry.is_dir() else "a link that leads nowhere"
            report(Missed(key, entry.path, why))
    except FileNotFoundError:  # deleted since it was listed
        return None
    except OSError as error:
        report(Missed(key, entry.path, f"the file cannot be looked at: {error.strerror}"))
    return None


def _has_a_name(key: str, path: str, report: Report) -> bool:
    """Answers whether the name is text. On Linux a name is bytes, and some are in no encoding that is known."""
    try:
        key.encode()
    except UnicodeEncodeError:
        readable = os.fsencode(key).decode(errors="backslashreplace")
        report(Missed(readable, repr(os.fsencode(path)), "its name is not UTF-8; rename it"))
        return False
    return True
