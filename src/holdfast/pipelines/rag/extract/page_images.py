"""Cut PDFs and pictures into files of one or a few pages that a service accepts.

A page that is small enough is sent unchanged; a larger one as a JPEG of lower quality or size.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.errors import Reject

if TYPE_CHECKING:
    from PIL.Image import Image
    from pypdfium2 import PdfDocument

MAX_PAGE_BYTES = 4_000_000
"""Bytes that a service accepts for a page."""
DPI = 300
MAX_RENDERED_PIXELS = 25_000_000
"""Pixels of a rendered page, at most: A3 at 300 dots per inch."""
MAX_PIXELS = 100_000_000
"""Pixels of a picture, at most. A larger one is not decoded: it would fill the memory."""
MAX_SIDE, MIN_SIDE = 10_000, 50
"""Pixels of the longer and the shorter side that a service accepts."""
QUALITIES = (90, 75, 60, 45, 30)
"""JPEG qualities that are tried before the picture is made smaller."""

PDFIUM_LOCK = threading.Lock()
"""PDFium is not thread-safe."""


def parts_of(path: Path, *, start: int, pages_per_file: int, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pages after the first `start` as files of at most `max_bytes`, each with its number of pages."""
    with path.open("rb") as file:
        head = file.read(1024)
    if not head:
        raise Reject("empty: the file has no content")
    if b"%PDF-" in head:
        yield from _pdf_parts(path, start, pages_per_file, max_bytes)
    else:
        yield from _image_parts(path, start, max_bytes)


def reduced_jpeg(image: Image, max_bytes: int) -> bytes:
    """Return a picture as a JPEG of at most `max_bytes`: first with lower quality, then smaller."""
    from PIL import Image as Images

    image = _flattened(image)
    if max(image.size) > MAX_SIDE:
        image = _scaled(image, MAX_SIDE / max(image.size))
    while True:
        for quality in QUALITIES:
            out = BytesIO()
            image.save(out, "JPEG", quality=quality, optimize=True)
            if out.tell() <= max_bytes:
                return out.getvalue()
        if min(image.size) * 3 // 4 < MIN_SIDE:
            raise Reject(f"the picture cannot be reduced to {max_bytes:,} bytes; raise the limit or leave the file out")
        image = image.resize((image.width * 3 // 4, image.height * 3 // 4), Images.Resampling.LANCZOS)


def _pdf_parts(path: Path, start: int, pages_per_file: int, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        with PDFIUM_LOCK:
            document = PdfDocument(path)
    except PdfiumError as error:
        raise Reject("the PDF cannot be opened: it is broken, or encrypted; remove the password") from error
    try:
        with PDFIUM_LOCK:
            count = len(document)
        for first in range(start, count, pages_per_file):
            yield from _fitting_parts(document, range(first, min(first + pages_per_file, count)), max_bytes)
    finally:
        with PDFIUM_LOCK:
            document.close()


def _fitting_parts(document: PdfDocument, which: range, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield some pages as one PDF; one by one if that is too large; a single page that is too large as a picture."""
    content = _extracted_pages(document, which)
    if len(content) <= max_bytes:
        yield len(which), content
    elif len(which) > 1:
        for index in which:
            yield from _fitting_parts(document, range(index, index + 1), max_bytes)
    else:
        yield 1, reduced_jpeg(_rendered(document, which[0]), max_bytes)


def _extracted_pages(document: PdfDocument, which: range) -> bytes:
    from pypdfium2 import PdfDocument, PdfiumError

    out = BytesIO()
    try:
        with PDFIUM_LOCK, closing(PdfDocument.new()) as copy:
            copy.import_pages(document, list(which))
            copy.save(out)
    except PdfiumError as error:
        raise Reject(f"page {which[0] + 1} of the PDF is broken ({error})") from error
    return out.getvalue()


def _rendered(document: PdfDocument, index: int) -> Image:
    from pypdfium2 import PdfiumError

    try:
        with PDFIUM_LOCK, closing(document[index]) as page:
            width, height = page.get_size()
            scale = min(DPI / 72, sqrt(MAX_RENDERED_PIXELS / max(width * height, 1)))
            image: Image = page.render(scale=scale).to_pil()
            return image.copy()  # a copy: the memory of the bitmap is freed with the page
    except PdfiumError as error:
        raise Reject(f"page {index + 1} of the PDF is broken ({error})") from error


def _image_parts(path: Path, start: int, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    from PIL import Image as Images
    from PIL import UnidentifiedImageError

    try:
        with Images.open(path) as image:
            frames = getattr(image, "n_frames", 1)
            for frame in range(start, frames):
                image.seek(frame)
                if image.width * image.height > MAX_PIXELS:
                    raise Reject(f"the picture is too large: {image.width:,} x {image.height:,} pixels")
                yield 1, _picture(path, image, frames, max_bytes)
    except UnidentifiedImageError as error:
        raise Reject("not a PDF and not a picture: Azure Document Intelligence reads only those") from error
    except (OSError, SyntaxError, Images.DecompressionBombError) as error:
        raise Reject(f"the picture is broken or too large ({error})") from error


def _picture(path: Path, image: Image, frames: int, max_bytes: int) -> bytes:
    """Return the file unchanged if it has one picture and is small enough; else a reduced picture."""
    if frames == 1 and path.stat().st_size <= max_bytes and max(image.size) <= MAX_SIDE:
        return path.read_bytes()
    return reduced_jpeg(image, max_bytes)


def _flattened(image: Image) -> Image:
    """Return a picture upright, with a white background instead of transparency."""
    from PIL import Image as Images
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Images.alpha_composite(Images.new("RGBA", image.size, "white"), image)
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def _scaled(image: Image, factor: float) -> Image:
    from PIL import Image as Images

    size = (max(int(image.width * factor), 1), max(int(image.height * factor), 1))
    return image.resize(size, Images.Resampling.LANCZOS)
