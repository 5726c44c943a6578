"""The pipeline of a collection: extract, chunk, embed, index. Each step resumes where it was interrupted."""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from holdfast.core.circuit import Circuit
from holdfast.core.document import Document
from holdfast.core.errors import Reject
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import AnyStep, last
from holdfast.pipelines.rag.chunk.chunks import Split, embedding_texts, split_pages, stored_pages, with_hashes
from holdfast.pipelines.rag.collections.metadata import read_metadata
from holdfast.pipelines.rag.collections.remarks import Remark, remark_about, save_remark
from holdfast.pipelines.rag.collections.settings import Collection, CollectionSettings
from holdfast.pipelines.rag.collections.spending import SpendingMeter, count_tokens
from holdfast.pipelines.rag.embed import Embedder, is_remote
from holdfast.pipelines.rag.embed.protocol import to_float16
from holdfast.pipelines.rag.embed.registry import model_of
from holdfast.pipelines.rag.extract.limits import DEFAULT_OCR_LANGUAGES
from holdfast.pipelines.rag.extract.readers import RESUME_AT, Reader
from holdfast.pipelines.rag.index import DocumentName, Index, IndexEntry
from holdfast.pipelines.rag.values import Chunk, EntryDocument, Page, mark_last

PARSER_MEMORY = 1_500_000_000
"""Bytes of memory that a parser may use."""
PAGE_TIMEOUT = timedelta(minutes=3)
"""Time limit for one page."""
SOURCES = Circuit(patience=timedelta(minutes=5))
"""When reading is paused for all documents: a server of files or a service for scans is away. Files may come from many
servers, so an ingest does not wait long for those that are away at its end."""
PageStep = Callable[[Document, Page], Page]
Vector = tuple[bytes, bytes, int]
"""The hash of a content, its vector, and about how many tokens were embedded for it. The vector is empty if it is
stored already."""


class ProgressCounter(Counter[str]):
    """Counts items by step, for this process and its forked children.

    Listeners count items that are stored. Vectors are not stored as items, so the embed step counts them itself. Forked
    children write into the same memory, each into a slot of its own.
    """

    SLOTS = 512
    WIDTH = 8

    def __init__(self) -> None:
        super().__init__()
        self._slots = memoryview(mmap.mmap(-1, self.SLOTS * self.WIDTH)).cast("Q")

    def count_vectors(self, count: int) -> None:
        """Count vectors. No lock is needed: it is called in the transaction that commits them."""
        self._slots[os.getpid() % self.SLOTS] += count
        self["embed"] = self["embed"]

    def __getitem__(self, step: str) -> int:
        return sum(self._slots) if step == "embed" else super().__getitem__(step)


class PipelineParts(Struct, frozen=True, kw_only=True):
    """The parts that a pipeline is built from.

    Attributes:
        reader: Reads the pages of a document.
        embedder: Makes vectors.
        index: Where chunks are stored and searched.
        split: Splits texts, instead of the collection's splitting.
        pages: Extra steps between extract and chunk, each over one page: a redaction, a translation.
        at_once: How many documents are read at once, over all workers. None: no limit.
        submit: Submits the attachments of a message, or the entries of a container.
        progress: Counts what is made, by step.
        pages_per_commit: How many pages are committed with one checkpoint.
        without_vectors: Counts the chunks of a document that were set aside because no vector could be made.
        refuse: Raises Reject for a document whose file must not be read here.
        follow_symlinks: Also read files outside of their folder, if links lead there.
        meter: Counts what is spent, and refuses work that the budget of the collection does not allow.
    """

    reader: Reader
    embedder: Embedder
    index: Index
    split: Split | None = None
    pages: Sequence[PageStep] = ()
    at_once: int | None = None
    submit: Callable[[Document, Iterator[EntryDocument]], object] | None = None
    progress: ProgressCounter = field(default_factory=ProgressCounter)
    pages_per_commit: int = 1
    without_vectors: Callable[[Document], int] = lambda _: 0
    refuse: Callable[[Document], object] = lambda _: None
    follow_symlinks: bool = False
    meter: SpendingMeter | None = None


MAX_CRASHES = 30
"""How many crashed workers a document survives in steps that only split and embed its text. The text is hardly ever the
cause."""


def build_pipeline(collection: Collection, parts: PipelineParts) -> Pipeline:
    """Build the pipeline of a collection."""
    settings = collection.settings
    pipeline = Pipeline(collection.name)
    pages = read = _extract(pipeline, parts, settings)
    for body in parts.pages:
        pages = pipeline.step(over=pages, name=body.__name__)(body)
    chunks = _chunk(pipeline, parts, read, pages, settings.splitting)
    _embed(pipeline, parts, pages, chunks)
    _index(pipeline, parts, read, chunks)
    return pipeline


