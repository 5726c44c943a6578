"""The fuzzer finds planted bugs: unexpected errors, hangs, crashes and forbidden events."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from tests.fuzz.__main__ import main
from tests.fuzz.campaign import ROOT, Campaign
from tests.fuzz.drivers import feed_some_by_shape, has_atheris, warm_up
from tests.fuzz.guard import ForbiddenAction
from tests.fuzz.runner import Feeder, TargetResult, last_input, read_back
from tests.fuzz.target import Target, mutated


def planted(attempt: Any, **more: Any) -> TargetResult:
    """Feed some inputs to a target that a test defines."""
    options = {"inputs": st.integers(0, 50) | st.text(max_size=3)} | more
    target = Target(name="planted", expects="Nothing.", attempt=attempt, **options)
    feeder = Feeder(target)
    warm_up(target, feeder)
    feed_some_by_shape(target, feeder, number=7, limit=200)
    return feeder.result


def test_a_holdfast_error_is_counted_as_refused() -> None:
    def refuse(value: object) -> None:
        raise HoldfastError("not that")

    result = planted(refuse)
    assert result.refused == result.inputs > 50
    assert not result.findings


def test_a_holdfast_error_without_a_message_is_reported() -> None:
    def refuse_silently(value: object) -> None:
        raise HoldfastError

    assert [*planted(refuse_silently).findings] == ["refused without a message"]


def test_an_unexpected_error_is_reported_with_the_smallest_input() -> None:
    def divide(value: object) -> float:
        return 1 / (value - 7) if isinstance(value, int) else 0.0

    (found,) = planted(divide).findings.values()
    assert "ZeroDivisionError" in found.kind
    assert read_back(found.text) == 7


def test_mutations_of_a_seed_reach_code_behind_a_magic_number() -> None:
    def parse(data: bytes) -> None:
        if data.startswith(b"MAGIC") and len(data) > 6 and data[5] > 0x80:
            raise KeyError(data[5])

    result = planted(parse, inputs=mutated([b"MAGIC\x01rest"]), seeds=(b"MAGIC\x01rest",))
    assert [kind for kind in result.findings if "KeyError" in kind]


@pytest.mark.parametrize(
    "attempt",
    [
        lambda _: Path("/etc/hostname").exists() and Path("/etc/hostname").read_bytes(),
        lambda _: eval("1 + 1"),
        lambda _: [*Path("/").iterdir()],
        lambda _: subprocess.run(["true"], check=False),
        lambda _: __import__("socket").socket().close(),
        lambda _: __import__("pickle").loads(b"cos\ngetcwd\n."),
    ],
)
def test_a_sealed_target_that_opens_runs_or_connects_is_reported(attempt: Any) -> None:
    result = planted(attempt, sealed=True, inputs=st.just(0))
    assert [kind for kind in result.findings if "ForbiddenAction" in kind]
    assert issubclass(ForbiddenAction, Exception)


PLANTED = """
import os, time
from tests.fuzz.target import takes, takes_bytes
from hypothesis import strategies as st

@takes_bytes([b"abcd"], "It lives.")
def deep(data):
    from holdfast.planted_for_fuzzing import look
    look(data)

@takes(st.integers(0, 9), "It lives.")
def endless(value):
    while value == 7:
        pass

@takes(st.integers(0, 9), "It lives.")
def deadly(value):
    if value == 7:
        os.kill(os.getpid(), 9)
"""
LOOK = """
def look(data):
    if len(data) > 3 and data[0] == 0x9c:
        if data[1] == 0x3e:
            if data[2] == 0x51:
                raise KeyError("found")
"""


@pytest.fixture
def copied_fuzzer(tmp_path: Path) -> Path:
    """A copy of the fuzzer with targets that have bugs."""
    for name in ("__init__", "target", "guard", "runner", "drivers", "child", "inputs"):
        (tmp_path / "tests" / "fuzz").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / "fuzz" / f"{name}.py").write_text((ROOT / "tests" / "fuzz" / f"{name}.py").read_text())
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "fuzz" / "targets").mkdir()
    (tmp_path / "tests" / "fuzz" / "targets" / "__init__.py").touch()
    (tmp_path / "tests" / "fuzz" / "targets" / "planted.py").write_text(PLANTED)
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "__init__.py").write_text(
        f"import pathlib\n__path__.append({str(ROOT / 'src' / 'holdfast')!r})\n"
    )
    (tmp_path / "holdfast" / "planted_for_fuzzing.py").write_text(LOOK)
    return tmp_path


def run_child(folder: Path, name: str, seconds: float) -> subprocess.CompletedProcess[bytes]:
    home = folder / "home"
    home.mkdir()
    arguments = [name, str(home), "--seconds", str(seconds), "--number", "3"]
    command = [sys.executable, "-m", "tests.fuzz.child", *arguments]
    return subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, check=False
    )


@pytest.mark.skipif(not has_atheris(), reason="atheris has no wheel for this Python or system")
def test_coverage_finds_a_bug_behind_three_bytes(copied_fuzzer: Path) -> None:
    ended = run_child(copied_fuzzer, "planted.deep", 5)
    result = json.loads((copied_fuzzer / "home" / "result.json").read_bytes())
    assert [kind for kind in result["findings"] if "KeyError" in kind], ended.stderr[-2000:]


def test_a_target_that_dies_leaves_its_last_input(copied_fuzzer: Path) -> None:
    ended = run_child(copied_fuzzer, "planted.deadly", 20)
    assert ended.returncode == -9
    assert last_input(copied_fuzzer / "home" / "last") == "7"


def test_a_target_that_hangs_is_ended_with_its_stack(copied_fuzzer: Path) -> None:
    runner = copied_fuzzer / "tests" / "fuzz" / "runner.py"
    assert "CPU_LIMIT = 20.0" in runner.read_text()
    runner.write_text(runner.read_text().replace("CPU_LIMIT = 20.0", "CPU_LIMIT = 2.0"))
    ended = run_child(copied_fuzzer, "planted.endless", 20)
    assert ended.returncode == -signal.SIGPROF
    assert b"in endless" in ended.stderr
    assert last_input(copied_fuzzer / "home" / "last") == "7"


def test_targets_take_turns_and_the_report_adds_them_up(tmp_path: Path) -> None:
    report = tmp_path / "evidence" / "fuzzing.json"
    arguments = ["--seconds", "0.4", "--seed", "5"]
    arguments += ["--target", "command_line.shares", "--target", "capsules.reading"]
    assert main([*arguments, "--found", str(tmp_path / "found"), "--report", str(report)]) == 0
    results = json.loads(report.read_text())
    assert results["figures"]["unhandled"] == 0
    assert [row[0] for row in results["table"]["rows"]] == ["command_line.shares", "capsules.reading"]
    assert str(tmp_path) not in report.read_text()


def test_a_saved_input_can_be_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "one.txt"
    saved.write_text("command_line.shares\n'many'")
    assert main(["--replay", str(saved)]) == 0
    assert "is not a share" in capsys.readouterr().out


def test_a_turn_that_cannot_start_is_reported(tmp_path: Path) -> None:
    results = Campaign(tmp_path).run(["command_line.nothing"], seconds=0.1)
    assert "KeyError" in results["command_line.nothing"].findings["died"].details
