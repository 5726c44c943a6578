"""Show how far a collection is: its documents by state, its sources, and its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct

from holdfast.core.batches import Reconciliation
from holdfast.core.model import DocumentStatus, State
from holdfast.core.retry import count_retries
from holdfast.pipelines.rag.ingest.known_files import KnownFiles, keys_by_source
from holdfast.pipelines.rag.sql_statements import has_table, load_statements
from holdfast.stores.protocol import Store

SQL = load_statements(Path(__file__).parent / "queries")
T = TypeVar("T")
SLICE = 2000
"""How many documents are read at once."""

IngestState = Literal[
    "PENDING", "EXTRACTING", "CHUNKING", "EMBEDDING", "INDEXING", "COMPLETED", "FAILED", "PAUSED", "CANCELLED"
]
STEPS: Mapping[str, IngestPhase] = {
    "extract": "EXTRACTING",
    "chunk": "CHUNKING",
    "embed": "EMBEDDING",
    "index": "INDEXING",
}
IngestPhase = Literal["EXTRACTING", "CHUNKING", "EMBEDDING", "INDEXING"]
ENDS: Mapping[str, IngestState] = {"done": "COMPLETED", "dead": "FAILED", "paused": "PAUSED", "cancelled": "CANCELLED"}
ORDER: tuple[IngestState, ...] = ("PENDING", *STEPS.values(), *ENDS.values())
NOT_DONE: tuple[State, ...] = ("waiting", "running", "paused", "dead", "cancelled")


class IngestProgress(Struct, frozen=True, kw_only=True):
    """How far one document is. A failed document keeps its progress and continues from there when it is retried.

    `current_phase` is the phase in which it works, waits, or stopped. None if it is completed. `chunks_embedded` leaves
    out chunks that were set aside because no vector could be made. `retry_count` is about this version of the document;
    progress does not reset it.
    """

    document: str
    status: IngestState
    current_phase: IngestPhase | None
    pages_extracted: int
    chunks_created: int
    chunks_embedded: int
    chunks_indexed: int
    retry_count: int
    last_checkpoint: datetime
    error_message: str = ""
    recoverable: bool | None = None


class CollectionStatus(Struct, frozen=True):
    """How far a collection is: its documents by state, and by source."""

    states: dict[str, int]
    sources: dict[str, int]
    paused_steps: dict[str, str] = {}
    """The steps that are paused for all documents, because a service is away, and why."""
    failed_phases: dict[str, int] = {}
    """The failed documents by the phase in which they failed."""

    @property
    def documents(self) -> int:
        """How many documents there are. Cancelled ones are not counted."""
        return sum(number for state, number in self.states.items() if state != "CANCELLED")


class CollectionCounters(Struct, frozen=True, kw_only=True):
    """How many pages and chunks of a collection have passed each step, and how often its documents were retried.

    Each is the sum over the documents that are not cancelled.
    """

    pages_extracted: int
    chunks_created: int
    chunks_embedded: int
    chunks_indexed: int
    retry_count: int


def ingest_state(state: str, step: str | None, *, begun: bool) -> IngestState:
    """Return the ingest state of a document by its state in the store and its step."""
    if state in ENDS:
        return ENDS[state]
    return ingest_phase(step) if begun or state == "running" or step != "extract" else "PENDING"


def ingest_phase(step: str | None) -> IngestPhase:
    """Return the phase to which a step belongs. Steps over pages of your own come before the chunks."""
    return STEPS.get(step or "", "CHUNKING")


def read_status(store: Store, collection: str) -> CollectionStatus:
    """Count the documents of a collection. Documents whose files are gone, and sources without documents, are left out.

    Args:
        store: The store.
        collection: The name of the collection.

    Returns:
        The documents by state, and the documents that are not cancelled by source.
    """
    states: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for batch in store.batch_counts(collection):
        states += count_states(batch)
        for step, counts in batch.steps.items():
            failed[ingest_phase(step)] += counts.dead
        sources[batch.batch] += batch.found - batch.cancelled
    if states["CANCELLED"]:
        states["CANCELLED"] = max(states["CANCELLED"] - _count_deleted(store, collection), 0)
    paused = {one.step: one.reason for one in store.circuits(collection) if one.is_open}
    by_state: dict[str, int] = {state: states[state] for state in ORDER if states[state]}
    return CollectionStatus(by_state, dict(+sources), paused, dict(+failed))


def count_states(source: Reconciliation) -> Counter[str]:
    """Count the documents of a source by ingest state."""
    states: Counter[str] = Counter(COMPLETED=source.done)
    for step, counts in source.steps.items():
        for state in NOT_DONE:
            states[ingest_state(state, step, begun=False)] += getattr(counts, state)
    return states


def read_progress(store: Store, document: DocumentStatus) -> IngestProgress:
    """Return how far a document is."""
    items = {output.step: output.items for output in store.outputs(document.id)}
    step, cursor = document.checkpoint.step, document.checkpoint.cursor
    chunks = items.get("chunk", 0)
    processed = count_processed(cursor) if step == "embed" else chunks if step in ("index", None) else 0
    without_vector = sum(failed_step == "embed" for failed_step, _ in store.failed_items(document.id))
    return IngestProgress(
        document=document.key,
        status=ingest_state(document.state, step, begun=bool(items)),
        current_phase=None if document.state == "done" else ingest_phase(step),
        pages_extracted=items.get("extract", 0),
        chunks_created=chunks,
        chunks_embedded=processed - without_vector,
        chunks_indexed=chunks if document.state == "done" else 0,
        retry_count=count_retries(store.journal(document.id), document.checkpoint.generation),
        last_checkpoint=document.moved_at,
        error_message=document.reason if document.state == "dead" else "",
        recoverable=document.recoverable,
    )


def read_languages(store: Store, collection: str) -> dict[str, int]:
    """Count the documents that searches find, by the code of their language; '' where it is not known."""
    with store.reading() as tx:
        if not has_table(tx, "rag_language"):
            return {}
        return {language: int(count) for language, count in SQL.run(tx, "languages", collection=collection).fetchall()}


def read_counters(store: Store, collection: str) -> CollectionCounters:
    """Add up the counters of a collection's documents. Cancelled documents are not counted.

    Most documents are done, so these are not read one by one. Their chunks are all chunks of the collection, minus the
    chunks of the other documents.
    """
    with store.reading() as tx:
        if not has_table(tx, "rag_chunk"):
            return CollectionCounters(
                pages_extracted=0, chunks_created=0, chunks_embedded=0, chunks_indexed=0, retry_count=0
            )
    pages = sum(counts.items for counts in _of_documents(store.count_items(collection, "extract")))
    without_vector = sum(counts.aside for counts in _of_documents(store.count_items(collection, "embed")))
    unfinished = created = processed = 0
    for document, chunks in _unfinished_chunks(store, collection):
        unfinished += chunks.complete
        if document.state != "cancelled":
            created += chunks.created
            processed += chunks.processed
    with store.reading() as tx:
        (total,) = SQL.run(tx, "count_chunks", collection=collection).fetchone()
    done = max(int(total) - unfinished, 0)  # a document may have finished in between
    return CollectionCounters(
        pages_extracted=pages,
        chunks_created=done + created,
        chunks_embedded=max(done + processed - without_vector, 0),
        chunks_indexed=done,
        retry_count=sum(_of_documents(store.count_retries(collection))),
    )


def _of_documents(counts: Mapping[State, T]) -> list[T]:
    """Return the counts of documents that are not cancelled."""
    return [count for state, count in counts.items() if state != "cancelled"]


def count_processed(cursor: Any) -> int:
    """Count the items that a step over items has processed."""
    if isinstance(cursor, int):
        return cursor
    done: list[tuple[int, int]] = [(0, cursor["next"]), *cursor.get("done", ())] if cursor else []
    return sum(stop - start for start, stop in done)


class _ChunkCounts(Struct, frozen=True):
    """The chunks of one document: of its latest complete version, and those that chunk created and embed processed."""

    complete: int
    created: int
    processed: int


def _unfinished_chunks(store: Store, collection: str) -> Iterator[tuple[DocumentStatus, _ChunkCounts]]:
    """Yield the documents that are not done, with their chunks."""
    for state in NOT_DONE:
        for documents in _slices(store, collection, state):
            versions = _chunks_by_version(store, collection, documents)
            for document in documents:
                yield document, _count(document, *versions.get((document.batch, document.key), (None, {})))


def _count(document: DocumentStatus, chunked: int | None, versions: Mapping[int, int]) -> _ChunkCounts:
    step = document.checkpoint.step
    complete = versions.get(chunked, 0) if chunked is not None else 0
    if step == "embed":
        return _ChunkCounts(complete, complete, count_processed(document.checkpoint.cursor))
    if step in ("index", None):
        return _ChunkCounts(complete, complete, complete)
    return _ChunkCounts(complete, versions.get(document.checkpoint.generation, 0), 0)


def _chunks_by_version(
    store: Store, collection: str, documents: Sequence[DocumentStatus]
) -> dict[tuple[str, str], tuple[int | None, dict[int, int]]]:
    """Return for each document its latest complete version, and the chunks of all its versions."""
    found: dict[tuple[str, str], tuple[int | None, dict[int, int]]] = {}
    for source, keys in keys_by_source(documents).items():
        with store.reading() as tx:
            rows = SQL.run(tx, "chunks_of_documents", collection=collection, source=source, keys=keys).fetchall()
        for key, chunked, version, count in rows:
            found.setdefault((source, key), (chunked, {}))[1][version] = count
    return found


def _count_deleted(store: Store, collection: str) -> int:
    """Count the documents that were cancelled because their files are gone."""
    deleted = 0
    for documents in _slices(store, collection, "cancelled"):
        for source, keys in keys_by_source(documents).items():
            with store.reading() as tx:
                deleted += KnownFiles(collection, source).count_gone(tx, keys)
    return deleted


def _slices(store: Store, collection: str, state: State) -> Iterator[list[DocumentStatus]]:
    """Yield the documents in a state, some at a time."""
    after = 0
    while ids := store.select(collection, state=state, after=after, limit=SLICE):
        after = ids[-1]
        yield store.documents_by_id(ids)
