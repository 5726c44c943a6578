"""Reading text off pictures, with a model that comes inside a package: no service, no network, nothing to install."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Reject

if TYPE_CHECKING:
    from PIL.Image import Image

DPI = 300
"""What pages are rendered at. Tesseract's model was trained on letters of that size."""
NARROW, WIDE = 1_200, 2_500
"""Pixels of the shorter side that pictures are scaled to: small print grows, what is scanned too finely shrinks."""
LONGEST = 20_000
"""Pixels of the longer side: Tesseract takes no more than 32,767."""
MARGIN = 20
"""White pixels around the picture: letters at its very edge are lost without."""


def read_text(picture: Image) -> str:
    """Gives the text that is to be seen on a picture, line by line."""
    engine = _engine()
    engine.SetImage(prepared(picture))
    try:
        text: str = engine.GetUTF8Text()
    finally:
        engine.Clear()
    return text.strip()


def prepared(picture: Image) -> Image:
    """Gives the picture as it is read best: grey, on white, with letters of a good size and a margin."""
    from PIL import Image, ImageOps

    grey = _on_white(picture).convert("L")
    shorter, longer = min(grey.size), max(grey.size)
    factor = min(max(NARROW / shorter, 1), 4) if shorter < NARROW else min(WIDE / shorter, 1)
    factor = min(factor, LONGEST / longer)
    if factor != 1:
        size = max(1, round(grey.width * factor)), max(1, round(grey.height * factor))
        grey = grey.resize(size, Image.Resampling.LANCZOS)
    return ImageOps.expand(grey, border=MARGIN, fill=255)


def _on_white(picture: Image) -> Image:
    from PIL import Image

    if picture.mode == "I;16":
        return picture.point(lambda value: value / 256).convert("L")
    if picture.mode not in ("RGBA", "LA", "PA") and "transparency" not in picture.info:
        return picture
    layer = picture.convert("RGBA")
    ground = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(ground, layer)


@cache
def _engine() -> Any:  # tesserocr has no types
    """Loads the engine, once a process."""
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")  # one thread: the cores are kept busy by other documents
    try:
        from tesserocr import PSM, PyTessBaseAPI  # type: ignore[import-untyped]
    except ImportError as error:
        raise Reject("reading text off pictures needs Tesseract: pip install 'holdfast[rag]'") from error
    folder = Path(sys.prefix) / "share" / "tessdata"
    if not (folder / "eng.traineddata").is_file():
        raise Reject(f"reading text off pictures needs a model in {folder}: pip install 'holdfast[rag]'")
    return PyTessBaseAPI(path=str(folder), lang="eng", psm=PSM.SINGLE_COLUMN)
