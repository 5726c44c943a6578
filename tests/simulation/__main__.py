"""Makes every deliberate mistake and tells in how many schedules it was found: `make mutants`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import msgspec

from tests.simulation.mutants import MOST, MUTANTS, found_in

Row = tuple[str, str, int, str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="only mistakes with these words in their names")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was found as JSON")
    asked = parser.parse_args()
    rows: list[Row] = []
    wanted = [number for number, mutant in enumerate(MUTANTS) if asked.only in mutant.mistake]
    with get_context("fork").Pool(maxtasksperchild=1) as pool:
        for row in pool.imap(_look_for, wanted):
            rows.append(row)
            print(f"{row[2]:>6} {row[1]:8} {row[0]}: {row[3] or 'NOT FOUND'}", flush=True)
    missed = [row for row in rows if not row[3]]
    print(f"{len(rows) - len(missed)} of {len(rows)} mistakes were found")
    if asked.report is not None:
        asked.report.write_bytes(msgspec.json.format(msgspec.json.encode(_report(rows, len(missed)))) + b"\n")
    return bool(missed)


def _look_for(number: int) -> Row:
    mutant = MUTANTS[number]
    seen = found_in(mutant, range(MOST))
    return mutant.mistake, mutant.store, seen.schedules, next(iter(seen.broken.values()), "")[:160]


def _report(rows: list[Row], missed: int) -> dict[str, object]:
    return {
        "title": "Deliberate mistakes, and the schedules until each was found",
        "command": "make mutants",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "figures": {
            "mistakes": len(rows),
            "found": len(rows) - missed,
            "schedules at most": max(row[2] for row in rows),
        },
        "table": {"columns": ["mistake", "store", "schedules", "what was seen"], "rows": rows},
    }


if __name__ == "__main__":
    sys.exit(main())
