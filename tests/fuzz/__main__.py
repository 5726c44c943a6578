"""Feed hostile input to everything that takes input, for a given CPU time: `make fuzz`.

Targets take turns. Each runs in its own process, so that a target that dies or hangs does not stop the others. An
input that was not handled is saved as a file, and `--replay FILE` tries it again.
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

from tests.fuzz.campaign import Campaign
from tests.fuzz.runner import TargetResult, UnhandledInput, read_back
from tests.fuzz.target import every_target, target_named

COLUMNS = ("target", "inputs", "refused", "unhandled")


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    if args.list:
        for name, target in every_target().items():
            print(f"{name:24}{target.expects}")
        return 0
    if args.replay:
        return _replay(args.replay)
    names = args.target or [*every_target()]
    seconds = args.seconds if args.seconds is not None else 60 * args.cpu_minutes
    print(f"{len(names)} targets, {seconds / 60:g} CPU-minutes, seed {args.seed}", flush=True)
    with TemporaryDirectory(prefix="fuzz-") as folder:
        results = Campaign(Path(folder), jobs=args.jobs, seed=args.seed).run(names, seconds=seconds)
    findings = [(name, finding) for name, result in results.items() for finding in result.findings.values()]
    _print(results)
    for name, finding in findings:
        _save(args.found, name, finding)
    if args.report:
        _report(args.report, results, seed=args.seed)
    return 1 if findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--seconds", type=float, help="CPU time in seconds, for all targets together")
    budget.add_argument("--cpu-minutes", type=float, default=24, help="CPU time in minutes (default 24)")
    parser.add_argument("--target", action="append", metavar="NAME", help="run only this target; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes at once (default 1)")
    parser.add_argument("--seed", type=int, default=randrange(10**6), help="seed of the random inputs")
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder for unhandled inputs")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON to this file")
    parser.add_argument("--list", action="store_true", help="list the targets and what is expected of each")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try a saved input again")
    return parser


def _print(results: dict[str, TargetResult]) -> None:
    print(f"\n{'target':26}{'inputs':>12}{'refused':>12}{'unhandled':>11}{'slowest':>10}")
    for name, result in results.items():
        unhandled = _count_unhandled(result)
        print(f"{name:26}{result.inputs:12,}{result.refused:12,}{unhandled:11,}{result.slowest:9.2f}s")
    seconds = sum(result.seconds for result in results.values())
    print(f"{'total':26}{sum(result.inputs for result in results.values()):12,}   in {seconds / 60:.1f} CPU-minutes")


def _count_unhandled(result: TargetResult) -> int:
    return sum(finding.times for finding in result.findings.values())


def _save(folder: Path, name: str, finding: UnhandledInput) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kind = "".join(letter if letter.isalnum() else "-" for letter in finding.kind)
    file = folder / f"{name}--{kind}.txt"
    file.write_text(f"{name}\n{finding.text}", errors="backslashreplace")
    print(f"\n{name}: {finding.kind}, {finding.times} times\n{finding.details}")
    print(f"to try it again: python -m tests.fuzz --replay {file}")


def _replay(file: Path) -> int:
    name, _, shown = file.read_text().partition("\n")
    target = target_named(name)
    try:
        target.attempt(read_back(shown))
    except target.refusals as error:
        print(f"{name}: refused: {error}")
        return 0
    print(f"{name}: handled")
    return 0


def _report(file: Path, results: dict[str, TargetResult], *, seed: int) -> None:
    minutes = sum(result.seconds for result in results.values()) / 60
    figures = {
        "CPU-minutes": round(minutes, 1),
        "targets": len(results),
        "inputs": sum(result.inputs for result in results.values()),
        "refused with an error message": sum(result.refused for result in results.values()),
        "unhandled": sum(map(_count_unhandled, results.values())),
        "slowest input, seconds": round(max((result.slowest for result in results.values()), default=0.0), 2),
    }
    rows = [[name, result.inputs, result.refused, _count_unhandled(result)] for name, result in results.items()]
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
