"""A fuzzing campaign: targets take turns, each in its own process, until the time is used up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tests.fuzz.runner import TargetResult, UnhandledInput, last_input

TURN_SECONDS = 30.0
"""CPU seconds of one turn at most. The next turn of a target starts with the corpus of this one."""
ROOT = Path(__file__).parents[2]
TURN_TIME_LIMIT = 1800.0
"""Seconds that a turn may take by the clock, on a machine that is shared. A target that hangs ends itself."""


class Campaign:
    """Runs the turns of all targets and adds up their results."""

    def __init__(self, folder: Path, *, jobs: int = 1, seed: int = 0) -> None:
        self._folder = folder
        self._jobs = jobs
        self._seed = seed

    def run(self, names: Sequence[str], *, seconds: float) -> dict[str, TargetResult]:
        """Feed each target for an equal part of the CPU seconds. Return the results by target."""
        each = seconds / len(names)
        rounds = max(1, round(each / TURN_SECONDS))
        turns = [(name, number) for number in range(rounds) for name in names]
        results = {name: TargetResult(findings={}) for name in names}
        with ThreadPoolExecutor(self._jobs) as pool:
            for name, result in pool.map(lambda turn: self._turn(*turn, seconds=each / rounds), turns):
                _add(results[name], result)
                counts = f"{result.inputs:10,} inputs, {result.refused:,} refused, {len(result.findings)} unhandled"
                print(f"{name:26}{counts}", flush=True)
        return results

    def _turn(self, name: str, number: int, *, seconds: float) -> tuple[str, TargetResult]:
        home = self._folder / name
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        (home / "result.json").unlink(missing_ok=True)
        arguments = [name, str(home), "--seconds", str(seconds), "--number", str(self._seed * 1000 + number)]
        environment = os.environ | {"TMPDIR": str(home / "tmp"), "PYTHONPATH": _path()}
        with (home / "output.log").open("wb") as output:
            try:
                ended: object = subprocess.run(
                    [sys.executable, "-m", "tests.fuzz.child", *arguments],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=20 * seconds + TURN_TIME_LIMIT,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                ended = "time limit"
        if (home / "result.json").exists():
            return name, msgspec.json.decode((home / "result.json").read_bytes(), type=TargetResult)
        return name, TargetResult(inputs=1, findings={"died": _death(home, ended)})


def _death(home: Path, ended: object) -> UnhandledInput:
    output = (home / "output.log").read_text(errors="replace")[-6000:]
    last = home / "last"
    return UnhandledInput(f"died or hung ({ended})", output, last_input(last) if last.exists() else "")


def _add(total: TargetResult, part: TargetResult) -> None:
    total.inputs += part.inputs
    total.refused += part.refused
    total.seconds += part.seconds
    total.slowest = max(total.slowest, part.slowest)
    for kind, finding in part.findings.items():
        known = total.findings.setdefault(kind, finding)
        if known is not finding:
            known.times += finding.times


def _path() -> str:
    """Return a Python path on which the sources of this repository come before an installed holdfast."""
    return os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
