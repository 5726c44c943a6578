"""Streams of OLE files: old Word and PowerPoint files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import OLE_BROKEN
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_whole


class OleStreams:
    """The streams of an open OLE file."""

    def __init__(self, ole: Any, limit: int) -> None:  # olefile has no type annotations
        self._ole = ole
        self._limit = limit

    def has(self, name: str) -> bool:
        """Return True if there is a stream of that name."""
        try:
            return bool(self._ole.exists(name))
        except OLE_BROKEN:
            return False

    def read(self, name: str) -> bytes:
        """Return the content of a stream. Reject the file if it has none of that name, or a broken one."""
        try:
            if self._ole.get_size(name) > self._limit:
                raise Reject(f"broken: the stream {name} claims to be larger than its file")
            with self._ole.openstream(name) as stream:
                return bytes(stream.read())
        except OLE_BROKEN as error:
            raise Reject(f"broken: the file has no readable stream {name} ({error})") from error


@contextmanager
def open_ole(path: Path, limits: ExtractLimits) -> Iterator[OleStreams]:
    """Open an OLE file. Reject it if it is broken or too large."""
    from olefile import OleFileIO

    check_whole(path, limits)
    try:
        ole = OleFileIO(str(path))
    except OLE_BROKEN as error:
        raise Reject(f"broken: the old Office file cannot be opened ({error})") from error
    with ole:
        yield OleStreams(ole, path.stat().st_size)
