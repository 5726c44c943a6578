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

    def marked(self) -> Page:
        """Gives it as the last one."""
        return replace(self, last=True)


class About(Struct, frozen=True, omit_defaults=True):
    """What a document is, by its first page."""

    kind: str = ""
    title: str = ""


class Chunk(Struct, frozen=True, omit_defaults=True, dict=True):
    """A piece of a page, by its place: `page.text[start:end]` is its text.

    hash   what its vector is remembered by
    title  what the document is called, where the piece itself does not say it
    about  what the document is: the first chunk tells it
    last   marks the last one
    at     the position of its page among those that were kept, where the page's number does not tell it

    What is kept is its place. Its text stands in the page already: only one that was just cut has it in hand.
    """

    page: int
    start: int
    end: int
    hash: bytes = b""
    title: str = ""
    about: About | None = None
    last: bool = False
    at: int | None = None

    @classmethod
    def holding(
        cls,
        text: str,
        *,
        page: int = 1,
        start: int = 0,
        title: str = "",
        about: About | None = None,
        last: bool = False,
        at: int | None = None,
    ) -> Chunk:
        """Gives a piece that was just cut, with its text in hand."""
        place = None if at == page - 1 else at
        made = cls(page, start, start + len(text), hash_of(under(title, text)), title, about, last, place)
        return made._with(text)

    @property
    def text(self) -> str:
        """Its text, while it is in hand."""
        text: str = self.__dict__["text"]
        return text

    @property
    def content(self) -> str:
        """What stands for its meaning, while its text is in hand."""
        return under(self.title, self.text)

    @property
    def place(self) -> int:
        """The position of its page."""
        return self.page - 1 if self.at is None else self.at

    def marked(self) -> Chunk:
        """Gives it as the last one."""
        return replace(self, last=True)._with(self.text)

    def _with(self, text: str) -> Chunk:
        self.__dict__["text"] = text  # beside its fields, which are what is kept and compared
        return self


def under(title: str, text: str) -> str:
    """Gives what stands for the meaning of a piece: its text, under the title."""
    return f"{title}\n\n{text}" if title else text


def hash_of(content: str) -> bytes:
    """Gives what the vector of a content is remembered by."""
    return blake2b(content.encode(), digest_size=16).digest()


Piece = TypeVar("Piece", Page, Chunk)


def marking_the_last(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Gives pages or chunks, each once it is known whether another one follows."""
    before = next(pieces, None)
    for one in pieces:
        assert before is not None
        yield before
        before = one
    if before is not None:
        yield before.marked()


class Attachment(Struct, frozen=True):
    """A file inside another: what a message carries. It becomes a document of its own."""

    name: str
    content: bytes
