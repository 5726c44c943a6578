"""Pictures: their text is read, also if they are rotated; so are pages of a PDF that are pictures."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract import ocr
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers import page_count, pages_of
from tests.support import sample_files

needs_tesseract = pytest.mark.skipif(find_spec("tesserocr") is None, reason="no wheel of tesserocr for this Python")
WORDS = "High water at noon\nand low water at six\nMind the tide"


def seen() -> Image.Image:
    return sample_files.picture(WORDS, (1000, 500))


@needs_tesseract
@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2"])
def test_words_on_a_picture_are_read(tmp_path: Path, kind: str) -> None:
    seen().save(tmp_path / f"a.{kind}")
    [page] = pages_of(tmp_path / f"a.{kind}")
    assert page.how == "ocr"
    assert page.text.split() == WORDS.split()


@needs_tesseract
def test_a_tiff_of_several_pages_gives_them_all(tmp_path: Path) -> None:
    pages = [sample_files.picture(f"Number {word}") for word in ("seven", "eight", "nine")]
    pages[0].save(tmp_path / "a.tiff", save_all=True, append_images=pages[1:])
    assert page_count(tmp_path / "a.tiff") == 3
    assert [page.text for page in pages_of(tmp_path / "a.tiff")] == ["Number seven", "Number eight", "Number nine"]


@needs_tesseract
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_rotated_picture_is_read(degrees: int) -> None:
    assert ocr.read_text(seen().rotate(degrees, expand=True)).split() == WORDS.split()


@needs_tesseract
@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "LA", "P", "CMYK", "I;16"])
def test_pictures_of_every_mode_are_read(mode: str) -> None:
    plain = seen()
    picture = (
        plain.convert("I").point(lambda value: value * 257).convert("I;16") if mode == "I;16" else plain.convert(mode)
    )
    assert ocr.read_text(picture).split() == WORDS.split()


@needs_tesseract
def test_transparent_pixels_are_white() -> None:
    layer = Image.new("RGBA", (1000, 500), (0, 0, 0, 0))
    layer.paste((0, 0, 0, 255), mask=seen().point(lambda value: 255 - value))
    assert ocr.read_text(layer).split() == WORDS.split()


@needs_tesseract
def test_a_picture_without_words_has_no_text() -> None:
    assert not ocr.read_text(Image.new("L", (800, 800), 255))
    assert not ocr.read_text(Image.effect_noise((800, 800), 120))
    assert not ocr.read_text(Image.new("L", (1, 1), 255))
    assert not ocr.read_text(Image.new("L", (30_000, 2), 255))


@needs_tesseract
def test_a_page_of_a_pdf_that_is_a_picture_is_read(tmp_path: Path) -> None:
    path = sample_files.write_file(tmp_path / "a.pdf", sample_files.scan(seen(), (500, 250)))
    [page] = pages_of(path)
    assert page.how == "ocr"
    assert page.text.split() == WORDS.split()


def test_without_tesseract_the_reason_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    ocr._engine.cache_clear()
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    with pytest.raises(Reject, match=r"pip install 'holdfast-pipelines\[rag\]'"):
        ocr.read_text(seen())


def test_pictures_are_scaled_to_a_size_that_is_read_well() -> None:
    assert min(ocr.prepared(Image.new("L", (450, 900))).size) == ocr.MIN_SHORT_SIDE + 2 * ocr.MARGIN
    assert min(ocr.prepared(Image.new("L", (5000, 7000))).size) == ocr.MAX_SHORT_SIDE + 2 * ocr.MARGIN
    assert max(ocr.prepared(Image.new("L", (100, 30_000))).size) <= ocr.MAX_LONG_SIDE + 2 * ocr.MARGIN


@pytest.mark.parametrize(
    "start", [b"\x89PNG\r\n\x1a\nbroken", b"II*\x00\x08\x00", b"\xff\xd8\xff"], ids=["png", "tiff", "jpeg"]
)
def test_an_invalid_picture_is_rejected_as_broken(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "picture"
    path.write_bytes(start)
    with pytest.raises(Reject) as refused:
        page_count(path, "png")
    assert str(refused.value) == "broken: the picture cannot be opened"


def test_an_mpo_picture_of_a_telephone_is_one_page(tmp_path: Path) -> None:
    path = tmp_path / "picture.jpg"
    white = Image.new("RGB", (60, 40), "white")
    white.save(path, format="MPO", save_all=True, append_images=[white])
    assert page_count(path, "jpeg") == 1


@needs_tesseract
def test_a_jpeg_that_is_too_large_is_scaled_down_first(tmp_path: Path) -> None:
    seen().resize((4000, 2000)).save(tmp_path / "a.jpeg")
    (page,) = pages_of(tmp_path / "a.jpeg", limits=ExtractLimits(megapixels=3))
    assert page.text.split() == WORDS.split()


@needs_tesseract
def test_a_page_that_is_too_large_costs_that_page_and_not_the_file(tmp_path: Path) -> None:
    large, small = sample_files.picture("Large", (2000, 1000)), sample_files.picture("Small", (800, 300))
    small.save(tmp_path / "a.tiff", save_all=True, append_images=[large, small])
    pages = list(pages_of(tmp_path / "a.tiff", limits=ExtractLimits(megapixels=1)))
    assert [page.text for page in pages] == ["Small", "", "Small"]
    assert pages[1].label == "the picture is too large and was left out"
