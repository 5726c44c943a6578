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
        self._slots = memoryview(mmap.mmap(-1, SLOTS * WIDTH)).cast("Q")

    def made_vectors(self, many: int) -> None:
        """Counts vectors. Others wait meanwhile: it is called in the transaction that commits them."""
        self._slots[os.getpid() % SLOTS] += many
        self["embed"] = self["embed"]

    def __getitem__(self, step: str) -> int:
        return sum(self._slots) if step == "embed" else super().__getitem__(step)
