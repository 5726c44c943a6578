"""The failure policy: decides what happens to a document after an error, or when the work of a step is gone."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.error_categories import error_category
from holdfast.core.errors import BodyCrashed, BodyError, BodyLost, Pause, RetryLater, StoreError
from holdfast.core.formatting import format_count, format_duration
from holdfast.core.model import Checkpoint, Claim, Failure, JournalEntry
from holdfast.core.moves import Release
from holdfast.core.pipeline import Pipeline
from holdfast.core.reasons import (
    CURSOR_EXPIRED,
    DEFERRED_TOO_LONG,
    LOST_TOO_OFTEN,
    QUESTION,
    REORDERED,
    SERVICE_FAILED,
    WORK_GONE,
    WORK_GONE_AGAIN,
    sentence,
)
from holdfast.core.retry import Retry, retry_after
from holdfast.core.step import AnyStep
from holdfast.core.text_limits import shorten
from holdfast.core.waits import moment_of, wait_of

DEFAULT = Retry()
SHORTEST = timedelta(seconds=0.1)
"""The shortest wait of a document that is put off again. Only the first wait may be shorter."""
OWN_REWINDS = frozenset({WORK_GONE, WORK_GONE_AGAIN, CURSOR_EXPIRED, REORDERED})
"""The codes of rewinds that holdfast itself decides. Any other is the decision of a person or of a ready pipeline."""

MAX_MESSAGE = 2_000
"""Characters of each message in a traceback."""


class DocumentReleased(Exception):
    """The worker is finished with this document for now."""

    def __init__(self, release: Release) -> None:
        super().__init__(release.reason)
        self.release = release


class UnreadableError(Exception):
    """Stands for an error of a body that cannot be used: its own code raises, or it asks for something impossible.

    Attributes:
        remote_failure: The class of that error, and why it cannot be used.
    """


RaisedBy = Literal["body", "effect", "verify"]
"""Where an error comes from."""


class Tried(Struct, frozen=True):
    """What was tried: the document, and its counts since it last moved. `raised_by` is where the error comes from."""

    claim: Claim
    who: str
    attempts: int
    crashes: int
    deferrals: int = 0
    deferred_for: timedelta = timedelta(0)
    raised_by: RaisedBy = "body"
    losses: int = 0


def decide_outcome(step: AnyStep, error: BaseException, tried: Tried) -> Release:
    """Decide what happens to a document after an error: it waits, is paused, is retried or becomes a dead letter."""
    try:
        return _decide(step, readable(error), tried)
    except BaseException as problem:  # noqa: BLE001 - user code: properties of its error may raise anything
        return _decide(step, unreadable_error(error, problem), tried)


def _decide(step: AnyStep, error: BaseException, tried: Tried) -> Release:
    retry, claim, who = step.options.retry, tried.claim, tried.who
    attempts, crashes = tried.attempts, tried.crashes
    if isinstance(error, RetryLater):
        return _put_off(
            step, tried, without_surrogates(str(error)), None if error.after is None else wait_of(error.after)
        )
    if isinstance(error, Pause):
        reason, until = without_surrogates(str(error)), None if error.until is None else moment_of(error.until)
        return Release(claim, who, "paused", "pause", until=until, costs="nothing", reason=reason, code=QUESTION)
    if isinstance(error, StoreError):  # a fault of the database costs the document nothing
        return _put_off(step, tried, without_surrogates(str(error)), None)
    if isinstance(error, BodyLost):
        return _after_loss(step, error, tried)
    crashed = isinstance(error, BodyCrashed)
    attempts, crashes = attempts - crashed, crashes + crashed
    failure = failure_of(error, retry)
    costs: Literal["attempt", "crash"] = "crash" if crashed else "attempt"
    why: dict[str, Any] = {"costs": costs, "failure": failure, "step": step.name}
    why["outage"] = _is_outage(step, error, failure, tried)
    if retry.gives_up(error, attempts=attempts, crashes=crashes) or _is_final(failure, tried):
        if why["outage"] and says_outage(error):
            put_off = _put_off(step, tried, str(failure), retry_after(error))
            return put_off if put_off.state == "paused" else replace(put_off, failure=failure, outage=True)
        return Release(claim, who, "dead", "fail", **why)
    delay = max(retry.wait(max(attempts, crashes, 1)), retry_after(error) or timedelta(0))
    return Release(claim, who, "waiting", "fail", delay, **why, code=SERVICE_FAILED if why["outage"] else "")


def _put_off(step: AnyStep, tried: Tried, reason: str, after: timedelta | None) -> Release:
    """Put a document off. It costs no attempt, but not without end: after a while a person has to look.

    A body that gives no wait is asked less and less often. One that gives a very short wait is asked once so soon.
    """
    retry, claim, who, times = step.options.retry, tried.claim, tried.who, tried.deferrals + 1
    if not retry.puts_off(deferrals=times, deferred_for=tried.deferred_for):
        facts = {"times": format_count(times, "time"), "duration": format_duration(tried.deferred_for.total_seconds())}
        why = sentence(DEFERRED_TOO_LONG, **facts, step=step.name, why=reason)
        code = DEFERRED_TOO_LONG
        return Release(claim, who, "paused", "pause", costs="deferral", step=step.name, reason=why, code=code)
    delay = retry.wait(times) if after is None else after if times == 1 else max(after, SHORTEST)
    return Release(claim, who, "waiting", "defer", delay, step=step.name, costs="deferral", reason=reason)


def _is_outage(step: AnyStep, error: BaseException, failure: Failure, tried: Tried) -> bool:
    """Return True if an error counts for the circuit of the step. Errors in Retry(permanent=) are the document's."""
    circuit = step.options.circuit
    if circuit is None or tried.raised_by != "body" or step.options.retry.is_permanent(error):
        return False
    return circuit.counts(error, failure.category) or says_outage(error)


