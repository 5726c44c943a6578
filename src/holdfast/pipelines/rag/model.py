"""The values of document search: pages, chunks, attachments."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

DEFAULT = "documents"
"""The collection that is meant when none is named."""
How = Literal["text", "ocr", "azure"]
"""How the text of a page came to be: it was there, or it was read off a picture."""


class Page(Struct, frozen=True, omit_defaults=True):
    """One page of a document: a page of a PDF, a slide, a sheet, or the whole of what has no pages.

    `label` says where it came from when a number does not: the name of a sheet, the title of a slide. The first page
    says what the file is, and names what it carries: the attachments of a message. `last` marks the last one, where
    that is known by then.
    """

    number: int
    text: str
    how: How = "text"
    label: str = ""
    kind: str = ""
    attachments: tuple[str, ...] = ()
    last: bool = False


class About(Struct, frozen=True, omit_defaults=True):
    """What a document is, by its first page."""

    kind: str = ""
    title: str = ""


class Chunk(Struct, frozen=True, omit_defaults=True):
    """A piece of a page, and its place: `page.text[start:end]` is its text.

    `title` is what the document is called, where the piece itself does not say it. The first chunk tells what the
    document is, in `about`; `last` marks the last one.
    """

    page: int
    start: int
    end: int
    text: str
    title: str = ""
    about: About | None = None
    last: bool = False

    @property
    def content(self) -> str:
        """What stands for its meaning: the piece, under the title."""
        return f"{self.title}\n\n{self.text}" if self.title else self.text

    @property
    def hash(self) -> bytes:
        """What its vector is remembered by."""
        return blake2b(self.content.encode(), digest_size=16).digest()


Piece = TypeVar("Piece", Page, Chunk)


def marking_the_last(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Gives pages or chunks, each once it is known whether another one follows."""
    before = next(pieces, None)
    for one in pieces:
        assert before is not None
        yield before
        before = one
    if before is not None:
        yield replace(before, last=True)


class Attachment(Struct, frozen=True):
    """A file inside another: what a message carries. It becomes a document of its own."""

    name: str
    content: bytes
