"""PDF: the text of each page, with filled form fields and comments. A page that is only a picture is read by OCR.

Before PDFium opens a file, `check_streams` looks for streams that unpack to far too much. It finds most decompression
bombs, not all: a stream can be hidden in ways that only a full parser sees. The limits of the reading process stop the
rest.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages, in_mib
from holdfast.pipelines.rag.extract.ocr import DPI, read_text
from holdfast.pipelines.rag.extract.parsers.cleaning import clean
from holdfast.pipelines.rag.values import Page

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

FEW_LETTERS = 32
"""A page with fewer letters and with a picture counts as a scan: a stamp or a page number may be on it as text."""
MIN_COVERAGE = 0.1
"""Share of a page that its pictures must cover to be read by OCR. Logos cover less."""
MIN_SEGMENTS, MAX_PATHS = 400, 20_000
"""Lines and curves that make a page worth an OCR, and paths that are looked at. A letter has about ten."""
MIN_DPI = 50
"""A page that is too large to be rendered even at this resolution is left out."""
MAX_RENDERED_PIXELS = 25_000_000
"""Pixels of a rendered page, at most: A3 at 300 dots per inch. Posters are rendered at a lower resolution."""
OPEN_ERRORS = {
    0: "broken: the page tree of the PDF is damaged, or made to do harm",
    2: "the file cannot be opened",
    3: "broken: not a readable PDF, or it has no pages",
    4: "encrypted; remove the password",
    5: "encrypted with an unknown method; remove the password",
    6: "broken: it has no pages",
}
"""Reject reasons by the number of PDFium's error."""
BROKEN_PAGE = "this page is broken and was left out"
MAX_ANNOTATIONS = 10_000
"""Annotations of a page that are read."""
FORM_FIELD, LINK, POPUP = 20, 2, 16
"""PDFium's numbers of annotation types. Links have no text, and a popup repeats the note it belongs to."""
BUTTON_VALUES = {"Off", "Yes", "No", "On", "0", "1"}
FLATE_STREAM = re.compile(rb"stream\r?\n(?=[\x08-\x78][\x01\x5e\x9c\xda\xd5\xd4])")
"""The start of a stream that is packed with Flate, as nearly all are."""
HARMLESS_STREAM = 16 * 1024
"""Bytes. A stream that is packed once and is not longer unpacks to 16 MiB at most."""
DENSE = 300
"""Unpacked bytes for each packed byte from which on a stream is checked. Blank scans reach 1000."""
UNPACK_STEP = 1 << 20
"""Bytes that are unpacked at a time."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`. Pages before it are not read.

    A broken page among good ones has no text, and its label says so.
    """
    check_streams(path, limits)
    with _opened(path, limits) as document:
        for index in range(start, len(document)):
            with _page(document, index) as page:
                read = _read(page, index + 1, limits) if page else None
            if read is None and index == 0:
                _reject_if_all_broken(document)
            yield replace(read or Page(index + 1, "", label=BROKEN_PAGE), last=index + 1 == len(document))


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of pages."""
    with _opened(path, limits) as document:
        return len(document)


def sample_pages(path: Path, *, most: int, limits: ExtractLimits) -> tuple[int, list[Page | None]]:
    """Return the number of pages, and at most this many of them, from all parts of the file. OCR is not run.

    None stands for a page that needs OCR. A broken page has no text.
    """
    check_streams(path, limits)
    with _opened(path, limits) as document:
        total = len(document)
        indexes = [index * total // min(most, total) for index in range(min(most, total))]
        sample: list[Page | None] = []
        for index in indexes:
            with _page(document, index) as page:
                sample.append(_without_ocr(page, index + 1, limits) if page else Page(index + 1, ""))
        return total, sample


def read_properties(path: Path, limits: ExtractLimits) -> dict[str, str]:
    """Return the entries of the document information by their names in the PDF."""
    with _opened(path, limits) as document:
        return dict(document.get_metadata_dict())


def _without_ocr(page: PdfPage, number: int, limits: ExtractLimits) -> Page | None:
    text = _text(page)
    try:
        if not _has_letters(text) and _needs_ocr(page, limits):
            return None
    except _PageTooLarge:
        pass
    return Page(number, clean("\n".join([text, *_annotations(page)])))


@contextmanager
def _opened(path: Path, limits: ExtractLimits) -> Iterator[PdfDocument]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(path)
    except PdfiumError as error:
        raise Reject(OPEN_ERRORS.get(error.err_code or 0, f"broken: the PDF cannot be opened ({error})")) from error
    with closing(document):
        check_pages(len(document), limits)
        document.init_forms()  # else the entries of lists are not known
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


def _reject_if_all_broken(document: PdfDocument) -> None:
    """Reject a file if no page can be loaded. Called for the first page, so a resumed run decides the same."""
    for index in range(len(document)):
        with _page(document, index) as page:
            if page:
                return
    raise Reject("broken: no page of the PDF can be read")


def _read(page: PdfPage, number: int, limits: ExtractLimits) -> Page:
    text = _text(page)
    if _has_letters(text):
        return Page(number, "\n".join([text, *_annotations(page)]))
    try:
        recognised = _ocr_text(page, limits) if _needs_ocr(page, limits) else ""
    except _PageTooLarge as error:
        return Page(number, "\n".join([text, *_annotations(page)]), label=str(error))
    if len(recognised) > len(text.strip()):
        return Page(number, "\n".join([recognised, *_annotations(page)]), how="ocr")
    return Page(number, "\n".join([text, *_annotations(page)]))


def _has_letters(text: str) -> bool:
    """Return True if the text of a page is more than a stamp or a page number."""
    return sum(map(str.isalnum, text[: FEW_LETTERS * 8])) >= FEW_LETTERS


class _PageTooLarge(Exception):
    """A picture on a page, or the page itself, is too large for OCR. The page is left out, and not the file."""


def _needs_ocr(page: PdfPage, limits: ExtractLimits) -> bool:
    """Return True if a page without text is covered by pictures, or has outlines that may be letters."""
    return _is_covered_by_pictures(page, limits) or _has_outlines(page)


def _has_outlines(page: PdfPage) -> bool:
    """Return True if lines and curves are drawn on a page, as many as a few words have."""
    from pypdfium2 import raw

    segments = 0
    for path in islice(page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=3), MAX_PATHS):
        segments += max(raw.FPDFPath_CountSegments(path.raw), 0)
        if segments >= MIN_SEGMENTS:
            return True
    return False


def _text(page: PdfPage) -> str:
    from pypdfium2 import PdfiumError

    try:
        text_page = page.get_textpage()
    except PdfiumError:
        return ""
    with closing(text_page):
        try:
            return str(text_page.get_text_range())
        except RecursionError:  # pypdfium2 skips each hidden character by a recursive call
            return str(text_page.get_text_bounded())


def _is_covered_by_pictures(page: PdfPage, limits: ExtractLimits) -> bool:
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    width, height = page.get_size()
    covered = 0.0
    for picture in page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=3):
        wide, high = picture.get_px_size()
        if (megapixels := wide * high / 1e6) > limits.megapixels:
            raise _PageTooLarge(
                f"a picture on this page has {megapixels:,.0f} megapixels, and at most {limits.megapixels} are read"
            )
        left, bottom, right, top = picture.get_bounds()
        covered += max(right - left, 0) * max(top - bottom, 0)
    return bool(covered >= MIN_COVERAGE * width * height)


def _ocr_text(page: PdfPage, limits: ExtractLimits) -> str:
    width, height = (side / 72 for side in page.get_size())
    if width * height * MIN_DPI**2 > limits.megapixels * 1_000_000:
        raise _PageTooLarge(f"this page is {width:,.0f} by {height:,.0f} inches: too large for OCR")
    dpi = min(DPI, sqrt(MAX_RENDERED_PIXELS / max(width * height, 1e-6)))
    bitmap = page.render(scale=dpi / 72, grayscale=True)
    with closing(bitmap):
        return read_text(bitmap.to_pil(), limits.ocr_languages)


def _annotations(page: PdfPage) -> list[str]:
    """Return the values of form fields and the texts of comments, each once, in the order of the page."""
    from pypdfium2 import raw

    texts: dict[str, None] = {}
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS)):
        with _annotation(page, index) as annotation:
            kind = raw.FPDFAnnot_GetSubtype(annotation) if annotation else LINK
            if kind not in (LINK, POPUP):
                text = _string_value(annotation, b"V" if kind == FORM_FIELD else b"Contents").strip()
                if not text and kind == FORM_FIELD:
                    text = ", ".join(_choices(page, annotation))
                if text and not (kind == FORM_FIELD and text in BUTTON_VALUES):
                    texts[text] = None
    return list(texts)


def _choices(page: PdfPage, annotation: Any) -> Iterator[str]:
    """Yield the chosen entries of a list."""
    from pypdfium2 import raw

    if page.formenv is None:
        return
    for index in range(min(raw.FPDFAnnot_GetOptionCount(page.formenv, annotation), MAX_ANNOTATIONS)):
        if raw.FPDFAnnot_IsOptionSelected(page.formenv, annotation, index):
            size = raw.FPDFAnnot_GetOptionLabel(page.formenv, annotation, index, None, 0)
            buffer = ctypes.create_string_buffer(max(size, 2))
            target = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
            raw.FPDFAnnot_GetOptionLabel(page.formenv, annotation, index, target, size)
            yield buffer.raw.decode("utf-16-le", errors="ignore").rstrip("\x00")


@contextmanager
def _annotation(page: PdfPage, index: int) -> Iterator[Any]:
    from pypdfium2 import raw

    annotation = raw.FPDFPage_GetAnnot(page, index)
    try:
        yield annotation
    finally:
        if annotation:
            raw.FPDFPage_CloseAnnot(annotation)


def _string_value(annotation: Any, key: bytes) -> str:
    from pypdfium2 import raw

    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(annotation, key, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", errors="ignore").rstrip("\x00")


def check_streams(path: Path, limits: ExtractLimits) -> None:
    """Reject a PDF with a stream that unpacks to more than any page needs."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for found in FLATE_STREAM.finditer(content):
            begin = found.end()
            end = content.find(b"endstream", begin)
            end = len(content) if end < 0 else end
            dictionary = content[max(0, found.start() - 400) : found.start()].rpartition(b" obj")[2]
            is_packed_twice = dictionary.count(b"/FlateDecode") + dictionary.count(b"/Fl ") > 1
            if end - begin > HARMLESS_STREAM or is_packed_twice:
                max_bytes = 3_000_000 * limits.megapixels if b"/Image" in dictionary else limits.stream_bytes
                _check_stream(content[begin:end], max_bytes, layers=2 if is_packed_twice else 1)


def _check_stream(packed: bytes, max_bytes: int, *, layers: int) -> None:
    if layers == 1 and len(_unpacked_head(packed[:4096])) < DENSE * 4096:
        return
    unpacked = 0
    outer, inner = zlib.decompressobj(), zlib.decompressobj()
    try:
        while packed and not outer.eof:
            piece = outer.decompress(packed, UNPACK_STEP)
            packed = outer.unconsumed_tail
            unpacked += len(piece)
            while layers > 1 and piece and not inner.eof and unpacked <= max_bytes:
                unpacked += len(inner.decompress(piece, UNPACK_STEP))
                piece = inner.unconsumed_tail
            if unpacked > max_bytes:
                raise Reject(
                    f"a stream in the PDF unpacks to more than {in_mib(max_bytes)}; it may be a decompression bomb"
                )
    except zlib.error:
        return  # not a packed stream, or broken: the parser reports that


def _unpacked_head(head: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(head, DENSE * 4096)
    except zlib.error:
        return b""
