"""PNG, JPEG, TIFF: their text, read by OCR. A TIFF may have several pages."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages
from holdfast.pipelines.rag.extract.ocr import read_text
from holdfast.pipelines.rag.values import Page

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP", "JPEG2000", "HEIF")
"""Pillow opens MPO, which many telephones write, as a JPEG."""
TOO_LARGE = "the picture is too large and was left out"
BROKEN = (OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError, IndexError)
"""What Pillow raises for files that are cut off or damaged."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`."""
    with _opened(path) as picture:
        count = _count(picture, limits)
        for number in range(start + 1, count + 1):
            frame = _frame(picture, number, limits, is_only=count == 1)
            if frame is None:
                yield Page(number, "", label=TOO_LARGE, last=number == count)
            else:
                text = read_text(frame, limits.ocr_languages)
                yield Page(number, text, how="ocr", last=number == count)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of pages."""
    with _opened(path) as picture:
        return _count(picture, limits)


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    from PIL import Image, UnidentifiedImageError

    with path.open("rb") as file:
        if file.read(12)[4:8] == b"ftyp":
            _register_heic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # our own limit is checked below; odd metadata does not matter
        try:
            picture = Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN or name != "HEIF"])
        except UnidentifiedImageError as error:
            raise Reject("broken: the picture cannot be opened") from error
        except Image.DecompressionBombError as error:
            raise Reject(f"the picture has too many pixels ({error})") from error
        except BROKEN as error:
            raise Reject(f"broken: the picture cannot be opened ({error})") from error
        with picture:
            yield picture


def _register_heic() -> None:
    """Let Pillow open HEIC. The package is not part of an extra: its wheels are under the GPL."""
    try:
        import_module("pillow_heif").register_heif_opener()
    except ImportError as error:
        raise Reject("a HEIC picture; save it as JPEG, or install the package pillow-heif") from error


def _count(picture: Image, limits: ExtractLimits) -> int:
    if picture.format != "TIFF":
        return 1
    count = 1
    try:
        with suppress(EOFError):
            while True:
                picture.seek(count)  # not `n_frames`: it counts all, and a file can claim millions
                count += 1
                check_pages(count, limits)
        picture.seek(0)
        return count  # noqa: TRY300  # all errors here come from the file
    except BROKEN as error:
        raise Reject(f"broken: the pages of the picture cannot be counted ({error})") from error


def _frame(picture: Image, number: int, limits: ExtractLimits, *, is_only: bool) -> Image | None:
    """Decode one page, upright. A JPEG that is too large is scaled down while it is decoded.

    Any other that is too large is left out: the result is None, or a rejection if it is the only one.
    """
    from PIL import Image, ImageOps

    try:
        if picture.format == "TIFF":
            picture.seek(number - 1)
        width, height = picture.size
        if width * height > limits.megapixels * 1_000_000 and picture.format in ("JPEG", "MPO"):
            scale = next((one for one in (2, 4, 8) if width * height / one**2 <= limits.megapixels * 1_000_000), 8)
            picture.draft("L", (width // scale, height // scale))
            width, height = picture.size
        if width * height > limits.megapixels * 1_000_000:
            if not is_only:
                return None
            raise Reject(
                f"the picture has {width * height / 1e6:,.0f} megapixels, and at most {limits.megapixels} are "
                "allowed; scale it down"
            )
        picture.load()
        return ImageOps.exif_transpose(picture)
    except Image.DecompressionBombError as error:
        raise Reject(f"the picture has too many pixels ({error})") from error
    except BROKEN as error:
        raise Reject(f"broken: page {number} of the picture cannot be decoded ({error})") from error
