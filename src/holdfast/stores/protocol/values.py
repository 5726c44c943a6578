"""What the verbs of a store are given: clocks, scopes, verdicts and filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypedDict

from holdfast.core.model import (
    Claim,
    State,
)
from holdfast.core.moves import Answer, Tx

TOGETHER = 2000
"""How many documents upkeep changes in one transaction, so that no worker waits long for it."""

Clock = Callable[[], datetime]
"""Gives the present moment, with a zone. Tests move it by hand."""

Verdict = Callable[[str, int, int], tuple[State, timedelta]]
"""Judges an orphan by (step, attempts, crashes): waiting, dead or paused, and after how long it is due."""

Timeouts = Mapping[str, timedelta]
"""How long a document may be in a step, for the steps that say so."""

Paces = Mapping[str, tuple[int, float]]
"""For each step: how many documents went past it, and how many seconds its bodies took for that."""

Exchanged = tuple[list[Answer], list[Claim]]
"""What came of the moves that were handed in, and the claims that were given for them."""

RenameEffect = Callable[[Tx, list[str]], object]
"""Renames elsewhere what was renamed here: in one transaction, for documents with these old keys."""


class Scope(TypedDict, total=False):
    """Which documents are claimed, and how long they may be in their steps. Without either: all, for ever."""

    batch: str | None
    timeouts: Timeouts


class Which(TypedDict, total=False):
    """Which documents of a pipeline are meant: those to which all of it applies. What is not said, or None, is open.

    batch     of this batch
    key       of this key; with * (anything) or ? (any one character) in it, of all keys like it
    state     in this state
    step      that stand at this step
    error     whose last failure was of this class
    text      with this in their reason, in capitals or not
    idle      that moved last longer ago than this
    accepted  dead letters that somebody accepted (True), or documents that nobody did (False)
    plan      pinned to the plan with this number
    """

    batch: str | None
    key: str | None
    state: State | None
    step: str | None
    error: str | None
    text: str | None
    idle: timedelta | None
    accepted: bool | None
    plan: int | None
