"""How many words of scanned receipts are read: python bench/ocr.py --data FOLDER.

Ours beside plain Tesseract: the same library and model, its defaults, and the picture as it is. A word counts when it
is there as often as the truth has it, whatever its case.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import process_time

from PIL import Image

os.environ.setdefault("OMP_THREAD_LIMIT", "1")

from holdfast.pipelines.rag.ocr import read_text


def words(text: str) -> Counter[str]:
    return Counter(word.casefold() for word in text.split())


def truth(path: Path) -> Counter[str]:
    """Reads the words of a receipt: each line has eight numbers, then the text."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return words(" ".join(line.split(",", 8)[8] for line in lines if line.count(",") >= 8))


def plain_tesseract() -> Callable[[Image.Image], str]:
    from tesserocr import PyTessBaseAPI

    engine = PyTessBaseAPI(path=str(Path(sys.prefix) / "share" / "tessdata"), lang="eng")

    def read(picture: Image.Image) -> str:
        engine.SetImage(picture)
        return str(engine.GetUTF8Text())

    return read


def measured(read: Callable[[Image.Image], str], pictures: list[Path]) -> tuple[float, float]:
    """Gives word recall over all pictures, and seconds of CPU a picture."""
    found = all_ = 0
    began = process_time()
    for path in pictures:
        expected = truth(path.with_suffix(".csv"))
        with Image.open(path) as picture:
            found += (words(read(picture)) & expected).total()
        all_ += expected.total()
    return found / all_, (process_time() - began) / len(pictures)


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("HOLDFAST_DATA", beside))
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=data / "receipts")
    arguments.add_argument("--first", type=int, help="only so many receipts")
    chosen = arguments.parse_args()
    pictures = sorted(path for path in chosen.data.glob("*.jpg") if path.with_suffix(".csv").exists())[: chosen.first]
    if not pictures:
        sys.exit(f"no receipts in {chosen.data}")
    print(f"{len(pictures)} receipts\n\n| | word recall | CPU-s a picture |\n|---|---|---|")
    for name, read in (("plain Tesseract", plain_tesseract()), ("holdfast", read_text)):
        recall, seconds = measured(read, pictures)
        print(f"| {name} | {recall:.3f} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
