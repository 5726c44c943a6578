"""Remarks about documents that are done: why one has no text to search, and which parts of a message were left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import UnknownDocument
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import DocumentName
from holdfast.pipelines.rag.sql_statements import has_table, load_statements
from holdfast.pipelines.rag.values import Page
from holdfast.stores.protocol import Store

SQL = load_statements(Path(__file__).parent / "queries")
PICTURES = {"png", "jpeg", "tiff", "gif", "bmp", "webp", "jp2", "heic"}
CONTAINERS = {"mbox", "zip", "tar", "gzip", "bzip2", "xz", "zstd", "7z", "rar", "pst"}
MESSAGES = {"eml", "emlx", "msg"}
REASONS: Mapping[str, str] = {
    "empty_container": "it has no entries, or only hidden files",
    "picture_without_text": "OCR found no text in the picture",
    "pages_without_text": "its pages have no text, and OCR found none",
    "message_without_text": "the message has no text of its own",
    "no_text": "the file has no text",
}
"""The codes of documents without text, with the sentence of each."""


class Remark(Struct, frozen=True, kw_only=True):
    """A remark about a document that is done.

    Attributes:
        source: The source of the document.
        key: The key of the document.
        code: Why it has no text to search: a key of REASONS. Empty if it has text.
        reason: The same for people, or which parts were left out.
        skipped: How many parts of the message were left out: signatures, sounds, small pictures.
    """

    source: str = ""
    key: str = ""
    code: str = ""
    reason: str = ""
    skipped: int = 0


def create_table(tx: Tx) -> None:
    """Create the table of remarks if it is missing."""
    SQL.run(tx, "create_remark_table")


def remark_about(pages: Iterable[Page], *, chunks: int) -> Remark | None:
    """Return the remark about a document; None if there is nothing to say.

    Args:
        pages: Its pages.
        chunks: How many chunks they have become.
    """
    kind, has_entries, skipped, labels = "", False, list[str](), dict[str, None]()
    for page in pages:
        kind = kind or page.kind
        has_entries = has_entries or bool(page.entries or page.attachments)
        skipped += page.skipped
        if page.label and not page.text.strip():
            labels[page.label] = None
        if chunks:
            break  # only the first page says what was left out
    left_out = f"left out: {'; '.join(skipped)}" if skipped else ""
    if chunks or (kind in CONTAINERS and has_entries):
        return Remark(reason=left_out, skipped=len(skipped)) if skipped else None
    code = _code(kind)
    details = "; ".join([*list(labels)[:3], left_out]).strip("; ") if kind not in MESSAGES else left_out
    reason = f"{REASONS[code]} ({details})" if details else REASONS[code]
    return Remark(code=code, reason=reason[:2000], skipped=len(skipped))


def _code(kind: str) -> str:
    if kind in CONTAINERS:
        return "empty_container"
    if kind in PICTURES:
        return "picture_without_text"
    return "message_without_text" if kind in MESSAGES else "pages_without_text" if kind == "pdf" else "no_text"


def save_remark(tx: Tx, name: DocumentName, remark: Remark | None) -> None:
    """Save the remark about a document, or delete the one about an earlier version."""
    row = {"collection": name.collection, "source": name.source, "key": name.key}
    if remark is None:
        SQL.run(tx, "delete_remark", **row)
    else:
        SQL.run(tx, "save_remark", **row, code=remark.code, reason=remark.reason, skipped=remark.skipped)


def rename_remark(tx: Tx, name: DocumentName, *, to: str) -> None:
    """Change the key of the document that a remark is about. A remark about the new key is deleted."""
    row = {"collection": name.collection, "source": name.source}
    SQL.run(tx, "delete_remark", **row, key=to)
    SQL.run(tx, "rename_remark", **row, key=name.key, new=to)


def delete_remarks(tx: Tx, collection: str) -> None:
    """Delete the remarks about all documents of a collection."""
    SQL.run(tx, "delete_remarks", collection=collection)


def describe_empty(count: int, collection: str) -> str:
    """Return a sentence about the documents without text, with the command that lists them."""
    subject = "1 document is done and has" if count == 1 else f"{count:,} documents are done and have"
    return f"{subject} no text; list: holdfast collection show {collection} --empty"


def read_remarks(store: Store, collection: str) -> list[Remark]:
    """Return the remarks about the documents of a collection that are done now."""
    with store.reading() as tx:
        rows = SQL.run(tx, "remarks", collection=collection).fetchall() if has_table(tx, "rag_remark") else []
    return [
        Remark(source=source, key=key, code=code, reason=reason, skipped=skipped)
        for source, key, code, reason, skipped in rows
        if _is_done(store, collection, source, key)
    ]


def _is_done(store: Store, collection: str, source: str, key: str) -> bool:
    try:
        return store.document(collection, source, key).state == "done"
    except UnknownDocument:
        return False
