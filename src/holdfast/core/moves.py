"""Moves: the forward changes of a checkpoint, with everything that is committed with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import BodyError, StoreError
from holdfast.core.model import Aside, Checkpoint, Claim, Failure, Item, Plan, State


class Tx(Protocol):
    """The transaction that an effect writes through: your rows and the checkpoint commit together.

    `execute` and `executemany` take the SQL and the parameters of the database behind the store, which `dialect` names.
    """

    dialect: Literal["sqlite", "postgresql"]

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Runs one statement and answers the driver's cursor."""

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Runs one statement for each of many parameters."""


Effect = Callable[[Tx], None]

_ENDS = re.compile(
    r"(?:\s|;|--[^\n]*\n|/\*.*?\*/)*(?:commit|end|abort|rollback(?!\s+(?:(?:transaction|work)\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)


def refuse_to_end(sql: str) -> None:
    """Raises BodyError for a statement that would end the transaction an effect was given, before it does."""
    if _ends(sql):
        raise BodyError("an effect must leave commit and rollback alone: its rows are committed with the checkpoint")


@lru_cache(1024)
def _ends(sql: str) -> bool:
    return _ENDS.match(sql) is not None


class Move(Struct, frozen=True, gc=False):
    """One forward change of a checkpoint, with the items, the effect and the state that are committed with it.

    `timeout` is how long the document may be where the move leads: in a step, or, parked at a gate, undecided.
    """

    claim: Claim
    before: Checkpoint
    after: Checkpoint
    state: Literal["running", "done", "paused"] = "running"
    items: Sequence[Item] = ()
    asides: Sequence[Aside] = ()
    mended: Sequence[int] = ()
    effect: Effect | None = None
    timeout: timedelta | None = None
    reason: str = ""

    @property
    def is_progress(self) -> bool:
        """Whether it was worth a new count of attempts: setting items aside alone is not."""
        return not self.asides or bool(self.items) or bool(self.mended)


def rewound(claim: Claim, *, to: str, before: Sequence[str]) -> Claim:
    """Gives the claim as it is after a rewind: a new generation that reuses what the steps before `to` kept.

    Raises StoreError when the document stands before `to`: it would reuse what was never made.
    """
    at = claim.checkpoint
    if at.step in before:
        raise StoreError(
            f"the document {claim.key!r} stands at {at.step!r} and cannot be rewound to {to!r}, which is later: "
            f"a rewind goes back, to {at.step!r} or a step before it"
        )
    reuses = {step: (claim.reuses or {}).get(step, at.generation) for step in before}
    return replace(claim, checkpoint=Checkpoint(at.generation + 1, to, None, at.moves + 1), reuses=reuses)


def reuses_of(plan: Plan, claim: Claim) -> dict[int, int]:
    """Says which generation's items serve the steps that a claim reuses, by the steps' numbers."""
    return {plan.step_ids[step]: made for step, made in (claim.reuses or {}).items()}


class Accepted(Struct, frozen=True):
    """The move is durable."""


class Lost(Struct, frozen=True):
    """Another worker holds the document. Nothing of the move was written."""


class Refused(Struct, frozen=True):
    """The effect failed. Nothing of the move was written; the document is still held."""

    error: BaseException


Answer = Accepted | Lost | Refused
ACCEPTED = Accepted()
LOST = Lost()


class Ending(Struct, frozen=True):
    """How a worker gives a document back without moving it: failed, put off, interrupted or paused.

    It costs the attempt that was counted at the claim, or a crash instead, or nothing. `step` is the one that failed.
    `delay` is how long a waiting document waits, and how long a paused one may be undecided: 0 is for ever. `asks` says
    that a body paused it: whoever resumes it answers that body.
    """

    claim: Claim
    who: str
    state: State
    verb: Literal["fail", "release", "pause", "defer"]
    delay: timedelta = timedelta(0)
    until: datetime | None = None
    costs: Literal["attempt", "crash", "nothing"] = "attempt"
    failure: Failure | None = None
    reason: str = ""
    step: str = ""
    asks: bool = False

    @property
    def detail(self) -> dict[str, Any]:
        """What the journal says of it."""
        said = {
            "was": "running",
            "state": self.state,
            "reason": self.reason,
            "error": self.failure,
            "costs": self.costs,
        }
        return said | {"asks": True} if self.asks else said
