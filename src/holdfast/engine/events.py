"""Events: what the engine says at its verbs. Logs, progress, reports and metrics subscribe; nobody else words them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.batches import BatchReport
from holdfast.core.model import Claim, Standing, Worker
from holdfast.core.moves import Ending, Move
from holdfast.stores.protocol import Paces


class Said(Struct, frozen=True, kw_only=True):
    """Who says it, and of which pipeline: an event can be told without remembering those before it."""

    pipeline: str = ""
    worker: str = ""


class Enlisted(Struct, frozen=True):
    """A worker began."""

    worker: Worker
    pipeline: str


class Claimed(Said, frozen=True):
    """Documents were claimed."""

    claims: Sequence[Claim]


class Committed(Said, frozen=True):
    """Moves became durable, in one commit."""

    moves: Sequence[Move]
    seconds: float


class GaveBack(Said, frozen=True):
    """Documents were given back without a move."""

    endings: Sequence[Ending]


class LostClaim(Said, frozen=True):
    """A document is no longer the worker's: taken over, or decided about. What it did for it was not written."""

    claim: Claim


class Reclaimed(Said, frozen=True):
    """Documents were taken from workers that are gone or stuck."""

    standings: Sequence[Standing]


class Decided(Said, frozen=True):
    """Nobody decided about documents at a gate in time, so they were approved or rejected."""

    gate: str
    verdict: Literal["approve", "reject"]
    documents: Sequence[int]


class Rewound(Said, frozen=True):
    """A document was set back to a step."""

    claim: Claim
    to: str
    reason: str


class Paced(Said, frozen=True):
    """Bodies took so long since the last time, by step, and so many documents got past it. Said every few seconds."""

    spent: Paces


class Stopping(Said, frozen=True):
    """A worker was asked to stop and gives back what it holds."""

    reason: str


class Retired(Struct, frozen=True):
    """A worker ended."""

    worker: Worker


class BatchClosed(Struct, frozen=True):
    """A batch is closed and its closing steps, if it has any, are done."""

    pipeline: str
    batch: str
    report: BatchReport


Event = (
    Enlisted
    | Claimed
    | Committed
    | GaveBack
    | LostClaim
    | Reclaimed
    | Decided
    | Rewound
    | Paced
    | Stopping
    | Retired
    | BatchClosed
)
Listener = Callable[[Event], object]
