"""Packed files: gzip, bzip2, xz and zstd. What is inside is one file, or a TAR archive whose files are the entries."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.containers.detect import BLOCK, ContainerKind, detect_container, is_tar
from holdfast.containers.entry import COPY_STEP, Container, ContainerLimits, Entry, UnpackedBytes
from holdfast.containers.names import safe_name
from holdfast.containers.spool import Spool, spooled
from holdfast.containers.tar_archive import TarArchive
from holdfast.core.distribution import install_command
from holdfast.core.errors import Reject

BROKEN = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error)
"""What the libraries raise for damaged files."""
SUFFIX = re.compile(r"\.(gz|gzip|bz2|bzip2|xz|lzma|zst|zstd|z)$", re.IGNORECASE)
PACKED_TAR = re.compile(r"\.(tgz|tbz2?|txz|tzst|taz)$", re.IGNORECASE)


@contextmanager
def open_file(path: Path, limits: ContainerLimits, name: str) -> Iterator[Container]:
    """Open a packed file: as an archive if it is a packed TAR archive, else as a container with one entry."""
    spool = spooled(path, partial(_unpack, path, limits))
    head = spool.file.read(BLOCK)
    spool.file.seek(0)
    yield TarArchive(spool.file, limits, spool.problem) if is_tar(head) else PackedFile(spool, _name_inside(name))


class PackedFile:
    """The one file inside."""

    def __init__(self, spool: Spool, name: str) -> None:
        self._file = spool.file
        self._problem = spool.problem
        self._name = name

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the file."""
        if resume_at is not None:
            return
        if self._problem:
            raise Reject(self._problem)
        digest, size = blake2b(digest_size=16), 0
        self._file.seek(0)
        while piece := self._file.read(COPY_STEP):
            digest.update(piece)
            size += len(piece)
        yield Entry(self._name, 0, size, digest.hexdigest(), 1)

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write the file."""
        if position != 0:
            raise Reject("the packed file has only one entry")
        self._file.seek(0)
        while piece := self._file.read(COPY_STEP):
            target.write(piece)


def _name_inside(name: str) -> str:
    last = safe_name(name).rpartition("/")[2]
    return PACKED_TAR.sub(".tar", SUFFIX.sub("", last)) or "content"


def _unpack(path: Path, limits: ContainerLimits, target: BinaryIO) -> Spool:
    counter = UnpackedBytes("the file", packed=path.stat().st_size, limit=limits.bytes, ratio=limits.ratio)
    with path.open("rb") as file:
        kind = detect_container(file.read(BLOCK))
        file.seek(0)
        try:
            for piece in _pieces(file, kind):
                counter.add(len(piece))
                target.write(piece)
        except BROKEN as error:
            target.flush()
            return Spool(target, problem=f"broken: the packed file cannot be unpacked to its end ({error})")
    target.flush()
    return Spool(target)


def _pieces(file: BinaryIO, kind: ContainerKind | None) -> Iterator[bytes]:
    if kind == "zstd":
        yield from _zstd_pieces(file)
        return
    opener: Any = {"gzip": gzip.open, "bzip2": bz2.open}.get(kind or "", lzma.LZMAFile)
    with opener(file) as opened:
        while piece := opened.read1(COPY_STEP):  # `read` would lose what is before the damage
            yield piece


def _zstd_pieces(file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise Reject(f"zstd files need the package zstandard: {install_command('rag')}") from error
    with suppress(StopIteration):
        try:
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)
            while piece := reader.read1(COPY_STEP):
                yield piece
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
