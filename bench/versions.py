"""Compare the speed of two working trees of holdfast, interleaved: `python bench/versions.py ../before`.

The other tree is a checkout of an earlier commit, for example made with `git worktree add ../before COMMIT`. Each
repetition runs each case once per tree, in alternating order. The table shows medians and the ratio this / other.
Both trees run with the Python of this environment, and each with its own bench/peer_holdfast.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]

# workload, backend, documents, processes
CASES = [
    ("W1", "sqlite", 20000, 1),
    ("W1", "pg", 20000, 1),
    ("W2", "sqlite", 100000, 2),
    ("W2", "pg", 100000, 2),
    ("W3", "sqlite", 5000, 1),
    ("W3", "pg", 5000, 1),
    ("W4", "sqlite", 1, 1),
    ("W4", "pg", 1, 1),
]
# what is compared in each workload, and whether more is better
FIGURES = {
    "W1": [("steps_per_s", True), ("cpu_client_s", False)],
    "W2": [("jobs_per_s", True), ("cpu_client_s", False)],
    "W3": [("resume_first_step_s", False), ("docs_lost", False)],
    "W4": [("items_per_s", True), ("cpu_client_s", False)],
}
LIMIT_SECONDS = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the other working tree")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--workloads", default="W1,W2,W3,W4")
    args = parser.parse_args()
    cases = [case for case in CASES if case[0] in args.workloads.split(",")]
    runs: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {case: {"this": [], "other": []} for case in cases}
    trees = [("this", HERE), ("other", args.other.resolve())]
    for repetition in range(args.reps):
        for case in cases:
            for name, tree in trees if repetition % 2 else reversed(trees):
                result = _run(tree, case)
                runs[case][name].append(result)
                print(repetition, name, *case, json.dumps(result), file=sys.stderr, flush=True)
    _report(runs)


def _run(tree: Path, case: tuple[str, str, int, int]) -> dict[str, Any]:
    workload, backend, documents, processes = case
    path = os.pathsep.join(filter(None, [str(tree / "src"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(tree / "bench" / "peer_holdfast.py"), workload, "--backend", backend]
    ended = subprocess.run(
        [*command, "--n", str(documents), "--procs", str(processes), "--conc", "1" if workload == "W4" else "1000"],
        env=os.environ | {"PYTHONPATH": path, "HOLDFAST_PERF": str(_harness())},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_SECONDS,
    )
    line = next(line for line in ended.stdout.splitlines() if line.startswith("RESULT "))
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return result


def _harness() -> Path:
    return Path(os.environ.get("HOLDFAST_PERF", HERE.parent / "shared" / "perf"))


def _report(runs: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]]) -> None:
    print("| workload | figure | other | this | this / other |")
    print("|---|---|---|---|---|")
    for case, results in runs.items():
        for figure, more_is_better in FIGURES[case[0]]:
            other = statistics.median(run[figure] for run in results["other"])
            this = statistics.median(run[figure] for run in results["this"])
            ratio = f"{this / other:.3f}" if other else "-"
            meaning = "more is better" if more_is_better else "less is better"
            print(f"| {case[0]} {case[1]} | {figure} ({meaning}) | {other:,.2f} | {this:,.2f} | {ratio} |")


if __name__ == "__main__":
    main()
