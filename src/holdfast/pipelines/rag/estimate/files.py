"""Estimate the pages, chunks and characters of files, in separate processes: a hostile file breaks nothing.

Files that are quick to read are read and split as an ingest would. Of the others, only the pages are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.chunk.splitters import Splitting

PAGE_CHARACTERS = 2200
"""About how many characters a page has, if it is not read."""
TOKEN = 4
"""About how many characters a token has."""
IMAGE_TYPES = ("png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2", "heic")
IMAGE_CHARACTERS = 600
"""About how many characters an image of text has."""
FILE_TIMEOUT = 60.0
"""Seconds that one file may take."""


class FileEstimate(Struct, frozen=True):
    """The pages, chunks and characters of a file. Each attachment of a message counts as one page.

    Attributes:
        pages: How many pages it has.
        chunks: About how many chunks these become.
        characters: About how many characters they have.
        pictures: How many of the pages are images, which need OCR.
    """

    pages: int
    chunks: int
    characters: int
    pictures: int = 0


def estimate_files(
    files: Sequence[tuple[str, str]], splitting: Splitting, *, root: str | None = None
) -> Iterator[tuple[str, FileEstimate | str]]:
    """Yield for each key and location the estimate of the file, or the reason why it would be rejected.

    With a root, a file that a link puts outside of that folder is rejected.
    """
    remaining = deque(files)
    while remaining:
        with _pool(2) as pool:
            results = [pool.submit(estimate_file, location, splitting, root) for _, location in remaining]
            for result in results:
                try:
                    estimate = result.result(FILE_TIMEOUT)
                except (BrokenProcessPool, TimeoutError):
                    break
                yield remaining.popleft()[0], estimate
        if remaining:
            key, location = remaining.popleft()
            yield key, _estimate_alone(location, splitting, root)  # another file may have broken the pool


def _estimate_alone(location: str, splitting: Splitting, root: str | None) -> FileEstimate | str:
    with _pool(1) as pool:
        try:
            return pool.submit(estimate_file, location, splitting, root).result(FILE_TIMEOUT)
        except (BrokenProcessPool, TimeoutError):
            return "its pages could not be counted; it may be broken or hostile"


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a process pool. Its processes are killed afterwards, also those that hang."""
    pool = ProcessPoolExecutor(max_workers=processes, mp_context=get_context("forkserver"))
    try:
        yield pool
    finally:
        for process in [*(pool._processes or {}).values()]:  # before Python 3.14 there is no public way to them
            process.kill()
        pool.shutdown(cancel_futures=True)


def guess_from_pages(pages: int, splitting: Splitting) -> FileEstimate:
    """Guess the chunks and characters of a number of pages."""
    return FileEstimate(pages, pages * _chunks(PAGE_CHARACTERS, splitting), pages * PAGE_CHARACTERS)


def estimate_file(location: str, splitting: Splitting, root: str | None = None) -> FileEstimate | str:
    """Estimate one file, or return the reason why it would be rejected."""
    from holdfast.sources import SourceFile, local_copy

    try:
        with local_copy(SourceFile("", location, -1, 0), root=root) as path:
            return _estimate(path, splitting)
    except Reject as error:
        return str(error)


def _estimate(path: Path, splitting: Splitting) -> FileEstimate:
    from holdfast.pipelines.rag.extract.container_pages import container_kind, container_pages
    from holdfast.pipelines.rag.extract.file_type import detect_file_type
    from holdfast.pipelines.rag.extract.parsers import WHOLE_TEXT_TYPES, attachments_of, page_count, pages_of

    kind = detect_file_type(path)
    if (container := container_kind(kind)) is not None:
        listed = container_pages(path, container, name=path.name)
        return guess_from_pages(sum(len(page.entries) for page in listed), splitting)
    if kind in IMAGE_TYPES:
        pages = page_count(path, kind)
        return FileEstimate(pages, pages, pages * IMAGE_CHARACTERS, pages)
    if kind not in WHOLE_TEXT_TYPES:
        return guess_from_pages(page_count(path, kind), splitting)
    lengths = [len(page.text) for page in pages_of(path, kind=kind)]
    attachments = guess_from_pages(sum(1 for _ in attachments_of(path, kind=kind)), splitting)
    return FileEstimate(
        len(lengths) + attachments.pages,
        sum(_chunks(length, splitting) for length in lengths) + attachments.chunks,
        sum(lengths) + attachments.characters,
    )


def _chunks(length: int, splitting: Splitting) -> int:
    """Estimate how many chunks a page of this length is split into."""
    unit = TOKEN if splitting.how == "tokens" else 1
    step = max(splitting.size - splitting.overlap, 1) * unit
    return 0 if not length else 1 + max(length - splitting.size * unit + step - 1, 0) // step
