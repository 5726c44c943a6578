"""What keeps documents where they are: who holds one, and how many are kept by the same thing."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from holdfast.core.model import State, Worker

Kind = Literal[
    "due",
    "backoff",
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
"""What keeps a document.

due        it waits for a worker
backoff    it waits until it is due
suspect    it waits to be worked on alone
worked on  a worker holds it
silent     the worker that holds it is silent or gone
overdue    the deadline of its step has passed
full step  its worker holds it in front of a step that only so many may be in
person     it is paused until a person decides
until      it is paused until a moment
dead       it is a dead letter that nobody accepted
accepted   it is a dead letter that was accepted
cancelled  it was cancelled
"""


class Holder(Struct, frozen=True):
    """The worker that holds a document, when it was last heard, and whether that is recent enough."""

    worker: Worker
    beat_at: datetime
    alive: bool


class Cause(Struct, frozen=True):
    """So many documents of one state at one step that the same thing keeps; the oldest of them by name."""

    kind: Kind
    state: State
    step: str | None
    error: str
    documents: int
    batch: str
    key: str
    moved_at: datetime
