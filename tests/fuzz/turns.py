"""Turns: targets are fed one after another, each in a process of its own, until the time is over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tests.fuzz.feeding import Finding, Told, last_words

TURN = 30.0
"""Seconds of the processor that a turn takes at most. The next one begins with what this one found worth keeping."""
ROOT = Path(__file__).parents[2]
BREATH = 1800.0
"""Seconds that a turn may take by the clock, on a machine that others use. A target that hangs ends itself."""


class Turns:
    """Gives every target its turns, and adds up what is told of them."""

    def __init__(self, folder: Path, *, jobs: int = 1, seed: int = 0) -> None:
        self._folder = folder
        self._jobs = jobs
        self._seed = seed

    def all(self, names: Sequence[str], *, seconds: float) -> dict[str, Told]:
        """Feeds each target for the same part of so many seconds."""
        each = seconds / len(names)
        rounds = max(1, round(each / TURN))
        turns = [(name, number) for number in range(rounds) for name in names]
        told = {name: Told(findings={}) for name in names}
        with ThreadPoolExecutor(self._jobs) as pool:
            for name, one in pool.map(lambda turn: self._turn(*turn, seconds=each / rounds), turns):
                _add(told[name], one)
                print(
                    f"{name:26}{one.inputs:10,} inputs, {one.refused:,} refused, {len(one.findings)} faults", flush=True
                )
        return told

    def _turn(self, name: str, number: int, *, seconds: float) -> tuple[str, Told]:
        home = self._folder / name
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        (home / "told.json").unlink(missing_ok=True)
        words = [name, str(home), "--seconds", str(seconds), "--number", str(self._seed * 1000 + number)]
        environment = os.environ | {"TMPDIR": str(home / "tmp"), "PYTHONPATH": _path()}
        with (home / "said").open("wb") as said:
            try:
                ended: object = subprocess.run(
                    [sys.executable, "-m", "tests.fuzz.child", *words],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=20 * seconds + BREATH,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                ended = "no end"
        if (home / "told.json").exists():
            return name, msgspec.json.decode((home / "told.json").read_bytes(), type=Told)
        return name, Told(inputs=1, findings={"died": _death(home, ended)})


def _death(home: Path, ended: object) -> Finding:
    story = (home / "said").read_text(errors="replace")[-6000:]
    last = home / "last"
    return Finding(f"died or hung ({ended})", story, last_words(last) if last.exists() else "")


def _add(whole: Told, part: Told) -> None:
    whole.inputs += part.inputs
    whole.refused += part.refused
    whole.seconds += part.seconds
    whole.slowest = max(whole.slowest, part.slowest)
    for what, finding in part.findings.items():
        known = whole.findings.setdefault(what, finding)
        if known is not finding:
            known.times += finding.times


def _path() -> str:
    """The sources beside these tests come first, whatever is installed."""
    return os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
