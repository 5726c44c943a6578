"""The retry policy: whether a failed attempt is repeated, and after how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from math import inf, isnan
from random import random
from typing import Any

import msgspec

from holdfast.core.error_categories import is_recoverable
from holdfast.core.errors import BodyError, DefinitionError, MoveRefused, Reject
from holdfast.core.model import JournalEntry
from holdfast.core.waits import LONGEST

SUSPECT = 2
"""After this many crashes a document runs alone in its worker: the crash may be the fault of another document."""

SUSPECT_LOSSES = 5
"""After this many losses of its worker, for which there is no evidence, a document runs alone too. More than crashes:
most losses are the machine's fault, and a document that runs alone slows its worker down. Few enough that a document
that kills its worker without leaving evidence soon takes no other documents along."""

TRANSIENT_BODY_ERRORS = frozenset({"StepTimeout", "TooManyFailures", "BodyCrashed", "BodyLost"})


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a step is tried, and how long the document waits between two attempts.

    The wait after attempt n is `base * factor ** (n - 1)`, at most `ceiling`. A random part of it, up to the share
    `jitter`, is left out, so that many documents do not come back at the same moment. With the defaults: about 1 s,
    2 s, 4 s. A wait that a service asks for (`error.retry_after`, or the Retry-After header of `error.response`) is
    used instead. Attempts, crashes and losses are counted since the document last moved: progress sets all to zero.

    Args:
        attempts: How many attempts a document has without moving, the first one included. Then it is a dead letter.
        crashes: How many times its process may crash without the document moving. Then it is a dead letter. At least
            3: the first two crashes may be caused by other documents in the same worker. Only a death with evidence is
            a crash: a fatal signal, an exit, an out-of-memory kill.
        losses: How many times its process may be gone without such evidence: killed from outside, or lost with its
            machine. Then it is a dead letter. At least 6: from the fifth loss on it is processed alone, to find out.
            The first loss is tried again at once, further ones after growing waits.
        base: The wait after the first failed attempt.
        factor: Each next wait is longer by this factor.
        ceiling: The longest wait.
        jitter: The share of the wait that is random: 0 for none, 0.5 for a wait between half and all of it.
        interruptions: How many times a worker may have to stop while a body runs, without the document moving. Then it
            is paused for a person: its workers have less time than it needs. None: no limit. Ctrl-C does not count.
        deferrals: How many times RetryLater may put a document off without the document moving. Then it is paused for
            a person. None: no limit.
        deferred_for: How long RetryLater may put a document off, counted from the first time. Then it is paused for a
            person. None: no limit.
        permanent: Errors that are not tried again. The document is a dead letter at once.
        transient: Errors that can go away by themselves. They are tried again even where holdfast would not, for
            example if an effect violates a constraint.

    Raises:
        DefinitionError: A value is out of range.

    Example:
        @papers.step(retry=holdfast.Retry(attempts=5, base=timedelta(seconds=2), permanent=(ValueError,)))
        def parse(doc): ...
    """

    attempts: int = 3
    crashes: int = 3
    losses: int = 25
    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    ceiling: timedelta = timedelta(minutes=5)
    jitter: float = 0.5
    interruptions: int | None = 10
    deferrals: int | None = None
    deferred_for: timedelta | None = timedelta(days=7)
    permanent: tuple[type[BaseException], ...] = ()
    transient: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if not self.attempts >= 1:
            raise DefinitionError("Retry(attempts=) must be at least 1: the first attempt counts")
        if self.crashes <= SUSPECT:
            raise DefinitionError(
                f"Retry(crashes=) must be more than {SUSPECT}: the first {SUSPECT} crashes may be caused by other "
                "documents in the same worker"
            )
        if self.losses <= SUSPECT_LOSSES:
            raise DefinitionError(
                f"Retry(losses=) must be more than {SUSPECT_LOSSES}: after {SUSPECT_LOSSES} losses a document is "
                "processed alone, and only then a loss says something about it; to end documents at the first loss, "
                'use Pipeline(orphans="fail")'
            )
        if self.base <= timedelta(0) or self.ceiling < self.base or not self.factor >= 1:
            raise DefinitionError("Retry needs 0 < base <= ceiling and a factor of at least 1")
        if not 0 <= self.jitter <= 1:
            raise DefinitionError("Retry(jitter=) is the random share of the wait: it must be between 0 and 1")
        for name in ("interruptions", "deferrals"):
            if (limit := getattr(self, name)) is not None and limit < 1:
                raise DefinitionError(f"Retry({name}=) must be at least 1, or None for no limit")
        if self.deferred_for is not None and self.deferred_for <= timedelta(0):
            raise DefinitionError("Retry(deferred_for=) must be a positive timedelta, or None for no limit")

    def puts_off(self, *, deferrals: int, deferred_for: timedelta) -> bool:
        """Check whether RetryLater may put a document off once more.

        Args:
            deferrals: How many times it was put off since it last moved, this time included.
            deferred_for: How long ago the first time was.

        Returns:
            False if a person has to look at it.
        """
        too_often = self.deferrals is not None and deferrals > self.deferrals
        return not too_often and (self.deferred_for is None or deferred_for <= self.deferred_for)

    def wait(self, tries: int, *, chance: Callable[[], float] = random) -> timedelta:
        """Return how long to wait after a failed attempt.

        Args:
            tries: How many attempts were made.
            chance: Returns a random number between 0 and 1.

        Returns:
            The wait.
        """
        try:
            full = min(self.base.total_seconds() * float(self.factor) ** (tries - 1), self.ceiling.total_seconds())
        except OverflowError:  # the ceiling was reached long ago
            full = self.ceiling.total_seconds()
        return timedelta(seconds=full * (1 - self.jitter * chance()))

    def gives_up(self, error: BaseException, *, attempts: int, crashes: int) -> bool:
        """Check whether an error makes the document a dead letter.

        Args:
            error: The error of the last attempt.
            attempts: How many attempts were made since the document last moved, this one included.
            crashes: How many crashes there were since then.

        Returns:
            True if the document is not tried again.
        """
        return self.is_permanent(error) or attempts >= self.attempts or crashes >= self.crashes

    def is_permanent(self, error: BaseException) -> bool:
        """Check whether an error is never tried again, however many attempts are left.

        Args:
            error: The error of an attempt.

        Returns:
            True for Reject, the errors in `permanent`, a move that the store refused, and most errors of the body
            itself, such as CannotKeep.
        """
        if isinstance(error, (Reject, MoveRefused, *self.permanent)):
            return True
        return isinstance(error, BodyError) and type(error).__name__ not in TRANSIENT_BODY_ERRORS

    def is_recoverable(self, error: BaseException) -> bool | None:
        """Check whether an error can go away by itself.

        Args:
            error: The error of an attempt.

        Returns:
            False for the errors in `permanent`, True for those in `transient`. For all others the answer of
            `holdfast.is_recoverable`: None if nobody knows.
        """
        if isinstance(error, self.permanent):
            return False
        return True if isinstance(error, self.transient) else is_recoverable(error)


