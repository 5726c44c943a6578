"""Run all benchmarks together with the peers: interleaved and repeated, with medians and ratios.

    python bench/run.py                      everything, 3 repetitions (about an hour)
    python bench/run.py --quick              the best peers and holdfast, 1 repetition
    python bench/run.py --workloads W1,W2

The peers and the raw limits come from a harness that is not part of this repository: `../shared/perf`, or the folder in
HOLDFAST_PERF. Its README says how to install the peers. Without it only `bench/scale.py` can run.
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

# workload, backend, variant, documents, processes, documents that a worker may hold
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

# workload, backend: the ratio to the best peer that we want to reach, and the ratio to DBOS
TARGETS = {
    ("W1", "sqlite"): (30, 100),
    ("W1", "pg"): (20, 75),
    ("W2", "sqlite"): (20, None),
    ("W2", "pg"): (2, None),
}

# the best settings of the best peers, found by full runs: workload, backend, peer, variant, processes
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
    args = parser.parse_args()
    _link_our_environment()
    out = HERE / "results" / time.strftime("run-%Y%m%d-%H%M%S.jsonl")
    out.parent.mkdir(exist_ok=True)
    harness.EXTRA_CASES[:] = OURS
    if args.quick:
        harness.CASES[:] = [case for case in harness.CASES if (case[1], case[2], case[0], case[3], case[5]) in QUICK]
    sys.argv = [
        "run.py",
        *("--reps", str(args.reps or (1 if args.quick else 3))),
        *("--workloads", args.workloads),
        *("--backends", args.backends),
        *("--only", args.only),
        *("--skip", "prefect,llamaindex,langchain,cocoindex"),
        *("--extra", f"holdfast={HERE / 'peer_holdfast.py'}:holdfast"),
        *("--out", str(out)),
    ]
    harness.main()
    report(out)


def _link_our_environment() -> None:
    """Link our environment where the harness looks for it: it runs each peer with the Python of its own environment."""
    link = C.PERF_HOME / "venvs" / "holdfast"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(Path(sys.executable).parent.parent)


def report(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("workload") in ("W1", "W2", "W3", "W4"):
            case = (row["workload"], row["backend"], row["peer"], row["variant"], row["procs"], row["conc"])
            groups[case].append(row)
    for workload, key in RATE.items():
        _rates(workload, key, {case: runs for case, runs in groups.items() if case[0] == workload})
    _kills({case: runs for case, runs in groups.items() if case[0] == "W3"})


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
                f"| {_milliseconds_per_tick(runs, 'cpu_client_s')} + {_milliseconds_per_tick(runs, 'cpu_server_s')} "
                f"| {_median(runs, 'commits_per_doc') or '-'} / {_median(runs, 'stmts_per_doc') or '-'} "
                f"| {_median(runs, 'db_bytes_per_doc') or '-'} |"
            )
        _ratios(workload, backend, table)


def _ratios(workload: str, backend: str, table: list[tuple[float, tuple[Any, ...], Any]]) -> None:
    ours = max((rate for rate, case, _ in table if case[2] == "holdfast"), default=0.0)
    if not ours:
        return
    best, name = max(
        ((rate, case[2]) for rate, case, _ in table if case[2] not in ("holdfast", "handrolled")), default=(0, "")
    )
    dbos = max((rate for rate, case, _ in table if case[2] == "dbos"), default=0.0)
    handwritten = max((rate for rate, case, _ in table if case[2] == "handrolled"), default=0.0)
    times_best, times_dbos = TARGETS.get((workload, backend), (None, None))
    if best:
        print(f"\nours / best peer ({name}): {ours / best:.1f}" + (f" (target: {times_best})" if times_best else ""))
    if dbos:
        print(f"ours / DBOS: {ours / dbos:.1f}" + (f" (target: {times_dbos})" if times_dbos else ""))
    if handwritten:
        print(f"ours / hand-written: {ours / handwritten:.2f}" + (" (target: 0.5)" if workload == "W4" else ""))
    one_process = [rate for rate, case, _ in table if case[2:4] == ("holdfast", "default") and case[4] == 1]
    two_processes = [rate for rate, case, _ in table if case[2:4] == ("holdfast", "default") and case[4] == 2]
    if one_process and two_processes:
        print(f"two processes / one: {max(two_processes) / max(one_process):.2f}")


def _kills(groups: dict[tuple[Any, ...], list[dict[str, Any]]]) -> None:
    if not groups:
        return
    print("\n## W3: kill -9 in the middle\n")
    print(
        "| system | store | bodies twice | documents lost | first step s | interrupted work continues s | all done s |"
    )
    print("|---|---|---|---|---|---|---|")
    keys = ("steps_executed_twice", "docs_lost", "resume_first_step_s", "resume_first_interrupted_doc_s", "all_done_s")
    for case, runs in sorted(groups.items()):
        print(f"| {case[2]} | {case[1]} | " + " | ".join(str(_median(runs, key)) for key in keys) + " |")


def _median(runs: Iterable[dict[str, Any]], key: str) -> Any:
    return _rounded(statistics.median, [run[key] for run in runs if run.get(key) is not None and run.get("ok", True)])


def _milliseconds_per_tick(runs: Iterable[dict[str, Any]], key: str) -> str:
    milliseconds = [1000 * run[key] / run["ticks"] for run in runs if run.get(key) is not None and run.get("ticks")]
    return f"{statistics.median(milliseconds):.4f}" if milliseconds else "-"


def _rounded(fold: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    return round(fold(values), 3) if values else None


if __name__ == "__main__":
    main()
