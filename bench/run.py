"""All benchmarks, beside the peers, in one run: interleaved, repeated, medians and ratios.

    python bench/run.py                      everything, 3 repetitions (about an hour)
    python bench/run.py --quick              the best peers and ours, 1 repetition
    python bench/run.py --workloads W1,W2

The peers and the raw limits come from a harness that is not part of this repository: `../shared/perf`, or the folder
that HOLDFAST_PERF names. Its README says how to install the peers. Without it only `bench/scale.py` can run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from peer_holdfast import PERF  # noqa: E402 - it also makes the harness importable

try:
    import common as C  # noqa: N812
    import run as harness
except ModuleNotFoundError:
    sys.exit(f"the harness is not at {PERF}; set HOLDFAST_PERF to the folder that has its run.py")

# workload, backend, variant, documents, processes, documents held
OURS = [
    ("W1", "sqlite", "default", 20000, 1, 1000),
    ("W1", "sqlite", "default", 20000, 2, 1000),
    ("W1", "sqlite", "async", 10000, 1, 1000),
    ("W1", "sqlite", "threads", 10000, 1, 1000),
    ("W1", "pg", "default", 20000, 1, 1000),
    ("W1", "pg", "default", 20000, 2, 1000),
    ("W2", "sqlite", "default", 100000, 1, 1000),
    ("W2", "sqlite", "default", 100000, 2, 1000),
    ("W2", "pg", "default", 100000, 1, 1000),
    ("W2", "pg", "default", 100000, 2, 1000),
    ("W3", "sqlite", "default", 5000, 1, 1000),
    ("W3", "pg", "default", 5000, 1, 1000),
    ("W4", "sqlite", "default", 1, 1, 1),
    ("W4", "pg", "default", 1, 1, 1),
]
RATE = {"W1": "steps_per_s", "W2": "jobs_per_s", "W4": "items_per_s"}

# workload, backend: how many times the best peer, and how many times DBOS
BARS = {
    ("W1", "sqlite"): (30, 100),
    ("W1", "pg"): (20, 75),
    ("W2", "sqlite"): (20, None),
    ("W2", "pg"): (2, None),
}

# the best setting of the best peers, as full runs showed: workload, backend, peer, variant, processes
QUICK = {
    ("W1", "sqlite", "huey", "default", 1),
    ("W1", "sqlite", "huey", "default", 2),
    ("W1", "sqlite", "dbos", "direct-wal", 1),
    ("W1", "pg", "absurd", "multi", 2),
    ("W1", "pg", "dbos", "queue", 2),
    ("W2", "sqlite", "huey", "default", 2),
    ("W2", "pg", "pgqueuer", "default", 2),
    ("W3", "pg", "absurd", "multi", 1),
    ("W4", "sqlite", "handrolled", "plain", 1),
    ("W4", "pg", "handrolled", "plain", 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=0, help="3, or 1 with --quick")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workloads", default="W1,W2,W3,W4")
    parser.add_argument("--backends", default="")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    _lend_our_environment()
    out = HERE / "results" / time.strftime("run-%Y%m%d-%H%M%S.jsonl")
    out.parent.mkdir(exist_ok=True)
    harness.EXTRA_CASES[:] = OURS
    if asked.quick:
        harness.CASES[:] = [case for case in harness.CASES if (case[1], case[2], case[0], case[3], case[5]) in QUICK]
    sys.argv = [
        "run.py",
        *("--reps", str(asked.reps or (1 if asked.quick else 3))),
        *("--workloads", asked.workloads),
        *("--backends", asked.backends),
        *("--only", asked.only),
        *("--skip", "prefect,llamaindex,langchain,cocoindex"),
        *("--extra", f"holdfast={HERE / 'peer_holdfast.py'}:holdfast"),
        *("--out", str(out)),
    ]
    harness.main()
    report(out)


def _lend_our_environment() -> None:
    """The harness runs each peer with the Python of its own environment; ours is the one that runs this."""
    place = C.PERF_HOME / "venvs" / "holdfast"
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(Path(sys.executable).parent.parent)


def report(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("workload") in ("W1", "W2", "W3", "W4"):
            case = (row["workload"], row["backend"], row["peer"], row["variant"], row["procs"], row["conc"])
            groups[case].append(row)
    for workload, key in RATE.items():
        _rates(workload, key, {case: runs for case, runs in groups.items() if case[0] == workload})
    _crashes({case: runs for case, runs in groups.items() if case[0] == "W3"})


def _rates(workload: str, key: str, groups: dict[tuple[Any, ...], list[dict[str, Any]]]) -> None:
    for backend in ("sqlite", "pg"):
        table = [(_median(runs, key), case, runs) for case, runs in groups.items() if case[1] == backend]
        table = [row for row in table if row[0]]
        if not table:
            continue
        print(f"\n## {workload} on {backend}: {key}\n")
        print("| system | processes x held | median | min-max | CPU ms client + server | commits, statements | bytes |")
        print("|---|---|---|---|---|---|---|")
        for rate, case, runs in sorted(table, key=lambda row: -row[0]):
            spread = [run[key] for run in runs if run.get(key) and run.get("ok")]
            print(
                f"| {case[2]} {case[3]} | {case[4]} x {case[5]} | {rate:,.0f} | {min(spread):,.0f}-{max(spread):,.0f} "
                f"| {_per_tick(runs, 'cpu_client_s')} + {_per_tick(runs, 'cpu_server_s')} "
                f"| {_median(runs, 'commits_per_doc') or '-'} / {_median(runs, 'stmts_per_doc') or '-'} "
                f"| {_median(runs, 'db_bytes_per_doc') or '-'} |"
            )
        _bars(workload, backend, table)


def _bars(workload: str, backend: str, table: list[tuple[float, tuple[Any, ...], Any]]) -> None:
    ours = max((rate for rate, case, _ in table if case[2] == "holdfast"), default=0.0)
    if not ours:
        return
    best, name = max(
        ((rate, case[2]) for rate, case, _ in table if case[2] not in ("holdfast", "handrolled")), default=(0, "")
    )
    dbos = max((rate for rate, case, _ in table if case[2] == "dbos"), default=0.0)
    hand = max((rate for rate, case, _ in table if case[2] == "handrolled"), default=0.0)
    times_best, times_dbos = BARS.get((workload, backend), (None, None))
    if best:
        print(f"\nours / best peer ({name}): {ours / best:.1f}" + (f" (bar: {times_best})" if times_best else ""))
    if dbos:
        print(f"ours / DBOS: {ours / dbos:.1f}" + (f" (bar: {times_dbos})" if times_dbos else ""))
    if hand:
        print(f"ours / hand-written: {ours / hand:.2f}" + (" (bar: 0.5)" if workload == "W4" else ""))
    one = [rate for rate, case, _ in table if case[2:4] == ("holdfast", "default") and case[4] == 1]
    two = [rate for rate, case, _ in table if case[2:4] == ("holdfast", "default") and case[4] == 2]
    if one and two:
        print(f"two processes / one: {max(two) / max(one):.2f}")


def _crashes(groups: dict[tuple[Any, ...], list[dict[str, Any]]]) -> None:
    if not groups:
        return
    print("\n## W3: kill -9 in the middle\n")
    print("| system | store | bodies twice | documents lost | first step s | interrupted work goes on s | all done s |")
    print("|---|---|---|---|---|---|---|")
    keys = ("steps_executed_twice", "docs_lost", "resume_first_step_s", "resume_first_interrupted_doc_s", "all_done_s")
    for case, runs in sorted(groups.items()):
        print(f"| {case[2]} | {case[1]} | " + " | ".join(str(_median(runs, key)) for key in keys) + " |")


def _median(runs: Iterable[dict[str, Any]], key: str) -> Any:
    return _over(statistics.median, [run[key] for run in runs if run.get(key) is not None and run.get("ok", True)])


def _per_tick(runs: Iterable[dict[str, Any]], key: str) -> str:
    shares = [1000 * run[key] / run["ticks"] for run in runs if run.get(key) is not None and run.get("ticks")]
    return f"{statistics.median(shares):.4f}" if shares else "-"


def _over(fold: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    return round(fold(values), 3) if values else None


if __name__ == "__main__":
    main()
