"""Readers: what gives the pages of a document, wherever it lies and whatever it is inside of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.model import Page

if TYPE_CHECKING:
    from holdfast.pipelines.rag.azure import AzureReader


class Reader(Protocol):
    """Gives the pages of a document after the first `start`."""

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        """Reads, or rejects the document with a reason."""


def warm(*, pdfs: bool) -> None:
    """Imports what most files are read with, so that children are born with it and do not each import it."""
    from holdfast.pipelines.rag import kinds, parsers, sources
    from holdfast.pipelines.rag.parsers import html, pdf, text

    assert all((kinds, parsers, sources, html, pdf, text))
    if pdfs:
        import_module("pypdfium2")  # takes as long as reading a few, so it is not for everybody


class LocalReader(Struct, frozen=True):
    """Reads with the parsers of this package."""

    allow_private: bool = False

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        from holdfast.pipelines.rag.kinds import kind_of
        from holdfast.pipelines.rag.parsers import attachments_of, pages_of

        with located(payload, allow_private=self.allow_private) as path:
            kind = kind_of(path)
            for page in pages_of(path, start=start, kind=kind):
                if page.number > 1:
                    yield page
                else:
                    attached = tuple(one.name for one in attachments_of(path, kind=kind))
                    yield replace(page, kind=kind, attachments=attached)


class ServiceReader(Struct, frozen=True):
    """Has pages read by Azure Document Intelligence; what it cannot read is read here."""

    azure: AzureReader
    allow_private: bool = False

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        from holdfast.pipelines.rag.kinds import kind_of

        with located(payload, allow_private=self.allow_private) as path:
            kind = kind_of(path)
            if kind not in ("pdf", "png", "jpeg", "tiff"):
                yield from LocalReader(self.allow_private)(payload, start=start)
                return
            for page in self.azure.pages_of(path, start=start):
                yield replace(page, kind=kind) if page.number == 1 else page


@contextmanager
def located(payload: Mapping[str, Any], *, allow_private: bool = False) -> Iterator[Path]:
    """Gives the path of a document: of its file, or of what was taken out of the message that carries it."""
    from holdfast.pipelines.rag.sources import Seen, local_copy

    seen = Seen(payload["name"], payload["location"], -1, 0)
    inside: Sequence[int] = payload.get("inside", ())
    with local_copy(seen, allow_private=allow_private) as path:
        if not inside:
            yield path
            return
        with TemporaryDirectory(prefix="holdfast-") as folder:
            document = path
            for depth, place in enumerate(inside):
                document = _taken_out(document, place, Path(folder) / f"{depth}")
            yield document


def _taken_out(message: Path, place: int, folder: Path) -> Path:
    from holdfast.pipelines.rag.parsers import attachments_of

    attached = next(islice(attachments_of(message), place, None), None)
    if attached is None:
        raise Reject("the message does not carry this attachment any more")
    folder.mkdir()
    taken = folder / (Path(attached.name).name or "attachment")
    taken.write_bytes(attached.content)
    return taken
