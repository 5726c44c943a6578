"""The fuzzer finds what is planted: faults, hangs, deaths, and things that input must not bring about."""

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
from tests.fuzz.drivers import has_atheris, some_by_shape, warm
from tests.fuzz.feeding import Feeder, Told, last_words, read_back
from tests.fuzz.guard import Broken
from tests.fuzz.target import Target, mutated
from tests.fuzz.turns import ROOT, Turns


def planted(attempt: Any, **more: Any) -> Told:
    """Feeds some inputs to a target of a test's own."""
    how = {"inputs": st.integers(0, 50) | st.text(max_size=3)} | more
    target = Target(name="planted", expects="Nothing.", attempt=attempt, **how)
    feeder = Feeder(target)
    warm(target, feeder)
    some_by_shape(target, feeder, number=7, most=200)
    return feeder.told


def test_a_refusal_of_ours_is_counted_and_no_fault() -> None:
    def refuse(value: object) -> None:
        raise HoldfastError("not that")

    told = planted(refuse)
    assert told.refused == told.inputs > 50
    assert not told.findings


def test_a_refusal_without_a_word_is_a_fault() -> None:
    def mumble(value: object) -> None:
        raise HoldfastError

    assert [*planted(mumble).findings] == ["refused without a word"]


def test_a_fault_is_found_with_the_smallest_input_that_was_seen() -> None:
    def divide(value: object) -> float:
        return 1 / (value - 7) if isinstance(value, int) else 0.0

    (found,) = planted(divide).findings.values()
    assert "ZeroDivisionError" in found.what
    assert read_back(found.shown) == 7


def test_mutations_reach_what_is_behind_a_magic_word() -> None:
    def parse(data: bytes) -> None:
        if data.startswith(b"MAGIC") and len(data) > 6 and data[5] > 0x80:
            raise KeyError(data[5])

    told = planted(parse, inputs=mutated([b"MAGIC\x01rest"]), seeds=(b"MAGIC\x01rest",))
    assert [finding for finding in told.findings if "KeyError" in finding]


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
def test_a_sealed_target_that_opens_runs_or_connects_is_found(attempt: Any) -> None:
    told = planted(attempt, sealed=True, inputs=st.just(0))
    assert [one for one in told.findings if "Broken" in one]
    assert issubclass(Broken, Exception)


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
def elsewhere(tmp_path: Path) -> Path:
    """A copy of the fuzzer with targets that do not keep what they promise."""
    for name in ("__init__", "target", "guard", "feeding", "drivers", "child", "inputs"):
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


def child(folder: Path, name: str, seconds: float) -> subprocess.CompletedProcess[bytes]:
    home = folder / "home"
    home.mkdir()
    words = [name, str(home), "--seconds", str(seconds), "--number", "3"]
    command = [sys.executable, "-m", "tests.fuzz.child", *words]
    return subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, check=False
    )


@pytest.mark.skipif(not has_atheris(), reason="atheris has no wheel for this Python or system")
def test_coverage_leads_to_a_fault_behind_three_bytes(elsewhere: Path) -> None:
    ended = child(elsewhere, "planted.deep", 5)
    told = json.loads((elsewhere / "home" / "told.json").read_bytes())
    assert [what for what in told["findings"] if "KeyError" in what], ended.stderr[-2000:]


def test_a_target_that_dies_leaves_what_it_died_of(elsewhere: Path) -> None:
    ended = child(elsewhere, "planted.deadly", 20)
    assert ended.returncode == -9
    assert last_words(elsewhere / "home" / "last") == "7"


def test_a_target_that_hangs_is_ended_and_says_where(elsewhere: Path) -> None:
    feeding = elsewhere / "tests" / "fuzz" / "feeding.py"
    feeding.write_text(feeding.read_text().replace("PATIENCE = 20.0", "PATIENCE = 2.0"))
    ended = child(elsewhere, "planted.endless", 20)
    assert ended.returncode == -signal.SIGPROF
    assert b"in endless" in ended.stderr
    assert last_words(elsewhere / "home" / "last") == "7"


def test_targets_take_turns_and_the_report_adds_them_up(tmp_path: Path) -> None:
    report = tmp_path / "evidence" / "fuzzing.json"
    words = ["--seconds", "0.4", "--target", "words.shares", "--target", "capsules.reading", "--seed", "5"]
    assert main([*words, "--found", str(tmp_path / "found"), "--report", str(report)]) == 0
    told = json.loads(report.read_text())
    assert told["figures"]["unhandled"] == 0
    assert [row[0] for row in told["table"]["rows"]] == ["words.shares", "capsules.reading"]
    assert str(tmp_path) not in report.read_text()


def test_an_input_that_was_saved_can_be_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "one.txt"
    saved.write_text("words.shares\n'many'")
    assert main(["--again", str(saved)]) == 0
    assert "is no share" in capsys.readouterr().out


def test_a_turn_that_cannot_begin_is_a_fault(tmp_path: Path) -> None:
    told = Turns(tmp_path).all(["words.nothing"], seconds=0.1)
    assert "KeyError" in told["words.nothing"].findings["died"].story
