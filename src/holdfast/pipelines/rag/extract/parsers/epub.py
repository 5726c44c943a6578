"""EPUB: e-books. Each chapter is a page, in reading order."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages
from holdfast.pipelines.rag.extract.parsers.html import decoded, title_and_text
from holdfast.pipelines.rag.extract.parsers.office_package import OfficePackage, open_package
from holdfast.pipelines.rag.values import Page

CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
FONT_ENCRYPTION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Methods that only fonts are packed with. The text can be read."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the chapters after the first `start`."""
    with open_package(path, limits) as package:
        chapters = _chapters(package, limits)
        for number, chapter in enumerate(chapters[start:], start + 1):
            content = package.read(chapter, limits.whole_bytes)
            title, text = title_and_text(decoded(content), limits)
            yield Page(number, text, label=title, last=number == len(chapters))


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of chapters."""
    with open_package(path, limits) as package:
        return max(1, len(_chapters(package, limits)))


def _chapters(package: OfficePackage, limits: ExtractLimits) -> list[str]:
    """Return the parts with the chapters, in reading order."""
    if any(
        event.kind == "start" and event.name == "EncryptionMethod" and event.get("Algorithm") not in FONT_ENCRYPTION
        for event in package.events(ENCRYPTION)
    ):
        raise Reject("encrypted; the e-book is protected against copying (DRM)")
    book = next((event.get("full-path") for event in package.events(CONTAINER) if event.name == "rootfile"), "")
    if not package.has(book):
        raise Reject("broken: the e-book has no list of its chapters")
    targets: dict[str, str] = {}
    chapters = []
    for event in package.events(book):
        if event.kind == "start" and event.name == "item":
            targets[event.get("id")] = posixpath.normpath(
                posixpath.join(posixpath.dirname(book), unquote(event.get("href")))
            )
        elif event.kind == "start" and event.name == "itemref":
            chapters.append(targets.get(event.get("idref"), ""))
    check_pages(len(chapters), limits)
    return [chapter for chapter in chapters if package.has(chapter)]
