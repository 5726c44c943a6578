"""Feeds hostile input to all that takes any, for so many minutes of the processor: `make fuzz`.

Targets take turns, each in a process of its own, so that one which dies or hangs takes nobody along. What was not
handled is saved as a file, and `--again FILE` tries it once more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory

import msgspec

from tests.fuzz.feeding import Finding, Told, read_back
from tests.fuzz.target import every_target, target_named
from tests.fuzz.turns import Turns

COLUMNS = ("target", "inputs", "refused", "unhandled")


def main(words: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(words)
    if asked.list:
        for name, target in every_target().items():
            print(f"{name:24}{target.expects}")
        return 0
    if asked.again:
        return _again(asked.again)
    names = asked.target or [*every_target()]
    seconds = asked.seconds if asked.seconds is not None else 60 * asked.cpu_minutes
    print(f"{len(names)} targets, {seconds / 60:g} minutes of the processor, seed {asked.seed}", flush=True)
    with TemporaryDirectory(prefix="fuzz-") as folder:
        told = Turns(Path(folder), jobs=asked.jobs, seed=asked.seed).all(names, seconds=seconds)
    found = [(name, finding) for name, one in told.items() for finding in one.findings.values()]
    _print(told)
    for name, finding in found:
        _save(asked.found, name, finding)
    if asked.report:
        _report(asked.report, told, seed=asked.seed)
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--seconds", type=float, help="seconds of the processor, for all targets together")
    budget.add_argument("--cpu-minutes", type=float, default=24)
    parser.add_argument("--target", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--seed", type=int, default=randrange(10**6))
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="where unhandled inputs are saved")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what came of it as JSON")
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try an input that was saved")
    return parser


def _print(told: dict[str, Told]) -> None:
    print(f"\n{'target':26}{'inputs':>12}{'refused':>12}{'unhandled':>11}{'slowest':>10}")
    for name, one in told.items():
        print(f"{name:26}{one.inputs:12,}{one.refused:12,}{_unhandled(one):11,}{one.slowest:9.2f}s")
    seconds = sum(one.seconds for one in told.values())
    print(
        f"{'in all':26}{sum(one.inputs for one in told.values()):12,}   in {seconds / 60:.1f} minutes of the processor"
    )


def _unhandled(told: Told) -> int:
    return sum(finding.times for finding in told.findings.values())


def _save(folder: Path, name: str, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kind = "".join(letter if letter.isalnum() else "-" for letter in finding.what)
    file = folder / f"{name}--{kind}.txt"
    file.write_text(f"{name}\n{finding.shown}", errors="backslashreplace")
    print(f"\n{name}: {finding.what}, {finding.times} times\n{finding.story}")
    print(f"again: python -m tests.fuzz --again {file}")


def _again(file: Path) -> int:
    name, _, shown = file.read_text().partition("\n")
    target = target_named(name)
    try:
        target.attempt(read_back(shown))
    except target.refusals as error:
        print(f"{name}: refused: {error}")
        return 0
    print(f"{name}: handled")
    return 0


def _report(file: Path, told: dict[str, Told], *, seed: int) -> None:
    minutes = sum(one.seconds for one in told.values()) / 60
    figures = {
        "CPU-minutes": round(minutes, 1),
        "targets": len(told),
        "inputs": sum(one.inputs for one in told.values()),
        "refused with a sentence": sum(one.refused for one in told.values()),
        "unhandled": sum(map(_unhandled, told.values())),
        "slowest input, seconds": round(max((one.slowest for one in told.values()), default=0.0), 2),
    }
    rows = [[name, one.inputs, one.refused, _unhandled(one)] for name, one in told.items()]
    report = {
        "title": "Hostile input: fuzzing",
        "command": f"python -m tests.fuzz --cpu-minutes {minutes:.0f} --seed {seed}",
        "date": datetime.now(UTC).date().isoformat(),
        "figures": figures,
        "table": {"columns": COLUMNS, "rows": rows},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
