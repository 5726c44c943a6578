"""Compare the time of the pipeline for text PDFs with the time of the parser alone, on the same cores.

    python bench/pdf.py ../shared/data/pdf-docling            three rounds of each, in turn
    python bench/pdf.py FOLDER --copies 20 --rounds 5

Only PDFs with text on every page are used, because OCR would hide everything else. Each is copied, so that there is
enough to do.

Parser alone: one process per core, each opens PDFs with the same parser and discards the pages.
Pipeline: all of document search, with a checkpoint for every page and a cheap embedder, no model.
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
from holdfast.pipelines.rag.extract.parsers import pages_of
from holdfast.pipelines.rag.extract.readers import preload_parsers

CORES = os.cpu_count() or 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = copy_files(pdfs_with_text(args.folder), Path(scratch) / "pdf", args.copies)
        bare, whole = [], []
        for number in range(args.rounds):
            pages, seconds = parse_only(files)
            bare.append(seconds)
            whole.append(run_pipeline(Path(scratch), number, args.processes))
        print(f"{len(files)} PDFs of {pages} pages, {CORES} cores, medians of {args.rounds} rounds")
        parser_time, pipeline_time = statistics.median(bare), statistics.median(whole)
        ratio = pipeline_time / parser_time
        print(f"parser alone {parser_time:.2f} s, pipeline {pipeline_time:.2f} s: {ratio:.2f} times as long")


def pdfs_with_text(folder: Path) -> list[Path]:
    """Return the PDFs with text on every page. Another process checks them: it loads OCR models for the others, and
    these would slow down every process that is forked here later, for the parser and for the pipeline."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(find_pdfs_with_text, (folder,))


def find_pdfs_with_text(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*.pdf")):
        try:
            pages = list(pages_of(path))
        except holdfast.Reject:
            continue
        if pages and all(page.how == "text" and page.text for page in pages):
            found.append(path)
    return found


def copy_files(files: list[Path], folder: Path, times: int) -> list[Path]:
    """Copy each file `times` times, each copy with its own name."""
    folder.mkdir()
    return [Path(shutil.copy(path, folder / f"{number}-{path.name}")) for number in range(times) for path in files]


def parse_only(files: list[Path]) -> tuple[int, float]:
    """Open all files and read their pages, with one process per core."""
    preload_parsers(pdfs=True)
    started = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        pages = sum(pool.imap_unordered(count_pages, files, chunksize=1))
    return pages, time.perf_counter() - started


def count_pages(path: Path) -> int:
    return sum(1 for _ in pages_of(path))


def run_pipeline(scratch: Path, number: int, processes: int) -> float:
    """Ingest all files into a new store. Return the seconds."""
    started = time.perf_counter()
    with holdfast.open(f"sqlite:///{scratch}/{number}.db") as store:
        library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))
        report = library.ingest(str(scratch / "pdf"), threads=CORES + 1, processes=processes)
    assert report.dead == 0, report
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
