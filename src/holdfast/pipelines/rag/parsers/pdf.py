"""PDF: the text of each page; a page that is only a picture of text is read off it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits, check_pages
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.ocr import DPI, read_text
from holdfast.pipelines.rag.parsers.pdf_bombs import check_streams
from holdfast.pipelines.rag.parsers.pdf_notes import notes_on

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

FEW = 32
"""Letters. A page with fewer, and with a picture, is taken for a scan: a stamp or a page number may be on it."""
COVERED = 0.1
"""How much of a page its pictures must cover to be worth reading; logos do not."""
COARSEST = 50
"""Dots an inch. A page so large that it cannot be rendered even so is made to harm."""
RENDERED = 25_000_000
"""Pixels a page is rendered to at most: A3 at 300 dots an inch, posters more coarsely."""
WHY = {
    0: "broken: the tree of its pages is damaged, or made to harm",
    2: "the file cannot be opened",
    3: "broken: this is no PDF that can be read, or it has no pages",
    4: "encrypted; remove the password",
    5: "encrypted in a way that is not known; remove the password",
    6: "broken: it has no pages",
}
"""By the number of PDFium's error."""
UNREADABLE = "this page is broken and was left out"


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the pages after the first `start`; opens at that page at once.

    A broken page among good ones is given without text, and its label says so.
    """
    check_streams(path, limits)
    with _opened(path, limits) as document:
        for index in range(start, len(document)):
            with _page(document, index) as page:
                read = _read(page, index + 1, limits) if page else None
            if read is None and index == 0:
                _check_some_page_loads(document)
            yield replace(read or Page(index + 1, "", label=UNREADABLE), last=index + 1 == len(document))


def count(path: Path, *, limits: Limits) -> int:
    """Answers how many pages there are."""
    with _opened(path, limits) as document:
        return len(document)


@contextmanager
def _opened(path: Path, limits: Limits) -> Iterator[PdfDocument]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(path)
    except PdfiumError as error:
        raise Reject(WHY.get(error.err_code or 0, f"broken: the PDF cannot be opened ({error})")) from error
    with closing(document):
        check_pages(len(document), limits)
        yield document


@contextmanager
def _page(document: PdfDocument, index: int) -> Iterator[PdfPage | None]:
    from pypdfium2 import PdfiumError

    try:
        page = document[index]
    except PdfiumError:
        yield None
        return
    with closing(page):
        yield page


def _check_some_page_loads(document: PdfDocument) -> None:
    """Rejects a file none of whose pages can be loaded. Asked at the first page, so a resumed run agrees."""
    for index in range(len(document)):
        with _page(document, index) as page:
            if page:
                return
    raise Reject("broken: none of the pages of the PDF can be read")


def _read(page: PdfPage, number: int, limits: Limits) -> Page:
    text = _text(page)
    if sum(map(str.isalnum, text[: FEW * 8])) < FEW and _is_mostly_picture(page, number, limits):
        seen = _seen(page, number, limits)
        if len(seen) > len(text.strip()):
            return Page(number, "\n".join([seen, *notes_on(page)]), how="ocr")
    return Page(number, "\n".join([text, *notes_on(page)]))


def _text(page: PdfPage) -> str:
    from pypdfium2 import PdfiumError

    try:
        text_page = page.get_textpage()
    except PdfiumError:
        return ""
    with closing(text_page):
        try:
            return str(text_page.get_text_range())
        except RecursionError:  # the library skips characters that are not shown by calling itself for each
            return str(text_page.get_text_bounded())


def _is_mostly_picture(page: PdfPage, number: int, limits: Limits) -> bool:
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    width, height = page.get_size()
    covered = 0.0
    for picture in page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=3):
        wide, high = picture.get_px_size()
        if (megapixels := wide * high / 1e6) > limits.megapixels:
            raise Reject(
                f"a picture on page {number} has {megapixels:,.0f} megapixels, and {limits.megapixels} are allowed"
            )
        left, bottom, right, top = picture.get_bounds()
        covered += max(right - left, 0) * max(top - bottom, 0)
    return bool(covered >= COVERED * width * height)


def _seen(page: PdfPage, number: int, limits: Limits) -> str:
    width, height = (side / 72 for side in page.get_size())
    if width * height * COARSEST**2 > limits.megapixels * 1_000_000:
        raise Reject(f"page {number} is {width:,.0f} by {height:,.0f} inches, too large to be read off its picture")
    dpi = min(DPI, sqrt(RENDERED / max(width * height, 1e-6)))
    bitmap = page.render(scale=dpi / 72, grayscale=True)
    with closing(bitmap):
        return read_text(bitmap.to_pil())
