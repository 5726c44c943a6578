"""Apply every mutant and print how many schedules it took to find it: `make mutants`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tests.simulation.mutants import FIRST_SEEDS, MAX_SCHEDULES, MUTANTS, find

Row = tuple[str, str, int, str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run_mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="only mutants with this text in their description")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON to this file")
    args = parser.parse_args()
    rows: list[Row] = []
    chosen = [number for number, mutant in enumerate(MUTANTS) if args.only in mutant.mistake]
    with get_context("fork").Pool(maxtasksperchild=1) as pool:
        for row in pool.imap(_find, chosen):
            rows.append(row)
            print(f"{row[2]:>6} {row[1]:8} {row[0]}: {row[3] or 'NOT FOUND'}", flush=True)
    not_found = [row for row in rows if not row[3]]
    print(f"{len(rows) - len(not_found)} of {len(rows)} mutants were found")
    if args.report is not None:
        args.report.write_bytes(msgspec.json.format(msgspec.json.encode(_report(rows, len(not_found)))) + b"\n")
    return bool(not_found)


def _find(number: int) -> Row:
    mutant = MUTANTS[number]
    first = FIRST_SEEDS.get(mutant.mistake, 0)
    results = find(mutant, range(first, first + MAX_SCHEDULES))
    return mutant.mistake, mutant.store, results.schedules, next(iter(results.violations.values()), "")[:160]


def _report(rows: list[Row], not_found: int) -> dict[str, object]:
    return {
        "title": "Mutants, and the number of schedules until each was found",
        "command": "make mutants",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "figures": {
            "mutants": len(rows),
            "found": len(rows) - not_found,
            "schedules at most": max(row[2] for row in rows),
        },
        "table": {"columns": ["mutant", "store", "schedules", "violation"], "rows": rows},
    }


if __name__ == "__main__":
    sys.exit(main())
