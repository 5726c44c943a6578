"""What every SQL store makes of the rows of its census, and how a slice of a cleanup is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from holdfast.core.batches import Counted, Reconciliation, past
from holdfast.stores.rows import GONE


def version() -> str:
    """Gives the version of holdfast that is at work."""
    from importlib.metadata import version as installed

    return installed("holdfast")


def reconciliations(
    pipeline: str, rows: Iterable[Sequence[Any]], moment: Callable[[Any], datetime]
) -> list[Reconciliation]:
    """Gives where the documents of each batch are, of the rows of census.sql."""
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
    return Reconciliation(
        pipeline=pipeline,
        batch=name,
        state=state,
        expected=expected,
        created_at=moment(created_at),
        sealed_at=None if sealed_at is None else moment(sealed_at),
        closed_at=None if closed_at is None else moment(closed_at),
        moved_at=moment(max(moved)) if moved else None,
        gone=sum(gone),
        mark=sum(row[6] for row in groups),
        steps={step: Counted(**counted) for step, counted in sorted(steps.items())},
        **counts,
    )


def candidates_for(limit: int) -> int:
    """Answers how many documents to look at for a slice of so many rows: most have an item or more."""
    return max(limit // 2, 1)


def cut(candidates: Sequence[Sequence[Any]], limit: int) -> tuple[list[int], str | None]:
    """Cuts a slice of (id, key, rows that it has): at most `limit` rows, but at least one document.

    Answers the ids, and the key to go on at; None when these were the last candidates.
    """
    ids: list[int] = []
    rows = 0
    for document_id, key, own in candidates:
        if ids and rows + own > limit:
            return ids, key
        ids.append(document_id)
        rows += own
    return ids, past(candidates[-1][1]) if len(candidates) == candidates_for(limit) else None