def _extract(pipeline: Pipeline, parts: PipelineParts, collection: CollectionSettings) -> AnyStep:
    read, meter = parts.reader, parts.meter
    step_settings: dict[str, Any] = {"reader": collection.reader}
    if collection.ocr_languages != DEFAULT_OCR_LANGUAGES:  # else documents of earlier releases would be read again
        step_settings["ocr_languages"] = list(collection.ocr_languages)

    @pipeline.step(
        runs_in="process",
        memory=PARSER_MEMORY,
        timeout=PAGE_TIMEOUT,
        limit=parts.at_once,
        commit_every=parts.pages_per_commit,
        settings=step_settings,
        circuit=SOURCES,
    )
    def extract(doc: Document, cursor: int = 0) -> Iterator[Page]:
        parts.refuse(doc)
        if meter is not None:
            meter.require_rest()
        payload = {name: value for name, value in doc.payload.items() if name not in ("root", RESUME_AT)}
        if not parts.follow_symlinks:
            payload["root"] = doc.batch
        if cursor and (kept := doc.reader.read(extract.name, cursor - 1, cursor)):
            payload[RESUME_AT] = extract.codec_of_item.decode(kept[0][1]).resume_at
        for page in read(payload, start=cursor):
            if meter is not None:
                meter.count_page(page)
            yield last(page) if page.last else page
            if meter is not None and not page.last:
                meter.require_rest()

    if meter is not None:

        @extract.effect
        def count(tx: Tx, doc: Document, pages: Sequence[Page]) -> None:
            meter.save_pages(tx, pages)

        extract.undo(_keep_counted)
    return extract


def _chunk(pipeline: Pipeline, parts: PipelineParts, read: AnyStep, pages: AnyStep, splitting: Any) -> AnyStep:
    index, split = parts.index, parts.split or splitting.split

    @pipeline.step(settings=asdict(splitting), retry=Retry(crashes=MAX_CRASHES))
    def chunk(doc: Document, cursor: int = 0) -> Iterator[Chunk]:
        kind = _first(doc, read).kind if pages is not read else ""
        yield from _after(cursor, mark_last(split_pages(stored_pages(doc, pages), split, kind=kind)))

    @chunk.effect
    def add(tx: Tx, doc: Document, chunks: Sequence[Chunk]) -> None:
        index.add_chunks(tx, _entry(tx, doc, chunks), chunks)

    chunk.undo(_replaced_when_visible)

    @chunk.verify
    def have_words(doc: Document) -> bool:
        return index.has_words(_name(doc), chunks=doc.reader.next_position(chunk.name))

    return chunk


def _first(doc: Document, read: AnyStep) -> Page:
    """Return the first page as it was read, with the file type and attachments.

    An extra step may have set its own copy aside, and these must not be lost with it.
    """
    items = doc.reader.read(read.name, 0, 1)
    page: Page = read.codec_of_item.decode(items[0][1]) if items else Page(1, "")
    return page


def _entries(doc: Document, read: AnyStep) -> Iterator[EntryDocument]:
    """Yield what becomes documents of their own."""
    for _, page in stored_pages(doc, read):
        yield from page.entries
        yield from (EntryDocument(name, position) for position, name in enumerate(page.attachments))
        if page.number == 1 and not page.resume_at:
            return  # only containers have entries on other pages


def _problem(doc: Document, read: AnyStep) -> str:
    """Return why the rest of a container could not be read. All entries before that are submitted first."""
    count = doc.reader.next_position(read.name)
    kept = doc.reader.read(read.name, max(count - 1, 0), count)
    return str(read.codec_of_item.decode(kept[0][1]).problem) if kept else ""


