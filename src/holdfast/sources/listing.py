"""List the files of a source.

For speed, the walk through a folder of this machine uses names and numbers only, no path objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from stat import S_ISREG

from holdfast.core.errors import Reject
from holdfast.core.text_limits import MAX_NAME, shorten, too_long
from holdfast.sources.ignore_rules import IGNORE_FILE, IgnoreRules, compile_glob
from holdfast.sources.safe_open import OUTSIDE, is_below
from holdfast.sources.source import SkippedPath, Source, SourceFile, SourceRefused

MAX_IGNORE_FILE = 1 << 20
"""Characters of a `.holdfastignore` that are read."""
Report = Callable[[SkippedPath], None]

_by_name = attrgetter("name")


def log_skipped(skipped: SkippedPath) -> None:
    """Log a path that could not be read."""
    import logging

    logging.getLogger("holdfast").warning("%s: %s", skipped.location, skipped.why)


def list_files(
    source: Source,
    *,
    ignore: Iterable[str] = (),
    recursive: bool = True,
    allow_private: bool = False,
    follow_symlinks: bool = False,
    report: Report = log_skipped,
) -> Iterator[SourceFile]:
    """Yield every file of a source, always in the same order. No file is read.

    A key is what people see: the path below the root of the source with forward slashes, the name of a single file, or
    a URL. A file that is itself the source is never ignored.

    Args:
        source: The source.
        ignore: Patterns as in `.holdfastignore`. They win over that file.
        recursive: Also list subfolders.
        allow_private: Allow addresses in private networks.
        follow_symlinks: Also follow links that lead outside of the folder, and links to folders. Other links to files
            are always followed.
        report: Called with each path that could not be read. The listing continues.

    Raises:
        SourceRefused: The root cannot be read. A disk that is not mounted must not look like an empty folder.
        RetryLater: The server of a URL asked to be asked later.
        Unreachable: The server of a URL does not answer.
    """
    files = _list(
        source,
        ignore=ignore,
        recursive=recursive,
        allow_private=allow_private,
        follow_symlinks=follow_symlinks,
        report=report,
    )
    return (file for file in files if _has_short_key(file, report))


def _list(
    source: Source,
    *,
    ignore: Iterable[str],
    recursive: bool,
    allow_private: bool,
    follow_symlinks: bool,
    report: Report,
) -> Iterator[SourceFile]:
    if source.kind == "file":
        return _one_file(source)
    if source.kind == "web":
        return _one_page(source, allow_private=allow_private)
    if source.kind == "remote":
        from holdfast.sources.fsspec_source import list_objects

        depth = glob_depth(source.pattern) if source.pattern else None if recursive else 1
        return list_objects(source, IgnoreRules(ignore), depth=depth, allow_private=allow_private)
    ignoring = IgnoreRules((*_ignore_file(source.root), *ignore))
    links = AllLinks(source.root) if follow_symlinks else InnerLinks(source.root)
    if source.kind == "glob":
        wanted = compile_glob(source.pattern).fullmatch
        files = _walk_folder(source.root, ignoring, links, report=report, depth=glob_depth(source.pattern))
        return (seen for seen in files if wanted(seen.key))
    return _walk_folder(source.root, ignoring, links, report=report, depth=None if recursive else 1)


def key_filter(source: Source) -> Callable[[str], bool]:
    """Return a function that says whether a source can have a file of a key.

    A glob lists only the files that it matches. A file that it does not match may still be there.
    """
    if not source.pattern:
        return lambda _: True
    matches = compile_glob(source.pattern).fullmatch
    prefix = f"{source.root.rstrip('/')}/" if source.kind == "remote" else ""  # keys are URLs there
    return lambda key: key == source.spec or matches(key.removeprefix(prefix)) is not None


def glob_depth(pattern: str) -> int | None:
    """Return how many folders deep a glob can match. None: any depth."""
    parts = pattern.split("/")
    return None if "**" in parts else len(parts)


def _one_file(source: Source) -> Iterator[SourceFile]:
    try:
        seen = _stat_file(source.root, os.path.basename(source.root))  # noqa: PTH119
    except OSError as error:
        raise SourceRefused(f"the file {source.spec} cannot be read: {error.strerror}") from error
    if seen is None:
        raise SourceRefused(f"{source.spec} is neither a file nor a folder")
    yield seen


def _one_page(source: Source, *, allow_private: bool) -> Iterator[SourceFile]:
    from holdfast.sources.http_source import stat_url

    try:
        yield stat_url(source.root, allow_private=allow_private)
    except Reject as error:
        raise SourceRefused(str(error)) from error


def _ignore_file(root: str) -> list[str]:
    path = os.path.join(root, IGNORE_FILE)  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113 - reading a pipe of that name would block
        return []
    try:
        with open(path, encoding="utf-8") as lines:  # noqa: PTH123
            return lines.read(MAX_IGNORE_FILE).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceRefused(
            f"{path} cannot be read: {error}; repair it, otherwise the files that it names would be ingested"
        ) from error


class InnerLinks:
    """Follow links to files that stay inside the folder. Links to folders are not followed."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)

    def follows_file(self, link: os.DirEntry[str]) -> bool:
        """Return True if a link to a file is followed."""
        return is_below(os.path.realpath(link.path), self._root)

    def refuses_folder(self, link: os.DirEntry[str]) -> str:  # noqa: ARG002 - the subclass looks at it
        """Return why a link to a folder is not followed. Empty if it is."""
        return "a link to a folder; name that folder as well, or use --follow-symlinks"


