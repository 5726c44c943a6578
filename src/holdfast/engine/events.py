"""Events: what the engine says at its verbs. Logs, progress, reports and metrics subscribe; nobody else words them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.model import Claim, Standing, Worker
from holdfast.core.moves import Ending, Move


class Enlisted(Struct, frozen=True):
    """A worker began."""

    worker: Worker
    pipeline: str


class Claimed(Struct, frozen=True):
    """Documents were claimed."""

    claims: Sequence[Claim]


class Committed(Struct, frozen=True):
    """Moves became durable, in one commit."""

    moves: Sequence[Move]
    seconds: float


class GaveBack(Struct, frozen=True):
    """Documents were given back without a move."""

    endings: Sequence[Ending]


class LostClaim(Struct, frozen=True):
    """Another worker holds the document now; what this one did for it was not written."""

    claim: Claim


class Reclaimed(Struct, frozen=True):
    """Documents were taken from workers that are gone or stuck."""

    standings: Sequence[Standing]


class Decided(Struct, frozen=True):
    """Nobody decided about documents at a gate in time, so they were approved or rejected."""

    gate: str
    verdict: Literal["approve", "reject"]
    documents: Sequence[int]


class Rewound(Struct, frozen=True):
    """A document was set back to a step."""

    claim: Claim
    to: str
    reason: str


class Stopping(Struct, frozen=True):
    """A worker was asked to stop and gives back what it holds."""

    reason: str


class Retired(Struct, frozen=True):
    """A worker ended."""

    worker: Worker


Event = Enlisted | Claimed | Committed | GaveBack | LostClaim | Reclaimed | Decided | Rewound | Stopping | Retired
Listener = Callable[[Event], object]
