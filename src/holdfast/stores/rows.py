"""What every SQL store does with its rows, whatever the dialect: big values, reuses and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from holdfast.core.codec import Kept, decode_json
from holdfast.core.model import OPEN_STATES, Balance, Claim, Plan

BIG = 64 * 1024
"""Values larger than this are kept as blobs, outside the rows."""


def blob_hash(kept: Kept) -> bytes:
    """Gives the address of a big value: the same content has the same one."""
    media, content = as_blob(kept)
    return blake2b(content, digest_size=32, person=b"holdfast-" + media.encode()).digest()


def as_blob(kept: Kept) -> tuple[str, bytes]:
    """Gives the media and the content of a big value."""
    return ("json", kept.encode()) if isinstance(kept, str) else ("bytes", kept)


def from_json(text: str | None) -> Any:
    """Gives the value of a JSON column that may be empty."""
    return None if text is None else decode_json(text)


def reused(plan: Plan, claim: Claim, to: str) -> dict[str, int]:
    """Says which generation's items serve the steps before `to`, by the steps' numbers."""
    reuses: dict[str, int] = {}
    for step, step_id in plan.step_ids.items():
        if step == to:
            break
        reuses[str(step_id)] = (claim.reuses or {}).get(step, claim.checkpoint.generation)
    return reuses


def balance(expected: int, counts: Iterable[tuple[str, str | None, int]]) -> Balance:
    """Gives the balance of counts by state and step."""
    by_state: dict[str, int] = defaultdict(int)
    for state, _, count in counts:
        by_state[state] += count
    return Balance(expected, **by_state)


def at_step(counts: Iterable[tuple[str, str | None, int]]) -> dict[str, int]:
    """Gives how many open documents stand at each step."""
    by_step: dict[str, int] = defaultdict(int)
    for state, step, count in counts:
        if step is not None and state in OPEN_STATES:
            by_step[step] += count
    return dict(by_step)
