"""How much was made, by step, while it is being made: by this process, and by its copies."""

from __future__ import annotations

import mmap
import os
from collections import Counter

SLOTS = 512
WIDTH = 8


class Tally(Counter[str]):
    """Counts items by step. Listeners count what is kept; vectors are not, so whoever makes some says so.

    Copies of the process are made by `fork`, and write to the same memory: each to a place of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._slots = mmap.mmap(-1, SLOTS * WIDTH)

    def made_vectors(self, many: int) -> None:
        """Counts vectors."""
        place = os.getpid() % SLOTS * WIDTH
        mine = int.from_bytes(self._slots[place : place + WIDTH]) + many
        self._slots[place : place + WIDTH] = mine.to_bytes(WIDTH)
        self["embed"] = self["embed"]

    def __getitem__(self, step: str) -> int:
        if step != "embed":
            return super().__getitem__(step)
        return sum(int.from_bytes(self._slots[at : at + WIDTH]) for at in range(0, SLOTS * WIDTH, WIDTH))
