"""A source is given when it changed and came to rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from holdfast.pipelines.rag.sources import Missed, source_of
from holdfast.pipelines.rag.watching import Glance, watch

Act = Callable[[], object]


class Script:
    """Stands for time: while watching waits, the next act happens. After the last one it is told to stop."""

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
    """A round in which all is still."""


def watched(root: Path, *acts: Act, reported: list[Missed] | None = None) -> list[Glance]:
    reports = [] if reported is None else reported
    return list(watch(source_of(str(root)), timedelta(seconds=3), Script(*acts), report=reports.append))


def keys(glances: list[Glance]) -> list[list[str]]:
    return [[seen.key for seen in glance.seen] for glance in glances]


def test_what_two_looks_agree_on_is_given_first_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert keys(watched(tmp_path, nothing, nothing, nothing)) == [["a.txt"]]


def test_an_empty_folder_is_given_too(tmp_path: Path) -> None:
    assert keys(watched(tmp_path, nothing, nothing)) == [[]]


def test_a_file_is_given_only_when_it_came_to_rest(tmp_path: Path) -> None:
    growing = tmp_path / "a.txt"
    glances = watched(
        tmp_path,
        nothing,
        lambda: growing.write_text("h"),
        lambda: growing.write_text("half"),
        lambda: growing.write_text("half and half"),
        nothing,
        nothing,
    )
    assert keys(glances) == [[], ["a.txt"]]
    assert glances[1].seen[0].size == 13


def test_a_file_that_is_just_changing_is_missed_not_gone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    glances = watched(
        tmp_path,
        lambda: (tmp_path / "b.txt").write_text("b"),
        lambda: (tmp_path / "a.txt").write_text("changing"),
        nothing,
    )
    assert keys(glances) == [["a.txt"], ["b.txt"], ["a.txt", "b.txt"]]
    assert [[one.key for one in glance.missed] for glance in glances] == [["b.txt"], ["a.txt"], []]


def test_a_file_is_gone_when_it_was_missing_for_a_round(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a")
    assert keys(watched(tmp_path, nothing, file.unlink, nothing, nothing)) == [["a.txt"], []]


def test_a_file_replaced_between_two_looks_was_never_gone(tmp_path: Path) -> None:
    file, aside = tmp_path / "a.txt", tmp_path.parent / "aside"
    file.write_text("a")
    glances = watched(tmp_path, nothing, lambda: file.rename(aside), lambda: aside.rename(file), nothing, nothing)
    assert keys(glances) == [["a.txt"]]


def test_a_source_that_cannot_be_looked_at_is_reported_once_and_given_again_when_it_can(tmp_path: Path) -> None:
    root, away = tmp_path / "disk", tmp_path / "away"
    root.mkdir()
    (root / "a.txt").write_text("a")
    reported: list[Missed] = []
    glances = watched(
        root,
        nothing,
        lambda: root.rename(away),
        nothing,
        nothing,
        lambda: away.rename(root),
        nothing,
        reported=reported,
    )
    assert keys(glances) == [["a.txt"], ["a.txt"]]
    assert len(reported) == 1


def test_it_looks_as_often_as_it_is_told(tmp_path: Path) -> None:
    script = Script(nothing, nothing)
    list(watch(source_of(str(tmp_path)), timedelta(seconds=7), script))
    assert script.waits == [7.0, 7.0, 7.0]
