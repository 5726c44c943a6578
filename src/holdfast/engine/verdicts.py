"""What becomes of a document after an error, or when the work of a step is gone."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from holdfast.core.errors import BodyCrashed, BodyError, Pause, RetryLater, StoreError
from holdfast.core.model import Checkpoint, Claim, Entry, Failure
from holdfast.core.moves import Ending
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import LONGEST, retry_after
from holdfast.core.step import AnyStep


class Over(Exception):
    """The worker is finished with this document for now."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


def judge(step: AnyStep, error: BaseException, *, claim: Claim, who: str, attempts: int, crashes: int) -> Ending:
    """Decides what becomes of a document after an error: put off, parked, tried again or a dead letter."""
    retry = step.options.retry
    if isinstance(error, RetryLater):
        delay = (
            min(max(error.after, timedelta(0)), LONGEST) if error.after is not None else retry.wait(max(attempts, 1))
        )
        return Ending(claim, who, "waiting", "defer", delay, costs="nothing", reason=clean(str(error)))
    if isinstance(error, Pause):
        said = clean(str(error))
        return Ending(claim, who, "paused", "pause", until=error.until, costs="nothing", reason=said, asks=True)
    if isinstance(error, StoreError):  # the database's trouble is not the document's
        delay = retry.wait(max(attempts, 1))
        return Ending(claim, who, "waiting", "defer", delay, step=step.name, costs="nothing", reason=clean(str(error)))
    crashed = isinstance(error, BodyCrashed)
    attempts, crashes = attempts - crashed, crashes + crashed
    failure = failure_of(error)
    costs: Literal["attempt", "crash"] = "crash" if crashed else "attempt"
    if retry.gives_up(error, attempts=attempts, crashes=crashes):
        return Ending(claim, who, "dead", "fail", costs=costs, failure=failure, step=step.name)
    delay = max(retry.wait(max(attempts, crashes, 1)), retry_after(error) or timedelta(0))
    return Ending(claim, who, "waiting", "fail", delay, costs=costs, failure=failure, step=step.name)


def place_not_passed(pipeline: Pipeline, step: AnyStep, at: Checkpoint, journal: Sequence[Entry]) -> str | None:
    """Names the place from which the document was rewound to this step before, if it did not get past it since.

    It is the journal that knows: a rewind and its line are one transaction, so no kill comes between. Whatever a person
    decided, and whatever changed in the document, begins anew, and so does work that was found to be there; a gate that
    is passed does not.
    """
    for entry in reversed(journal):
        if _begins_anew(pipeline, step, entry):
            return None
        if _was_gone(step, entry):
            place, cursor = entry.detail["from"], entry.detail["cursor"]
            if place is None:  # it was done, and is not done again
                return "its last step"
            behind = [one.name for one in pipeline.behind(at.step or "")]
            gone = place not in pipeline  # renamed or removed since: nobody can stand before it
            if not gone and place not in behind and not (place == at.step and _is_further(at.cursor, cursor)):
                return str(place)
    return None


def was_redone(pipeline: Pipeline, step: AnyStep, journal: Sequence[Entry]) -> bool:
    """Answers whether a document was rewound to this step before, because its work was gone.

    Whatever a person decided since, and whatever changed in the document, begins anew; so does work that was asked
    about since and was there.
    """
    for entry in reversed(journal):
        if _begins_anew(pipeline, step, entry):
            return False
        if _was_gone(step, entry):
            return True
    return False


def work_is_gone(step: AnyStep) -> str:
    """Gives the reason of a rewind to a step whose work is gone: by this the journal tells it from others."""
    return f"the work of {step.name} is gone"


def _was_gone(step: AnyStep, entry: Entry) -> bool:
    detail = entry.detail if isinstance(entry.detail, dict) else {}
    said = f"the work of {detail.get('to')} is gone"  # by the name that the step had then; the line follows a rename
    return entry.verb == "rewind" and entry.step == step.name and detail.get("reason") == said


def _begins_anew(pipeline: Pipeline, step: AnyStep, entry: Entry) -> bool:
    if entry.verb == "resume":
        at = entry.step or ""
        return at not in pipeline or pipeline[at].kind != "gate"
    detail = entry.detail if isinstance(entry.detail, dict) else {}
    if entry.verb == "verify":
        return step.name in detail.get("steps", ())
    if entry.verb == "rewind":  # somebody's decision; a worker's own has no state before and after
        return "was" in detail and not str(detail.get("reason")).startswith(f"the work of {detail.get('to')} is gone")
    return entry.verb in ("redrive", "change")


def _is_further(cursor: Any, before: Any) -> bool:
    """Of cursors that are not numbers nobody can say."""
    now, then = cursor or 0, before or 0
    return isinstance(now, (int, float)) and isinstance(then, (int, float)) and now > then


def failure_of(error: BaseException) -> Failure:
    """Gives an error as a value that can be kept."""
    story = getattr(error, "story", None)  # what a child process told of its error
    if isinstance(story, Failure):
        return story
    kind = type(error).__name__
    try:
        if isinstance(error, BodyError):
            return Failure(kind, clean(str(error)))
        return Failure(kind, clean(str(error)), clean("".join(traceback.format_exception(error, limit=-30))))
    except Exception:  # noqa: BLE001 - an error that cannot even be told is still that body's alone
        return Failure(kind, "its message cannot be read")


def clean(text: str) -> str:
    """Gives text as every store can keep it: names of undecodable files may stand in errors."""
    return text.encode(errors="replace").decode()
