"""Text PDFs: how long the pipeline takes beside the bare parser, on the same cores.

    python bench/pdf.py ../shared/data/pdf-docling            three rounds of each, one after the other
    python bench/pdf.py FOLDER --copies 20 --rounds 5

Only PDFs are taken whose pages all have text of their own: OCR would hide everything else. Each is copied, so that
there is enough to do. Bare: as many processes as there are cores, each opening PDFs with the same parser and throwing
the pages away. Pipeline: all of document search, with a checkpoint for every page, and a cheap embedder, no model.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.parsers import pages_of
from holdfast.pipelines.rag.reading import warm

CORES = os.cpu_count() or 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = copied(chosen(asked.folder), Path(scratch) / "pdf", asked.copies)
        bare, whole = [], []
        for number in range(asked.rounds):
            pages, seconds = bare_parser(files)
            bare.append(seconds)
            whole.append(pipeline(Path(scratch), number, asked.processes))
        print(f"{len(files)} PDFs of {pages} pages, {CORES} cores, medians of {asked.rounds} rounds")
        one, other = statistics.median(bare), statistics.median(whole)
        print(f"bare parser {one:.2f} s, pipeline {other:.2f} s: {other / one:.2f} times as long")


def chosen(folder: Path) -> list[Path]:
    """Gives the PDFs whose pages all have text. A process of its own looks: models of OCR that it loads for the others
    would make every process that is forked here afterwards slower, the bare parser's and the pipeline's."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(texts, (folder,))


def texts(folder: Path) -> list[Path]:
    fit = []
    for path in sorted(folder.rglob("*.pdf")):
        try:
            pages = list(pages_of(path))
        except holdfast.Reject:
            continue
        if pages and all(page.how == "text" and page.text for page in pages):
            fit.append(path)
    return fit


def copied(files: list[Path], folder: Path, times: int) -> list[Path]:
    """Copies files, each under a name of its own."""
    folder.mkdir()
    return [Path(shutil.copy(path, folder / f"{number}-{path.name}")) for number in range(times) for path in files]


def bare_parser(files: list[Path]) -> tuple[int, float]:
    """Opens all files and reads their pages, in as many processes as there are cores."""
    warm(pdfs=True)
    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        pages = sum(pool.imap_unordered(count, files, chunksize=1))
    return pages, time.perf_counter() - began


def count(path: Path) -> int:
    return sum(1 for _ in pages_of(path))


def pipeline(scratch: Path, number: int, processes: int) -> float:
    """Makes all files searchable in a fresh store."""
    began = time.perf_counter()
    with holdfast.open(f"sqlite:///{scratch}/{number}.db") as store:
        library = rag.Library(store, settings=rag.Settings(embedder="hash:64"))
        report = library.ingest(str(scratch / "pdf"), threads=CORES + 1, processes=processes)
    assert report.dead == 0, report
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
