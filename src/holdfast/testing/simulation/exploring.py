"""Many schedules, one seed each, on all cores: what they saw, and the first that broke a promise."""

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
from holdfast.testing.simulation.choices import Choices
from holdfast.testing.simulation.shrinking import shrunk
from holdfast.testing.simulation.threads import lent
from holdfast.testing.simulation.world import Outcome, World

StoreKind = Literal["memory", "sqlite"]
SLICE = 100
"""How many schedules a process runs before it tells what it saw."""
LIFETIME = 5
"""How many slices a process lives. Killed threads leave much behind, and to end is quicker than to collect it."""


class Seen(Struct):
    """What many schedules saw."""

    schedules: int = 0
    turns: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    states: set[int] = field(default_factory=set)
    broken: dict[int, str] = field(default_factory=dict)
    """What was broken, by seed."""

    def add(self, other: Seen) -> None:
        """Takes in what others saw."""
        self.schedules += other.schedules
        self.turns += other.turns
        self.troubles += other.troubles
        self.states |= other.states
        self.broken |= other.broken


def explore(
    seeds: Iterator[int],
    *,
    store: StoreKind = "memory",
    seconds: float | None = None,
    processes: int | None = None,
    tell: Callable[[Seen, float], None] = lambda _seen, _seconds: None,
) -> Seen:
    """Runs schedules until the seeds or the time are over, or one broke a promise."""
    began, seen = monotonic(), Seen()
    processes = processes or os.cpu_count() or 1
    slices = iter(lambda: [*islice(seeds, SLICE)], [])
    with get_context("fork").Pool(processes, gc.disable, maxtasksperchild=LIFETIME) as pool:
        first = islice(slices, processes + 1)
        running = [pool.apply_async(run_slice, (some, store)) for some in first]
        while running:
            seen.add(running.pop(0).get())
            tell(seen, monotonic() - began)
            is_over = seen.broken or (seconds is not None and monotonic() - began > seconds)
            if not is_over and (some := next(slices, None)):
                running.append(pool.apply_async(run_slice, (some, store)))
    return seen


def run_slice(seeds: Sequence[int], store: StoreKind = "memory") -> Seen:
    """Runs some schedules, until one breaks a promise."""
    seen = Seen()
    with _room_for(store) as file, lent():
        for seed in seeds:
            outcome = _run(Choices(seed), file)
            seen.schedules += 1
            seen.turns += outcome.turns
            seen.troubles += Counter(outcome.troubles)
            seen.states |= outcome.states
            if outcome.broken:
                seen.broken[seed] = outcome.broken
                break
    return seen


def replay(
    seed: int, *, store: StoreKind = "memory", small: bool = False, story: Callable[[str], None] = print
) -> Outcome:
    """Runs one schedule again and tells its story; with `small`, that of the smallest like it that fails, too."""
    with _room_for(store) as file, lent():
        if not small:
            return _run(Choices(seed), file, story)
        found = _run(Choices(seed), file)
        choices = (
            shrunk(found.choices, lambda play: bool(_run(Choices(play=play), file).broken)) if found.broken else []
        )
        return _run(Choices(play=choices), file, story)


def _run(choices: Choices, file: Path | None, story: Callable[[str], None] | None = None) -> Outcome:
    if file is not None:
        for one in file.parent.iterdir():
            one.unlink()
        SqliteStore(f"sqlite:///{file}").close()
    return World(choices, file=file, story=story).run()


@contextmanager
def _room_for(store: StoreKind) -> Iterator[Path | None]:
    """Gives the file of a store, where that needs one: in memory, if there is such a place."""
    if store == "memory":
        yield None
        return
    memory = "/dev/shm"  # noqa: S108 - what is there is gone with the schedule
    with tempfile.TemporaryDirectory(dir=memory if Path(memory).is_dir() else None) as folder:
        yield Path(folder) / "simulated.db"
