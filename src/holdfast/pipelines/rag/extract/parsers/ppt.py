"""PPT: one page for each slide of an old PowerPoint file, with its title as label, its text boxes and its notes.

The file is a stream of records, some of which contain others. A list says in which order the slides come, and has the
texts of their placeholders. The other texts are in the record of the slide itself, which a directory finds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages
from holdfast.pipelines.rag.extract.parsers.cleaning import joined
from holdfast.pipelines.rag.extract.parsers.ole_streams import open_ole
from holdfast.pipelines.rag.values import Page

STREAM = "PowerPoint Document"
LIST, PERSIST, DIRECTORY = 4080, 1011, 6002
"""Records: a list of slides; an entry of it; where the records of slides are."""
CHARS, BYTES, HEADER, SLIDE_HEAD, DOCUMENT = 4000, 4008, 3999, 1007, 1000
"""Records: text with two bytes and with one byte for each character; the kind of the text; the head of a slide."""
TITLES = {0, 6}
"""Kinds of text that are titles."""
SLIDES, NOTES = 0, 2
"""Instances of lists: of slides, of their notes."""
RECORD_HEAD = struct.Struct("<HHI")
CONTAINER = 0xF
MAX_DEPTH = 32
LINES = str.maketrans({"\r": "\n", "\x0b": "\n"})


class _PptRecord(Struct, frozen=True):
    kind: int
    instance: int
    is_container: bool
    begin: int
    end: int


class _OldSlide(Struct):
    place: int
    id: int
    texts: list[tuple[int, str]]


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the slides after the first `start`, in presentation order."""
    presentation = _Presentation(path, limits)
    slides = presentation.slides
    for number, slide in enumerate(slides[start:], start + 1):
        title, text = presentation.read(slide)
        yield Page(number, text, label=title, last=number == len(slides))


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of slides."""
    return max(1, len(_Presentation(path, limits).slides))


class _Presentation:
    def __init__(self, path: Path, limits: ExtractLimits) -> None:
        with open_ole(path, limits) as ole:
            self._data = ole.read(STREAM)
        self._directory: dict[int, int] = {}
        self.slides: list[_OldSlide] = []
        self._notes: dict[int, _OldSlide] = {}
        try:
            for record in self._records(0, len(self._data)):
                if record.kind == DIRECTORY:
                    self._add_places(record)
            for record in self._records(0, len(self._data)):
                if record.kind == DOCUMENT:  # a later one replaces an earlier one: the file was saved again
                    self._add_lists(record)
        except struct.error as error:
            raise Reject(f"broken: the PowerPoint file cannot be read ({error})") from error
        check_pages(len(self.slides), limits)

    def read(self, slide: _OldSlide) -> tuple[str, str]:
        """Return the title and the text of a slide."""
        texts = slide.texts + self._texts_at(slide)
        notes_id = self._notes_id(slide)
        if notes_id in self._notes:
            notes = self._notes[notes_id]
            texts = [*texts, *((-1, text) for _, text in notes.texts + self._texts_at(notes))]
        title = next((text for kind, text in texts if kind in TITLES and text.strip()), "")
        once = dict.fromkeys(text.strip() for _, text in texts if text.strip() not in ("", "*"))
        return " ".join(title.split()), joined("\n".join(once).split("\n"))

    def _records(self, begin: int, end: int) -> Iterator[_PptRecord]:
        while begin + RECORD_HEAD.size <= end:
            version, kind, length = RECORD_HEAD.unpack_from(self._data, begin)
            begin += RECORD_HEAD.size
            yield _PptRecord(kind, version >> 4, version & 0xF == CONTAINER, begin, min(begin + length, end))
            begin += length

    def _add_places(self, record: _PptRecord) -> None:
        at = record.begin
        while at + 4 <= record.end:
            (head,) = struct.unpack_from("<I", self._data, at)
            first, number = head & 0xFFFFF, head >> 20
            at += 4
            for index in range(min(number, (record.end - at) // 4)):
                (place,) = struct.unpack_from("<I", self._data, at + 4 * index)
                self._directory[first + index] = place
            at += 4 * number

    def _add_lists(self, document: _PptRecord) -> None:
        for record in self._records(document.begin, document.end):
            if record.kind == LIST and record.instance in (SLIDES, NOTES):
                found: list[_OldSlide] = []
                kind = -1
                for part in self._records(record.begin, record.end):
                    if part.kind == PERSIST:
                        place, _, _, id_ = struct.unpack_from("<IIII", self._data, part.begin)
                        found.append(_OldSlide(place, id_, []))
                    elif part.kind == HEADER:
                        (kind,) = struct.unpack_from("<I", self._data, part.begin)
                    elif found and (text := self._text(part)) is not None:
                        found[-1].texts.append((kind, text))
                if record.instance == SLIDES:
                    self.slides = found
                else:
                    self._notes = {slide.id: slide for slide in found}

    def _record_at(self, slide: _OldSlide) -> _PptRecord | None:
        place = self._directory.get(slide.place, -1)
        return next(self._records(place, len(self._data)), None) if 0 <= place < len(self._data) else None

    def _notes_id(self, slide: _OldSlide) -> int:
        record = self._record_at(slide)
        for part in self._records(record.begin, record.end) if record else ():
            if part.kind == SLIDE_HEAD and part.end - part.begin >= 20:
                return int(struct.unpack_from("<I", self._data, part.begin + 16)[0])
        return -1

    def _texts_at(self, slide: _OldSlide) -> list[tuple[int, str]]:
        record = self._record_at(slide)
        return list(self._texts_in(record, 0)) if record else []

    def _texts_in(self, record: _PptRecord, depth: int) -> Iterator[tuple[int, str]]:
        kind = -1
        for part in self._records(record.begin, record.end):
            if part.kind == HEADER and part.end - part.begin >= 4:
                (kind,) = struct.unpack_from("<I", self._data, part.begin)
            elif (text := self._text(part)) is not None:
                yield kind, text
            elif part.is_container and depth < MAX_DEPTH:
                yield from self._texts_in(part, depth + 1)

    def _text(self, record: _PptRecord) -> str | None:
        content = self._data[record.begin : record.end]
        if record.kind == CHARS:
            return content.decode("utf-16-le", errors="replace").translate(LINES)
        return content.decode("cp1252", errors="replace").translate(LINES) if record.kind == BYTES else None
