"""Run the fault cases and print the outcome of each: `make faults`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.faults.cases import STORES, all_cases
from tests.faults.environment import CaseOutcome, run_case


def main() -> int:
    cases = all_cases()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--on", choices=[*STORES, "both"], default="both", help="the store to test (default both)")
    parser.add_argument("--case", choices=[*cases], action="append", help="run only this case; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the cases and what is expected of each")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the outcomes as JSON to this file")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices (default 1)")
    parser.add_argument(
        "--effort", type=float, default=1.0, help="scale the number of faults: 0.3 for a short run (default 1)"
    )
    args = parser.parse_args()
    if args.list:
        for case in cases.values():
            print(f"{case.name:<18} {case.expected}")
        return 0
    outcomes = [
        print_outcome(run_case(cases[name], kind, effort=args.effort, seed=args.seed))
        for name in args.case or cases
        for kind in (STORES if args.on == "both" else [args.on])
    ]
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(f"{counts['green']} green, {counts['RED']} red, {counts['-']} that do not apply or cannot run here")
    if args.report:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_bytes(msgspec.json.format(msgspec.json.encode(report(outcomes))) + b"\n")
    return 1 if counts["RED"] else 0


def print_outcome(outcome: CaseOutcome) -> CaseOutcome:
    """Print an outcome and return it."""
    print(outcome, flush=True)
    for violation in outcome.violations:
        print(f"    {violation}", flush=True)
    return outcome


def report(outcomes: list[CaseOutcome]) -> dict[str, object]:
    """Return the outcomes in the form of all reports in docs/evidence."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return {
        "title": "Fault injection",
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
            "rows": [
                [outcome.case, outcome.store, outcome.expected, outcome.seen, outcome.verdict] for outcome in outcomes
            ],
        },
    }


if __name__ == "__main__":
    sys.exit(main())
