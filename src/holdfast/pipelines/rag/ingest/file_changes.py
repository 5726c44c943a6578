"""Find what changed since the last scan of a source: by size and time, and by content where these do not tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.core.errors import Signal
from holdfast.sources.fingerprint import MTIME_GRANULARITY_NS
from holdfast.sources.source import SkippedPath, SourceFile

if TYPE_CHECKING:
    from concurrent.futures import Future

ChangeKind = Literal["new", "changed", "back", "unchanged", "touched", "moved", "deleted", "unreadable"]

HASH_AHEAD_BYTES = 1 << 16
"""Files of at least this size are hashed ahead, in threads. For smaller ones the thread costs more than it saves."""
HASH_THREADS = 2
"""How many files are hashed at the same time."""
MAX_FILES_AHEAD = 16
"""How many files may be listed before the result of the first is needed."""


class KnownFile(Struct, frozen=True, gc=False):
    """A file as it was when its content was last known. `looked_at` is when that scan began, in ns since 1970."""

    key: str
    size: int
    mtime_ns: int
    hash: str
    looked_at: int
    etag: str = ""


class FileChange(Struct, frozen=True):
    """What happened to one file.

    Kinds:

    - new: the key was not known
    - changed: other content
    - back: the same content, but it was missing when it should have been read
    - unchanged: the same content, by size and time
    - touched: another time, the same content
    - moved: the content was known by another key, which is gone; what was known by this key is replaced
    - deleted: not there any more
    - unreadable: there, but it could not be read

    Attributes:
        kind: What happened.
        key: The key of the file.
        now: What to save of the file. For an unreadable file: what was known before.
        seen: The file as it was listed.
        came_from: The former key of a moved file.
        why: Why an unreadable file could not be read.
    """

    kind: ChangeKind
    key: str
    now: KnownFile | None = None
    seen: SourceFile | None = None
    came_from: str = ""
    why: str = ""


def compare_files(
    seen: Iterable[SourceFile],
    known: Mapping[str, KnownFile],
    hash_of: Callable[[SourceFile], str],
    *,
    looked_at: int,
    skipped: Iterable[SkippedPath] = (),
) -> Iterator[FileChange]:
    """Yield the change of every file that is listed or known.

    Applied one by one in this order, the changes turn the known files into the listed ones. Changed, moved and deleted
    files come last, because only at the end it is certain which keys are gone. Two files that swapped names come as one
    that moved and one that is new.

    A file that got other content with the same size and the same time, later than two seconds after it was scanned, is
    taken as unchanged. rsync does the same.

    Args:
        seen: The listed files.
        known: The known files, by key.
        hash_of: Returns the hash of a file's content.
        looked_at: When the scan began, in ns since 1970.
        skipped: Paths that could not be read. It is read at the end. Files below them are not taken as deleted, unless
            they are left out on purpose.
    """
    return _FileComparison(known, hash_of, looked_at).run(seen, skipped)


class _FileComparison:
    """One run of `compare_files`."""

    def __init__(self, known: Mapping[str, KnownFile], hash_of: Callable[[SourceFile], str], looked_at: int) -> None:
        self.known = dict(known)  # a copy: the caller may apply the changes to the mapping while they come
        self.hash_of = hash_of
        self.looked_at = looked_at
        self.keys_of: dict[str, list[str]] = {}
        for key in sorted(known):
            self.keys_of.setdefault(known[key].hash, []).append(key)
        self.present: set[str] = set()
        self.held: dict[str, tuple[SourceFile, KnownFile]] = {}
        self.arrived: dict[str, list[str]] = {}

    def run(self, seen: Iterable[SourceFile], skipped: Iterable[SkippedPath]) -> Iterator[FileChange]:
        for file, hashing in self._hash_ahead(seen):
            if change := self._compare(file, hashing):
                yield change
        gone = self._gone(list(skipped))
        moves = _break_cycles(self._moves(gone))
        left = set(moves.values())
        for key in _order_moves(moves):
            file, now = self.held[key]
            yield FileChange("moved", key, now, file, came_from=moves[key])
        for key, (file, now) in self.held.items():
            if key not in moves:
                yield FileChange("changed" if key in self.present and key not in left else "new", key, now, file)
        for key in gone:
            if key not in left:
                yield FileChange("deleted", key)

    def _hash_ahead(self, seen: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, Future[str] | None]]:
        """Yield every file in order, with the future of its hash if it is large. Large files are hashed in threads."""
        from concurrent.futures import ThreadPoolExecutor  # imports logging, so it is not imported at start

        ahead: deque[tuple[SourceFile, Future[str] | None]] = deque()
        pool = ThreadPoolExecutor(HASH_THREADS)
        try:
            for file in seen:
                is_worth_it = file.size >= HASH_AHEAD_BYTES and not self._is_unchanged(file)
                ahead.append((file, pool.submit(self.hash_of, file) if is_worth_it else None))
                while ahead and (len(ahead) == MAX_FILES_AHEAD or _is_ready(ahead[0][1])):
                    yield ahead.popleft()
        except Exception:  # the listing may fail with any error; these files were listed before it did
            yield from ahead
            raise
        else:
            yield from ahead
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # a caller that stops early does not wait for the rest

    def _is_unchanged(self, seen: SourceFile) -> bool:
        before = self.known.get(seen.key)
        return before is not None and _has_same_stat(seen, before) and not _was_too_young(before)

    def _compare(self, seen: SourceFile, hashing: Future[str] | None) -> FileChange | None:
        before = self.known.get(seen.key)
        if before:
            self.present.add(seen.key)
            if self._is_unchanged(seen):
                return FileChange("unchanged", seen.key, before, seen)
        try:
            content = hashing.result() if hashing else self.hash_of(seen)
        except OSError as error:
            return FileChange("unreadable", seen.key, before, seen, why=error.strerror or str(error))
        except Signal as error:
            return FileChange("unreadable", seen.key, before, seen, why=str(error))
        now = KnownFile(seen.key, seen.size, seen.mtime_ns, content, self.looked_at, seen.etag)
        if before and before.hash == content:
            return FileChange("unchanged" if _has_same_stat(seen, before) else "touched", seen.key, now, seen)
        may_have_moved = len(self.arrived.get(content, ())) < len(self.keys_of.get(content, ()))
        if may_have_moved:
            self.arrived.setdefault(content, []).append(seen.key)
        if not before and not may_have_moved:
            return FileChange("new", seen.key, now, seen)
        self.held[seen.key] = (seen, now)
        return None

    def _gone(self, skipped: list[SkippedPath]) -> list[str]:
        absent = [key for key in self.known if key not in self.present]
        unknown = [path for path in skipped if not path.left_out]
        files = {path.key for path in unknown}
        folders = tuple(path.key for path in unknown if path.key.endswith("/"))
        return [key for key in absent if key not in files and not key.startswith(folders)]

    def _moves(self, gone: list[str]) -> dict[str, str]:
        """Return the moves: for a new key the former one, which is gone or has other content now."""
        free = {*gone, *self.held}
        moves: dict[str, str] = {}
        for content, arrivals in self.arrived.items():
            moves.update(zip(arrivals, (key for key in self.keys_of[content] if key in free), strict=False))
        return moves


def _is_ready(hashing: Future[str] | None) -> bool:
    return hashing is None or hashing.done()


def _has_same_stat(seen: SourceFile, before: KnownFile) -> bool:
    if seen.size != before.size:
        return False
    if seen.etag and before.etag:
        return seen.etag == before.etag
    return seen.mtime_ns == before.mtime_ns != 0


def _was_too_young(before: KnownFile) -> bool:
    """Return True if the file was modified just before the scan: it may have changed again with the same time."""
    return not before.etag and before.mtime_ns > before.looked_at - MTIME_GRANULARITY_NS


def _break_cycles(moves: dict[str, str]) -> dict[str, str]:
    """Remove one move from each cycle. None of its keys is ever free, so a cycle cannot be applied one by one."""
    straight = dict(moves)
    visited: set[str] = set()
    for start in moves:
        if start in visited:
            continue
        key = start
        while key in moves and key not in visited:
            visited.add(key)
            key = moves[key]
        if key == start:  # every key has one origin and is the origin of one, so only a cycle leads back
            del straight[start]
    return straight


def _order_moves(moves: dict[str, str]) -> Iterator[str]:
    """Yield the moves in an order in which each new key is free: of a to b and b to c, the second comes first."""
    left = set(moves.values())
    for end in moves:
        key = end if end not in left else ""
        while key in moves:
            yield key
            key = moves[key]