class AllLinks(InnerLinks):
    """Follow all links. A folder is entered once, so that no loop is entered."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._entered = {self._root}

    def follows_file(self, link: os.DirEntry[str]) -> bool:  # noqa: ARG002 - any
        """Return True if a link to a file is followed."""
        return True

    def refuses_folder(self, link: os.DirEntry[str]) -> str:
        """Return why a link to a folder is not followed. Empty if it is."""
        folder = os.path.realpath(link.path)
        if any(is_below(known, folder) or is_below(folder, known) for known in self._entered):
            return "a link to a folder that is listed already, or that has such a folder in it"
        self._entered.add(folder)
        return ""


def _walk_folder(
    root: str, ignoring: IgnoreRules, links: InnerLinks, *, report: Report, depth: int | None = None
) -> Iterator[SourceFile]:
    """Yield the files below a folder: those of a folder before those of its subfolders, sorted by name.

    Only one folder's names are in memory at a time. A path that cannot be read is reported, and the walk continues.

    Args:
        root: The folder.
        ignoring: The ignore rules.
        links: Which links are followed.
        report: Called with each path that could not be read.
        depth: How many folders deep to walk. 1: only the files of the root.

    Raises:
        SourceRefused: The root cannot be read.
    """
    folders = [(root, "", 1)]
    is_ignored = ignoring.ignores
    while folders:
        folder, prefix, level = folders.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=_by_name)
        except OSError as error:
            if folder is root:
                raise SourceRefused(f"the folder {root} cannot be read: {error.strerror}") from error
            if not isinstance(error, FileNotFoundError):  # it was deleted since it was listed
                report(SkippedPath(prefix, folder, f"the folder cannot be read: {error.strerror}"))
            continue
        subfolders = []
        for entry in entries:
            name = entry.name
            key = prefix + name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_ignored(key + "/", name + "/") if is_folder else is_ignored(key, name):
                continue
            if is_folder or (entry.is_symlink() and _enters(entry, key, links, report)):
                subfolders.append((entry.path, key + "/", level + 1))
            elif file := _source_file(entry, key, links, report):
                yield file
        if depth is None or level < depth:
            folders += [folder for folder in reversed(subfolders) if _is_text(folder[1], folder[0], report)]


def _stat_file(path: str, key: str) -> SourceFile | None:
    """Return one file, or None if it is not a regular file."""
    stat = os.stat(path)  # noqa: PTH116
    return SourceFile(key, path, stat.st_size, stat.st_mtime_ns) if S_ISREG(stat.st_mode) else None


def _source_file(entry: os.DirEntry[str], key: str, links: InnerLinks, report: Report) -> SourceFile | None:
    if not key.isascii() and not _is_text(key, entry.path, report):
        return None
    try:
        if entry.is_file():
            if entry.is_symlink() and not links.follows_file(entry):
                report(SkippedPath(key, entry.path, OUTSIDE, left_out=True))
                return None
            stat = entry.stat()
            return SourceFile(key, entry.path, stat.st_size, stat.st_mtime_ns)
        if entry.is_symlink() and not entry.is_dir():
            report(SkippedPath(key, entry.path, "a broken link"))
    except FileNotFoundError:  # deleted since it was listed
        return None
    except OSError as error:
        report(SkippedPath(key, entry.path, f"the file cannot be read: {error.strerror}"))
    return None


def _enters(link: os.DirEntry[str], key: str, links: InnerLinks, report: Report) -> bool:
    """Return True if a link leads to a folder and is followed. Report it if it is not followed."""
    try:
        why = links.refuses_folder(link) if link.is_dir() else None
    except OSError:  # too many levels of links; reported with the files
        return False
    if why:
        report(SkippedPath(key, link.path, why, left_out=True))
    return why == ""


def _has_short_key(file: SourceFile, report: Report) -> bool:
    if why := too_long(file.key):
        report(SkippedPath(shorten(file.key, MAX_NAME), file.location, f"its name {why}"))
        return False
    return True


def _is_text(key: str, path: str, report: Report) -> bool:
    """Return True if a name is text. On Linux names are bytes, and some are not UTF-8: these are reported."""
    try:
        key.encode()
    except UnicodeEncodeError:
        readable = os.fsencode(key).decode(errors="backslashreplace")
        report(SkippedPath(readable, repr(os.fsencode(path)), "its name is not UTF-8; rename it"))
        return False
    return True
