"""Simulated bodies: each document has a behaviour, and what its bodies do is recorded.

A value has its document, content version, step and place, so a value in a wrong place is noticed. Effects write it into
a table without constraints, so a value that is written twice is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from holdfast import Document, Pause, Reject, RetryLater, Tx
from holdfast.core.model import NewDocument

TABLES = (
    "create table sim_effect (key text, generation integer, step text, place integer, value text)",
    "create table sim_undone (key text, generation integer, step text)",
    "create table sim_row (key text, generation integer, step text, place integer, value text)",
)
"""What effects wrote and undo functions removed, each line by line; and the rows that are there now."""

TIMEOUT, SLACK = timedelta(seconds=2), timedelta(seconds=1)
"""Timeout of a body, and the extra time before others may take the document."""
SLEEP_TIME = timedelta(seconds=3)
"""How long a document sleeps, and how long a gate waits for a decision."""
RETRY_DELAY = timedelta(seconds=0.7)
HANG_SECONDS = 6.0
"""How long a body hangs: past the deadline of every step with a timeout, until another worker takes the document."""

BEHAVIOURS = (
    *("fine", "slow", "fails", "always fails", "kills", "always kills", "later", "asks", "gone", "failing effect"),
    *("stuck", "rejected", "sleeps", "hangs", "always loses"),
)
"""How a document may behave at one of its places."""
INCURABLE = ("always fails", "always kills", "always loses", "rejected")
"""Behaviours with which a document never becomes done."""
ENDS_PROCESS = ("kills", "always kills", "always loses")
"""Behaviours that end the process: with evidence, as a fault in native code does, or without any."""
PARKING = ("asks", "gone", "hangs")
"""Behaviours with which a document is parked until a person decides."""

Value = tuple[str, int, str, int]
"""Key, version of the content, step and place."""


class BodyFailure(Exception):
    """A body or an effect that fails on purpose. Nothing of the error can be read: its text and its wait raise."""

    def __str__(self) -> str:
        raise SystemExit("the text of this error raises")

    @property
    def retry_after(self) -> float:
        raise SystemExit("the wait of this error raises")


class ServiceAway(Exception):
    """The service that all bodies call is away. Its text says which outage it is."""

    error_category = "unreachable"


class Behaviour(Struct):
    """How one version of a document behaves: at which step and place, and how often."""

    kind: str = "fine"
    step: str = "pages"
    place: int = 0
    times: int = 1


class VerifyListener(Protocol):
    """Is called when the result of a step was verified."""

    def __call__(self, doc: Document, *, is_there: bool) -> None: ...


class Die(Protocol):
    """Ends the process of the caller, which runs a body of a document, with or without evidence."""

    def __call__(self, key: str, *, is_crash: bool) -> None: ...


class SimulatedBodies:
    """Runs the behaviours of documents and counts how often each occurred."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],  # the right time: a body is told it from outside, not by the clock of its host
        wait: Callable[[float], None],
        on_verify: VerifyListener,
        die: Die,
        log: Callable[[str], None],
        on_misread: Callable[[Document, str], None],
        expected_places: Callable[[str, int, str, int], list[int]],
        inside: Callable[[Document, str], AbstractContextManager[None]],
    ) -> None:
        self.clock = clock
        self.wait = wait
        self.on_verify = on_verify
        self.die = die
        self.log = log
        self.on_misread = on_misread
        self.expected_places = expected_places
        self.inside = inside
        self.behaviours: dict[tuple[str, int], Behaviour] = {}
        self.occurrences: Counter[tuple[str, int]] = Counter()
        self.verify_failures: Counter[tuple[str, int]] = Counter()
        self.outages = 0
        self.is_away: Callable[[], bool] = lambda: False

    def call_service(self) -> None:
        """Call the service that all bodies need. Raise ServiceAway while it is away."""
        if self.is_away():
            self.log("the service is away")
            raise ServiceAway(f"outage {self.outages}")

    def run_behaviour(self, doc: Document, step: str, place: int) -> None:
        """Call the service, and do what the behaviour of a document says for this place."""
        self.call_service()
        who = (doc.key, doc.payload["version"])
        behaviour = self.behaviours.get(who)
        if (
            behaviour is None
            or (behaviour.step, behaviour.place) != (step, place)
            or behaviour.kind in ("fine", "failing effect")
        ):
            return
        self.occurrences[who] += 1
        if behaviour.kind not in INCURABLE and self.occurrences[who] > behaviour.times:
            return
        self.log(f"{doc.key} at {step} {place}: {behaviour.kind}")
        if behaviour.kind in ENDS_PROCESS:
            self.die(doc.key, is_crash="kills" in behaviour.kind)
        else:
            _ACTIONS[behaviour.kind](self)

    def is_there(self, doc: Document) -> bool:
        """Verify the result of `pages`. For some documents it is gone, and for some the check hangs."""
        who = (doc.key, doc.payload["version"])
        behaviour = self.behaviours.get(who)
        kind = behaviour.kind if behaviour is not None and self.verify_failures[who] < behaviour.times else "fine"
        is_there = kind not in ("gone", "hangs")
        self.verify_failures[who] += not is_there
        if kind == "hangs":
            self.log(f"{doc.key} hangs")
            self.wait(HANG_SECONDS)
        self.on_verify(doc, is_there=is_there)
        return is_there

    def write(self, tx: Tx, doc: Document, values: list[Value]) -> None:
        """Write the values of a step. For some documents the write fails a few times."""
        who = (doc.key, doc.payload["version"])
        behaviour = self.behaviours.get(who)
        for key, version, step, place in values:
            row = (doc.key, doc.generation, step, place, f"{key} {version}")
            tx.execute("insert into sim_effect values (?, ?, ?, ?, ?)", row)
            tx.execute("insert into sim_row values (?, ?, ?, ?, ?)", row)
            if (
                behaviour is not None
                and behaviour.kind == "failing effect"
                and (behaviour.step, behaviour.place) == (step, place)
            ):
                self.occurrences[who] += 1
                if self.occurrences[who] <= behaviour.times:
                    raise BodyFailure("the effect fails on purpose")


