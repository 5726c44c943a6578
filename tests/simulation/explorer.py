"""Run many schedules, one for each seed, on all cores, until one violates an invariant."""

from __future__ import annotations

import gc
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Literal

from msgspec import Struct, field

from holdfast.stores.sqlite import SqliteStore
from tests.simulation.choices import Choices
from tests.simulation.fake_threading import patched_engine
from tests.simulation.schedule import Schedule, ScheduleOutcome
from tests.simulation.shrinking import shrink

StoreKind = Literal["memory", "sqlite"]
SLICE_SIZE = 100
"""How many schedules a process runs before it reports results."""
SLICES_PER_PROCESS = 5
"""How many slices a process runs. Killed threads leave garbage, and a new process is faster than collecting it."""


class Results(Struct):
    """The results of many schedules."""

    schedules: int = 0
    turns: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    states: set[int] = field(default_factory=set)
    violations: dict[int, str] = field(default_factory=dict)
    """The violations, by seed."""

    def add(self, other: Results) -> None:
        """Add other results to these."""
        self.schedules += other.schedules
        self.turns += other.turns
        self.faults += other.faults
        self.states |= other.states
        self.violations |= other.violations


def explore(
    seeds: Iterator[int],
    *,
    store: StoreKind = "memory",
    seconds: float | None = None,
    processes: int | None = None,
    on_progress: Callable[[Results, float], None] = lambda _results, _seconds: None,
) -> Results:
    """Run schedules until the seeds or the time are used up, or until a violation."""
    began, results = monotonic(), Results()
    processes = processes or os.cpu_count() or 1
    slices = iter(lambda: [*islice(seeds, SLICE_SIZE)], [])
    with get_context("fork").Pool(processes, gc.disable, maxtasksperchild=SLICES_PER_PROCESS) as pool:
        first = islice(slices, processes + 1)
        running = [pool.apply_async(run_slice, (seeds_of_slice, store)) for seeds_of_slice in first]
        while running:
            results.add(running.pop(0).get())
            on_progress(results, monotonic() - began)
            is_over = results.violations or (seconds is not None and monotonic() - began > seconds)
            if not is_over and (seeds_of_slice := next(slices, None)):
                running.append(pool.apply_async(run_slice, (seeds_of_slice, store)))
    return results


def run_slice(seeds: Sequence[int], store: StoreKind = "memory") -> Results:
    """Run schedules one after another, until a violation."""
    results = Results()
    with _store_file(store) as file, patched_engine():
        for seed in seeds:
            outcome = _run(Choices(seed), file)
            results.schedules += 1
            results.turns += outcome.turns
            results.faults += Counter(outcome.faults)
            results.states |= outcome.states
            if outcome.violation:
                results.violations[seed] = outcome.violation
                break
    return results


def replay(
    seed: int, *, store: StoreKind = "memory", small: bool = False, output: Callable[[str], None] = print
) -> ScheduleOutcome:
    """Run one schedule again and print its log. With `small`, print the smallest schedule that fails too."""
    with _store_file(store) as file, patched_engine():
        if not small:
            return _run(Choices(seed), file, output)
        found = _run(Choices(seed), file)
        choices = (
            shrink(found.choices, lambda play: bool(_run(Choices(play=play), file).violation))
            if found.violation
            else []
        )
        return _run(Choices(play=choices), file, output)


def _run(choices: Choices, file: Path | None, output: Callable[[str], None] | None = None) -> ScheduleOutcome:
    if file is not None:
        for old in file.parent.iterdir():
            old.unlink()
        SqliteStore(f"sqlite:///{file}").close()
    return Schedule(choices, file=file, output=output).run()


@contextmanager
def _store_file(store: StoreKind) -> Iterator[Path | None]:
    """Yield the path of a store's file, or None for the memory store. The file is in /dev/shm if that exists."""
    if store == "memory":
        yield None
        return
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if Path(memory).is_dir() else None) as folder:
        yield Path(folder) / "simulated.db"
