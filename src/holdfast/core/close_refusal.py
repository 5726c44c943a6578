"""The check before a batch is closed, and why it cannot be closed. The command line adds the commands that help."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.core.batches import Reconciliation
from holdfast.core.errors import CloseRefused
from holdfast.core.formatting import name_first


class CloseRefusal(Struct, frozen=True, kw_only=True):
    """Why a batch cannot be closed. `dead` and `missing` name the first documents; `not_accepted` counts all."""

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
        """True if the batch can be closed."""
        return not self.is_open and self.expected == self.found and not self.left and not self.not_accepted

    def __str__(self) -> str:
        """Return one line per reason."""
        wrong = [self.unsealed(), self.unbalanced(), self.unfinished(), self.unaccepted()]
        return "\n".join([self.headline(), *[f"  {line}" for line in wrong if line]])

    def headline(self) -> str:
        """Return the line that names the batch."""
        return f"batch {self.batch!r} of {self.pipeline!r} cannot be closed:"

    def unsealed(self) -> str:
        """Return that the batch is not sealed; empty if it is."""
        return "it is open: seal it first" if self.is_open else ""

    def unbalanced(self) -> str:
        """Return which documents are missing; empty if the batch balances."""
        if self.expected == self.found:
            return ""
        named = f"; missing: {name_first(self.missing)}" if self.missing else ""
        return f"it does not balance: {self.expected:,} expected, {self.found:,} found{named}"

    def unfinished(self) -> str:
        """Return how many documents have not ended; empty if all have."""
        states = ", ".join(f"{number:,} {state}" for state, number in self.left.items())
        return f"not ended: {states}" if states else ""

    def unaccepted(self) -> str:
        """Return which dead letters nobody accepted; empty if they are tolerated."""
        if not self.not_accepted:
            return ""
        letters = "letter" if self.not_accepted == 1 else "letters"
        more = f", more than the {percent(self.tolerate)} that are tolerated" if self.tolerate else ""
        return f"{self.not_accepted:,} dead {letters} not accepted{more}: {name_first(self.dead, self.not_accepted)}"


def percent(share: float) -> str:
    """Format a share as a percentage: 5%, 0.25%."""
    return f"{share * 100:.10g}%"


def refuse_to_close(found: Reconciliation, *, tolerate: float, dead: Sequence[str], missing: Sequence[str]) -> None:
    """Raise CloseRefused with all reasons if the batch cannot be closed."""
    too_dead = found.not_accepted > tolerated(found.expected, tolerate)
    why = CloseRefusal(
        pipeline=found.pipeline,
        batch=found.batch,
        is_open=found.state == "open",
        expected=found.expected,
        found=found.found,
        missing=tuple(missing),
        left={state: number for state in ("waiting", "running", "paused") if (number := getattr(found, state))},
        not_accepted=found.not_accepted if too_dead else 0,
        dead=tuple(dead),
        tolerate=tolerate,
    )
    if not why.is_none:
        raise CloseRefused(why)


def tolerated(expected: int, share: float) -> int:
    """Return how many dead letters need no acceptance."""
    return int(expected * share + 1e-9)


def by_tolerance(share: float) -> str:
    """Return the text for `accepted_by` of a dead letter that the tolerance accepted."""
    return f"tolerance of {percent(share)}"
