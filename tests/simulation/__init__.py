"""A deterministic simulator: workers, threads, clocks and faults in one process, from one seed, on the real engine.

`explore` runs many schedules and checks every invariant after every transaction. `replay` prints the log of one seed,
or of the smallest schedule that fails like it. Needs greenlet.
"""

from tests.simulation.explorer import Results, explore, replay, run_slice

__all__ = ["Results", "explore", "replay", "run_slice"]
