"""The languages of OCR: each needs a model, and a missing one is named before any work."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.ocr import NoOcrModel, require_models
from holdfast.pipelines.rag.extract.parsers import pages_of

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra rag")
pytest.importorskip("tesserocr", reason="OCR needs tesserocr")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the English model under two names."""
    folder = tmp_path / "models"
    folder.mkdir()
    english = Path(sys.prefix) / "share" / "tessdata" / "eng.traineddata"
    for language in ("eng", "xho"):
        shutil.copyfile(english, folder / f"{language}.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    return folder


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    from PIL import ImageDraw, ImageFont

    image = Image.new("L", (900, 200), 255)
    ImageDraw.Draw(image).text((40, 60), "The spring tide", font=ImageFont.load_default(60), fill=0)
    image.save(tmp_path / "tide.png")
    return tmp_path / "tide.png"


def test_a_missing_model_is_named_with_its_package() -> None:
    with pytest.raises(NoOcrModel, match=r"no model for qqq.*pip install tessdata\.fast-qqq"):
        require_models(["eng", "qqq"])


def test_an_ingest_without_a_model_does_no_work(tmp_path: Path, picture: Path) -> None:
    settings = rag.CollectionSettings(embedder="hash:64", ocr_languages=("eng", "qqq"))
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = rag.Library(store, settings=settings)
        with pytest.raises(NoOcrModel, match="qqq"):
            library.ingest(str(picture))
        library.close()
        assert not store.pipelines()


def test_a_picture_is_read_in_several_languages(models: Path, picture: Path) -> None:
    require_models(["eng", "xho"])
    (page,) = pages_of(picture, limits=ExtractLimits(ocr_languages=("eng", "xho")))
    assert "spring tide" in page.text


@pytest.mark.parametrize("languages", [(), ("",), ("english",), ("eng+deu",), ("../eng",)])
def test_what_is_no_name_of_a_language_is_refused(languages: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="use names such as eng, deu"):
        rag.CollectionSettings(ocr_languages=languages)
