"""Estimate the pages, chunks and characters of files, in separate processes: a hostile file breaks nothing.

The text of a file is split as an ingest would. Of a long file, some pages stand for all. Nothing is read by OCR: how
much text a picture has is guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.chunk.chunks import title_of
from holdfast.pipelines.rag.chunk.splitters import Splitting
from holdfast.pipelines.rag.values import Page, prepend_title

PAGE_CHARACTERS = 2200
"""About how many characters a page has, if it is not read."""
TOKEN = 4
"""About how many characters a token has."""
IMAGE_TYPES = ("png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2", "heic")
IMAGE_CHARACTERS = 600
"""About how many characters an image of text has."""
SAMPLED_PAGES = 40
"""How many pages are read of a file whose pages are read one by one."""
SERVICE_TYPES = ("pdf", "png", "jpeg", "tiff")
"""Types whose pages a reading service reads, if the collection has one."""
FILE_TIMEOUT = 60.0
"""Seconds that one file may take."""


class FileEstimate(Struct, frozen=True):
    """The pages, chunks and characters of a file. Each attachment of a message counts as one page.

    Attributes:
        pages: How many pages it has.
        chunks: About how many chunks these become.
        characters: About how many characters these have, with what they repeat of one another.
        pictures: How many of the pages are images, which need OCR.
        service_pages: How many of the pages a reading service reads, if the collection has one.
    """

    pages: int
    chunks: int
    characters: int
    pictures: int = 0
    service_pages: int = 0


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
    chunks = _chunks(PAGE_CHARACTERS, splitting)
    shared = (chunks - 1) * splitting.overlap * (TOKEN if splitting.how == "tokens" else 1)
    return FileEstimate(pages, pages * chunks, pages * (PAGE_CHARACTERS + shared))


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
        return FileEstimate(pages, pages, pages * IMAGE_CHARACTERS, pages, pages if kind in SERVICE_TYPES else 0)
    if kind == "pdf":
        return _estimate_pdf(path, splitting)
    if kind not in WHOLE_TEXT_TYPES:
        sample = _measure(islice(pages_of(path, kind=kind), SAMPLED_PAGES), splitting, kind)
        pages = page_count(path, kind) if sample.pages == SAMPLED_PAGES else sample.pages
        return _scaled(sample, max(pages, sample.pages))
    text = _measure(pages_of(path, kind=kind), splitting, kind)
    attachments = guess_from_pages(sum(1 for _ in attachments_of(path, kind=kind)), splitting)
    return FileEstimate(
        text.pages + attachments.pages, text.chunks + attachments.chunks, text.characters + attachments.characters
    )


def _estimate_pdf(path: Path, splitting: Splitting) -> FileEstimate:
    from holdfast.pipelines.rag.extract.limits import LIMITS
    from holdfast.pipelines.rag.extract.parsers.pdf import sample_pages

    pages, sample = sample_pages(path, most=SAMPLED_PAGES, limits=LIMITS)
    measured = _measure((page for page in sample if page is not None), splitting, "pdf")
    pictures = len(sample) - measured.pages
    chunks, characters = measured.chunks + pictures, measured.characters + pictures * IMAGE_CHARACTERS
    return _scaled(FileEstimate(len(sample), chunks, characters, pictures, len(sample)), pages)


def _measure(pages: Iterable[Page], splitting: Splitting, kind: str) -> FileEstimate:
    """Split pages as an ingest would, and count."""
    count = chunks = characters = 0
    title = ""
    for page in pages:
        title = title_of(page, kind) if page.number == 1 else title
        count += 1
        for start, end in splitting.split(page.text):
            text = page.text[start:end]
            chunks += 1
            characters += len(prepend_title("" if title in text else title, text))
    return FileEstimate(count, chunks, characters)


def _scaled(sample: FileEstimate, pages: int) -> FileEstimate:
    """Return the estimate of a file of which only some pages were looked at."""
    if not sample.pages or pages == sample.pages:
        return sample
    factor = pages / sample.pages
    counts = (sample.chunks, sample.characters, sample.pictures, sample.service_pages)
    return FileEstimate(pages, *(round(count * factor) for count in counts))


def _chunks(length: int, splitting: Splitting) -> int:
    """Estimate how many chunks a page of this length is split into."""
    unit = TOKEN if splitting.how == "tokens" else 1
    step = max(splitting.size - splitting.overlap, 1) * unit
    return 0 if not length else 1 + max(length - splitting.size * unit + step - 1, 0) // step
