"""How much there is to read in files: pages, chunks and characters, measured in processes of their own.

A hostile file breaks nothing here either. What is quick to read is read and cut, as an ingest would; of the rest pages
are counted.
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
from holdfast.pipelines.rag.splitters import Splitting

CHARACTERS = 2200
"""About how many characters a page has that is not read yet."""
TOKEN = 4
"""About how many characters a token has."""
PICTURES = ("png", "jpeg", "tiff")
ON_A_PICTURE = 600
"""About how many characters stand on a picture of text."""
TOO_FAR = 60.0
"""Seconds that measuring one file may take."""


class Measure(Struct, frozen=True):
    """What a file has. What a message carries counts as a page each; `pictures` are the pages that have to be read off
    pictures."""

    pages: int
    chunks: int
    characters: int
    pictures: int = 0


def measured(files: Sequence[tuple[str, str]], splitting: Splitting) -> Iterator[tuple[str, Measure | str]]:
    """Gives, for each key and location, the measure of the file, or why it would be rejected."""
    left = deque(files)
    while left:
        with _pool(2) as pool:
            results = [pool.submit(measure, location, splitting) for _, location in left]
            for result in results:
                try:
                    found = result.result(TOO_FAR)
                except (BrokenProcessPool, TimeoutError):
                    break
                yield left.popleft()[0], found
        if left:
            key, location = left.popleft()
            yield key, _alone(location, splitting)  # it may have been another that broke


def _alone(location: str, splitting: Splitting) -> Measure | str:
    with _pool(1) as pool:
        try:
            return pool.submit(measure, location, splitting).result(TOO_FAR)
        except (BrokenProcessPool, TimeoutError):
            return "its pages could not be counted; it may be broken or hostile"


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Gives processes, which are ended afterwards, also those that hang."""
    pool = ProcessPoolExecutor(max_workers=processes, mp_context=get_context("forkserver"))
    try:
        yield pool
    finally:
        for process in [*(pool._processes or {}).values()]:  # there is no other way to them before Python 3.14
            process.kill()
        pool.shutdown(cancel_futures=True)


def guess(pages: int, splitting: Splitting) -> Measure:
    """Gives what so many pages have, as far as one can guess."""
    return Measure(pages, pages * _chunks(CHARACTERS, splitting), pages * CHARACTERS)


def measure(location: str, splitting: Splitting) -> Measure | str:
    """Measures one file, or says why it would be rejected."""
    from holdfast.pipelines.rag.kinds import kind_of
    from holdfast.pipelines.rag.parsers import AT_ONCE, attachments_of, page_count, pages_of

    path = Path(location)
    try:
        kind = kind_of(path)
        if kind in PICTURES:
            pages = page_count(path, kind)
            return Measure(pages, pages, pages * ON_A_PICTURE, pages)
        if kind not in AT_ONCE:
            return guess(page_count(path, kind), splitting)
        lengths = [len(page.text) for page in pages_of(path, kind=kind)]
        carried = guess(sum(1 for _ in attachments_of(path, kind=kind)), splitting)
    except Reject as error:
        return str(error)
    return Measure(
        len(lengths) + carried.pages,
        sum(_chunks(length, splitting) for length in lengths) + carried.chunks,
        sum(lengths) + carried.characters,
    )


def _chunks(length: int, splitting: Splitting) -> int:
    """Answers about how many chunks a page of so many characters is cut into."""
    unit = TOKEN if splitting.how == "tokens" else 1
    step = max(splitting.size - splitting.overlap, 1) * unit
    return 0 if not length else 1 + max(length - splitting.size * unit + step - 1, 0) // step
