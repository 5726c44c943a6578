"""What a verification found, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

What = Literal["rewound", "parked", "left alone", "error"]


class Finding(Struct, frozen=True):
    """A document whose work is gone, or of which that cannot be said: what became of it, and why."""

    batch: str
    key: str
    step: str
    what: What
    why: str


class Verification(Struct, frozen=True):
    """What a verification found.

    documents    that were asked about
    checks       how often a verify was asked
    fine         documents whose work is all there
    rewound      whose work was gone: they go back to the step that did it, as a new generation; paused ones stay so
    parked       whose work was gone again: a person has to decide
    left_alone   whose work was gone, but that are dead letters, moved meanwhile, were cleaned up, or are of a closed
                 batch
    errors       whose verify raised an error: nothing is known, and nothing was changed
    held         that a worker holds: it asked when it took them up
    seed         what the sample was drawn with; the same one draws it again
    findings     the first thousand that are not fine
    """

    documents: int = 0
    checks: int = 0
    fine: int = 0
    rewound: int = 0
    parked: int = 0
    left_alone: int = 0
    errors: int = 0
    held: int = 0
    seed: int | None = None
    seconds: float = 0.0
    findings: Sequence[Finding] = ()

    @property
    def gone(self) -> int:
        """How many documents had work that is gone."""
        return self.rewound + self.parked + self.left_alone
