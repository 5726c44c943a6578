"""Split pages into chunks, and find the title of a document on its first page.

A stored chunk has only its position in a page. Its text is cut again when it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from holdfast.core.document import PAGE, Document
from holdfast.core.step import AnyStep
from holdfast.pipelines.rag.chunk.language import SAMPLE, detect_language
from holdfast.pipelines.rag.values import Chunk, DocumentInfo, Page, hash_content, prepend_title

Split = Callable[[str], Iterator[tuple[int, int]]]
"""Yields start and end of each chunk of a text, such as `Splitting.split`."""
MAX_TITLE_LENGTH = 200
"""Characters of a title, at most."""
MAX_TITLE_LINES = 3
"""Lines of a title, at most. A first paragraph with more lines is often a table or an address."""
MAX_SAMPLED_PAGES = 10
"""Pages that show the language of a document, at most."""
SEARCHED_LINES = 12
"""Lines of the page that are searched for a heading or a subject."""
_HEADING = re.compile(r"#{1,3} +(.+)")
_SUBJECT = re.compile(r"Subject: *(.+)")
EMAIL_TYPES = ("eml", "emlx", "msg")


def stored_pages(doc: Document, step: AnyStep) -> Iterator[tuple[int, Page]]:
    """Yield the pages that a step stored, each with its position. A page that was set aside leaves a gap."""
    for first in range(0, doc.reader.next_position(step.name), PAGE):
        yield from _read_pages(doc, step, first, first + PAGE)


def split_pages(pages: Iterator[tuple[int, Page]], split: Split, *, kind: str = "") -> Iterator[Chunk]:
    """Split pages into chunks. Each chunk that does not contain the title of the document gets it.

    Args:
        pages: The pages with their positions.
        split: Yields start and end of each chunk of a text.
        kind: The file type, if the first page may be missing.
    """
    first, pages = _first_pages(pages)
    language = detect_language("\n".join(page.text for _, page in first))
    about: DocumentInfo | None = DocumentInfo(kind, language=language)
    title = ""
    for position, page in pages:
        if page.number == 1:
            title = title_of(page, kind)
            about = DocumentInfo(kind or page.kind, title, language, page.properties)
        metadata = page.described
        for start, end in split(page.text):
            text = page.text[start:end]
            missing_title = title if title not in text else ""
            yield Chunk.from_text(
                text,
                page=page.number,
                start=start,
                title=missing_title,
                about=about,
                at=position,
                page_metadata=metadata,
            )
            about, metadata = None, {}


def _first_pages(pages: Iterator[tuple[int, Page]]) -> tuple[list[tuple[int, Page]], Iterator[tuple[int, Page]]]:
    """Return the first pages, with enough text to detect a language, and all pages."""
    first: list[tuple[int, Page]] = []
    length = 0
    while length < SAMPLE and len(first) < MAX_SAMPLED_PAGES and (page := next(pages, None)) is not None:
        first.append(page)
        length += len(page[1].text)
    return first, chain(first, pages)


def with_hashes(doc: Document, step: AnyStep, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Return chunks with their hashes. Chunks that an earlier release stored have none."""
    if all(chunk.hash for chunk in chunks):
        return chunks
    texts = embedding_texts(doc, step, chunks)
    return [replace(chunk, hash=hash_content(text)) for chunk, text in zip(chunks, texts, strict=True)]


def embedding_texts(doc: Document, step: AnyStep, chunks: Sequence[Chunk]) -> list[str]:
    """Return the texts to embed for stored chunks, in order: the title and the text of each chunk."""
    if not chunks:
        return []
    texts = {position: page.text for position, page in _read_pages(doc, step, chunks[0].place, chunks[-1].place + 1)}
    return [prepend_title(chunk.title, texts[chunk.place][chunk.start : chunk.end]) for chunk in chunks]


def _read_pages(doc: Document, step: AnyStep, start: int, stop: int) -> Iterator[tuple[int, Page]]:
    decode = step.codec_of_item.decode
    for position, item in doc.reader.read(step.name, start, stop):
        yield position, decode(item)


def title_of(page: Page, kind: str = "") -> str:
    """Return the title of a document: a heading, a subject, or a short first paragraph; else an empty text.

    The title of an e-mail is its subject, or empty: its first lines are its sender and recipients.
    """
    if page.label or (kind or page.kind) in EMAIL_TYPES:
        return page.label[:MAX_TITLE_LENGTH]
    lines = page.text.lstrip().split("\n", SEARCHED_LINES)
    for line in lines[:SEARCHED_LINES]:
        if (found := _HEADING.fullmatch(line.strip())) and (heading := found[1].rstrip("#").strip()):
            return heading[:MAX_TITLE_LENGTH]
        if found := _SUBJECT.fullmatch(line.strip()):
            return found[1].strip()[:MAX_TITLE_LENGTH]
    first, _, rest = page.text.lstrip().partition("\n\n")
    is_apart = rest.strip() and first.count("\n") < MAX_TITLE_LINES and "\t" not in first
    line = " ".join(first.split())
    return line if is_apart and len(line) <= MAX_TITLE_LENGTH else ""
