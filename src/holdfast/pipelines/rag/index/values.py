"""The values that indexes of document search take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.values import Chunk, DocumentInfo


class DocumentName(Struct, frozen=True):
    """The identity of a document.

    Args:
        collection: The name of its collection.
        source: The source that it came from, such as a folder.
        key: Its name within the source, such as a relative path.
    """

    collection: str
    source: str
    key: str


class IndexEntry(Struct, frozen=True, kw_only=True):
    """The version of a document that chunks are added to.

    Args:
        name: The document.
        version: The number of the version. A larger number is newer.
        about: File type and title. Given with the first chunk of a version, and None with the others.
        metadata: The metadata of the document. Used only together with `about`.
    """

    name: DocumentName
    version: int
    about: DocumentInfo | None = None
    metadata: Mapping[str, Any] = {}


class EmbeddingModel(Struct, frozen=True):
    """The model that vectors come from. Vectors of different models are not compared.

    Args:
        name: The `name` of the embedder.
        dimension: How many numbers a vector has.
    """

    name: str
    dimension: int


class Where(Struct, frozen=True, kw_only=True):
    """Which documents a search looks at. All conditions must hold; a condition that is not given always holds.

    Args:
        collection: The name of a collection. `Library.search` sets it.
        source: The source of a document, such as a folder.
        key: The exact key of a document.
        path: A pattern for keys: * for any characters, ? for one character, [abc] and [a-z] for one of several.
        kind: A file type, such as pdf.
        metadata: Values that a document must have. None also matches a document that lacks the name.
        titles: Words or phrases that the title of a document must have, all of them.
        paths: Patterns that the key of a document must match, all of them.
        kinds: File types, one of which a document must have.

    Example:
        >>> library.search("notice period", Where(kind="pdf", path="contracts/*", metadata={"year": 2024}))
    """

    collection: str | None = None
    source: str | None = None
    key: str | None = None
    path: str | None = None
    kind: str | None = None
    metadata: Mapping[str, Any] = {}
    titles: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def filters_documents(self) -> bool:
        """True if there is a condition besides the collection."""
        return any((self.source, self.key, self.path, self.kind, self.metadata, self.titles, self.paths, self.kinds))

    def params(self) -> dict[str, Any]:
        """Return the conditions that are given, by name, as parameters of a statement.

        Text that no database can store is replaced. No document has such text, so the search finds nothing.

        Returns:
            The values of the conditions.
        """
        given = {name: getattr(self, name) for name in ("collection", "source", "key", "path", "kind")}
        params: dict[str, Any] = {name: storable_text(value) for name, value in given.items() if value}
        if self.metadata:
            params["metadata"] = encode_json(storable_metadata(self.metadata))
        for name in ("titles", "paths", "kinds"):
            if values := getattr(self, name):
                params[name] = [storable_text(value) for value in values]
        return params


def storable_text(text: str) -> str:
    """Replace characters that no database can store (NUL, unpaired surrogates), each by one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def storable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Replace characters that no database can store in names and texts of metadata."""
    return {
        storable_text(name): storable_text(value) if isinstance(value, str) else value
        for name, value in metadata.items()
    }


class Hit(Struct, frozen=True):
    """A chunk that a search found.

    Args:
        chunk: The id of the chunk.
        document: The id of its document.
        score: How well it fits. Higher is better. Only scores of the same list can be compared.
    """

    chunk: int
    document: int
    score: float


class StoredChunk(Struct, frozen=True):
    """A chunk as the index stores it: the document, the position in it, and the text.

    Args:
        name: The document.
        kind: The file type of the document.
        title: The title of the document.
        metadata: The metadata of the document.
        page_metadata: The metadata of the page.
        page: The page number, from 1.
        start: Where the chunk starts in the text of the page.
        end: Where the chunk ends in the text of the page.
        position: How many chunks of the document come before it.
        chunk_index: How many chunks of the same page come before it.
        text: The text of the chunk.
        language: The code of the document's language; empty if it is not known.
    """

    name: DocumentName
    kind: str
    title: str
    metadata: Mapping[str, Any]
    page_metadata: Mapping[str, Any]
    page: int
    start: int
    end: int
    position: int
    chunk_index: int
    text: str
    language: str = ""


def page_rows(document_id: int, version: int, chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    """Return the metadata of the pages that begin with one of these chunks, as parameters of a statement."""
    return [
        {
            "document_id": document_id,
            "version": version,
            "page": chunk.page,
            "metadata": encode_json(storable_metadata(chunk.page_metadata)),
        }
        for chunk in chunks
        if chunk.page_metadata
    ]


ChunkKey = tuple[int, int, int]
"""The identity of a chunk that never changes: the id of its document, the version, and the position in the version."""


class VersionVectors(Struct, frozen=True):
    """The vectors of one version of a document.

    Args:
        document: The id of the document.
        version: The number of the version.
        chunks: Of each chunk that has a vector: position, page, how many chunks of the page precede it, text, vector.
    """

    document: int
    version: int
    chunks: Sequence[tuple[int, int, int, str, bytes]]


def require_document(row: tuple[int, ...] | None, name: DocumentName) -> tuple[int, ...]:
    """Return the row of a document.

    Raises:
        Reject: There is no row, because the collection was deleted.
    """
    if row is None:
        raise Reject(f"the collection {name.collection!r} was deleted while the document was processed")
    return row


def check_dimension(model: EmbeddingModel, dimension: int) -> None:
    """Raise ValueError if the vectors of a model in the store have another dimension."""
    if dimension != model.dimension:
        raise ValueError(
            f"the vectors of {model.name} in this store have {dimension} numbers, and the new ones have "
            f"{model.dimension}: give the embedder another name"
        )
