"""Why documents wait or do not move: the worker that holds one, and counts by cause."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from holdfast.core.model import State, WorkerRecord

Kind = Literal[
    "due",
    "backoff",
    "clock",
    "circuit",
    "suspect",
    "worked on",
    "silent",
    "overdue",
    "full step",
    "person",
    "until",
    "dead",
    "accepted",
    "cancelled",
]
"""Why a document does not move on.

due        it waits for a worker
backoff    it waits for its next attempt
clock      it waits too long: it was put off by a clock that was ahead, and that was set back since
circuit    its step is paused for all documents, because a service is away
suspect    it crashed workers, or lost many, and waits to run alone
worked on  a worker holds it
silent     the worker that holds it is silent or dead
overdue    the deadline of its step has passed
full step  its worker holds it; the step has reached its `limit`
person     it is paused until a person decides
until      it is paused until a time
dead       it is a dead letter that nobody accepted
accepted   it is an accepted dead letter
cancelled  it was cancelled
"""


class Holder(Struct, frozen=True):
    """The worker that holds a document, its last heartbeat, and whether that is recent enough."""

    worker: WorkerRecord
    heartbeat_at: datetime
    alive: bool


class Cause(Struct, frozen=True):
    """How many documents of one state at one step have the same cause, and the key of the oldest."""

    kind: Kind
    state: State
    step: str | None
    error: str
    documents: int
    batch: str
    key: str
    moved_at: datetime
