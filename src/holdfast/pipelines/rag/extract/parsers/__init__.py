"""Read the pages and attachments of a file of any supported type.

Each type has a module in this folder. A module is imported when the first file of its type is read: the libraries are
large. It has these functions:

- `pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]` yields the pages after the first `start`,
  numbered from 1. It raises Reject for a file that is broken or beyond the limits.
- `count(path: Path, *, limits: ExtractLimits) -> int` returns the number of pages without reading them, or 1.
- `attachments(path: Path, *, limits: ExtractLimits) -> Iterator[Attachment]` yields attachments; only e-mails have it.

To add a type:

1. Write its module.
2. Add the type to `FileType` in file_type.py, and detect it in `detect_file_type`.
3. Add it to PARSERS below, and decide whether it belongs to WHOLE_TEXT_TYPES.
4. Add a sample to tests/support, and a fuzz target to tests/fuzz/targets/parsers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.container_pages import container_kind, container_pages
from holdfast.pipelines.rag.extract.file_type import FileType, detect_file_type
from holdfast.pipelines.rag.extract.limits import LIMITS, ExtractLimits, check_pages, check_size
from holdfast.pipelines.rag.extract.parsers.cleaning import clean
from holdfast.pipelines.rag.values import Attachment, Page, mark_last

PARSERS: dict[FileType, str] = {
    "pdf": "pdf",
    "docx": "docx",
    "pptx": "pptx",
    "xlsx": "xlsx",
    "html": "html",
    "markdown": "text",
    "text": "text",
    "eml": "eml",
    "emlx": "eml",
    "msg": "msg",
    "doc": "doc",
    "ppt": "ppt",
    "xls": "workbook",
    "xlsb": "workbook",
    "rtf": "rtf",
    "odt": "odf",
    "ods": "odf",
    "odp": "odf",
    "epub": "epub",
    "iwork": "iwork",
    "csv": "records",
    "json": "records",
    "xml": "records",
    "gif": "images",
    "bmp": "images",
    "webp": "images",
    "jp2": "images",
    "heic": "images",
    "png": "images",
    "jpeg": "images",
    "tiff": "images",
}
EMAIL_TYPES = ("eml", "emlx", "msg")
WHOLE_TEXT_TYPES = (
    *("html", "markdown", "text", "docx", "doc", "rtf", "odt", "csv", "json", "xml"),
    *EMAIL_TYPES,
)
"""Types whose parser has the whole text before it yields the first page.

One page more than needed is read of these, so that the last page can be marked as such, and estimates read them to
count exactly. A type whose parser works page by page (PDF, pictures, slides, sheets) does not belong here: reading
ahead would delay each page, and a crash would repeat that work. It marks its last page itself if it can.
"""


def pages_of(
    path: Path, *, start: int = 0, kind: FileType | None = None, limits: ExtractLimits = LIMITS
) -> Iterator[Page]:
    """Yield the pages of a file after the first `start`, numbered from 1.

    The same file has the same pages each time, so a stopped run continues with `start` as the number of pages it has.
    A container has pages without text, with its entries. A file without text has pages without text; callers decide
    what to do with them.

    Args:
        path: The file.
        start: The number of pages to skip.
        kind: The file type, if it is known.
        limits: The limits of a file.

    Raises:
        Reject: The file is broken, encrypted, unsupported or beyond the limits.
    """
    check_size(path, limits)
    characters = 0
    kind = kind or detect_file_type(path, limits)
    if (container := container_kind(kind)) is not None:
        yield from islice(container_pages(path, container), start, None)
        return
    parse: Callable[..., Iterator[Page]] = _parser(kind).pages
    pages = parse(path, start=start, limits=limits)
    for page in mark_last(pages) if kind in WHOLE_TEXT_TYPES else pages:
        check_pages(page.number, limits)
        characters += len(page.text)
        if len(page.text) > limits.page_characters or characters > limits.characters:
            raise Reject(
                f"the file has too much text: {characters:,} characters up to page {page.number}; split the file"
            )
        yield replace(page, text=clean(page.text), label=clean(page.label).strip())


def attachments_of(path: Path, *, kind: FileType | None = None, limits: ExtractLimits = LIMITS) -> Iterator[Attachment]:
    """Yield the attachments of an e-mail, each with a unique name. Other types have none."""
    check_size(path, limits)
    kind = kind or detect_file_type(path, limits)
    if kind in EMAIL_TYPES:
        yield from _parser(kind).attachments(path, limits=limits)


def page_count(path: Path, kind: FileType | None = None, limits: ExtractLimits = LIMITS) -> int:
    """Return the approximate number of pages without reading them; 1 if it is unknown."""
    check_size(path, limits)
    kind = kind or detect_file_type(path, limits)
    if container_kind(kind) is not None:
        return 1
    count: int = _parser(kind).count(path, limits=limits)
    check_pages(count, limits)
    return count


def _parser(kind: FileType) -> Any:  # a module
    return import_module(f"{__name__}.{PARSERS[kind]}")
