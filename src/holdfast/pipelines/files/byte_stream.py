"""Bytes of a file without its compression, from an offset on.

A plain file is read from the offset. A compressed one is decompressed again up to there. A hash of the bytes before the
offset proves that they are those that were loaded before.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Protocol

from holdfast.core.distribution import install_command
from holdfast.pipelines.files.values import Compression, FileChanged, FileRefused

SLICE = 1 << 20
_MAGIC: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)


class Readable(Protocol):
    """What can be read in slices."""

    def read(self, size: int, /) -> bytes:
        """Return at most this many bytes; none at the end."""


def compression_of(path: Path) -> Compression:
    """Return how a file is compressed. Its first bytes decide, not its name."""
    with path.open("rb") as file:
        start = file.read(8)
    return next((name for magic, name in _MAGIC if start.startswith(magic)), "")


class ByteStream:
    """The bytes of a file without its compression. UTF-16 is read as UTF-8."""

    def __init__(self, path: Path, file: IO[bytes], compression: Compression, encoding: str) -> None:
        self._path = path
        self._file = file
        self._bytes: Readable = _decompressed(file, compression)
        self.is_plain = not compression
        self.encoding = encoding
        self._digest = blake2b(digest_size=16)
        start = self._read(2)
        if start in _UTF16:
            self._bytes, start = _Utf8(self._bytes, "utf-16-le" if start == _UTF16[0] else "utf-16-be", path), b""
            self.is_plain, self.encoding = False, "utf-8"
        self._start = start

    def read(self, size: int) -> bytes:
        """Return at most this many bytes; none at the end.

        Raises:
            FileRefused: The compressed data is damaged or cut.
        """
        if self._start:
            start, self._start = self._start, b""
            return start
        return self._read(size)

    def skip(self, offset: int, check: str) -> None:
        """Go on at an offset. Raise FileChanged if the bytes before it are others than before."""
        left = self.skip_head(offset)
        if left or self.check() != check:
            raise FileChanged(
                f"{self._path} is not the file that was loaded up to byte {offset:,} before: what is before that byte "
                "differs. Load it again: it takes the new version"
            )

    def skip_head(self, offset: int) -> int:
        """Go on at an offset. Return how many bytes before it are missing."""
        if self.is_plain:
            self._start = b""
            self._file.seek(offset)
            return 0
        left = offset
        while left:
            part = self.read(min(SLICE, left))
            if not part:
                break
            if len(part) > left:  # a slice of transcoded text may be longer
                part, self._start = part[:left], part[left:]
            self._digest.update(part)
            left -= len(part)
        return left

    def consumed(self, part: bytes | memoryview) -> None:
        """Add bytes to the hash of what was loaded."""
        if not self.is_plain:
            self._digest.update(part)

    def check(self) -> str:
        """Return the hash of what was loaded; empty for a plain file."""
        return "" if self.is_plain else self._digest.hexdigest()

    def _read(self, size: int) -> bytes:
        try:
            return self._bytes.read(size)
        except _DAMAGED as error:
            raise self._damaged(error) from error
        except OSError as error:
            if error.errno is None:  # of a library for compressed data, not of the system
                raise self._damaged(error) from error
            raise

    def _damaged(self, error: BaseException) -> FileRefused:
        return FileRefused(
            f"{self._path} cannot be decompressed to its end ({error}): it is cut or damaged. Get it again, and "
            "load it again"
        )


@contextmanager
def open_stream(path: Path, *, encoding: str = "utf-8") -> Iterator[ByteStream]:
    """Open a file for reading.

    Args:
        path: The file.
        encoding: The encoding of its text, which the stream only keeps. UTF-16 is recognised and read as UTF-8.
    """
    compression = compression_of(path)
    with path.open("rb", 0 if not compression else -1) as file:
        yield ByteStream(path, file, compression, encoding)


def _decompressed(file: IO[bytes], compression: Compression) -> Readable:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    if compression == "bzip2":
        return bz2.BZ2File(file)
    if compression == "xz":
        return lzma.LZMAFile(file)
    if compression == "zstd":
        return _zstd(file)
    return file


def _zstd(file: IO[bytes]) -> Readable:
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise FileRefused(f"zstd files need pyarrow, which is not installed: {install_command('files')}") from error
    return _ZstdFrames(pa, file)


class _ZstdFrames:
    """Decompress zstd, frame by frame. Frames that are to be skipped are left out. A cut frame is an error."""

    def __init__(self, pa: Any, file: IO[bytes]) -> None:
        self._pa = pa
        self._stream = pa.CompressedInputStream(_Counted(file), "zstd")

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except self._pa.ArrowException as error:
            raise EOFError(str(error)) from error


class _Counted:
    """A file for pyarrow, which asks for `closed`."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the file open: its owner closes it."""


class _Utf8:
    """Read UTF-16 as UTF-8."""

    def __init__(self, source: Readable, encoding: str, path: Path) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._path = path

    def read(self, size: int, /) -> bytes:
        while True:
            part = self._source.read(size)
            try:
                text = self._decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                raise FileRefused(
                    f"{self._path} begins as UTF-16 and has bytes that are not ({error.reason}): it is cut or "
                    "damaged. Get it again, and load it again"
                ) from error
            if text or not part:
                return text.encode("utf-8", "surrogatepass")
