"""Office files: ZIP archives of XML parts, read as a stream of XML events.

What is unpacked is counted, so that no archive unpacks more than its limit. XML has no DTD, no entities and no external
references here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from xml.parsers import expat
from zipfile import ZipFile, ZipInfo

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, in_mib
from holdfast.pipelines.rag.extract.safe_zip import BROKEN, USUAL_COMPRESSION, open_zip

UNPACK_STEP = 64 * 1024
"""Bytes that are unpacked at a time."""
RATIO_FREE = 16 << 20
"""Bytes of a member that may be unpacked at any ratio."""
COMPATIBILITY = "http://schemas.openxmlformats.org/markup-compatibility/2006"
MAX_DEPTH = 1_000
"""Nested elements of an XML part, at most."""


class XmlEvent(Struct, frozen=True):
    """The start or end of an element, or a text. Names have no namespace, except that `r:id` differs from `id`."""

    kind: Literal["start", "end", "text"]
    name: str
    attributes: dict[str, str] | None = None

    def get(self, name: str) -> str:
        """Return an attribute, or an empty text."""
        return self.attributes.get(name, "") if self.attributes else ""


class Relation(Struct, frozen=True):
    """A reference from one part of a package to another."""

    type: str
    target: str


class OfficePackage:
    """The parts of an Office file. Unpacked bytes are counted while they are read: declared sizes can be wrong."""

    def __init__(self, archive: ZipFile, limits: ExtractLimits) -> None:
        self._archive = archive
        self._limits = limits
        self._unpacked = 0
        self._names = {name.lower(): name for name in archive.namelist()}

    @property
    def names(self) -> list[str]:
        """The names of all parts, in lower case."""
        return list(self._names)

    def has(self, part: str) -> bool:
        """Check whether there is a part of that name."""
        return part.lower() in self._names

    def events(self, part: str) -> Iterator[XmlEvent]:
        """Yield the XML events of a part while it is unpacked; none if the part is missing."""
        if not self.has(part):
            return
        yield from xml_events(self.pieces(part), part)

    def read(self, part: str, limit: int) -> bytes:
        """Return the content of a part. Reject the file if it is larger than a limit."""
        content = bytearray()
        for piece in self.pieces(part):
            content += piece
            if len(content) > limit:
                raise Reject(f"{part} is larger than {in_mib(limit)}")
        return bytes(content)

    def check_sizes(self) -> None:
        """Reject the file if its parts unpack to more than the limits. For libraries that have no limits."""
        for part in list(self._names):
            for _ in self.pieces(part):
                pass

    def relations(self, part: str) -> dict[str, Relation]:
        """Return the other parts that a part refers to, by the ids it uses for them."""
        folder, name = posixpath.split(part)
        found = {}
        for event in self.events(posixpath.join(folder, "_rels", f"{name}.rels")):
            if event.kind == "start" and event.name == "Relationship" and event.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, event.get("Target")))
                type_ = event.get("Type").rpartition("/")[2]
                found[event.get("Id")] = Relation(type_, target.lstrip("/"))
        return found

    def main_part(self, usual: str) -> str:
        """Return the name of the main part, which refers to all others."""
        if self.has(usual):
            return usual
        for relation in self.relations("").values():
            if relation.type == "officeDocument" and self.has(relation.target):
                return relation.target
        raise Reject(f"broken: the Office file has no {usual}")

    def pieces(self, part: str) -> Iterator[bytes]:
        """Yield the content of a part while it is unpacked."""
        info = self._archive.getinfo(self._names[part.lower()])
        unpacked = 0
        if info.compress_type not in USUAL_COMPRESSION:
            raise Reject(f"broken: {part} in the Office file uses a compression that Office does not support")
        try:
            with self._archive.open(info) as file:
                while piece := file.read(UNPACK_STEP):
                    unpacked += len(piece)
                    self._count(len(piece), unpacked, info)
                    yield piece
        except BROKEN as error:
            raise Reject(f"broken: {part} in the Office file cannot be unpacked ({error})") from error

    def _count(self, size: int, unpacked: int, info: ZipInfo) -> None:
        self._unpacked += size
        if self._unpacked > self._limits.zip_bytes:
            raise Reject(f"the Office file unpacks to more than {in_mib(self._limits.zip_bytes)}; it may be a ZIP bomb")
        if unpacked > RATIO_FREE and unpacked > max(info.compress_size, 1) * self._limits.zip_ratio:
            raise Reject(
                f"{info.filename} in the Office file unpacks to more than {self._limits.zip_ratio} times its size; "
                "it may be a ZIP bomb"
            )


@contextmanager
def open_package(path: Path, limits: ExtractLimits) -> Iterator[OfficePackage]:
    """Open an Office file. Reject it if it is broken, encrypted, or has too many members."""
    with open_zip(path, limits) as archive:
        yield OfficePackage(archive, limits)


def xml_events(pieces: Iterable[bytes], part: str) -> Iterator[XmlEvent]:
    """Yield the events of an XML part, in order. Content for old readers only (`mc:Fallback`) is left out."""
    parser = _XmlParser(part)
    try:
        for piece in pieces:
            parser.expat.Parse(piece, False)  # noqa: FBT003
            yield from parser.take()
        parser.expat.Parse(b"", True)  # noqa: FBT003
        yield from parser.take()
    except expat.ExpatError as error:
        raise Reject(f"broken: {part} is not well-formed XML ({error})") from error


class _XmlParser:
    def __init__(self, part: str) -> None:
        self.expat = expat.ParserCreate(namespace_separator=" ")
        self.expat.buffer_text = True
        self.expat.StartDoctypeDeclHandler = self._refuse
        self.expat.EntityDeclHandler = self._refuse
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.CharacterDataHandler = self._text
        self._part = part
        self._events: list[XmlEvent] = []
        self._depth = 0
        self._hidden_at = 0

    def take(self) -> list[XmlEvent]:
        """Return the events since the last call."""
        taken, self._events = self._events, []
        return taken

    def _refuse(self, *_: object) -> None:
        raise Reject(
            f"{self._part} declares a document type or entities, which Office files never do; it may be an XML bomb"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Reject(f"{self._part} nests more than {MAX_DEPTH:,} elements; it may be an XML bomb")
        if self._hidden_at:
            return
        namespace, _, local = name.rpartition(" ")
        if local == "Fallback" and namespace == COMPATIBILITY:
            self._hidden_at = self._depth
            return
        self._events.append(XmlEvent("start", local, _without_namespaces(attributes) if attributes else None))

    def _end(self, name: str) -> None:
        hidden = self._hidden_at
        if hidden == self._depth:
            self._hidden_at = 0
        self._depth -= 1
        if not hidden:
            self._events.append(XmlEvent("end", name.rpartition(" ")[2]))

    def _text(self, text: str) -> None:
        if not self._hidden_at:
            self._events.append(XmlEvent("text", text))


def _without_namespaces(attributes: dict[str, str]) -> dict[str, str]:
    local_names = {}
    for name, value in attributes.items():
        namespace, _, local = name.rpartition(" ")
        local_names[f"r:{local}" if namespace.endswith("/relationships") else local] = value
    return local_names
