"""Estimate what an ingest would do: files, pages, chunks to embed, and time.

After a change of settings this includes rework: what has to be made again. The index knows it beforehand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from holdfast.core.moves import Tx
from holdfast.core.staleness import Stale
from holdfast.ops.forecast import stale_groups
from holdfast.pipelines.rag.chunk.splitters import Splitting
from holdfast.pipelines.rag.collections.library import Library
from holdfast.pipelines.rag.embed import DEFAULT_EMBEDDER
from holdfast.pipelines.rag.estimate.files import TOKEN, FileEstimate, estimate_files, guess_from_pages
from holdfast.pipelines.rag.index import EmbeddingModel
from holdfast.pipelines.rag.ingest.file_changes import FileChange
from holdfast.pipelines.rag.ingest.intake import DEFAULT_SCAN, ScanOptions, SourceIngest
from holdfast.pipelines.rag.ingest.known_files import keys_by_source
from holdfast.pipelines.rag.sql_statements import load_statements
from holdfast.sources import parse_source
from holdfast.sources.source import is_url
from holdfast.stores.protocol import DocumentFilter

PAGE_SECONDS, IMAGE_SECONDS, TOKEN_SECONDS = 0.004, 1.0, 0.0003
"""Seconds of one core for a page of text, for a page that needs OCR, and for a token in the default model.

