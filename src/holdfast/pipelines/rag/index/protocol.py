"""What an index of document search does.

A document has versions. Chunks of a new version are added while the old version stays visible to searches. The words:

- latest version: the newest version whose chunks are all in the index.
- visible version: the version that searches find. A document has at most one.
- live versions: both of these.

A method that takes a transaction is part of it: a rollback leaves nothing. The pipeline passes the transaction that
also moves the checkpoint of the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.values import (
    ChunkKey,
    DocumentName,
    EmbeddingModel,
    Hit,
    IndexEntry,
    StoredChunk,
    VersionVectors,
    Where,
)
from holdfast.pipelines.rag.index.words_rebuild import DetectLanguage
from holdfast.pipelines.rag.values import Chunk

if TYPE_CHECKING:
    import numpy as np


class Index(Protocol):
    """An index of document search. Threads may share one.

    The order of calls for a new version of a document: `add_chunks` until the last chunk, `save_vectors` for contents
    that `known_hashes` does not have, `upload`, then `make_visible`. A crash between two calls leaves the old version
    visible, and each call can be repeated.

    To write an index of another database or vector store, implement this protocol. The tests in
    tests/pipelines/rag/index/conformance run on every index; add yours to `KINDS` in conftest.py there.
    """

    def create_tables(self, tx: Tx) -> None:
        """Create the tables that are missing."""

    def add_chunks(self, tx: Tx, entry: IndexEntry, chunks: Sequence[Chunk]) -> None:
        """Add the next chunks of a version.

        With the last chunk (`Chunk.last`) the version becomes the latest. A document without a visible version becomes
        visible to keyword searches at once.

        Args:
            tx: The transaction to write in.
            entry: The version. `entry.about` is given with the first chunks only.
            chunks: The chunks, in order, with their texts.

        Raises:
            Reject: The collection was deleted.
        """

    def known_hashes(self, model: EmbeddingModel, hashes: Sequence[bytes]) -> set[bytes]:
        """Return the hashes of contents that already have a vector of the model."""

    def save_vectors(self, tx: Tx, model: EmbeddingModel, vectors: Mapping[bytes, bytes]) -> None:
        """Save vectors by the hashes of their contents.

        Args:
            tx: The transaction to write in.
            model: The model of the vectors.
            vectors: Vectors of length one, as little-endian 16-bit floats.

        Raises:
            ValueError: The model saved vectors of another dimension before.
        """

    def check_reachable(self, collection: str, *, model: EmbeddingModel) -> None:
        """Raise an error if vectors cannot be uploaded. Called before work begins.

        An index that searches vectors in its own database does nothing here.
        """

    def upload(self, name: DocumentName, *, model: EmbeddingModel) -> None:
        """Copy the vectors of the latest version to the external vector store. Searches do not see them yet.

        Called before the transaction of `make_visible`, and again after a crash. An index that searches vectors in its
        own database does nothing here.

        Raises:
            RetryLater: The vector store cannot be used now.
        """

    def make_visible(self, tx: Tx, name: DocumentName, *, model: EmbeddingModel) -> None:
        """Make the latest version visible to searches, by keyword and by vector, instead of any other version.

        Does nothing if the document has no latest version: it had no text.
        """

    def delete_document(self, tx: Tx, name: DocumentName) -> None:
        """Delete a document. Does nothing if the index does not have it."""

    def rename_document(self, tx: Tx, name: DocumentName, *, to: str) -> None:
        """Change the key of a document. A document that has the new key is deleted."""

    def has_words(self, name: DocumentName, *, chunks: int) -> bool:
        """Return True if the latest version has exactly this number of chunks, all with their words."""

    def has_vectors(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        """Return True if at least this number of chunks of the latest version have a vector."""

    def is_visible(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        """Return True if searches find the latest version by keyword and by vector.

        An external vector store must have exactly this number of its chunks.
        """

    def has_all_vectors(self, collection: str, *, model: EmbeddingModel) -> bool:
        """Return True if every visible document of a collection can be found by a vector of the model."""

    def upload_missing(self, collection: str, *, model: EmbeddingModel) -> int:
        """Copy the vectors of visible documents that the external vector store lacks.

        After a crash, call it again: it continues.

        Returns:
            The number of documents that were copied.
        """

    def maintain(self, collection: str, *, model: EmbeddingModel) -> None:
        """Delete outdated vectors from the external vector store, and optimise it. Takes a limited time."""

    def search_words(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        """Find visible chunks by keyword.

        Args:
            question: The words to look for. One of them is enough to be found, unless the question has phrases: these
                must all be in the chunk, and excluded words must not.
            where: The documents to look at.
            limit: Maximum number of chunks.

        Returns:
            The chunks that fit best, best first.
        """

    def search_runs(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        """Find visible chunks that have words of the question in the order of the question.

        Args:
            question: The question.
            where: The documents to look at.
            limit: Maximum number of chunks.

        Returns:
            Chunks in no order. Each has three words of the question that follow one another, or two if the question
            has only two. The score is the share of the words of the question that are in such runs, or in pairs.
            Phrases and excluded words do not matter here.
        """

    def chunks_allowed(self, question: Question, chunks: Sequence[int]) -> set[int]:
        """Return those chunks that have all phrases of a question, and none of its excluded words."""

    def search_vectors(self, model: EmbeddingModel, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        """Find visible chunks by vector.

        Args:
            model: The model of the vector.
            vector: A vector of length one.
            where: The documents to look at.
            limit: Maximum number of chunks.

        Returns:
            The nearest chunks, nearest first. The score is the cosine of the angle.
        """

    def vectors(self, model: EmbeddingModel, chunks: Sequence[int]) -> dict[int, bytes]:
        """Return the saved vectors of chunks, by the ids of the chunks. Chunks that do not exist are left out."""

    def chunks(self, ids: Sequence[int]) -> dict[int, StoredChunk]:
        """Return chunks by their ids. Chunks that do not exist or are not visible are left out."""

    def close(self) -> None:
        """Close connections and free memory. The next call opens them again."""


class DatabaseIndex(Index, Protocol):
    """An index in the database of the store. An index with an external vector store is built on top of one.

    The database decides what is visible. The external store only holds copies of vectors.
    """

    def require_current_words(self, tx: Tx) -> None:
        """Raise WordsOutdated if the words were made by the rules of another release."""

    def rebuild_words(self, tx: Tx, detect: DetectLanguage) -> int:
        """Make the words of the next documents again, from the stored texts, by the rules of this release.

        Args:
            tx: The transaction to write in.
            detect: Returns the code of the language of a text.

        Returns:
            The number of documents. 0: all words are made by the rules of this release.
        """

    def languages(self) -> list[str]:
        """Return the codes of the languages of documents, of all collections."""

    def document_id(self, name: DocumentName) -> int | None:
        """Return the id of a document, or None if the index does not have it."""

    def names_with_prefix(self, name: DocumentName) -> list[DocumentName]:
        """Return the documents of the same source whose keys start with the key of `name`."""

    def latest_vectors(self, name: DocumentName, *, model: EmbeddingModel) -> VersionVectors | None:
        """Return the saved vectors of the latest version, or None if there is no such version."""

    def mark_embedded(self, tx: Tx, document: int, version: int, *, model: EmbeddingModel) -> None:
        """Make a version visible to vector searches, if it is the visible version. All its chunks have vectors."""

    def version_vectors(self, document: int, version: int, *, model: EmbeddingModel) -> VersionVectors:
        """Return the saved vectors of a version."""

    def visible_chunks(self, model: EmbeddingModel, keys: Sequence[ChunkKey]) -> dict[ChunkKey, int]:
        """Return the ids of chunks, by their keys. Chunks that vector searches must not find are left out."""

    def live_versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        """Return the visible and the latest version of documents, by the ids of the documents."""

    def matching_documents(self, where: Where) -> list[int]:
        """Return the ids of the visible documents that a search looks at."""

    def read(self, statement: str, **params: Any) -> list[Any]:
        """Run a statement of index/queries that reads, and return its rows. Only committed data is seen."""

    def unused_hashes(self, model: EmbeddingModel, *, after: bytes, limit: int) -> list[bytes]:
        """Return hashes that have a vector but no chunk, in order, starting after a hash."""

    def delete_vectors(self, tx: Tx, model: EmbeddingModel, hashes: Sequence[bytes]) -> int:
        """Delete vectors by hash, except those that a chunk needs. Return how many were deleted."""

    def missing_documents(self, *, limit: int) -> list[int]:
        """Return ids of documents that do not exist although there are chunks of them."""

    def delete_missing(self, tx: Tx, document: int) -> None:
        """Delete the chunks of a document that does not exist."""
