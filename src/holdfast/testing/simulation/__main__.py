"""Explores schedules and tells what was seen: `make simulate SECONDS=600`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from holdfast.testing.simulation.exploring import Seen, explore, replay


def main() -> int:
    """Explores, or replays one seed."""
    asked = _asked()
    if asked.replay is not None:
        outcome = replay(asked.replay, store=asked.store, small=asked.small)
        print(f"\nbroken: {outcome.broken}" if outcome.broken else f"\nnothing was broken in {outcome.turns} turns")
        return bool(outcome.broken)
    before = _runs_before(asked.report)
    first = asked.first if asked.first is not None else sum(row[1] for row in before)
    print(f"simulating on the {asked.store} store from seed {first}", flush=True)
    seeds = count(first) if asked.schedules is None else iter(range(first, first + asked.schedules))
    progress = _Progress()
    seconds = asked.seconds if asked.schedules is None else None
    seen = explore(seeds, store=asked.store, seconds=seconds, processes=asked.processes, tell=progress.tell)
    print(_summary(seen, progress.seconds))
    print(", ".join(f"{kind} {times:,}" for kind, times in seen.troubles.most_common()))
    if asked.report is not None:
        runs = [*before, _row(seen, first, progress.seconds)]
        asked.report.write_bytes(msgspec.json.format(msgspec.json.encode(_report(runs, asked.store))) + b"\n")
    for seed, broken in seen.broken.items():
        print(f"\nseed {seed} broke a promise: {broken}\nthe smallest schedule like it:\n")
        replay(seed, store=asked.store, small=True)
        command = f"python -m holdfast.testing.simulation --store {asked.store} --replay {seed} [--small]"
        print(f"\nto see it again: {command}")
    return bool(seen.broken)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for how long (600)")
    parser.add_argument("--schedules", type=int, help="how many, however long it takes")
    parser.add_argument("--first", type=int, metavar="SEED", help="where to begin (0, or after what is in the report)")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--processes", type=int, help="how many cores (all)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell the story of one seed")
    parser.add_argument("--small", action="store_true", help="with --replay: the smallest schedule that fails alike")
    parser.add_argument("--report", type=Path, metavar="FILE", help="add what was seen to this JSON")
    return parser.parse_args()


class _Progress:
    """A line now and then."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._told_at = 0.0

    def tell(self, seen: Seen, seconds: float) -> None:
        self.seconds = seconds
        if seconds - self._told_at > 10:
            self._told_at = seconds
            print(_summary(seen, seconds), flush=True)


def _summary(seen: Seen, seconds: float) -> str:
    rate = seen.schedules / max(seconds, 0.001)
    return (
        f"{seen.schedules:,} schedules in {seconds:,.0f} s ({rate:,.0f}/s), {seen.turns:,} turns, "
        f"{len(seen.states):,} states, {sum(seen.troubles.values()):,} troubles, {len(seen.broken)} broken"
    )


COLUMNS = ("from seed", "schedules", "turns", "states", "troubles", "violations", "seconds", "date")
Row = list[Any]


def _row(seen: Seen, first: int, seconds: float) -> Row:
    troubles, today = sum(seen.troubles.values()), f"{datetime.now(UTC):%Y-%m-%d}"
    states, broken = len(seen.states), len(seen.broken)
    return [first, seen.schedules, seen.turns, states, troubles, broken, round(seconds), today]


def _runs_before(report: Path | None) -> list[Row]:
    """Gives the runs that a report tells of already: what is explored later goes on after them."""
    if report is None or not report.exists():
        return []
    rows: list[Row] = msgspec.json.decode(report.read_bytes())["table"]["rows"]
    return rows


def _report(runs: list[Row], store: str) -> dict[str, Any]:
    totals = {column: sum(row[place] for row in runs) for place, column in enumerate(COLUMNS[:-1])}
    figures = {column: totals[column] for column in ("schedules", "turns", "troubles", "violations", "seconds")}
    return {
        "title": f"Simulated schedules, {store} store",
        "command": f"make simulate STORE={store}",
        "date": runs[-1][-1],
        "figures": figures | {"states in the longest run": max(row[3] for row in runs)},
        "table": {"columns": COLUMNS, "rows": runs},
    }


if __name__ == "__main__":
    sys.exit(main())
