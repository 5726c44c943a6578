"""Out-of-memory kills: the right file is found in every kind of cgroup, and a count that rises is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.crash_evidence import oom_kills
from holdfast.engine.crash_evidence.oom_kills import OomCounter, OomWatch, find_oom_counter

V2 = "30 23 0:26 {root} {at} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 23 0:27 {root} {at} rw,nosuid - cgroup cgroup rw,memory\n"
CPU = "32 23 0:28 / {at} rw,nosuid - cgroup cgroup rw,cpu\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /proc and /sys/fs/cgroup."""
    monkeypatch.setattr(oom_kills, "MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(oom_kills, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(oom_kills, "WHOLE_MACHINE", tmp_path / "vmstat")
    (tmp_path / "vmstat").write_text("pgfault 7\noom_kill 9\n")
    return tmp_path


def add_group(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def found() -> str:
    counter = find_oom_counter()
    assert counter is not None
    return counter.path


def test_version_2_of_cgroups(system: Path) -> None:
    file = add_group(system / "fs/app/worker", "memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n")
    (system / "cgroup").write_text("0::/app/worker\n")
    (system / "mountinfo").write_text(V2.format(root="/", at=system / "fs"))
    assert found() == str(file)
    assert OomWatch().count == 3


def test_a_cgroup_without_the_count_uses_the_one_around_it(system: Path) -> None:
    (system / "fs/app/worker").mkdir(parents=True)
    file = add_group(system / "fs/app", "memory.events", "oom_kill 1\n")
    (system / "cgroup").write_text("0::/app/worker\n")
    (system / "mountinfo").write_text(V2.format(root="/", at=system / "fs"))
    assert found() == str(file)


def test_a_container_that_sees_its_cgroup_as_the_root(system: Path) -> None:
    file = add_group(system / "fs", "memory.events", "oom_kill 1\n")
    (system / "cgroup").write_text("0::/docker/abc\n")
    (system / "mountinfo").write_text(V2.format(root="/docker/abc", at=system / "fs"))
    assert found() == str(file)


def test_version_1_of_cgroups_beside_an_empty_version_2(system: Path) -> None:
    file = add_group(system / "memory/app", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (system / "cgroup").write_text("5:cpu,cpuacct:/\n4:memory:/app\n0::/\n")
    mounts = CPU.format(at=system / "cpu"), V1.format(root="/", at=system / "memory"), V2.format(root="/", at=system)
    (system / "mountinfo").write_text("".join(mounts))
    assert found() == str(file)
    assert OomWatch().count == 2


@pytest.mark.parametrize("groups", ["", "nonsense\n", "0::/app\n"])
def test_without_a_cgroup_the_machine_is_counted(system: Path, groups: str) -> None:
    (system / "cgroup").write_text(groups)
    (system / "mountinfo").write_text("nonsense\n" if "nonsense" in groups else "")
    assert found() == str(system / "vmstat")
    assert OomWatch().count == 9


def test_without_any_count_nothing_is_known(system: Path) -> None:
    (system / "vmstat").unlink()
    watch = OomWatch()
    watch.refresh()
    assert (watch.counter, watch.count, watch.killed_recently()) == (None, None, False)


def test_a_kill_is_recent_until_two_refreshes_later(system: Path) -> None:
    watch = OomWatch()
    assert not watch.killed_recently()
    (system / "vmstat").write_text("oom_kill 10\n")
    assert watch.killed_recently()
    watch.refresh()
    assert watch.killed_recently()
    watch.refresh()
    assert not watch.killed_recently()


def test_another_cgroup_at_the_same_path_says_nothing(system: Path) -> None:
    counter = find_oom_counter()
    assert counter is not None
    (system / "other").write_text("oom_kill 10\n")
    (system / "other").replace(system / "vmstat")
    assert counter.read() is None
    assert OomCounter(counter.path, "0:0").read() is None


def test_the_counter_of_this_machine_can_be_read() -> None:
    counter = find_oom_counter()
    if counter is None:
        pytest.skip("this system counts no out-of-memory kills")
    assert isinstance(counter.read(), int)