They are used if there is no history yet."""
MIN_HISTORY = 5
"""How many documents a step must have processed for its times to be used."""
SQL = load_statements(Path(__file__).parent / "queries")
SLICE = 2000
"""How many documents, or contents, are looked up at once."""


class IngestEstimate(Struct, frozen=True, kw_only=True):
    """What an ingest of one source would do.

    Attributes:
        source: The source.
        changes: How many files are new, changed, deleted and so on.
        documents: How many documents would be read from the source.
        pages: How many pages these have.
        service_pages: How many of the pages a reading service reads, such as Azure. Each of them costs money.
        again: What would be made again, of all sources of the collection, because its settings changed.
        going_on: Documents of the collection that wait already, by the step at which they continue.
        chunks: About how many chunks would be embedded, with those that are made again.
        tokens: About how many tokens these have.
        seconds: About how long it takes on this machine. None if unknown.
        from_history: True if the seconds come from the collection's own history.
        rejected: Files that would be rejected, with the reason.
        missed: Paths that could not be read, with the reason.
    """

    source: str
    changes: dict[str, int]
    documents: int
    pages: int
    service_pages: int
    again: tuple[ReworkEstimate, ...]
    going_on: dict[str, int]
    chunks: int
    tokens: int
    seconds: float | None
    from_history: bool
    rejected: dict[str, str]
    missed: dict[str, str]


def estimate_ingest(library: Library, source: str, scan: ScanOptions = DEFAULT_SCAN) -> IngestEstimate:
    """Estimate what an ingest would do. Nothing is changed.

    Args:
        library: The library of the collection.
        source: A folder, file, glob or URL.
        scan: How the source is scanned.

    Raises:
        SourceRefused: The source does not exist or cannot be read.
    """
    place = parse_source(source)
    intake = SourceIngest(library.pipeline, library.store, library.index, place, scan)
    changes = list(intake.changes())
    to_read = [change for change in changes if change.kind in ("new", "changed", "back")]
    splitting = library.collection.settings.splitting
    files, rejected = _estimate_files(to_read, splitting, root=None if scan.follow_symlinks else place.root)
    replaced = {change.key for change in changes if change.kind in ("changed", "deleted")}
    again = estimate_rework(library, source=place.root, but=replaced)
    pages = sum(file.pages for file in files.values())
    pictures = sum(file.pictures for file in files.values())
    tokens = sum(file.characters // TOKEN for file in files.values()) + sum(rework.tokens for rework in again)
    pages_read = pages + sum(rework.pages for rework in again)
    is_local = library.collection.settings.reader == "local"
    service_pages = sum(file.service_pages for file in files.values()) + sum(rework.pages for rework in again)
    guess = pages_read * PAGE_SECONDS + pictures * IMAGE_SECONDS + tokens * TOKEN_SECONDS
    seconds, from_history = _seconds(library, _documents_by_step(library, len(files), again), guess)
    return IngestEstimate(
        source=source,
        changes=dict(Counter(change.kind for change in changes)),
        documents=len(to_read),
        pages=pages,
        service_pages=0 if is_local else service_pages,
        again=again,
        going_on=_count_waiting(library),
        chunks=sum(file.chunks for file in files.values()) + sum(rework.chunks for rework in again),
        tokens=tokens,
        seconds=seconds,
        from_history=from_history,
        rejected=rejected,
        missed={skipped.key: skipped.why for skipped in intake.skipped},
    )


def _count_waiting(library: Library) -> dict[str, int]:
    """Count the documents that wait or run already, by step."""
    waiting: Counter[str] = Counter()
    for batch in library.store.batch_counts(library.collection.name):
        for step, counts in batch.steps.items():
            waiting[step] += counts.waiting + counts.running
    return {step.name: waiting[step.name] for step in library.pipeline.steps if waiting[step.name]}


def _documents_by_step(library: Library, new: int, again: Sequence[ReworkEstimate]) -> dict[str, int]:
    """Return how many documents go through each step."""
    steps = [step.name for step in library.pipeline.steps]
    return {
        step: new + sum(rework.documents for rework in again if steps.index(rework.step) <= position)
        for position, step in enumerate(steps)
    }


def _seconds(library: Library, documents: Mapping[str, int], guess: float) -> tuple[float | None, bool]:
    """Estimate how long it takes on this machine. Also return True if the collection's own history says so.

    The history of another model is not used.

    Args:
        library: The library of the collection.
        documents: How many documents go through each step.
        guess: The seconds of one core, without a history.
    """
    cores = os.cpu_count() or 1
    settings, before = library.collection.settings, library.collection.searched
    times = library.store.step_times(library.collection.name)
    same_model = before is None or before.embedder == settings.embedder
    if same_model and times and min(count for count, _ in times.values()) >= MIN_HISTORY:
        return sum(documents.get(step, 0) * took / count for step, (count, took) in times.items()) / cores, True
    if settings.embedder != DEFAULT_EMBEDDER:
        return None, False
    return guess / cores, False


def _estimate_files(
    changes: Sequence[FileChange], splitting: Splitting, *, root: str | None
) -> tuple[dict[str, FileEstimate], dict[str, str]]:
    """Estimate files, and return which would be rejected and why. A remote file is not fetched: it counts as a page."""
    files: dict[str, FileEstimate] = {}
    rejected: dict[str, str] = {}
    local: list[tuple[str, str]] = []
    for change in changes:
        if change.seen and is_url(change.seen.location):
            files[change.key] = guess_from_pages(1, splitting)
        elif change.seen:
            local.append((change.key, change.seen.location))
    for key, estimate in estimate_files(local, splitting, root=root):
        if isinstance(estimate, FileEstimate):
            files[key] = estimate
        else:
            rejected[key] = estimate
    return files, rejected


class ReworkEstimate(Struct, frozen=True, kw_only=True):
    """Documents that are made again from one step on.

    Attributes:
        step: The step at which they start.
        why: What changed.
        documents: How many documents.
        pages: How many pages are read again.
        chunks: How many chunks are embedded.
        tokens: About how many tokens these chunks have.
    """

    step: str
    why: str
    documents: int
    pages: int
    chunks: int
    tokens: int


class _DocumentRework(Struct, frozen=True):
    """What has to be made again for one document."""

    key: str
    pages: int
    chunks: int
    characters: int


def estimate_rework(library: Library, *, source: str, but: Collection[str]) -> tuple[ReworkEstimate, ...]:
    """Estimate what the next ingest makes again, of all sources, because settings changed. Nothing is changed.

    Contents that have a vector already are not counted. Chunks that are split again may turn out to have one.

    Args:
        library: The library of the collection.
        source: The source that is about to be ingested.
        but: Keys of that source that are deleted or read again anyway. They are left out.
    """
    if library.pipeline.name not in library.store.pipelines():
        return ()
    groups = stale_groups(library.store, library.pipeline)
    estimates = [_estimate_group(library, group, {(source, key) for key in but}) for group in groups]
    return tuple(estimate for estimate in estimates if estimate.documents)


def _estimate_group(library: Library, group: Stale, but: Collection[tuple[str, str]]) -> ReworkEstimate:
    documents = pages = chunks = tokens = 0
    measure = _to_embed if group.to in ("embed", "index") else _to_split
    for source, keys in _stale_keys(library, group):
        with library.store.reading() as tx:
            for document in measure(tx, library, source, keys):
                if (source, document.key) not in but:
                    documents += 1
                    pages += document.pages if group.to == "extract" else 0
                    chunks += document.chunks
                    tokens += document.characters // TOKEN
    return ReworkEstimate(step=group.to, why=group.why, documents=documents, pages=pages, chunks=chunks, tokens=tokens)


def _stale_keys(library: Library, group: Stale) -> Iterator[tuple[str, list[str]]]:
    """Yield the keys of stale documents by their source, some at a time."""
    for place in group.counts:
        which: DocumentFilter = {"plan": group.plan_id, "state": place.state, "step": place.step}
        after = 0
        while ids := library.store.select(library.pipeline.name, after=after, limit=SLICE, **which):
            after = ids[-1]
            yield from keys_by_source(library.store.documents_by_id(ids)).items()


def _to_embed(tx: Tx, library: Library, source: str, keys: Sequence[str]) -> Iterator[_DocumentRework]:
    """Yield documents with the chunks that have no vector yet. No page is read again."""
    contents: dict[str, list[tuple[bytes, int]]] = {}
    params = {"collection": library.collection.name, "source": source, "keys": list(keys)}
    for key, content, length in SQL.run(tx, "contents", **params).fetchall():
        contents.setdefault(key, []).extend([(bytes(content), length)] if content is not None else [])
    known = _known(tx, library, {content for found in contents.values() for content, _ in found})
    for key, found in contents.items():
        new = {content: length for content, length in found if content not in known}
        yield _DocumentRework(key, 0, len(new), sum(new.values()))


def _known(tx: Tx, library: Library, contents: Collection[bytes]) -> set[bytes]:
    """Return the contents that have a vector already. The service is not asked for its dimension."""
    name = library.embedder.name
    row = SQL.run(tx, "dimension", name=name).fetchone()
    if row is None:
        return set()
    known: set[bytes] = set()
    for start in range(0, len(hashes := [*contents]), SLICE):
        known |= library.indexes.database.known_hashes(EmbeddingModel(name, row[0]), hashes[start : start + SLICE])
    return known


def _to_split(tx: Tx, library: Library, source: str, keys: Sequence[str]) -> Iterator[_DocumentRework]:
    """Yield documents with their pages, and the chunks and characters to embed. Overlaps are counted twice."""
    splitting = library.collection.settings.splitting
    unit = TOKEN if splitting.how == "tokens" else 1
    size, step = splitting.size * unit, max(splitting.size - splitting.overlap, 1) * unit
    params = {"collection": library.collection.name, "source": source, "keys": list(keys), "size": size, "step": step}
    for key, pages, characters, chunks in SQL.run(tx, "pages_to_split", **params).fetchall():
        shared = (int(chunks) - int(pages)) * splitting.overlap * unit
        yield _DocumentRework(key, int(pages), int(chunks), int(characters) + shared)
