"""What every store does with batches and plans: seals, deadlines, counts in one order, and cleanup in slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.core.batches import AT_DEADLINE, DeadlineAction, past
from holdfast.core.errors import SealRefused
from holdfast.core.model import STATES, State
from holdfast.core.orphans import format_utc
from holdfast.core.plan import DocumentCount
from holdfast.core.reasons import BATCH_DEADLINE, sentence

DEADLINE_ERROR = "BatchDeadline"
"""The value of hf_document.error for dead letters that a deadline made, for filters."""


def refuse_wrong_count(pipeline: str, batch: str, state: str, *, declared: int | None, submitted: int) -> None:
    """Raise SealRefused if another number of documents was declared than was submitted."""
    if declared is not None and declared != submitted:
        raise SealRefused(pipeline, batch, state=state, declared=declared, submitted=submitted)


def seal_detail(reason: str, expect: int | None) -> dict[str, Any]:
    """Return the journal detail of a seal, with the number of documents that was declared, if one was."""
    detail = {"reason": reason, "was": "open", "state": "sealed"}
    return detail if expect is None else detail | {"expect": expect}


class DocumentEnd(Struct, frozen=True):
    """How the documents of an expired batch end. `verb` is the one in their journals."""

    state: State
    verb: DeadlineAction
    reason: str
    error: str
    code: str = BATCH_DEADLINE


def document_end(deadline_at: datetime, action: DeadlineAction) -> DocumentEnd:
    """Return how documents that are open at a deadline end."""
    reason = sentence(BATCH_DEADLINE, deadline=format_utc(deadline_at))
    return DocumentEnd(AT_DEADLINE[action], action, reason, DEADLINE_ERROR if action == "fail" else "")


def deadline_detail(at: datetime | None, action: DeadlineAction, reason: str) -> dict[str, Any]:
    """Return the journal detail of a deadline that was set or removed."""
    deadline = None if at is None else at.astimezone(UTC).isoformat()
    return {"reason": reason, "deadline": deadline, "action": action}


def expired_detail(end: DocumentEnd) -> dict[str, Any]:
    """Return the journal detail of a batch whose last open document was ended."""
    return {"reason": end.reason, "state": end.state}


def gathered(counts: Mapping[tuple[State, str | None, bool], int]) -> tuple[DocumentCount, ...]:
    """Return counts of documents by (state, step, settled), in an order that does not depend on the store."""
    rows = [DocumentCount(state, step, documents, settled) for (state, step, settled), documents in counts.items()]
    return tuple(sorted(rows, key=lambda row: (STATES.index(row.state), row.step or "", row.settled)))


def candidates_for(limit: int) -> int:
    """Return how many documents to read for a slice of `limit` rows: most documents have an item or more."""
    return max(limit // 2, 1)


def cut(candidates: Sequence[Sequence[Any]], limit: int) -> tuple[list[int], str | None]:
    """Cut a slice of (id, key, number of rows): at most `limit` rows, but at least one document.

    Return the ids, and the key at which to go on. The key is None if there are no more candidates.
    """
    ids: list[int] = []
    rows = 0
    for document_id, key, own in candidates:
        if ids and rows + own > limit:
            return ids, key
        ids.append(document_id)
        rows += own
    return ids, past(candidates[-1][1]) if len(candidates) == candidates_for(limit) else None


def time_before(now: datetime, older: timedelta) -> datetime:
    """Return the time that lies a duration before now. A duration that no calendar has ends at its first day."""
    try:
        return now - older
    except OverflowError:
        return datetime(1, 1, 2, tzinfo=UTC)  # a day later than the first, so that it has a date in every time zone
