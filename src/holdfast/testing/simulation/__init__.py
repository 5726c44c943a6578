"""A deterministic simulator: workers, threads, clocks and faults in one process, under one seed, on the real engine.

`explore` runs schedule after schedule and looks at every promise after every transaction; `replay` tells the story of
one seed, exactly as it happened, or of the smallest schedule like it. It needs greenlet.
"""

from holdfast.testing.simulation.exploring import Seen, explore, replay, run_slice

__all__ = ["Seen", "explore", "replay", "run_slice"]
