"""What cannot be checked exactly any more, after certain faults in a schedule."""

from __future__ import annotations

from msgspec import Struct


class Uncertainty(Struct):
    """Which facts are uncertain, so that their checks are relaxed."""

    assignments: bool = False
    """Whether the stored state may assign a document to a worker that does not know it."""
    ahead_of_holder: set[tuple[int, int]] = set()
    """Documents, with their fences, that changed without their holders: moved by a second delivery, or given back."""
    clocks: bool = False
    """Whether the clock of any process was ever wrong."""
