"""Pages as files of their own, small enough for a service: as they are if they fit, else as ever smaller pictures."""

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

MOST = 4_000_000
"""Bytes that a service takes for a page."""
DPI = 300
PIXELS = 25_000_000
"""What a page is rendered to at most: A3 at 300 dots an inch."""
BOMB = 100_000_000
"""Pixels of a picture that is not opened: it would fill the memory."""
LONGEST_SIDE = 10_000
SHORTEST_SIDE = 50
"""Pixels. A service reads nothing off a picture that is smaller."""
QUALITIES = (90, 75, 60, 45, 30)

PDFIUM = threading.Lock()
"""PDFium knows no threads."""


def parts_of(path: Path, *, start: int, at_once: int, most: int) -> Iterator[tuple[int, bytes]]:
    """Gives the pages after the first `start` as files of at most `most` bytes, each with the number of its pages."""
    with path.open("rb") as file:
        head = file.read(1024)
    if not head:
        raise Reject("empty: the file has no content")
    if b"%PDF-" in head:
        yield from _of_pdf(path, start, at_once, most)
    else:
        yield from _of_image(path, start, most)


def fitted(image: Image, most: int) -> bytes:
    """Gives a picture as a JPEG of at most `most` bytes: first of less quality, then smaller."""
    from PIL import Image as Images

    image = _on_paper(image)
    if max(image.size) > LONGEST_SIDE:
        image = _scaled(image, LONGEST_SIDE / max(image.size))
    while True:
        for quality in QUALITIES:
            out = BytesIO()
            image.save(out, "JPEG", quality=quality, optimize=True)
            if out.tell() <= most:
                return out.getvalue()
        if min(image.size) * 3 // 4 < SHORTEST_SIDE:
            raise Reject(f"the picture cannot be made smaller than {most} bytes; raise the limit or leave it out")
        image = image.resize((image.width * 3 // 4, image.height * 3 // 4), Images.Resampling.LANCZOS)


def _of_pdf(path: Path, start: int, at_once: int, most: int) -> Iterator[tuple[int, bytes]]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        with PDFIUM:
            document = PdfDocument(path)
    except PdfiumError as error:
        raise Reject("the PDF cannot be opened: it is broken, or encrypted; remove the password") from error
    try:
        with PDFIUM:
            count = len(document)
        for first in range(start, count, at_once):
            yield from _together(document, range(first, min(first + at_once, count)), most)
    finally:
        with PDFIUM:
            document.close()


def _together(document: PdfDocument, which: range, most: int) -> Iterator[tuple[int, bytes]]:
    """Gives some pages as one PDF; one by one if that is too large; a page that is too large alone as a picture."""
    content = _alone(document, which)
    if len(content) <= most:
        yield len(which), content
    elif len(which) > 1:
        for index in which:
            yield from _together(document, range(index, index + 1), most)
    else:
        yield 1, fitted(_rendered(document, which[0]), most)


def _alone(document: PdfDocument, which: range) -> bytes:
    from pypdfium2 import PdfDocument, PdfiumError

    out = BytesIO()
    try:
        with PDFIUM, closing(PdfDocument.new()) as copy:
            copy.import_pages(document, list(which))
            copy.save(out)
    except PdfiumError as error:
        raise Reject(f"page {which[0] + 1} of the PDF is broken ({error})") from error
    return out.getvalue()


def _rendered(document: PdfDocument, index: int) -> Image:
    from pypdfium2 import PdfiumError

    try:
        with PDFIUM, closing(document[index]) as page:
            width, height = page.get_size()
            scale = min(DPI / 72, sqrt(PIXELS / max(width * height, 1)))
            image: Image = page.render(scale=scale).to_pil()
            return image.copy()  # its own memory: the bitmap's is gone with the page
    except PdfiumError as error:
        raise Reject(f"page {index + 1} of the PDF is broken ({error})") from error


def _of_image(path: Path, start: int, most: int) -> Iterator[tuple[int, bytes]]:
    from PIL import Image as Images
    from PIL import UnidentifiedImageError

    try:
        with Images.open(path) as image:
            frames = getattr(image, "n_frames", 1)
            for frame in range(start, frames):
                image.seek(frame)
                if image.width * image.height > BOMB:
                    raise Reject(f"the picture is enormous: {image.width} x {image.height} pixels")
                yield 1, _picture(path, image, frames, most)
    except UnidentifiedImageError as error:
        raise Reject("neither a PDF nor a picture: Azure Document Intelligence is asked only about those") from error
    except (OSError, SyntaxError, Images.DecompressionBombError) as error:
        raise Reject(f"the picture is broken or enormous ({error})") from error


def _picture(path: Path, image: Image, frames: int, most: int) -> bytes:
    """The file as it is, if it has one picture and fits."""
    if frames == 1 and path.stat().st_size <= most and max(image.size) <= LONGEST_SIDE:
        return path.read_bytes()
    return fitted(image, most)


def _on_paper(image: Image) -> Image:
    """Gives a picture upright and without transparency: what shines through is white, as paper is."""
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
