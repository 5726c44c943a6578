"""The pipeline from files to answers: extract, chunk, embed, index. Each goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from holdfast.core.document import Document
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import AnyStep, last
from holdfast.pipelines.rag.collections import Collection
from holdfast.pipelines.rag.cutting import Split, chunks_of, contents_of, hashed, pages_of
from holdfast.pipelines.rag.embedders import Embedder, is_remote
from holdfast.pipelines.rag.embedders.units import in_halves
from holdfast.pipelines.rag.index import Entry, Index, Name
from holdfast.pipelines.rag.metadata import metadata_of
from holdfast.pipelines.rag.model import Chunk, Page, marking_the_last
from holdfast.pipelines.rag.models import model_of
from holdfast.pipelines.rag.reading import Reader
from holdfast.pipelines.rag.tallying import Tally

MEMORY = 1_500_000_000
"""Bytes that a parser may take."""
PATIENCE = timedelta(minutes=3)
"""How long one page may take."""
OverPages = Callable[[Document, Page], Page]
Vector = tuple[bytes, bytes]
"""The hash of a content, and its vector; empty where it is known already."""


class Parts(Struct, frozen=True, kw_only=True):
    """What a pipeline is put together from.

    reader    reads the pages of a document
    embedder  gives vectors
    index     is where chunks are found
    split     cuts texts, in place of the collection's splitting
    pages     steps of one's own between extract and chunk, each over one page: a redaction, a translation
    at_once   how many documents are read at once, over all workers; as many as there are hands if nothing is said
    submit    takes in what a document brought with it: the attachments of a message
    tally     counts what is made, by step, while it is
    pages_per_commit  how many pages are kept with one checkpoint
    refuse    rejects a document whose file is not to be read here
    without_vectors  counts the chunks of a document that were set aside, since no vector could be made of them
    """

    reader: Reader
    embedder: Embedder
    index: Index
    split: Split | None = None
    pages: Sequence[OverPages] = ()
    at_once: int | None = None
    submit: Callable[[Document, Sequence[str]], object] | None = None
    tally: Tally = field(default_factory=Tally)
    pages_per_commit: int = 1
    without_vectors: Callable[[Document], int] = lambda _: 0
    refuse: Callable[[Document], object] = lambda _: None


INNOCENT = 30
"""How many dead workers a document survives in steps that do nothing with a file but count and embed its text: hardly
ever was it the text, and a machine that is killed again and again must not cost documents."""


def document_search(collection: Collection, parts: Parts) -> Pipeline:
    """Puts the pipeline of a collection together."""
    settings = collection.settings
    pipeline = Pipeline(collection.name)
    pages = read = _extract(pipeline, parts, settings.reader)
    for body in parts.pages:
        pages = pipeline.step(over=pages, name=body.__name__)(body)
    chunks = _chunk(pipeline, parts, read, pages, settings.splitting)
    _embed(pipeline, parts, pages, chunks)
    _index(pipeline, parts, read, chunks)
    return pipeline


def _extract(pipeline: Pipeline, parts: Parts, reader: str) -> AnyStep:
    read = parts.reader

    @pipeline.step(
        runs_in="process",
        memory=MEMORY,
        timeout=PATIENCE,
        limit=parts.at_once,
        commit_every=parts.pages_per_commit,
        settings={"reader": reader},
    )
    def extract(doc: Document, cursor: int = 0) -> Iterator[Page]:
        parts.refuse(doc)
        for page in read(doc.payload, start=cursor):
            yield last(page) if page.last else page

    return extract


def _chunk(pipeline: Pipeline, parts: Parts, read: AnyStep, pages: AnyStep, splitting: Any) -> AnyStep:
    index, split = parts.index, parts.split or splitting.split

    @pipeline.step(settings=asdict(splitting), retry=Retry(crashes=INNOCENT))
    def chunk(doc: Document, cursor: int = 0) -> Iterator[Chunk]:
        kind = _first(doc, read).kind if pages is not read else ""
        yield from _after(cursor, marking_the_last(chunks_of(pages_of(doc, pages), split, kind=kind)))

    @chunk.effect
    def add(tx: Tx, doc: Document, chunks: Sequence[Chunk]) -> None:
        index.add(tx, _entry(tx, doc, chunks), chunks)

    @chunk.verify
    def are_there(doc: Document) -> bool:
        return index.has_words(_name(doc), chunks=doc.reader.extent(chunk.name))

    return chunk


def _first(doc: Document, read: AnyStep) -> Page:
    """Gives the first page as it was read. A step of one's own may have set its own aside, and what the file is and
    carries must not go with it."""
    found = doc.reader.read(read.name, 0, 1)
    page: Page = read.codec_of_item.decode(found[0][1]) if found else Page(1, "")
    return page


def _after(count: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    for place, one in enumerate(chunks):
        if place >= count:
            yield one


def _embed(pipeline: Pipeline, parts: Parts, pages: AnyStep, chunks: AnyStep) -> None:
    embedder, index = parts.embedder, parts.index
    model = {"model": embedder.name}
    retry = Retry(attempts=5, crashes=INNOCENT)
    step = pipeline.step(
        over=chunks, size=embedder.window, parallel=2, keep=False, name="embed", settings=model, retry=retry
    )

    def split_off(doc: Document, some: Sequence[Chunk]) -> tuple[list[bytes], dict[bytes, str]]:
        """Gives the hashes of some chunks, and the contents that have no vector yet."""
        chunks = hashed(doc, pages, some)
        hashes = [one.hash for one in chunks]
        known = index.known(model_of(embedder), list(dict.fromkeys(hashes)))
        new = [one for one in chunks if one.hash not in known]
        return hashes, dict(zip([one.hash for one in new], contents_of(doc, pages, new), strict=True))

    if is_remote(embedder):

        @step
        async def embed(doc: Document, some: list[Chunk]) -> list[Vector]:
            hashes, new = split_off(doc, some)
            return _paired(hashes, new, await embedder.embed_async([*new.values()]) if new else [], embedder)
    else:

        @step
        def embed(doc: Document, some: list[Chunk]) -> list[Vector]:
            hashes, new = split_off(doc, some)
            return _paired(hashes, new, embedder.embed([*new.values()]) if new else [], embedder)

    @embed.effect
    def remember(tx: Tx, doc: Document, vectors: Sequence[Vector]) -> None:
        parts.tally.made_vectors(len(vectors))
        index.remember(tx, model_of(embedder), {content: vector for content, vector in vectors if vector})

    @embed.verify
    def are_remembered(doc: Document) -> bool:
        made = doc.reader.extent(chunks.name) - parts.without_vectors(doc)
        return index.has_vectors(_name(doc), model=model_of(embedder), chunks=made)


def _paired(hashes: Sequence[bytes], new: dict[bytes, str], vectors: Any, embedder: Embedder) -> list[Vector]:
    rows = in_halves(vectors, embedder, count=len(new)) if new else ()
    halves = {content: row.tobytes() for content, row in zip(new, rows, strict=True)}
    return [(content, halves.get(content, b"")) for content in hashes]


def _index(pipeline: Pipeline, parts: Parts, read: AnyStep, chunks: AnyStep) -> None:
    index, embedder = parts.index, parts.embedder

    @pipeline.step(name="index", retry=Retry(crashes=INNOCENT))
    def publish(doc: Document) -> int:
        if parts.submit is not None:
            attached = _first(doc, read).attachments
            if attached or doc.generation:  # an earlier version may have carried something
                parts.submit(doc, attached)
        index.publish(_name(doc), model=model_of(embedder))
        return doc.reader.extent(chunks.name)

    @publish.effect
    def show(tx: Tx, doc: Document, count: int) -> None:
        if count:
            index.show(tx, _name(doc), model=model_of(embedder))
        else:
            index.forget(tx, _name(doc))  # it has no text any more

    @publish.verify
    def is_there(doc: Document) -> bool:
        return index.shows(
            _name(doc), model=model_of(embedder), chunks=doc.output(publish) - parts.without_vectors(doc)
        )


def _name(doc: Document) -> Name:
    return Name(doc.pipeline, doc.batch, doc.key)


def _entry(tx: Tx, doc: Document, chunks: Sequence[Chunk]) -> Entry:
    about = chunks[0].about if chunks else None
    metadata = metadata_of(tx, doc.pipeline, doc.batch) if about else {}
    return Entry(name=_name(doc), version=doc.generation, about=about, metadata=metadata)
