"""Readers: yield the pages of a document from its file, its URL, or the e-mail that it is attached to."""

from __future__ import annotations

import os
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
from holdfast.pipelines.rag.extract.limits import DEFAULT_OCR_LANGUAGES, LIMITS
from holdfast.pipelines.rag.values import Attachment, EntryDocument, Page

if TYPE_CHECKING:
    from holdfast.pipelines.rag.extract.azure_reader import AzureReader

RESUME_AT = "resume_at"
"""The name under which the payload has `resume_at` of the last stored page."""
MAX_FILE_NAME = 200
"""Bytes of the name of a temporary file. File systems allow 255."""


class Reader(Protocol):
    """Read the pages of documents. Pass one to `rag.Library(store, reader=...)` to use a reader of your own.

    It runs in a child process, and several documents are read at the same time.

    Example:
        >>> def read_log(payload, *, start):
        ...     with local_path(payload) as path:
        ...         days = path.read_text().split("--- new day ---")
        ...     for number, text in enumerate(days[start:], start + 1):
        ...         yield Page(number, text, kind="text" if number == 1 else "", last=number == len(days))
    """

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        """Yield the pages of a document after the first `start`. Each page is checkpointed.

        Args:
            payload: Where the document is; `local_path` opens it. `name` is its file name. `root` is the folder or file
                that was ingested; it is missing if links may lead out of it.
            start: The number of pages that are stored already. The same document must have the same pages each time.

        Yields:
            The pages, numbered from 1. The first one has the file type in `kind`. The last one has `last=True`, if that
            is known.

        Raises:
            Reject: The document cannot be read. It is not tried again.
            RetryLater: The document should wait. This costs it no attempt.
        """


def preload_parsers(*, pdfs: bool) -> None:
    """Import the modules that most files need, so that forked children inherit them."""
    from holdfast import sources
    from holdfast.pipelines.rag.extract import file_type, parsers
    from holdfast.pipelines.rag.extract.parsers import html, pdf, text

    assert all((file_type, parsers, sources, html, pdf, text))
    if pdfs:
        import_module("pypdfium2")  # takes as long as reading a few PDFs, so only on request


class LocalReader(Struct, frozen=True):
    """Read with the parsers of this package.

    Args:
        allow_private: Also fetch documents from addresses in private networks.
        ocr_languages: The languages in which pictures are read, by Tesseract's names.
    """

    allow_private: bool = False
    ocr_languages: tuple[str, ...] = DEFAULT_OCR_LANGUAGES

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        from holdfast.pipelines.rag.extract.container_pages import container_kind, container_pages
        from holdfast.pipelines.rag.extract.file_type import detect_file_type
        from holdfast.pipelines.rag.extract.parsers import attachments_of, pages_of
        from holdfast.pipelines.rag.extract.properties import file_properties

        with local_path(payload, allow_private=self.allow_private) as path:
            kind = detect_file_type(path)
            if (container := container_kind(kind)) is not None:
                depth, name = len(payload.get("inside", ())), payload["name"]
                after = payload.get(RESUME_AT)
                yield from container_pages(path, container, start=start, resume_at=after, depth=depth, name=name)
                return
            limits = replace(LIMITS, ocr_languages=self.ocr_languages)
            for page in pages_of(path, start=start, kind=kind, limits=limits):
                if page.number > 1:
                    yield page
                else:
                    entries, skipped = _parts(attachments_of(path, kind=kind))
                    properties = file_properties(path, kind)
                    yield replace(page, kind=kind, entries=entries, skipped=skipped, properties=properties)


def _parts(attachments: Iterator[Attachment]) -> tuple[tuple[EntryDocument, ...], tuple[str, ...]]:
    """Return the attachments that become documents, with their positions, and the names of those that do not."""
    from holdfast.pipelines.rag.extract.message_parts import reason_to_skip

    entries, skipped = [], []
    for position, attachment in enumerate(attachments):
        if reason := reason_to_skip(attachment):
            skipped.append(f"{attachment.name} ({reason})")
        else:
            entries.append(EntryDocument(attachment.name, position))
    return tuple(entries), tuple(skipped)


class ServiceReader(Struct, frozen=True):
    """Read PDFs and pictures with Azure Document Intelligence, and all other types with the local parsers.

    Args:
        azure: The client of the service.
        allow_private: Also fetch documents from addresses in private networks.
    """

    azure: AzureReader
    allow_private: bool = False

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        from holdfast.pipelines.rag.extract.file_type import detect_file_type
        from holdfast.pipelines.rag.extract.properties import file_properties

        with local_path(payload, allow_private=self.allow_private) as path:
            kind = detect_file_type(path)
            if kind not in ("pdf", "png", "jpeg", "tiff"):
                yield from LocalReader(self.allow_private)(payload, start=start)
                return
            for page in self.azure.pages_of(path, start=start):
                first = page.number == 1
                yield replace(page, kind=kind, properties=file_properties(path, kind)) if first else page


@contextmanager
def local_path(payload: Mapping[str, Any], *, allow_private: bool = False) -> Iterator[Path]:
    """Open a document as a local file: its file, a download, or an attachment extracted from its e-mail.

    Args:
        payload: Where the document is, as a `Reader` gets it. If it has a `root`, the file must be in that folder.
        allow_private: Also fetch documents from addresses in private networks.

    Yields:
        The path. It may be temporary: do not use it after the block.

    Raises:
        Reject: The document does not exist any more, may not be fetched, or is outside of its folder because of a link.
    """
    from holdfast.sources import SourceFile, local_copy

    file = SourceFile(payload["name"], payload["location"], -1, 0)
    inside: Sequence[Any] = payload.get("inside", ())
    with local_copy(file, root=payload.get("root"), allow_private=allow_private) as path:
        if not inside:
            yield path
            return
        with TemporaryDirectory(prefix="holdfast-") as folder:
            document = path
            for depth, place in enumerate(inside):
                document = _extract(document, place, Path(folder) / f"{depth}", name=_name_inside(payload, depth))
            yield document


def _name_inside(payload: Mapping[str, Any], depth: int) -> str:
    """Return the name of an entry. Only the innermost one is known; it decides how its text is read."""
    return str(payload["name"]) if depth == len(payload["inside"]) - 1 else "entry"


def _extract(document: Path, place: Any, folder: Path, *, name: str) -> Path:
    """Extract an entry of a container or an attachment of a message to a file in a new folder."""
    from holdfast.containers import open_container
    from holdfast.pipelines.rag.extract.container_pages import container_kind
    from holdfast.pipelines.rag.extract.file_type import CONTAINER_LIMITS, detect_file_type

    kind = detect_file_type(document)
    if (container := container_kind(kind)) is None:
        return _extract_attachment(document, place, folder)
    folder.mkdir()
    extracted = folder / _file_name(name)
    with open_container(document, container, CONTAINER_LIMITS) as opened, extracted.open("wb") as file:
        opened.extract(place, file)
    return extracted


def _extract_attachment(message: Path, place: int, folder: Path) -> Path:
    from holdfast.pipelines.rag.extract.parsers import attachments_of

    attached = next(islice(attachments_of(message), place, None), None)
    if attached is None:
        raise Reject("the e-mail does not have this attachment any more")
    folder.mkdir()
    extracted = folder / _file_name(attached.name)
    extracted.write_bytes(attached.content)
    return extracted


def _file_name(name: str) -> str:
    """Return a name for the file of an attachment: with the same suffix, in one folder, and not too long."""
    name = Path(name).name or "attachment"
    return name if len(os.fsencode(name)) <= MAX_FILE_NAME else f"attachment{Path(name).suffix[:20]}"
