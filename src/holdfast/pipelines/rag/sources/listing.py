"""Looking through a source: what is there now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.sources.ignoring import FILE, Ignoring, matcher
from holdfast.pipelines.rag.sources.source import Missed, Seen, Source, SourceRefused
from holdfast.pipelines.rag.sources.walking import Report, look_at, walk

MOST_PATTERNS = 1 << 20
"""Characters of a `.holdfastignore` that are read."""


def log_missed(missed: Missed) -> None:
    """Writes what could not be looked at to the log."""
    import logging

    logging.getLogger("holdfast").warning("%s: %s", missed.location, missed.why)


def listing(
    source: Source,
    *,
    ignore: Iterable[str] = (),
    recursive: bool = True,
    allow_private: bool = False,
    report: Report = log_missed,
) -> Iterator[Seen]:
    """Gives every file of a source, in an order that stays the same, without reading any.

    A key is what people see: the path below the source's root with forward slashes, the name of a single file, the
    URL of what has one. `ignore` takes patterns as `.holdfastignore` has them, and wins over it; a file that was named
    itself is never left out. What cannot be looked at is given to `report` and the rest goes on; a root that cannot be
    looked at is refused, so that nobody takes a disk that is not there for a folder that is empty. For a URL it
    may also raise RetryLater or Unreachable, as `local_copy` does.
    """
    if source.kind == "file":
        return _one_file(source)
    if source.kind == "web":
        return _one_page(source, allow_private=allow_private)
    if source.kind == "remote":
        from holdfast.pipelines.rag.sources.remote import remote_listing

        deep = depth_of(source.pattern) if source.pattern else None if recursive else 1
        return remote_listing(source, Ignoring(ignore), depth=deep, allow_private=allow_private)
    ignoring = Ignoring((*_ignore_file(source.root), *ignore))
    if source.kind == "glob":
        return _matching(source, ignoring, report)
    return walk(source.root, ignoring, report=report, depth=None if recursive else 1)


def those_it_is_about(source: Source) -> Callable[[str], bool]:
    """Gives a way to ask whether a source can have a file of some key.

    A glob says nothing of those that it does not match: that they are not among what it gives does not mean that they
    are gone.
    """
    if not source.pattern:
        return lambda _: True
    matches = matcher(source.pattern).fullmatch
    below = f"{source.root.rstrip('/')}/" if source.kind == "remote" else ""  # keys there are URLs
    return lambda key: key == source.word or matches(key.removeprefix(below)) is not None


def depth_of(pattern: str) -> int | None:
    """Answers how many folders deep a glob can match, or None for any depth."""
    parts = pattern.split("/")
    return None if "**" in parts else len(parts)


def _one_file(source: Source) -> Iterator[Seen]:
    try:
        seen = look_at(source.root, os.path.basename(source.root))  # noqa: PTH119
    except OSError as error:
        raise SourceRefused(f"the file {source.word} cannot be looked at: {error.strerror}") from error
    if seen is None:
        raise SourceRefused(f"{source.word} is neither a file nor a folder")
    yield seen


def _one_page(source: Source, *, allow_private: bool) -> Iterator[Seen]:
    from holdfast.pipelines.rag.sources.web import look_at_page

    try:
        yield look_at_page(source.root, allow_private=allow_private)
    except Reject as error:
        raise SourceRefused(str(error)) from error


def _matching(source: Source, ignoring: Ignoring, report: Report) -> Iterator[Seen]:
    wanted = matcher(source.pattern).fullmatch
    files = walk(source.root, ignoring, report=report, depth=depth_of(source.pattern))
    return (seen for seen in files if wanted(seen.key))


def _ignore_file(root: str) -> list[str]:
    path = os.path.join(root, FILE)  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe of that name would be waited for without end
        return []
    try:
        with open(path, encoding="utf-8") as lines:  # noqa: PTH123
            return lines.read(MOST_PATTERNS).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceRefused(
            f"{path} cannot be read: {error}; mend it, or every file it names would be taken"
        ) from error
