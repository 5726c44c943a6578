"""Chunks, cut out of pages. They are kept by their places, so their texts are cut again when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from holdfast.core.document import PAGE, Document
from holdfast.core.step import AnyStep
from holdfast.pipelines.rag.model import About, Chunk, Page, hash_of, under
from holdfast.pipelines.rag.titles import title_of

Split = Callable[[str], Iterator[tuple[int, int]]]


def pages_of(doc: Document, step: AnyStep) -> Iterator[tuple[int, Page]]:
    """Walks the pages that a step kept, each with its position. A page that was set aside leaves a hole."""
    for first in range(0, doc.reader.extent(step.name), PAGE):
        yield from _kept(doc, step, first, first + PAGE)


def chunks_of(pages: Iterator[tuple[int, Page]], split: Split, *, kind: str = "") -> Iterator[Chunk]:
    """Cuts pages into chunks, and tells those that do not say it themselves what their document is called.

    `kind` is what the file is, where its first page may be missing.
    """
    about: About | None = About(kind)
    title = ""
    for place, page in pages:
        if page.number == 1:
            title = title_of(page, kind)
            about = About(kind or page.kind, title)
        for start, end in split(page.text):
            text = page.text[start:end]
            above = title if title not in text else ""
            yield Chunk.holding(text, page=page.number, start=start, title=above, about=about, at=place)
            about = None


def hashed(doc: Document, step: AnyStep, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Gives chunks with their hashes. Earlier releases kept none."""
    if all(one.hash for one in chunks):
        return chunks
    contents = contents_of(doc, step, chunks)
    return [replace(one, hash=hash_of(content)) for one, content in zip(chunks, contents, strict=True)]


def contents_of(doc: Document, step: AnyStep, chunks: Sequence[Chunk]) -> list[str]:
    """Gives what stands for the meaning of chunks that were kept, in their order: their texts, under the title."""
    if not chunks:
        return []
    texts = {place: page.text for place, page in _kept(doc, step, chunks[0].place, chunks[-1].place + 1)}
    return [under(one.title, texts[one.place][one.start : one.end]) for one in chunks]


def _kept(doc: Document, step: AnyStep, start: int, stop: int) -> Iterator[tuple[int, Page]]:
    decode = step.codec_of_item.decode
    for place, kept in doc.reader.read(step.name, start, stop):
        yield place, decode(kept)