def is_suspect(*, crashes: int, losses: int) -> bool:
    """Return True if a document has to be processed alone, because it may be what ends its workers."""
    return crashes >= SUSPECT or losses >= SUSPECT_LOSSES


def retry_after(error: BaseException, *, now: datetime | None = None) -> timedelta | None:
    """Return the wait that a service asked for: `error.retry_after`, or the Retry-After header of its response."""
    try:
        return _retry_after(error, now=now)
    except BaseException:  # noqa: BLE001 - attributes of an unknown error may raise anything, also SystemExit
        return None


def _retry_after(error: BaseException, *, now: datetime | None) -> timedelta | None:
    wait: Any = getattr(error, "retry_after", None)
    if wait is None:
        response = getattr(error, "response", None)
        headers = getattr(error if response is None else response, "headers", None)  # urllib's errors have headers
        return None if headers is None else retry_after_header(headers, now=now)
    if isinstance(wait, timedelta):
        return min(max(wait, timedelta(0)), LONGEST)
    if isinstance(wait, (int, float)):
        return None if isnan(wait) else timedelta(seconds=max(min(wait, LONGEST.total_seconds()), 0))
    return _parse_wait(wait, now=now) if isinstance(wait, str) else None


def retry_after_header(headers: Mapping[str, Any], *, now: datetime | None = None) -> timedelta | None:
    """Return the wait that the headers of a response ask for: `Retry-After-Ms`, or seconds or a date in `Retry-After`.

    `headers` finds a name in any case, as those of HTTP libraries do. A plain dict works if its names are written as
    here or in lower case.
    """
    milliseconds = _parse_seconds(_header(headers, "Retry-After-Ms"), unit=0.001)
    return _parse_wait(_header(headers, "Retry-After"), now=now) if milliseconds is None else milliseconds


def _header(headers: Mapping[str, Any], name: str) -> str:
    found = headers.get(name, headers.get(name.lower()))
    return "" if found is None else str(found)


def _parse_wait(text: str, *, now: datetime | None) -> timedelta | None:
    seconds = _parse_seconds(text)
    return _parse_date(text, now or datetime.now(UTC)) if seconds is None else seconds


def _parse_seconds(text: str, *, unit: float = 1.0) -> timedelta | None:
    try:
        seconds = float(text.strip()) * unit
    except ValueError:
        return None
    return timedelta(seconds=min(seconds, LONGEST.total_seconds())) if 0 <= seconds < inf else None


def _parse_date(text: str, now: datetime) -> timedelta | None:
    from email.utils import parsedate_to_datetime  # slow to import, and rarely needed

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a year that datetime cannot represent
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(moment - now, timedelta(0)), LONGEST)


def count_retries(journal: Iterable[JournalEntry], generation: int) -> int:
    """Return how often a document was tried again in a generation.

    That is after a failure, after its worker was lost, and when it was redriven. Progress resets `attempts`, but not
    this number. It is counted from the journal, so that no commit has to write it.
    """
    tried = [entry for entry in journal if entry.generation == generation and entry.verb in RETRYING]
    return sum(isinstance(entry.detail, dict) and entry.detail.get("state") == "waiting" for entry in tried)


RETRYING = ("fail", "reclaim", "redrive")
"""The verbs of journal entries after which a document is tried again, if it is waiting then."""
