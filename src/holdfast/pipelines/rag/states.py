"""The states and counters that people know document ingestion by, as a view of where documents stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from holdfast.core.model import Standing as Here
from holdfast.pipelines.rag.files import left_behind
from holdfast.stores.protocol import Store

State = Literal[
    "PENDING", "EXTRACTING", "CHUNKING", "EMBEDDING", "INDEXING", "COMPLETED", "FAILED", "PAUSED", "CANCELLED"
]
STEPS: Mapping[str, State] = {
    "extract": "EXTRACTING",
    "chunk": "CHUNKING",
    "embed": "EMBEDDING",
    "index": "INDEXING",
}
ENDS: Mapping[str, State] = {"done": "COMPLETED", "dead": "FAILED", "paused": "PAUSED", "cancelled": "CANCELLED"}
ORDER: tuple[State, ...] = ("PENDING", *STEPS.values(), *ENDS.values())


class Progress(Struct, frozen=True, kw_only=True):
    """How far one document is. A document that failed keeps its progress, and goes on from there when tried again."""

    document: str
    status: State
    pages_extracted: int
    chunks_created: int
    chunks_embedded: int
    chunks_indexed: int
    retry_count: int
    last_checkpoint: datetime
    error_message: str = ""


class Standing(Struct, frozen=True):
    """How far a collection is: its documents by state, and by where they came from."""

    states: dict[str, int]
    sources: dict[str, int]

    @property
    def documents(self) -> int:
        """How many there are. Deleted ones are not counted."""
        return sum(number for state, number in self.states.items() if state != "CANCELLED")


def state_of(state: str, step: str | None, *, begun: bool) -> State:
    """Gives the state of a document that stands at a step."""
    if state in ENDS:
        return ENDS[state]
    return STEPS.get(step or "", "CHUNKING") if begun or state == "running" or step != "extract" else "PENDING"


def standing_of(store: Store, collection: str) -> Standing:
    """Counts the documents of a collection. Those whose files are gone are gone, too, and sources that have none."""
    with store.reading() as tx:
        gone = left_behind(tx, collection)
    states: Counter[str] = Counter({"CANCELLED": -sum(gone.values())})
    sources: Counter[str] = Counter()
    for found in store.census(collection):
        states["COMPLETED"] += found.done
        for step, counted in found.steps.items():
            for state in ("waiting", "running", "paused", "dead", "cancelled"):
                states[state_of(state, step, begun=False)] += getattr(counted, state)
        sources[found.batch] += found.found - found.cancelled
    return Standing({state: states[state] for state in ORDER if states[state]}, dict(+sources))


def progress_of(store: Store, here: Here) -> Progress:
    """Tells how far a document is."""
    made = {one.step: one.items for one in store.outputs(here.id)}
    step = here.checkpoint.step
    chunks = made.get("chunk", 0)
    embedded = walked(here.checkpoint.cursor) if step == "embed" else chunks if step in ("index", None) else 0
    return Progress(
        document=here.key,
        status=state_of(here.state, step, begun=bool(made)),
        pages_extracted=made.get("extract", 0),
        chunks_created=chunks,
        chunks_embedded=embedded,
        chunks_indexed=chunks if here.state == "done" else 0,
        retry_count=here.attempts,
        last_checkpoint=here.moved_at,
        error_message=here.reason if here.state == "dead" else "",
    )


def walked(cursor: Any) -> int:
    """Counts the items that a step over items has behind it."""
    if isinstance(cursor, int):
        return cursor
    done: list[tuple[int, int]] = [(0, cursor["next"]), *cursor.get("done", ())] if cursor else []
    return sum(stop - start for start, stop in done)
