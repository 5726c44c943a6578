"""What changed since a source was last looked at: by size and time first, by content only where those leave doubt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.core.errors import Signal
from holdfast.pipelines.rag.sources.source import Missed, Seen

if TYPE_CHECKING:
    from concurrent.futures import Future

Kind = Literal["new", "changed", "back", "unchanged", "touched", "moved", "deleted", "unreadable"]

RACY_NS = 2_000_000_000
"""Clocks of file systems tick at most this slowly (FAT: 2 s). A file may change twice within one tick."""

LARGE = 1 << 16
"""Bytes from which on a file is hashed ahead, beside others: for a small one, handing it over takes longer."""
BESIDE = 2
"""How many files are hashed at once."""
AHEAD = 16
"""How many files are looked at before the first of them has to be told of."""


class Known(Struct, frozen=True, gc=False):
    """A file as it was when its content was last known. `looked_at` is when that look began, in ns since 1970."""

    key: str
    size: int
    mtime_ns: int
    hash: str
    looked_at: int
    etag: str = ""


class Change(Struct, frozen=True):
    """What became of one file. `now` is what to keep of it from here on; `came_from` is the key it had before.

    new          this key was not known
    changed      other content
    back         the same content, which was not there when it was to be read
    unchanged    the same content, by all signs
    touched      other signs, the same content
    moved        the content that was known by another key, which goes; what was known by this key goes, too
    deleted      no longer there
    unreadable   there, but it could not be read: `why` says what happened, and `now` is what was known before
    """

    kind: Kind
    key: str
    now: Known | None = None
    seen: Seen | None = None
    came_from: str = ""
    why: str = ""


def compare(
    seen: Iterable[Seen],
    known: Mapping[str, Known],
    hash_of: Callable[[Seen], str],
    *,
    looked_at: int,
    missed: Iterable[Missed] = (),
) -> Iterator[Change]:
    """Gives what became of every file that is seen or known.

    Applied one by one in the order given, the changes turn what was known into what is seen. Changed, moved and
    deleted ones come last, since only at the end it is certain which keys are gone. Two files that changed places come
    as one that moved and one that is new.

    `looked_at` is when looking began. `missed` is read at the end: what could not be looked at is not called deleted.
    A file that got other content with the same size and the same time, later than two seconds after it was looked at,
    is taken as unchanged, as rsync would.
    """
    return _Comparison(known, hash_of, looked_at).run(seen, missed)


class _Comparison:
    """One run of compare. It remembers keys and hashes of known files and of those that may have been one of them."""

    def __init__(self, known: Mapping[str, Known], hash_of: Callable[[Seen], str], looked_at: int) -> None:
        self.known = dict(known)  # whoever applies the changes as they come may do so in the very mapping
        self.hash_of = hash_of
        self.looked_at = looked_at
        self.keys_of: dict[str, list[str]] = {}
        for key in sorted(known):
            self.keys_of.setdefault(known[key].hash, []).append(key)
        self.there: set[str] = set()
        self.held: dict[str, tuple[Seen, Known]] = {}
        self.arrived: dict[str, list[str]] = {}

    def run(self, seen: Iterable[Seen], missed: Iterable[Missed]) -> Iterator[Change]:
        for one, hashing in self._hashed_ahead(seen):
            if change := self._look(one, hashing):
                yield change
        gone = self._gone(list(missed))
        moves = _without_circles(self._moves(gone))
        left = set(moves.values())
        for key in _last_of_each_chain_first(moves):
            one, now = self.held[key]
            yield Change("moved", key, now, one, came_from=moves[key])
        for key, (one, now) in self.held.items():
            if key not in moves:
                yield Change("changed" if key in self.there and key not in left else "new", key, now, one)
        for key in gone:
            if key not in left:
                yield Change("deleted", key)

    def _hashed_ahead(self, seen: Iterable[Seen]) -> Iterator[tuple[Seen, Future[str] | None]]:
        """Gives every file in its turn; the hashes of large ones are made meanwhile, side by side."""
        from concurrent.futures import ThreadPoolExecutor  # which imports logging: it waits for the first look

        ahead: deque[tuple[Seen, Future[str] | None]] = deque()
        others = ThreadPoolExecutor(BESIDE)
        try:
            for one in seen:
                is_worth_it = one.size >= LARGE and not self._is_unchanged(one)
                ahead.append((one, others.submit(self.hash_of, one) if is_worth_it else None))
                while ahead and (len(ahead) == AHEAD or _is_ready(ahead[0][1])):
                    yield ahead.popleft()
        except Exception:
            yield from ahead  # they were seen before the listing failed
            raise
        else:
            yield from ahead
        finally:
            others.shutdown(wait=False, cancel_futures=True)  # who stops in the middle does not wait for the rest

    def _is_unchanged(self, seen: Seen) -> bool:
        before = self.known.get(seen.key)
        return before is not None and _same_signs(seen, before) and not _racy(before)

    def _look(self, seen: Seen, hashing: Future[str] | None) -> Change | None:
        before = self.known.get(seen.key)
        if before:
            self.there.add(seen.key)
            if self._is_unchanged(seen):
                return Change("unchanged", seen.key, before, seen)
        try:
            content = hashing.result() if hashing else self.hash_of(seen)
        except OSError as error:
            return Change("unreadable", seen.key, before, seen, why=error.strerror or str(error))
        except Signal as error:
            return Change("unreadable", seen.key, before, seen, why=str(error))
        now = Known(seen.key, seen.size, seen.mtime_ns, content, self.looked_at, seen.etag)
        if before and before.hash == content:
            return Change("unchanged" if _same_signs(seen, before) else "touched", seen.key, now, seen)
        may_have_moved = len(self.arrived.get(content, ())) < len(self.keys_of.get(content, ()))
        if may_have_moved:
            self.arrived.setdefault(content, []).append(seen.key)
        if not before and not may_have_moved:
            return Change("new", seen.key, now, seen)
        self.held[seen.key] = (seen, now)
        return None

    def _gone(self, missed: list[Missed]) -> list[str]:
        absent = [key for key in self.known if key not in self.there]
        files = {one.key for one in missed}
        folders = tuple(one.key for one in missed if one.key.endswith("/"))
        return [key for key in absent if key not in files and not key.startswith(folders)]

    def _moves(self, gone: list[str]) -> dict[str, str]:
        """Says which key has what was known by which other one, that is gone or has other content now."""
        free = {*gone, *self.held}
        moves: dict[str, str] = {}
        for content, arrivals in self.arrived.items():
            moves.update(zip(arrivals, (key for key in self.keys_of[content] if key in free), strict=False))
        return moves


def _is_ready(hashing: Future[str] | None) -> bool:
    return hashing is None or hashing.done()


def _same_signs(seen: Seen, before: Known) -> bool:
    if seen.size != before.size:
        return False
    if seen.etag and before.etag:
        return seen.etag == before.etag
    return seen.mtime_ns == before.mtime_ns != 0


def _racy(before: Known) -> bool:
    """Answers whether the file was so young when it was looked at that it may have changed without a sign."""
    return not before.etag and before.mtime_ns > before.looked_at - RACY_NS


def _without_circles(moves: dict[str, str]) -> dict[str, str]:
    """Takes one move out of each circle: none of its keys is ever free, so it cannot be applied one by one."""
    straight = dict(moves)
    walked: set[str] = set()
    for start in moves:
        if start in walked:
            continue
        key = start
        while key in moves and key not in walked:
            walked.add(key)
            key = moves[key]
        if key == start:  # every key has one origin and is that of one: only a circle comes back
            del straight[start]
    return straight


def _last_of_each_chain_first(moves: dict[str, str]) -> Iterator[str]:
    """Of a to b and b to c, gives the second first: what it leaves is free for the other."""
    left = set(moves.values())
    for end in moves:
        key = end if end not in left else ""
        while key in moves:
            yield key
            key = moves[key]
