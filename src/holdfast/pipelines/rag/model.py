"""The values of document search: pages, chunks, attachments."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

How = Literal["text", "ocr", "azure"]
"""How the text of a page came to be: it was there, or it was read off a picture."""


class Page(Struct, frozen=True, omit_defaults=True):
    """One page of a document: a page of a PDF, a slide, a sheet, or the whole of what has no pages.

    `label` says where it came from when a number does not: the name of a sheet, the title of a slide.
    """

    number: int
    text: str
    how: How = "text"
    label: str = ""


class Chunk(Struct, frozen=True, omit_defaults=True):
    """A piece of a page, and its place: `page.text[start:end]` is its text."""

    page: int
    start: int
    end: int
    text: str
    last: bool = False


class Attachment(Struct, frozen=True):
    """A file inside another: what a message carries. It becomes a document of its own."""

    name: str
    content: bytes