def _after(count: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    for position, chunk in enumerate(chunks):
        if position >= count:
            yield chunk


def _embed(pipeline: Pipeline, parts: PipelineParts, pages: AnyStep, chunks: AnyStep) -> None:
    embedder, index, meter = parts.embedder, parts.index, parts.meter
    model = {"model": embedder.name}
    retry = Retry(attempts=5, crashes=MAX_CRASHES)
    step = pipeline.step(
        over=chunks, size=embedder.window, parallel=2, keep=False, name="embed", settings=model, retry=retry
    )

    def find_new(doc: Document, window: Sequence[Chunk]) -> tuple[list[bytes], dict[bytes, str]]:
        """Return the hashes of chunks, and the contents that have no vector yet."""
        chunks = with_hashes(doc, pages, window)
        hashes = [chunk.hash for chunk in chunks]
        known = index.known_hashes(model_of(embedder), list(dict.fromkeys(hashes)))
        new = [chunk for chunk in chunks if chunk.hash not in known]
        return hashes, dict(zip([chunk.hash for chunk in new], embedding_texts(doc, pages, new), strict=True))

    def spending(new: dict[bytes, str]) -> AbstractContextManager[None]:
        return nullcontext() if meter is None else meter.spending_tokens(count_tokens([*new.values()]))

    if is_remote(embedder):

        @step
        async def embed(doc: Document, window: list[Chunk]) -> list[Vector]:
            hashes, new = find_new(doc, window)
            with spending(new):
                return _paired(hashes, new, await embedder.embed_async([*new.values()]) if new else [], embedder)
    else:

        @step
        def embed(doc: Document, window: list[Chunk]) -> list[Vector]:
            hashes, new = find_new(doc, window)
            with spending(new):
                return _paired(hashes, new, embedder.embed([*new.values()]) if new else [], embedder)

    @embed.effect
    def save(tx: Tx, doc: Document, vectors: Sequence[Vector]) -> None:
        parts.progress.count_vectors(len(vectors))
        index.save_vectors(tx, model_of(embedder), {content: vector for content, vector, _ in vectors if vector})
        if meter is not None:
            meter.save_tokens(tx, sum({content: tokens for content, _, tokens in vectors}.values()))

    embed.undo(_replaced_when_visible)

    @embed.verify
    def have_vectors(doc: Document) -> bool:
        made = doc.reader.next_position(chunks.name) - parts.without_vectors(doc)
        return index.has_vectors(_name(doc), model=model_of(embedder), chunks=made)


def _paired(hashes: Sequence[bytes], new: dict[bytes, str], vectors: Any, embedder: Embedder) -> list[Vector]:
    rows = to_float16(vectors, embedder, count=len(new)) if new else ()
    made = {content: row.tobytes() for content, row in zip(new, rows, strict=True)}
    tokens = {content: count_tokens([text]) for content, text in new.items()}
    return [(content, made.get(content, b""), tokens.get(content, 0)) for content in hashes]


def _index(pipeline: Pipeline, parts: PipelineParts, read: AnyStep, chunks: AnyStep) -> None:
    index, embedder = parts.index, parts.embedder

    found: dict[int, Remark | None] = {}  # from the body to its effect, which runs in the same process

    @pipeline.step(name="index", retry=Retry(crashes=MAX_CRASHES))
    def publish(doc: Document) -> int:
        first = _first(doc, read)
        if parts.submit is not None and (first.entries or first.attachments or doc.generation):
            parts.submit(doc, _entries(doc, read))  # an earlier generation may have had some
        if problem := _problem(doc, read):
            raise Reject(problem)
        index.upload(_name(doc), model=model_of(embedder))
        count = doc.reader.next_position(chunks.name)
        found[doc.id] = remark_about((page for _, page in stored_pages(doc, read)), chunks=count)
        return count

    @publish.effect
    def show(tx: Tx, doc: Document, count: int) -> None:
        if count:
            index.make_visible(tx, _name(doc), model=model_of(embedder))
        else:
            index.delete_document(tx, _name(doc))  # it has no text any more
        save_remark(tx, _name(doc), found.pop(doc.id, None))

    publish.undo(_replaced_when_visible)

    @publish.verify
    def is_visible(doc: Document) -> bool:
        return index.is_visible(
            _name(doc), model=model_of(embedder), chunks=doc.output(publish) - parts.without_vectors(doc)
        )


def _replaced_when_visible(tx: Tx, doc: Document) -> None:
    """Remove nothing: `make_visible` deletes the earlier version, which searches find until then."""


def _keep_counted(tx: Tx, doc: Document) -> None:
    """Remove nothing: pages that are read again were paid for twice."""


def _name(doc: Document) -> DocumentName:
    return DocumentName(doc.pipeline, doc.batch, doc.key)


def _entry(tx: Tx, doc: Document, chunks: Sequence[Chunk]) -> IndexEntry:
    about = chunks[0].about if chunks else None
    metadata = {**about.properties, **read_metadata(tx, doc.pipeline, doc.batch)} if about else {}
    return IndexEntry(name=_name(doc), version=doc.generation, about=about, metadata=metadata)
