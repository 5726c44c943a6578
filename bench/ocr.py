"""Measure how many words of scanned receipts are read: python bench/ocr.py --data FOLDER.

It compares our OCR with plain Tesseract: the same library and model, its defaults, and the unchanged picture. A word
counts if it is found as often as in the truth. Upper and lower case are the same.
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

from holdfast.pipelines.rag.extract.ocr import read_text


def words(text: str) -> Counter[str]:
    return Counter(word.casefold() for word in text.split())


def truth(path: Path) -> Counter[str]:
    """Return the words of a receipt. Each line of the file has eight numbers, then the text."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return words(" ".join(line.split(",", 8)[8] for line in lines if line.count(",") >= 8))


def plain_tesseract() -> Callable[[Image.Image], str]:
    from tesserocr import PyTessBaseAPI

    engine = PyTessBaseAPI(path=str(Path(sys.prefix) / "share" / "tessdata"), lang="eng")

    def read(picture: Image.Image) -> str:
        engine.SetImage(picture)
        return str(engine.GetUTF8Text())

    return read


def measure(read: Callable[[Image.Image], str], pictures: list[Path]) -> tuple[float, float]:
    """Return the word recall over all pictures, and the seconds of CPU per picture."""
    found = total = 0
    started = process_time()
    for path in pictures:
        expected = truth(path.with_suffix(".csv"))
        with Image.open(path) as picture:
            found += (words(read(picture)) & expected).total()
        total += expected.total()
    return found / total, (process_time() - started) / len(pictures)


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("HOLDFAST_DATA", shared))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data / "receipts")
    parser.add_argument("--first", type=int, help="maximum number of receipts")
    args = parser.parse_args()
    pictures = sorted(path for path in args.data.glob("*.jpg") if path.with_suffix(".csv").exists())[: args.first]
    if not pictures:
        sys.exit(f"no receipts in {args.data}")
    print(f"{len(pictures)} receipts\n\n| | word recall | CPU-s per picture |\n|---|---|---|")
    for name, read in (("plain Tesseract", plain_tesseract()), ("holdfast", read_text)):
        recall, seconds = measure(read, pictures)
        print(f"| {name} | {recall:.3f} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
