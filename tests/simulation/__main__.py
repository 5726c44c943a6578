"""Explore schedules and print a summary: `make simulate SECONDS=600`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from tests.simulation.explorer import Results, explore, replay


def main() -> int:
    """Explore schedules, or replay one seed."""
    args = _parse_args()
    if args.replay is not None:
        outcome = replay(args.replay, store=args.store, small=args.small)
        print(f"\nviolation: {outcome.violation}" if outcome.violation else f"\nno violation in {outcome.turns} turns")
        return bool(outcome.violation)
    before = _runs_before(args.report)
    first = args.first if args.first is not None else sum(row[1] for row in before)
    print(f"simulating on the {args.store} store from seed {first}", flush=True)
    seeds = count(first) if args.schedules is None else iter(range(first, first + args.schedules))
    progress = _Progress()
    seconds = args.seconds if args.schedules is None else None
    results = explore(seeds, store=args.store, seconds=seconds, processes=args.processes, on_progress=progress.update)
    print(_summary(results, progress.seconds))
    print(", ".join(f"{kind} {times:,}" for kind, times in results.faults.most_common()))
    if args.report is not None:
        runs = [*before, _row(results, first, progress.seconds)]
        args.report.write_bytes(msgspec.json.format(msgspec.json.encode(_report(runs, args.store))) + b"\n")
    for seed, violation in results.violations.items():
        print(f"\nseed {seed} violated an invariant: {violation}\nthe smallest schedule that fails too:\n")
        replay(seed, store=args.store, small=True)
        command = f"python -m tests.simulation --store {args.store} --replay {seed} [--small]"
        print(f"\nto repeat it: {command}")
    return bool(results.violations)


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="run for this long (default 600)")
    parser.add_argument("--schedules", type=int, help="run this many schedules instead of a time")
    parser.add_argument(
        "--first", type=int, metavar="SEED", help="first seed (default 0, or the next one after those in the report)"
    )
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory", help="the store (default memory)")
    parser.add_argument("--processes", type=int, help="number of processes (default: one for each core)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print the log of one seed")
    parser.add_argument("--small", action="store_true", help="with --replay: the smallest schedule that fails too")
    parser.add_argument("--report", type=Path, metavar="FILE", help="add the results to this JSON file")
    return parser.parse_args()


class _Progress:
    """Prints a summary every ten seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._printed_at = 0.0

    def update(self, results: Results, seconds: float) -> None:
        self.seconds = seconds
        if seconds - self._printed_at > 10:
            self._printed_at = seconds
            print(_summary(results, seconds), flush=True)


def _summary(results: Results, seconds: float) -> str:
    rate = results.schedules / max(seconds, 0.001)
    return (
        f"{results.schedules:,} schedules in {seconds:,.0f} s ({rate:,.0f}/s), {results.turns:,} turns, "
        f"{len(results.states):,} states, {sum(results.faults.values()):,} faults, {len(results.violations)} violations"
    )


COLUMNS = ("from seed", "schedules", "turns", "states", "faults", "violations", "seconds", "date")
Row = list[Any]


def _row(results: Results, first: int, seconds: float) -> Row:
    faults, today = sum(results.faults.values()), f"{datetime.now(UTC):%Y-%m-%d}"
    states, violations = len(results.states), len(results.violations)
    return [first, results.schedules, results.turns, states, faults, violations, round(seconds), today]


def _runs_before(report: Path | None) -> list[Row]:
    """Return the runs that a report has already. New seeds begin after them."""
    if report is None or not report.exists():
        return []
    rows: list[Row] = msgspec.json.decode(report.read_bytes())["table"]["rows"]
    return rows


def _report(runs: list[Row], store: str) -> dict[str, Any]:
    totals = {column: sum(row[place] for row in runs) for place, column in enumerate(COLUMNS[:-1])}
    figures = {column: totals[column] for column in ("schedules", "turns", "faults", "violations", "seconds")}
    return {
        "title": f"Simulated schedules, {store} store",
        "command": f"make simulate STORE={store}",
        "date": runs[-1][-1],
        "figures": figures | {"states in the longest run": max(row[3] for row in runs)},
        "table": {"columns": COLUMNS, "rows": runs},
    }


if __name__ == "__main__":
    sys.exit(main())
