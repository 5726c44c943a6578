"""The values of document search: pages, chunks, attachments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

DEFAULT_COLLECTION = "documents"
"""The collection that is used if none is named."""
DEFAULT_RESULTS = 10
"""How many results a search returns if no limit is given."""
TextOrigin = Literal["text", "ocr", "azure"]
"""Where the text of a page comes from: the file itself, or OCR of an image, by Tesseract or by Azure."""


PageValue = str | int | float | bool
"""A value in the metadata of a page."""


class EntryDocument(Struct, frozen=True, array_like=True):
    """An entry of a container or an attachment of a message. It becomes a document of its own.

    Attributes:
        name: Its name in the container.
        position: Where it is in the container, as JSON.
        fingerprint: Changes if its content or its position changes. Empty: it changes with the file around it.
    """

    name: str
    position: Any
    fingerprint: str = ""


class Page(Struct, frozen=True, omit_defaults=True):
    """One page of a document: a page of a PDF, a slide, a sheet, or a whole file that has no pages.

    Attributes:
        number: Its number, from 1.
        text: Its text.
        how: Where the text comes from: `"text"`, `"ocr"` or `"azure"`.
        label: The name of a sheet or the title of a slide.
        kind: The type of the file. Only the first page has it.
        attachments: The names of the attachments of a message. Only the first page has them.
        last: True for the last page, if that is known when the page is read.
        entries: What becomes documents of their own: entries of a container, attachments of a message.
        resume_at: Where the reader goes on after this page, if the number of the page does not say it.
        skipped: The names of parts that do not become documents, and why: signatures, sounds, pictures in a message.
        problem: Why the rest of a container cannot be read. Only its last page has it.
        properties: What the file says about itself, such as its author. Only the first page has them. They become
            metadata of the document, unless its source has metadata of the same name.
        metadata: What else its reader knows about the page: texts, numbers, True and False by name. Search results have
            it.
    """

    number: int
    text: str
    how: TextOrigin = "text"
    label: str = ""
    kind: str = ""
    attachments: tuple[str, ...] = ()
    last: bool = False
    metadata: Mapping[str, PageValue] = {}
    entries: tuple[EntryDocument, ...] = ()
    resume_at: Any = None
    skipped: tuple[str, ...] = ()
    problem: str = ""
    properties: Mapping[str, PageValue] = {}

    def as_last(self) -> Page:
        """Return a copy that is marked as the last one.

        Returns:
            A page that equals this one otherwise.
        """
        return replace(self, last=True)

    @property
    def described(self) -> dict[str, PageValue]:
        """Its metadata, with its label, and with `how` if its text is not from the file itself."""
        known: dict[str, PageValue] = {"label": self.label, "how": "" if self.how == "text" else self.how}
        return {name: value for name, value in known.items() if value} | dict(self.metadata)


class DocumentInfo(Struct, frozen=True, omit_defaults=True):
    """The type, title and properties of a document, taken from its first page, and the language of its first pages."""

    kind: str = ""
    title: str = ""
    language: str = ""
    properties: Mapping[str, PageValue] = {}


class Chunk(Struct, frozen=True, omit_defaults=True, dict=True):
    """A part of a page: `page.text[start:end]` is its text.

    A chunk is stored without its text, because the page has it. Only a chunk that was just made has `text`.

    Attributes:
        page: The number of its page.
        start: Its first character in the text of the page.
        end: One past its last character.
        hash: The hash of its content. Its vector is stored under it.
        title: The title of the document, if the text does not contain it.
        about: The type and title of the document. Only the first chunk has it.
        last: True for the last chunk of the document.
        at: The position of its page among the stored pages, if that is not `page - 1`.
    """

    page: int
    start: int
    end: int
    hash: bytes = b""
    title: str = ""
    about: DocumentInfo | None = None
    last: bool = False
    at: int | None = None

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        page: int = 1,
        start: int = 0,
        title: str = "",
        about: DocumentInfo | None = None,
        last: bool = False,
        at: int | None = None,
        page_metadata: Mapping[str, PageValue] | None = None,
    ) -> Chunk:
        """Make a chunk that has its text.

        Args:
            text: The text.
            page: The number of its page.
            start: Its first character in the text of the page.
            title: The title of the document, if the text does not contain it.
            about: The type and title of the document, for the first chunk of a document.
            last: True for the last chunk of the document.
            at: The position of its page among the stored pages, if that is not `page - 1`.
            page_metadata: The metadata of its page, for the first chunk of a page.

        Returns:
            The chunk, with the hash of its title and text.
        """
        position = None if at == page - 1 else at
        content_hash = hash_content(prepend_title(title, text))
        chunk = cls(page, start, start + len(text), content_hash, title, about, last, position)
        return chunk._with(text, page_metadata or {})

    @property
    def text(self) -> str:
        """Its text. Only chunks that were just made have it."""
        text: str = self.__dict__["text"]
        return text

    @property
    def page_metadata(self) -> Mapping[str, PageValue]:
        """The metadata of its page. Only the first chunk of a page has it, and only if it was just made."""
        metadata: Mapping[str, PageValue] = self.__dict__["page_metadata"]
        return metadata

    @property
    def content(self) -> str:
        """The text that is embedded: the title and the text."""
        return prepend_title(self.title, self.text)

    @property
    def place(self) -> int:
        """The position of its page among the stored pages."""
        return self.page - 1 if self.at is None else self.at

    def as_last(self) -> Chunk:
        """Return a copy that is marked as the last one.

        Returns:
            A chunk that equals this one otherwise, with its text.
        """
        return replace(self, last=True)._with(self.text, self.page_metadata)

    def _with(self, text: str, page_metadata: Mapping[str, PageValue]) -> Chunk:
        self.__dict__.update(text=text, page_metadata=page_metadata)  # no fields: neither stored nor compared
        return self


def prepend_title(title: str, text: str) -> str:
    """Return the text that is embedded for a chunk: its text below the title."""
    return f"{title}\n\n{text}" if title else text


def hash_content(content: str) -> bytes:
    """Return the hash under which the vector of a content is stored."""
    return blake2b(content.encode(), digest_size=16).digest()


Piece = TypeVar("Piece", Page, Chunk)


def mark_last(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield pages or chunks, and mark the last one."""
    previous = next(pieces, None)
    for piece in pieces:
        assert previous is not None
        yield previous
        previous = piece
    if previous is not None:
        yield previous.as_last()


class Attachment(Struct, frozen=True):
    """An attachment of a message. It becomes a document of its own.

    Attributes:
        name: Its name.
        content: Its bytes.
        media_type: The type that the message names, such as `image/png`.
        inline: True for a picture that the text of the message shows.
    """

    name: str
    content: bytes
    media_type: str = ""
    inline: bool = False
