"""Why a batch cannot be closed: facts. Whoever tells them to a person adds the commands that help."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

NAMED = 3
"""So many documents are named in a sentence."""


class Refusal(Struct, frozen=True, kw_only=True):
    """What keeps a batch from being closed. `dead` and `missing` name a few; `not_accepted` counts the dead."""

    pipeline: str
    batch: str
    is_open: bool = False
    expected: int = 0
    found: int = 0
    missing: tuple[str, ...] = ()
    left: dict[str, int] = {}
    not_accepted: int = 0
    dead: tuple[str, ...] = ()
    tolerate: float = 0.0

    @property
    def is_none(self) -> bool:
        """Whether nothing keeps it."""
        return not self.is_open and self.expected == self.found and not self.left and not self.not_accepted

    def __str__(self) -> str:
        """Says it in a few lines."""
        wrong = [self.unsealed(), self.unbalanced(), self.unfinished(), self.unaccepted()]
        return "\n".join([self.headline(), *[f"  {line}" for line in wrong if line]])

    def headline(self) -> str:
        """Says which batch is meant."""
        return f"batch {self.batch!r} of {self.pipeline!r} cannot be closed:"

    def unsealed(self) -> str:
        """Says that it still takes documents; empty when it does not."""
        return "it is open: seal it first" if self.is_open else ""

    def unbalanced(self) -> str:
        """Says what is missing; empty when it balances."""
        if self.expected == self.found:
            return ""
        named = f"; missing: {some(self.missing)}" if self.missing else ""
        return f"it does not balance: {self.expected:,} expected, {self.found:,} found{named}"

    def unfinished(self) -> str:
        """Counts what has not ended; empty when all has."""
        states = ", ".join(f"{number:,} {state}" for state, number in self.left.items())
        return f"not ended: {states}" if states else ""

    def unaccepted(self) -> str:
        """Names dead letters that nobody accepted; empty when they are tolerated."""
        if not self.not_accepted:
            return ""
        letters = "letter" if self.not_accepted == 1 else "letters"
        more = f", more than the {percent(self.tolerate)} that are tolerated" if self.tolerate else ""
        return f"{self.not_accepted:,} dead {letters} not accepted{more}: {some(self.dead, self.not_accepted)}"


def percent(share: float) -> str:
    """Gives a share as people read it: 5%, 0.25%."""
    return f"{share * 100:.10g}%"


def some(keys: Sequence[str], in_all: int | None = None) -> str:
    """Names the first few of many."""
    more = (len(keys) if in_all is None else in_all) - len(keys[:NAMED])
    return ", ".join(keys[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
