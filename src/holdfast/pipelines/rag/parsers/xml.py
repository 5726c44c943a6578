"""XML as a stream of events, without anything that XML can do to harm: no DTD, no entities, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal
from xml.parsers import expat

from msgspec import Struct

from holdfast.core.errors import Reject

COMPATIBILITY = "http://schemas.openxmlformats.org/markup-compatibility/2006"
DEPTH = 1_000


class Event(Struct, frozen=True):
    """One thing that happens in an XML file. Names have no namespace, but `r:id` is told from `id`."""

    kind: Literal["start", "end", "text"]
    name: str
    attributes: dict[str, str] | None = None

    def get(self, name: str) -> str:
        """Gives an attribute, or an empty text."""
        return self.attributes.get(name, "") if self.attributes else ""


def events(pieces: Iterable[bytes], part: str) -> Iterator[Event]:
    """Gives what an XML file says, in order. What is there for old readers only (`mc:Fallback`) is left out."""
    reader = _Reader(part)
    try:
        for piece in pieces:
            reader.parser.Parse(piece, False)  # noqa: FBT003
            yield from reader.take()
        reader.parser.Parse(b"", True)  # noqa: FBT003
        yield from reader.take()
    except expat.ExpatError as error:
        raise Reject(f"broken: {part} is no well-formed XML ({error})") from error


class _Reader:
    def __init__(self, part: str) -> None:
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self._part = part
        self._events: list[Event] = []
        self._depth = 0
        self._hidden_at = 0

    def take(self) -> list[Event]:
        """Hands over the events so far."""
        taken, self._events = self._events, []
        return taken

    def _refuse(self, *_: object) -> None:
        raise Reject(
            f"{self._part} declares a document type or entities, which no Office file needs; it may be an XML bomb"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEPTH:
            raise Reject(f"{self._part} nests more than {DEPTH:,} elements; it may be an XML bomb")
        if self._hidden_at:
            return
        namespace, _, local = name.rpartition(" ")
        if local == "Fallback" and namespace == COMPATIBILITY:
            self._hidden_at = self._depth
            return
        self._events.append(Event("start", local, _plain(attributes) if attributes else None))

    def _end(self, name: str) -> None:
        hidden = self._hidden_at
        if hidden == self._depth:
            self._hidden_at = 0
        self._depth -= 1
        if not hidden:
            self._events.append(Event("end", name.rpartition(" ")[2]))

    def _text(self, text: str) -> None:
        if not self._hidden_at:
            self._events.append(Event("text", text))


def _plain(attributes: dict[str, str]) -> dict[str, str]:
    plain = {}
    for name, value in attributes.items():
        namespace, _, local = name.rpartition(" ")
        plain[f"r:{local}" if namespace.endswith("/relationships") else local] = value
    return plain