def undo(tx: Tx, doc: Document) -> None:
    """Remove the rows of a step. The generation is only written down: rows of any other would be a mistake."""
    tx.execute("delete from sim_row where key = ? and step = ?", (doc.key, doc.step))
    tx.execute("insert into sim_undone values (?, ?, ?)", (doc.key, doc.generation, doc.step))


def _fail(_: SimulatedBodies) -> None:
    raise BodyFailure("the body fails on purpose")


def _later(_: SimulatedBodies) -> None:
    raise RetryLater("not now", after=RETRY_DELAY)


def _ask(_: SimulatedBodies) -> None:
    raise Pause("is this right?")


def _sleep(bodies: SimulatedBodies) -> None:
    raise Pause("wait until then", until=bodies.clock() + SLEEP_TIME)


def _reject(_: SimulatedBodies) -> None:
    raise Reject("nobody can read this")


_ACTIONS: dict[str, Callable[[SimulatedBodies], None]] = {
    "slow": lambda bodies: bodies.wait(1.6),
    "stuck": lambda bodies: bodies.wait(TIMEOUT.total_seconds() + 2),
    "fails": _fail,
    "always fails": _fail,
    "later": _later,
    "gone": _later,  # so that another worker claims it in the middle and verifies the earlier result
    "hangs": _later,
    "asks": _ask,
    "sleeps": _sleep,
    "rejected": _reject,
}


def new_document(key: str, version: int, pages: int) -> NewDocument:
    """Return a document to submit."""
    return NewDocument(key, {"version": version, "pages": pages}, fingerprint=f"version {version}")