def says_outage(error: BaseException) -> bool:
    """Return True if an error says that its service is away for everybody: it has `is_outage = True`."""
    return getattr(error, "is_outage", False) is True


def _is_final(failure: Failure, tried: Tried) -> bool:
    """Return True if another attempt would certainly end in the same way: the same rows violate the same constraint."""
    return tried.raised_by == "effect" and failure.category == "constraint" and failure.recoverable is False


def _after_loss(step: AnyStep, error: BodyLost, tried: Tried) -> Release:
    """Decide about a document whose process was killed from outside. After the first time it is tried at once."""
    retry, losses = step.options.retry, tried.losses + 1
    failure = failure_of(error, retry)
    if losses >= retry.losses:
        times = format_count(losses, "time")
        failure = replace(failure, message=f"{failure.message}, for {times} since the document last moved")
        dead = Release(tried.claim, tried.who, "dead", "fail", costs="loss", failure=failure, step=step.name)
        return replace(dead, code=LOST_TOO_OFTEN)
    tries = max(tried.attempts - 1, tried.crashes, losses - 1)
    delay = retry.wait(tries) if tries else timedelta(0)
    return Release(tried.claim, tried.who, "waiting", "fail", delay, costs="loss", failure=failure, step=step.name)


def place_not_passed(pipeline: Pipeline, step: AnyStep, at: Checkpoint, journal: Sequence[JournalEntry]) -> str | None:
    """Return the place from which the document was last rewound to this step. Return None if it has passed it since.

    The journal has it: a rewind and its line are one transaction. Earlier rewinds do not count after the decision of a
    person, after the document changed, and after a verification found the work. Passing a gate changes nothing.
    """
    for entry in reversed(journal):
        if _starts_over(pipeline, step, entry):
            return None
        if _was_gone(step, entry):
            place, cursor = entry.detail["from"], entry.detail["cursor"]
            if place is None:  # it was done, and is not done again yet
                return "its last step"
            behind = [one.name for one in pipeline.behind(at.step or "")]
            gone = place not in pipeline  # renamed or removed since
            if not gone and place not in behind and not (place == at.step and _is_further(at.cursor, cursor)):
                return str(place)
    return None


def was_redone(pipeline: Pipeline, step: AnyStep, journal: Sequence[JournalEntry]) -> bool:
    """Return True if a document was rewound to this step before, because its work was gone.

    Earlier rewinds do not count after the decision of a person, after the document changed, and after a verification
    found the work.
    """
    for entry in reversed(journal):
        if _starts_over(pipeline, step, entry):
            return False
        if _was_gone(step, entry):
            return True
    return False


def _was_gone(step: AnyStep, entry: JournalEntry) -> bool:
    return entry.verb == "rewind" and entry.step == step.name and entry.code == WORK_GONE


def _starts_over(pipeline: Pipeline, step: AnyStep, entry: JournalEntry) -> bool:
    if entry.verb == "resume":
        at = entry.step or ""
        return at not in pipeline or pipeline[at].kind != "gate"
    detail = entry.detail if isinstance(entry.detail, dict) else {}
    if entry.verb == "verify":
        return step.name in detail.get("steps", ())
    if entry.verb == "rewind":
        return entry.code not in OWN_REWINDS
    return entry.verb in ("redrive", "change")


def _is_further(cursor: Any, before: Any) -> bool:
    """Return True if a cursor is after another. Only numbers can be compared."""
    now, then = cursor or 0, before or 0
    return isinstance(now, (int, float)) and isinstance(then, (int, float)) and now > then


def failure_of(error: BaseException, retry: Retry = DEFAULT) -> Failure:
    """Return an error as a value that a store can keep. `retry` says which errors can go away by themselves."""
    kind = without_surrogates(type(error).__name__)
    try:
        category = error_category(error) or ""
        recoverable = retry.is_recoverable(error)
        remote = getattr(error, "remote_failure", None)  # set for an error of a child process
        if isinstance(remote, Failure):
            return replace(remote, recoverable=remote.recoverable if recoverable is None else recoverable)
        trace = "" if isinstance(error, BodyError) else _trace(error)
        return Failure(kind, without_surrogates(str(error)), without_surrogates(trace), recoverable, category)
    except BaseException:  # noqa: BLE001 - user code: an error that cannot be formatted is one error of this document
        return Failure(kind, "its message cannot be read")


def _trace(error: BaseException) -> str:
    """Return the traceback. Messages in it are cut first, so that the frames between long ones are kept."""
    return "".join(shorten(part, MAX_MESSAGE) for part in traceback.format_exception(error, limit=-30))


def readable(error: BaseException) -> BaseException:
    """Return an error whose class can be asked for: the error itself, unless its class overrides how this is done.

    `isinstance` calls such an override, which may raise anything.
    """
    for cls in type(error).__mro__:
        if cls is BaseException:
            break
        if "__class__" in vars(cls) or "__getattribute__" in vars(cls):
            return unreadable_error(error, TypeError("its class overrides __class__ or __getattribute__"))
    return error


def unreadable_error(error: BaseException, problem: BaseException) -> UnreadableError:
    """Return the error that stands for one that cannot be used because of a problem."""
    stand_in = UnreadableError()
    message = f"this error cannot be used: {failure_of(problem)}"
    stand_in.remote_failure = Failure(without_surrogates(type(error).__name__), message)  # type: ignore[attr-defined]
    return stand_in


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which no store can keep. Errors may contain the names of files that are not UTF-8."""
    return text.encode(errors="replace").decode()
