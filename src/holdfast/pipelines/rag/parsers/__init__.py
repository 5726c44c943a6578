"""What the pages of a file say, whatever kind of file it is.

One module a kind, each with `pages` and `count`; messages have `attachments` too. They are imported when a file of
their kind comes by: their libraries are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.kinds import Kind, kind_of
from holdfast.pipelines.rag.limits import LIMITS, Limits, check_pages, check_size
from holdfast.pipelines.rag.model import Attachment, Page, marking_the_last
from holdfast.pipelines.rag.parsers.cleaning import clean

PARSERS: dict[Kind, str] = {
    "pdf": "pdf",
    "docx": "docx",
    "pptx": "pptx",
    "xlsx": "xlsx",
    "html": "html",
    "markdown": "text",
    "text": "text",
    "eml": "eml",
    "msg": "msg",
    "png": "images",
    "jpeg": "images",
    "tiff": "images",
}
MESSAGES = ("eml", "msg")
AT_ONCE = ("html", "markdown", "text", "docx", *MESSAGES)
"""Kinds whose text is there as a whole, so that looking for the next page before one is given costs nothing."""


def pages_of(path: Path, *, start: int = 0, kind: Kind | None = None, limits: Limits = LIMITS) -> Iterator[Page]:
    """Gives the pages of a file after the first `start`, numbered from 1, or rejects the file with a reason.

    The same file gives the same pages each time, so a run that was stopped goes on with `start` as the number of
    pages it has. A file without any text gives pages without text: that is for others to judge.
    """
    check_size(path, limits)
    given = 0
    kind = kind or kind_of(path, limits)
    parse: Callable[..., Iterator[Page]] = _parser(kind).pages
    pages = parse(path, start=start, limits=limits)
    for page in marking_the_last(pages) if kind in AT_ONCE else pages:
        check_pages(page.number, limits)
        given += len(page.text)
        if len(page.text) > limits.page_characters or given > limits.characters:
            raise Reject(f"page {page.number} makes too much text: {given:,} characters up to there; split the file")
        yield replace(page, text=clean(page.text), label=clean(page.label).strip())


def attachments_of(path: Path, *, kind: Kind | None = None, limits: Limits = LIMITS) -> Iterator[Attachment]:
    """Gives the files that a message carries, each with a name of its own; other kinds carry none."""
    check_size(path, limits)
    kind = kind or kind_of(path, limits)
    if kind in MESSAGES:
        yield from _parser(kind).attachments(path, limits=limits)


def page_count(path: Path, kind: Kind | None = None, limits: Limits = LIMITS) -> int:
    """Answers about how many pages a file has, without reading them: 1 where there are none, or nobody can tell."""
    check_size(path, limits)
    count: int = _parser(kind or kind_of(path, limits)).count(path, limits=limits)
    check_pages(count, limits)
    return count


def _parser(kind: Kind) -> Any:  # a module, whose functions are called by name
    return import_module(f"{__name__}.{PARSERS[kind]}")
