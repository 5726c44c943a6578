"""Runs the fault laboratory and prints what was seen: `make faults`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.faults.cases import STORES, all_cases
from tests.faults.laboratory import Outcome, run_case


def main() -> int:
    cases = all_cases()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--on", choices=[*STORES, "both"], default="both")
    parser.add_argument("--case", choices=[*cases], action="append", help="only this case; may be given again")
    parser.add_argument("--list", action="store_true", help="only say what the cases are")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was seen as JSON")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--effort", type=float, default=1.0, help="how much trouble to make: 0.3 for a short run")
    asked = parser.parse_args()
    if asked.list:
        for case in cases.values():
            print(f"{case.name:<18} {case.expected}")
        return 0
    outcomes = [
        tell(run_case(cases[name], kind, effort=asked.effort, seed=asked.seed))
        for name in asked.case or cases
        for kind in (STORES if asked.on == "both" else [asked.on])
    ]
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"{counts['green']} green, {counts['RED']} red, {counts['-']} that do not apply or cannot run here")
    if asked.report:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_bytes(msgspec.json.format(msgspec.json.encode(report(outcomes))) + b"\n")
    return 1 if counts["RED"] else 0


def tell(outcome: Outcome) -> Outcome:
    print(outcome, flush=True)
    for violation in outcome.violations:
        print(f"    {violation}", flush=True)
    return outcome


def report(outcomes: list[Outcome]) -> dict[str, object]:
    """Gives what was seen in the form of all reports."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return {
        "title": "The fault laboratory",
        "command": "make faults",
        "date": datetime.now(UTC).date().isoformat(),
        "figures": {
            "cases": len({outcome.case for outcome in outcomes}),
            "green": counts["green"],
            "red": counts["RED"],
            "do not apply or cannot run": counts["-"],
            "seconds": round(sum(outcome.seconds for outcome in outcomes)),
        },
        "table": {
            "columns": ["case", "store", "expected", "seen", "verdict"],
            "rows": [[one.case, one.store, one.expected, one.seen, one.verdict] for one in outcomes],
        },
    }


if __name__ == "__main__":
    sys.exit(main())
