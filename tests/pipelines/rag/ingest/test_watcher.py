"""The watcher returns a source when it has changed and settled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from holdfast.pipelines.rag.ingest.watcher import SourceSnapshot, watch
from holdfast.sources import SkippedPath, parse_source

Act = Callable[[], object]


class Script:
    """Replaces time: each wait runs the next action. After the last one it says stop."""

    def __init__(self, *acts: Act) -> None:
        self.acts = list(acts)
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None, /) -> bool:
        self.waits.append(timeout)
        if not self.acts:
            return True
        self.acts.pop(0)()
        return False


def nothing() -> None:
    """A round without a change."""


def watched(root: Path, *acts: Act, reported: list[SkippedPath] | None = None) -> list[SourceSnapshot]:
    reports = [] if reported is None else reported
    return list(watch(parse_source(str(root)), timedelta(seconds=3), Script(*acts), report=reports.append))


def keys(snapshots: list[SourceSnapshot]) -> list[list[str]]:
    return [[seen.key for seen in snapshot.seen] for snapshot in snapshots]


def test_the_first_snapshot_is_what_two_rounds_agree_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert keys(watched(tmp_path, nothing, nothing, nothing)) == [["a.txt"]]


def test_an_empty_folder_is_returned_too(tmp_path: Path) -> None:
    assert keys(watched(tmp_path, nothing, nothing)) == [[]]


def test_a_file_is_returned_only_when_it_has_settled(tmp_path: Path) -> None:
    growing = tmp_path / "a.txt"
    snapshots = watched(
        tmp_path,
        nothing,
        lambda: growing.write_text("h"),
        lambda: growing.write_text("half"),
        lambda: growing.write_text("half and half"),
        nothing,
        nothing,
    )
    assert keys(snapshots) == [[], ["a.txt"]]
    assert snapshots[1].seen[0].size == 13


def test_a_file_that_is_changing_is_skipped_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    snapshots = watched(
        tmp_path,
        lambda: (tmp_path / "b.txt").write_text("b"),
        lambda: (tmp_path / "a.txt").write_text("changing"),
        nothing,
    )
    assert keys(snapshots) == [["a.txt"], ["b.txt"], ["a.txt", "b.txt"]]
    assert [[one.key for one in snapshot.skipped] for snapshot in snapshots] == [["b.txt"], ["a.txt"], []]


def test_a_file_is_deleted_when_it_was_missing_for_a_round(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a")
    assert keys(watched(tmp_path, nothing, file.unlink, nothing, nothing)) == [["a.txt"], []]


def test_a_file_replaced_between_two_rounds_was_never_deleted(tmp_path: Path) -> None:
    file, aside = tmp_path / "a.txt", tmp_path.parent / "aside"
    file.write_text("a")
    snapshots = watched(tmp_path, nothing, lambda: file.rename(aside), lambda: aside.rename(file), nothing, nothing)
    assert keys(snapshots) == [["a.txt"]]


def test_a_source_that_cannot_be_listed_is_reported_once_and_returned_again_later(tmp_path: Path) -> None:
    root, away = tmp_path / "disk", tmp_path / "away"
    root.mkdir()
    (root / "a.txt").write_text("a")
    reported: list[SkippedPath] = []
    snapshots = watched(
        root,
        nothing,
        lambda: root.rename(away),
        nothing,
        nothing,
        lambda: away.rename(root),
        nothing,
        reported=reported,
    )
    assert keys(snapshots) == [["a.txt"], ["a.txt"]]
    assert len(reported) == 1


def test_the_watcher_lists_as_often_as_it_should(tmp_path: Path) -> None:
    script = Script(nothing, nothing)
    list(watch(parse_source(str(tmp_path)), timedelta(seconds=7), script))
    assert script.waits == [7.0, 7.0, 7.0]


def test_a_link_out_of_the_folder_is_never_returned_and_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("a")
    reported: list[SkippedPath] = []
    link = root / "link.txt"
    snapshots = watched(
        root, nothing, lambda: link.symlink_to(tmp_path / "secret.txt"), nothing, nothing, reported=reported
    )
    assert keys(snapshots) == [["a.txt"]]
    assert [(path.key, path.left_out) for path in reported] == [("link.txt", True)]


def test_a_file_that_becomes_a_link_out_of_the_folder_is_not_returned_any_more(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("a")
    (root / "b.txt").write_text("b")

    def swap() -> None:
        (root / "b.txt").unlink()
        (root / "b.txt").symlink_to(tmp_path / "secret.txt")

    snapshots = watched(root, nothing, swap, nothing, nothing, reported=[])
    assert keys(snapshots)[-1] == ["a.txt"]
    assert all(path.left_out for path in snapshots[-1].skipped), "so its document is removed"
