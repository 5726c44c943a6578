"""Where bodies act: documents have a temper, and what they do is seen.

A value says whose it is, of which content, from which step and which place, so a value that is out of place gives
itself away. Effects write it down in a table without any constraint: what is written twice is there twice.
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

TABLE = "create table sim_effect (key text, generation integer, step text, place integer, value text)"

TIMEOUT, SLACK = timedelta(seconds=2), timedelta(seconds=1)
"""How long a body may take, and how much longer than twice that its worker is waited for."""
NAP = timedelta(seconds=3)
"""How long a document sleeps, and how long somebody has to decide."""
LATER = timedelta(seconds=0.7)
HANGS = 6.0
"""For how many seconds a document hangs: past the deadline of every step that has a timeout, until others take it."""

TEMPERS = (
    *("fine", "slow", "fails", "poison", "kills", "killer", "later", "asks", "gone", "spoilt", "stuck", "rejected"),
    *("naps", "hangs"),
)
"""How a document behaves at one of its places."""
INCURABLE = ("poison", "killer", "rejected")
"""The tempers that never end well."""
ASKING = ("asks", "gone", "hangs")
"""The tempers by which a document is parked until somebody decides."""

Value = tuple[str, int, str, int]
"""Key, version of the content, step and place."""


class Spoilt(Exception):
    """An effect, or one item, that cannot be."""


class Temper(Struct):
    """How one version of a document behaves: at which step and place, and how often."""

    kind: str = "fine"
    step: str = "pages"
    place: int = 0
    times: int = 1


class Asked(Protocol):
    """Learns that a document was asked about, and the answer."""

    def __call__(self, doc: Document, *, is_there: bool) -> None: ...


class Stage:
    """Where bodies act: what they are told to do, and what they were seen to do."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime],
        wait: Callable[[float], None],
        asked: Asked,
        die: Callable[[], None],
        tell: Callable[[str], None],
        misread: Callable[[Document, str], None],
        made: Callable[[str, int, str, int], list[int]],
        inside: Callable[[Document, str], AbstractContextManager[None]],
    ) -> None:
        self.clock = clock
        self.wait = wait
        self.asked = asked
        self.die = die
        self.tell = tell
        self.misread = misread
        self.made = made
        self.inside = inside
        self.tempers: dict[tuple[str, int], Temper] = {}
        self.acted: Counter[tuple[str, int]] = Counter()
        self.missed: Counter[tuple[str, int]] = Counter()

    def act(self, doc: Document, step: str, place: int) -> None:
        """Lets a document do what its temper says."""
        who = (doc.key, doc.payload["version"])
        temper = self.tempers.get(who)
        if temper is None or (temper.step, temper.place) != (step, place) or temper.kind in ("fine", "spoilt"):
            return
        self.acted[who] += 1
        if temper.kind not in INCURABLE and self.acted[who] > temper.times:
            return
        self.tell(f"{doc.key} at {step} {place}: {temper.kind}")
        _DO[temper.kind](self)

    def is_there(self, doc: Document) -> bool:
        """Answers whether the work of `pages` is still there: of some it is gone, and that may take long to see."""
        who = (doc.key, doc.payload["version"])
        temper = self.tempers.get(who)
        kind = temper.kind if temper is not None and self.missed[who] < temper.times else "fine"
        is_there = kind not in ("gone", "hangs")
        self.missed[who] += not is_there
        if kind == "hangs":
            self.tell(f"{doc.key} hangs")
            self.wait(HANGS)
        self.asked(doc, is_there=is_there)
        return is_there

    def write(self, tx: Tx, doc: Document, values: list[Value]) -> None:
        """Writes down what a step made. Of some it cannot be written once."""
        who = (doc.key, doc.payload["version"])
        temper = self.tempers.get(who)
        for key, version, step, place in values:
            row = (doc.key, doc.generation, step, place, f"{key} {version}")
            tx.execute("insert into sim_effect values (?, ?, ?, ?, ?)", row)
            if temper is not None and temper.kind == "spoilt" and (temper.step, temper.place) == (step, place):
                self.acted[who] += 1
                if self.acted[who] <= temper.times:
                    raise Spoilt("the effect cannot be")


def _fail(_: Stage) -> None:
    raise Spoilt("as it was told to")


def _later(_: Stage) -> None:
    raise RetryLater("not now", after=LATER)


def _ask(_: Stage) -> None:
    raise Pause("is this right?")


def _nap(stage: Stage) -> None:
    raise Pause("wait until then", until=stage.clock() + NAP)


def _reject(_: Stage) -> None:
    raise Reject("nobody can read this")


_DO: dict[str, Callable[[Stage], None]] = {
    "slow": lambda stage: stage.wait(1.6),
    "stuck": lambda stage: stage.wait(TIMEOUT.total_seconds() + 2),
    "fails": _fail,
    "poison": _fail,
    "kills": lambda stage: stage.die(),
    "killer": lambda stage: stage.die(),
    "later": _later,
    "gone": _later,  # so that somebody takes it up in the middle, and asks
    "hangs": _later,
    "asks": _ask,
    "naps": _nap,
    "rejected": _reject,
}


def new_document(key: str, version: int, pages: int) -> NewDocument:
    """Gives a document to submit."""
    return NewDocument(key, {"version": version, "pages": pages}, fingerprint=f"version {version}")
