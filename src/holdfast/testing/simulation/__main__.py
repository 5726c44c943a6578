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
    print(f"simulating on the {asked.store} store from seed {asked.first}", flush=True)
    seeds = count(asked.first) if asked.schedules is None else iter(range(asked.first, asked.first + asked.schedules))
    progress = _Progress()
    seconds = asked.seconds if asked.schedules is None else None
    seen = explore(seeds, store=asked.store, seconds=seconds, processes=asked.processes, tell=progress.tell)
    print(_summary(seen, progress.seconds))
    if asked.report is not None:
        asked.report.write_bytes(
            msgspec.json.format(msgspec.json.encode(_report(seen, progress.seconds, asked))) + b"\n"
        )
    for seed, broken in seen.broken.items():
        print(f"\nseed {seed} broke a promise: {broken}\nthe smallest schedule like it:\n")
        replay(seed, store=asked.store, small=True)
        print(
            f"\nto see it again: python -m holdfast.testing.simulation --store {asked.store} --replay {seed} [--small]"
        )
    return bool(seen.broken)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for how long (600)")
    parser.add_argument("--schedules", type=int, help="how many, however long it takes")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="where to begin (0)")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--processes", type=int, help="how many cores (all)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell the story of one seed")
    parser.add_argument("--small", action="store_true", help="with --replay: the smallest schedule that fails alike")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was seen as JSON")
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


def _report(seen: Seen, seconds: float, asked: argparse.Namespace) -> dict[str, Any]:
    command = f"python -m holdfast.testing.simulation --store {asked.store} --first {asked.first}"
    limit = f"--seconds {asked.seconds:g}" if asked.schedules is None else f"--schedules {asked.schedules}"
    figures = {
        "schedules": seen.schedules,
        "turns": seen.turns,
        "states": len(seen.states),
        "troubles": sum(seen.troubles.values()),
        "violations": len(seen.broken),
        "seconds": round(seconds),
    }
    rows = sorted(seen.troubles.items(), key=lambda one: -one[1])
    return {
        "title": f"Simulated schedules, {asked.store} store",
        "command": f"{command} {limit}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "figures": figures,
        "table": {"columns": ["trouble", "how often"], "rows": rows},
    }


if __name__ == "__main__":
    sys.exit(main())
