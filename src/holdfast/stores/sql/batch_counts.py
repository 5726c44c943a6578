"""Counts of documents by batch, state and step, from rows of `batch_counts.sql` and of the other counting queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from holdfast.core.batches import Counted, Reconciliation
from holdfast.core.model import OPEN_STATES, Balance, Gauges, State
from holdfast.core.plan import KnownPlan, Shape
from holdfast.stores.batch_rules import gathered

GONE = ("done", "dead", "cancelled")
"""The states of documents that are cleaned up, in the order of the columns gone_* of a batch."""


def reconciliations(
    pipeline: str, rows: Iterable[Sequence[Any]], moment: Callable[[Any], datetime]
) -> list[Reconciliation]:
    """Return where the documents of each batch are, from rows of batch_counts.sql."""
    return [_reconciliation(pipeline, list(of_batch), moment) for _, of_batch in groupby(rows, key=lambda row: row[0])]


def _reconciliation(pipeline: str, rows: Sequence[Sequence[Any]], moment: Callable[[Any], datetime]) -> Reconciliation:
    _, name, state, created_at, sealed_at, closed_at, expected, *gone = rows[0][:10]
    groups = [row[10:] for row in rows if row[10] is not None]
    counts = dict(zip(GONE, gone, strict=True)) | {"accepted": gone[1]}
    steps: dict[str, dict[str, int]] = {}
    for document_state, step, documents, accepted, orphaned, *_ in groups:
        for counted in (counts, steps.setdefault(step, {})) if step is not None else (counts,):
            for word, count in ((document_state, documents), ("accepted", accepted), ("orphaned", orphaned)):
                counted[word] = counted.get(word, 0) + count
    moved = [row[5] for row in groups if row[5] is not None]
    deadline_at, deadline_action, expired_at = rows[0][17:]
    return Reconciliation(
        pipeline=pipeline,
        batch=name,
        state=state,
        expected=expected,
        created_at=moment(created_at),
        sealed_at=None if sealed_at is None else moment(sealed_at),
        closed_at=None if closed_at is None else moment(closed_at),
        deadline_at=None if deadline_at is None else moment(deadline_at),
        deadline_action=deadline_action,
        expired_at=None if expired_at is None else moment(expired_at),
        moved_at=moment(max(moved)) if moved else None,
        gone=sum(gone),
        mark=sum(row[6] for row in groups),
        steps={step: Counted(**counted) for step, counted in sorted(steps.items())},
        **counts,
    )


def balance(expected: int, gone: Sequence[int], counts: Iterable[tuple[str, str | None, int]]) -> Balance:
    """Return the balance of counts by state and step, and of deleted documents: done, dead and cancelled."""
    by_state: dict[str, int] = defaultdict(int, zip(GONE, gone, strict=True))
    for state, _, count in counts:
        by_state[state] += count
    return Balance(expected, **by_state)


def at_step(counts: Iterable[tuple[str, str | None, int]]) -> dict[str, int]:
    """Return how many open documents are at each step."""
    by_step: dict[str, int] = defaultdict(int)
    for state, step, count in counts:
        if step is not None and state in OPEN_STATES:
            by_step[step] += count
    return dict(by_step)


def known_plans(
    shapes: Mapping[int, Shape], times: Mapping[int, datetime | None], counts: Iterable[tuple[Any, ...]]
) -> list[KnownPlan]:
    """Return plans with the documents pinned to them, from rows of (plan, state, step, settled, documents)."""
    by_plan: dict[int, dict[tuple[State, str | None, bool], int]] = defaultdict(dict)
    for plan_id, state, step, settled, documents in counts:
        by_plan[plan_id][state, step, bool(settled)] = documents
    return [KnownPlan(number, shape, times[number], gathered(by_plan[number])) for number, shape in shapes.items()]


def gauges(
    pipeline: str,
    counts: Iterable[Sequence[Any]],
    dead: Iterable[Sequence[Any]],
    oldest: timedelta | None,
    orphans: int,
    *,
    paused: Iterable[str],
) -> Gauges:
    """Return gauges from counts by state and step, and from dead letters by step and error."""
    documents = {(state, step): count for state, step, count in counts if count}
    died = {(step, error): count for step, error, count in dead}
    return Gauges(pipeline, documents, died, oldest, orphans, (*paused,))
