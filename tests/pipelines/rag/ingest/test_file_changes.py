"""File changes: found with as little reading as possible. Applied to the known files, they give the listed ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.ingest.file_changes import (
    HASH_AHEAD_BYTES,
    HASH_THREADS,
    FileChange,
    KnownFile,
    compare_files,
)
from holdfast.sources import SkippedPath, SourceFile

SECOND = 1_000_000_000
THEN = 1_000 * SECOND
"""When the known files were scanned."""
NOW = 2_000 * SECOND


class Disk:
    """Files as names, contents and times. It counts how often a file is read."""

    def __init__(self, **contents: str) -> None:
        self.files = {name: (content, THEN - 500 * SECOND) for name, content in contents.items()}
        self.read: list[str] = []

    def seen(self, etag: Callable[[str], str] = lambda content: "") -> list[SourceFile]:
        return [
            SourceFile(name, f"/disk/{name}", len(content), time, etag(content))
            for name, (content, time) in sorted(self.files.items())
        ]

    def known(self) -> dict[str, KnownFile]:
        return {
            name: KnownFile(name, len(content), time, f"hash of {content}", THEN)
            for name, (content, time) in self.files.items()
        }

    def write(self, name: str, content: str, *, at: int = NOW - 100 * SECOND) -> None:
        self.files[name] = (content, at)

    def move(self, before: str, after: str) -> None:
        self.files[after] = self.files.pop(before)

    def hash_of(self, seen: SourceFile) -> str:
        self.read.append(seen.key)
        return f"hash of {self.files[seen.key][0]}"

    def against(self, known: dict[str, KnownFile], *missed: SkippedPath) -> list[FileChange]:
        self.read = []
        return list(compare_files(self.seen(), known, self.hash_of, looked_at=NOW, skipped=missed))


def kinds_by_key(changes: list[FileChange]) -> dict[str, str]:
    return {
        change.key: f"{change.kind} from {change.came_from}" if change.came_from else change.kind for change in changes
    }


def test_an_unchanged_file_is_not_read() -> None:
    disk = Disk(a="1", b="2")
    assert kinds_by_key(disk.against(disk.known())) == {"a": "unchanged", "b": "unchanged"}
    assert disk.read == []


def test_new_changed_touched_and_deleted_files_are_distinguished() -> None:
    disk = Disk(changed="1", touched="2", deleted="3", kept="4")
    known = disk.known()
    disk.write("changed", "1!")
    disk.write("touched", "2")
    disk.write("new", "5")
    del disk.files["deleted"]
    assert kinds_by_key(disk.against(known)) == {
        "kept": "unchanged",
        "new": "new",
        "touched": "touched",
        "changed": "changed",
        "deleted": "deleted",
    }
    assert sorted(disk.read) == ["changed", "new", "touched"]


def test_a_moved_file_is_one_that_moved() -> None:
    disk = Disk(a="1", b="2")
    known = disk.known()
    disk.move("a", "c")
    assert kinds_by_key(disk.against(known)) == {"b": "unchanged", "c": "moved from a"}


def test_of_two_copies_one_removed_is_a_deletion() -> None:
    disk = Disk(a="same", b="same")
    known = disk.known()
    del disk.files["b"]
    assert kinds_by_key(disk.against(known)) == {"a": "unchanged", "b": "deleted"}


def test_a_copy_of_a_file_that_is_still_there_is_new() -> None:
    disk = Disk(a="same")
    known = disk.known()
    disk.write("b", "same")
    assert kinds_by_key(disk.against(known)) == {"a": "unchanged", "b": "new"}


def test_one_file_gone_and_two_copies_come_is_one_move() -> None:
    disk = Disk(a="same")
    known = disk.known()
    disk.move("a", "b")
    disk.write("c", "same")
    assert sorted(kinds_by_key(disk.against(known)).values()) == ["moved from a", "new"]


def test_a_chain_of_moves_comes_last_first() -> None:
    disk = Disk(a="1", b="22")
    known = disk.known()
    disk.move("b", "c")
    disk.move("a", "b")
    changes = disk.against(known)
    assert [(one.key, one.came_from) for one in changes] == [("c", "b"), ("b", "a")]


def test_a_key_left_by_a_move_and_filled_again_is_new() -> None:
    disk = Disk(a="1")
    known = disk.known()
    disk.move("a", "b")
    disk.write("a", "something else")
    assert kinds_by_key(disk.against(known)) == {"b": "moved from a", "a": "new"}


def test_two_files_that_changed_places_are_one_move_and_one_new() -> None:
    disk = Disk(a="1", b="22")
    known = disk.known()
    disk.files["a"], disk.files["b"] = disk.files["b"], disk.files["a"]
    assert sorted(kinds_by_key(disk.against(known)).values()) in (["moved from a", "new"], ["moved from b", "new"])


def test_a_file_scanned_within_its_timestamp_granularity_is_read_once_more() -> None:
    disk = Disk()
    disk.write("a", "1", at=THEN - SECOND)
    known = disk.known()
    disk.write("a", "2", at=THEN - SECOND)  # same size, same time
    (change,) = disk.against(known)
    assert change.kind == "changed"
    assert change.now is not None
    (change,) = disk.against({"a": change.now})
    assert (change.kind, disk.read) == ("unchanged", [])


def test_a_young_file_that_did_not_change_is_unchanged_and_older_the_next_time() -> None:
    disk = Disk()
    disk.write("a", "1", at=THEN)
    (change,) = disk.against(disk.known())
    assert (change.kind, disk.read) == ("unchanged", ["a"])
    assert change.now is not None
    assert change.now.looked_at == NOW


def test_a_file_with_an_etag_is_compared_by_it() -> None:
    disk = Disk(a="1", b="2")
    known = {key: KnownFile(key, 1, 0, one.hash, THEN, etag=f'"{one.hash}"') for key, one in disk.known().items()}
    disk.write("b", "3", at=0)
    disk.write("a", "1", at=0)
    seen = disk.seen(etag=lambda content: f'"hash of {content}"')
    assert kinds_by_key(list(compare_files(seen, known, disk.hash_of, looked_at=NOW))) == {
        "a": "unchanged",
        "b": "changed",
    }
    assert disk.read == ["b"]


def test_a_file_without_size_time_or_etag_is_read_every_time() -> None:
    disk = Disk()
    disk.write("a", "1", at=0)
    (change,) = disk.against(disk.known())
    assert (change.kind, disk.read) == ("touched", ["a"])


def test_a_path_that_could_not_be_read_is_not_deleted() -> None:
    disk = Disk(**{"a": "1", "closed/b": "2", "closed/sub/c": "3", "closedd": "4"})
    known = disk.known()
    disk.files.clear()
    missed = (SkippedPath("closed/", "/disk/closed", "closed"), SkippedPath("a", "/disk/a", "odd"))
    assert kinds_by_key(disk.against(known, *missed)) == {"closedd": "deleted"}


def test_a_file_that_cannot_be_read_stays_as_it_was_known() -> None:
    disk = Disk(a="1", b="2")
    known = disk.known()
    disk.write("a", "11")
    disk.write("new", "3")

    def refuses(seen: SourceFile) -> str:
        raise OSError("no") if seen.key == "a" else Reject("never")

    changes = list(compare_files(disk.seen(), known, refuses, looked_at=NOW))
    assert kinds_by_key(changes) == {"a": "unreadable", "b": "unchanged", "new": "unreadable"}
    assert [one.now for one in changes] == [known["a"], known["b"], None]
    assert changes[0].why == "no"


def test_large_files_are_hashed_in_parallel_and_reported_in_order() -> None:
    disk = Disk(**{name: name * HASH_AHEAD_BYTES for name in "abcd"}, e="small")
    both = threading.Barrier(2, timeout=30)

    def hashes(seen: SourceFile) -> str:
        if seen.key in "ab":
            both.wait()  # each waits for the other
        if seen.key == "c":
            raise OSError("no")
        return disk.hash_of(seen)

    changes = list(compare_files(disk.seen(), {}, hashes, looked_at=NOW))
    assert kinds_by_key(changes) == {"a": "new", "b": "new", "c": "unreadable", "d": "new", "e": "new"}
    assert [one.key for one in changes] == ["a", "b", "c", "d", "e"]


def test_a_caller_that_stops_early_does_not_wait_for_hashes() -> None:
    disk = Disk(**{f"{number:02}": "x" * HASH_AHEAD_BYTES for number in range(9)})
    never, begun = threading.Event(), []

    def hashes(seen: SourceFile) -> str:
        begun.append(seen.key)
        if seen.key != "00":
            never.wait(60)
        return "hash"

    changes = compare_files(disk.seen(), {}, hashes, looked_at=NOW)
    assert next(changes).key == "00"
    changes.close()  # type: ignore[attr-defined]
    assert len(begun) <= 1 + HASH_THREADS
    never.set()


def test_files_listed_before_a_failure_are_reported() -> None:
    disk = Disk(**{name: name * HASH_AHEAD_BYTES for name in "abc"})

    def seen() -> Iterator[SourceFile]:
        yield from disk.seen()
        raise OSError("the disk is away")

    changes = compare_files(seen(), {}, disk.hash_of, looked_at=NOW)
    assert [next(changes).key for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(OSError, match="away"):
        next(changes)


def test_changes_come_while_the_listing_is_still_going() -> None:
    disk = Disk(a="1", b="2")
    files = iter(disk.seen())
    changes = compare_files(files, disk.known(), disk.hash_of, looked_at=NOW)
    assert next(changes).key == "a"
    assert next(files).key == "b"


def applied(known: dict[str, KnownFile], changes: list[FileChange]) -> dict[str, str]:
    """Apply the changes one by one. Contents move with their files, and are read only if a change says so."""
    contents = {key: one.hash for key, one in known.items()}
    for one in changes:
        if one.kind == "deleted":
            del contents[one.key]
        elif one.kind == "moved":
            contents[one.key] = contents.pop(one.came_from)
        elif one.kind == "new":
            assert one.key not in contents
            assert one.now is not None
            contents[one.key] = one.now.hash
        elif one.kind == "changed":
            assert one.now is not None
            assert contents[one.key] != one.now.hash
            contents[one.key] = one.now.hash
        else:
            assert one.key in contents
    return contents


NAMES = st.sampled_from("abcdef")
CONTENTS = st.sampled_from(["1", "2", "3", "44", "55", ""])
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, CONTENTS),
        st.tuples(st.just("move"), NAMES, NAMES),
        st.tuples(st.just("swap"), NAMES, NAMES),
        st.tuples(st.just("delete"), NAMES, NAMES),
        st.tuples(st.just("touch"), NAMES, NAMES),
    ),
    max_size=8,
)


@given(st.dictionaries(NAMES, CONTENTS), EDITS)
def test_changes_applied_to_the_known_files_give_the_listed_ones(before: dict[str, str], edits: list) -> None:
    disk = Disk(**before)
    known = disk.known()
    for place, (edit, name, other) in enumerate(edits):
        moment = NOW - (100 - place) * SECOND
        if edit == "write":
            disk.write(name, other, at=moment)
        elif name not in disk.files:
            continue
        elif edit == "move":
            disk.move(name, other)
        elif edit == "delete":
            del disk.files[name]
        elif edit == "touch":
            disk.write(name, disk.files[name][0], at=moment)
        elif other in disk.files:
            disk.files[name], disk.files[other] = disk.files[other], disk.files[name]
    honest = {  # equal size and time with other content shows in no sign: swaps and moves of old files can do that
        name: (content, time + sum(map(ord, content))) for name, (content, time) in disk.files.items()
    }
    disk.files = honest
    known = {
        key: KnownFile(key, one.size, one.mtime_ns + sum(map(ord, before[key])), one.hash, THEN)
        for key, one in known.items()
    }
    changes = disk.against(known)
    assert applied(known, changes) == {name: f"hash of {content}" for name, (content, _) in disk.files.items()}
    assert len({one.key for one in changes}) == len(changes)
    kept = {key for key, one in known.items() if disk.files.get(key) == (before[key], one.mtime_ns)}
    assert not kept & set(disk.read)
    stayed = {key for key, one in known.items() if f"hash of {disk.files.get(key, ('?',))[0]}" == one.hash}
    assert {one.key for one in changes if one.kind in ("unchanged", "touched")} == stayed
