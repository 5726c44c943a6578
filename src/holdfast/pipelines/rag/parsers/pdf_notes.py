"""What people wrote onto a PDF: the values of filled fields, and comments. They are no part of a page's own text."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

MOST = 10_000
"""Annotations of a page that are looked at."""
FIELD, LINK, POPUP = 20, 2, 16
"""PDFium's numbers for kinds of annotations: links say nothing, and a popup repeats the note it belongs to."""
BUTTONS = {"Off", "Yes", "No", "On", "0", "1"}


def notes_on(page: PdfPage) -> list[str]:
    """Gives what fields hold and comments say, once each, in the order of the page."""
    from pypdfium2 import raw

    said: dict[str, None] = {}
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), MOST)):
        with _note(page, index) as note:
            kind = raw.FPDFAnnot_GetSubtype(note) if note else LINK
            if kind not in (LINK, POPUP):
                text = _value(note, b"V" if kind == FIELD else b"Contents").strip()
                if text and not (kind == FIELD and text in BUTTONS):
                    said[text] = None
    return list(said)


@contextmanager
def _note(page: PdfPage, index: int) -> Iterator[Any]:
    from pypdfium2 import raw

    note = raw.FPDFPage_GetAnnot(page, index)
    try:
        yield note
    finally:
        if note:
            raw.FPDFPage_CloseAnnot(note)


def _value(note: Any, key: bytes) -> str:
    from pypdfium2 import raw

    size = raw.FPDFAnnot_GetStringValue(note, key, None, 0)
    if size <= 2:
        return ""
    room = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(note, key, ctypes.cast(room, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return room.raw.decode("utf-16-le", errors="ignore").rstrip("\x00")
