"""Reading text off pictures, with a model that comes inside a package: no service, no network, nothing to install."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.core.errors import Reject

if TYPE_CHECKING:
    from PIL.Image import Image

DPI = 300
"""What pages are rendered at. Tesseract's model was trained on letters of that size."""
NARROW, WIDE = 900, 2_500
"""Pixels of the shorter side that pictures are scaled to: small print grows, what is scanned too finely shrinks."""
LONGEST = 20_000
"""Pixels of the longer side: Tesseract takes no more than 32,767."""
MARGIN = 20
"""White pixels around the picture: letters at its very edge are lost without."""
UPRIGHT, COLUMNS, ONE_BLOCK = 0, 3, 6
"""Tesseract's modes: tell which way is up; find columns and paragraphs; take all for lines of one block."""
SURE, DOUBTFUL, NOISE = 80, 60, 35
"""How sure Tesseract is of its words, of 100. Upright print has 70 and more, lying or turned print at most 50."""


class Reading(Struct, frozen=True):
    """What was read off a picture, and how sure of it the engine is, of 100."""

    text: str
    sureness: int


def read_text(picture: Image) -> str:
    """Gives the text that is to be seen on a picture, line by line; nothing where there is only noise."""
    best = read(picture)
    return best.text if best.sureness >= NOISE else ""


def read(picture: Image) -> Reading:
    """Reads a picture once if that goes well; else turned upright, and as one block without columns."""
    ready = prepared(picture)
    best = _read(ready, COLUMNS)
    if best.sureness < DOUBTFUL and (turn := _turn(ready)):
        turned = ready.rotate(turn, expand=True)
        again = _read(turned, COLUMNS)
        if again.sureness > best.sureness:
            ready, best = turned, again
    if NOISE <= best.sureness < SURE or not best.text:  # noise stays noise
        best = max(best, _read(ready, ONE_BLOCK), key=lambda reading: reading.sureness)
    return best


def _read(ready: Image, mode: int) -> Reading:
    engine = _engine("eng")
    engine.SetPageSegMode(mode)
    engine.SetImage(ready)
    try:
        return Reading(engine.GetUTF8Text().strip(), engine.MeanTextConf())
    finally:
        engine.Clear()


def _turn(ready: Image) -> int:
    """Answers how many degrees against the clock make the picture upright; 0 if nobody can tell."""
    engine = _engine("osd")
    engine.SetImage(ready)
    try:
        found = engine.DetectOrientationScript()
    finally:
        engine.Clear()
    return int(found["orient_deg"]) if found else 0


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
def _engine(model: str) -> Any:
    """Loads an engine, once a process: `eng` reads, `osd` tells which way is up."""
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")  # one thread: the cores are kept busy by other documents
    try:
        from tesserocr import PyTessBaseAPI
    except ImportError as error:
        raise Reject("reading text off pictures needs Tesseract: pip install 'holdfast[rag]'") from error
    folder = Path(sys.prefix) / "share" / "tessdata"
    if not (folder / f"{model}.traineddata").is_file():
        raise Reject(f"reading text off pictures needs a model in {folder}: pip install 'holdfast[rag]'")
    engine = PyTessBaseAPI(path=str(folder), lang=model, psm=UPRIGHT if model == "osd" else COLUMNS)
    engine.SetVariable("min_characters_to_try", "15")
    return engine
