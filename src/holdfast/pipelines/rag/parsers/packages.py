"""Office files are ZIP archives of XML. This opens them so that no archive can unpack more than it may."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits, in_mib
from holdfast.pipelines.rag.parsers.xml import Event, events
from holdfast.pipelines.rag.zips import BROKEN, PLAIN, open_zip

PIECE = 64 * 1024
SMALL = 16 << 20
"""Up to here a member may be as dense as it likes."""


class Relation(Struct, frozen=True):
    """What one part of a package says about another."""

    type: str
    target: str


class Package:
    """The parts of an Office file. What is unpacked is counted while it is read: declared sizes can lie."""

    def __init__(self, archive: ZipFile, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits
        self._unpacked = 0
        self._names = {name.lower(): name for name in archive.namelist()}

    def has(self, part: str) -> bool:
        """Answers whether there is a part of that name."""
        return part.lower() in self._names

    def events(self, part: str) -> Iterator[Event]:
        """Gives what the XML of a part says, while it is unpacked. A part that is missing says nothing."""
        if not self.has(part):
            return
        yield from events(self._pieces(part), part)

    def relations(self, part: str) -> dict[str, Relation]:
        """Gives the other parts that a part names, by the ids it calls them."""
        folder, name = posixpath.split(part)
        found = {}
        for event in self.events(posixpath.join(folder, "_rels", f"{name}.rels")):
            if event.kind == "start" and event.name == "Relationship" and event.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, event.get("Target")))
                type_ = event.get("Type").rpartition("/")[2]
                found[event.get("Id")] = Relation(type_, target.lstrip("/"))
        return found

    def main_part(self, usual: str) -> str:
        """Gives the name of the part that the others hang on."""
        if self.has(usual):
            return usual
        for relation in self.relations("").values():
            if relation.type == "officeDocument" and self.has(relation.target):
                return relation.target
        raise Reject(f"broken: the Office file has no {usual}")

    def _pieces(self, part: str) -> Iterator[bytes]:
        info = self._archive.getinfo(self._names[part.lower()])
        given = 0
        if info.compress_type not in PLAIN:
            raise Reject(f"broken: {part} in the Office file is packed in a way that Office does not know")
        try:
            with self._archive.open(info) as file:
                while piece := file.read(PIECE):
                    given += len(piece)
                    self._count(len(piece), given, info)
                    yield piece
        except BROKEN as error:
            raise Reject(f"broken: {part} in the Office file cannot be unpacked ({error})") from error

    def _count(self, size: int, given: int, info: ZipInfo) -> None:
        self._unpacked += size
        if self._unpacked > self._limits.zip_bytes:
            raise Reject(f"the Office file unpacks to more than {in_mib(self._limits.zip_bytes)}; it may be a ZIP bomb")
        if given > SMALL and given > max(info.compress_size, 1) * self._limits.zip_ratio:
            raise Reject(
                f"{info.filename} in the Office file unpacks to more than {self._limits.zip_ratio} times its size; "
                "it may be a ZIP bomb"
            )


@contextmanager
def open_package(path: Path, limits: Limits) -> Iterator[Package]:
    """Opens an Office file, or rejects it: broken, encrypted, or with far too many members."""
    with open_zip(path, limits) as archive:
        yield Package(archive, limits)
