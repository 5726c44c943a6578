"""PNG, JPEG, TIFF: what is to be seen on them. A TIFF may have several pages."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits, check_pages
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.ocr import read_text

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "TIFF")
"""Pillow opens MPO, which many telephones write, as a JPEG."""
BROKEN = (OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError, IndexError)
"""What Pillow raises over files that end early or do not hold what they announce."""


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the pages after the first `start`."""
    with _opened(path) as picture:
        count = _count(picture, limits)
        for number in range(start + 1, count + 1):
            yield Page(number, read_text(_frame(picture, number, limits)), how="ocr", last=number == count)


def count(path: Path, *, limits: Limits) -> int:
    """Answers how many pages there are."""
    with _opened(path) as picture:
        return _count(picture, limits)


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # our own limit speaks below; odd metadata is no matter
        try:
            picture = Image.open(path, formats=FORMATS)
        except UnidentifiedImageError as error:
            raise Reject("broken: the picture cannot be opened") from error
        except Image.DecompressionBombError as error:
            raise Reject(f"the picture has far too many pixels ({error})") from error
        except BROKEN as error:
            raise Reject(f"broken: the picture cannot be opened ({error})") from error
        with picture:
            yield picture


def _count(picture: Image, limits: Limits) -> int:
    if picture.format != "TIFF":
        return 1
    count = 1
    try:
        with suppress(EOFError):
            while True:
                picture.seek(count)  # not `n_frames`: it looks for all, and a file can claim millions
                count += 1
                check_pages(count, limits)
        picture.seek(0)
        return count  # noqa: TRY300  # what goes wrong here is the file's fault, all of it
    except BROKEN as error:
        raise Reject(f"broken: the pages of the picture cannot be counted ({error})") from error


def _frame(picture: Image, number: int, limits: Limits) -> Image:
    """Decodes one page, upright."""
    from PIL import Image, ImageOps

    try:
        if picture.format == "TIFF":
            picture.seek(number - 1)
        width, height = picture.size
        if width * height > limits.megapixels * 1_000_000:
            raise Reject(
                f"the picture has {width * height / 1e6:,.0f} megapixels, and {limits.megapixels} are allowed; scale it"
            )
        picture.load()
        return ImageOps.exif_transpose(picture)
    except Image.DecompressionBombError as error:
        raise Reject(f"the picture has far too many pixels ({error})") from error
    except BROKEN as error:
        raise Reject(f"broken: page {number} of the picture cannot be decoded ({error})") from error
