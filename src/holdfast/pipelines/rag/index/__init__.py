"""Where chunks are found: by their words, and by their meaning.

What changes the index takes the transaction that it is to be part of, the one that moves the document's checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.errors import Reject
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.model import About, Chunk
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    import numpy as np


class Name(Struct, frozen=True):
    """Which document is meant: its collection, where it came from, and what it is called there."""

    collection: str
    source: str
    key: str


class Entry(Struct, frozen=True, kw_only=True):
    """A version of a document. `about` is what its first chunk tells, and only that one."""

    name: Name
    version: int
    about: About | None = None
    metadata: Mapping[str, Any] = {}


class Model(Struct, frozen=True):
    """Whose vectors they are."""

    name: str
    dimension: int


class Where(Struct, frozen=True, kw_only=True):
    """What a question is about: nothing said means everything."""

    collection: str | None = None
    source: str | None = None
    key: str | None = None
    path: str | None = None
    kind: str | None = None
    metadata: Mapping[str, Any] = {}

    @property
    def names_documents(self) -> bool:
        """Whether it asks for more than a collection."""
        return any((self.source, self.key, self.path, self.kind, self.metadata))

    def asked(self) -> dict[str, Any]:
        """Gives what is asked for, by name. What no database can keep, and no document be called, finds nothing."""
        asked = {name: getattr(self, name) for name in ("collection", "source", "key", "path", "kind")}
        told = {name: plain(value) for name, value in asked.items() if value}
        return told | {"metadata": encode_json(plain_metadata(self.metadata))} if self.metadata else told


def plain(text: str) -> str:
    """Gives a text in which what no database keeps, NUL and halves of characters, is replaced, one for one."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Gives metadata whose names and texts a database keeps."""
    return {plain(name): plain(value) if isinstance(value, str) else value for name, value in metadata.items()}


class Hit(Struct, frozen=True):
    """A chunk that was found, and how well it fits."""

    chunk: int
    document: int
    score: float


class Stored(Struct, frozen=True):
    """What the index knows of a chunk."""

    name: Name
    kind: str
    title: str
    metadata: Mapping[str, Any]
    page: int
    start: int
    end: int
    text: str


class Index(Protocol):
    """An index of document search. Reading sees only versions that are complete.

    A verb that is handed a transaction is part of it: rolled back, it leaves nothing.
    """

    def prepare(self, tx: Tx) -> None:
        """Makes its tables where they are missing."""

    def add(self, tx: Tx, entry: Entry, chunks: Sequence[Chunk]) -> None:
        """Adds the next chunks of a version. With the last one, a new document is found by its words."""

    def known(self, model: Model, hashes: Sequence[bytes]) -> set[bytes]:
        """Answers which contents have a vector already."""

    def remember(self, tx: Tx, model: Model, vectors: Mapping[bytes, bytes]) -> None:
        """Remembers vectors by the hashes of their contents: little-endian halves."""

    def reach(self, collection: str, *, model: Model) -> None:
        """Raises at once if vectors cannot be brought to where they are searched. To be called before work begins."""

    def publish(self, name: Name, *, model: Model) -> None:
        """Brings the vectors of the version that was chunked last to where they are searched, if that is elsewhere.

        To be called before the transaction that shows the version, and again after a kill: nothing is seen by it.
        """

    def show(self, tx: Tx, name: Name, *, model: Model) -> None:
        """Lets searches see the version that was chunked last, by words and by meaning, in place of any other."""

    def forget(self, tx: Tx, name: Name) -> None:
        """Takes a document out."""

    def rename(self, tx: Tx, name: Name, *, to: str) -> None:
        """Has a document go by another key. What went by that key before is forgotten."""

    def has_words(self, name: Name, *, chunks: int) -> bool:
        """Answers whether all chunks of the version that was chunked last are there, with their words."""

    def has_vectors(self, name: Name, *, model: Model, chunks: int) -> bool:
        """Answers whether so many chunks of the version that was chunked last have a vector, or more."""

    def shows(self, name: Name, *, model: Model, chunks: int) -> bool:
        """Answers whether searches see the version that was chunked last, wherever its vectors are searched."""

    def complete(self, collection: str, *, model: Model) -> bool:
        """Answers whether every document that is seen can be found by what this model takes it to mean."""

    def bring(self, collection: str, *, model: Model) -> int:
        """Brings the vectors of all documents that are seen to where they are searched, if they are not there yet.

        Killed, it goes on when it is called again. Says of how many documents.
        """

    def tend(self, collection: str, *, model: Model) -> None:
        """Puts in order what work left where vectors are searched. To be called after it; takes a bounded time."""

    def by_words(self, question: str, where: Where, *, limit: int) -> list[Hit]:
        """Finds the chunks that fit the words best."""

    def by_meaning(self, model: Model, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        """Finds the chunks whose vectors are nearest."""

    def vectors(self, model: Model, numbers: Sequence[int]) -> dict[int, bytes]:
        """Gives the vectors of chunks, by their numbers, as they are remembered. Those that are gone are left out."""

    def chunks(self, numbers: Sequence[int]) -> dict[int, Stored]:
        """Gives what is known of chunks, by their numbers. Those that are gone meanwhile are left out."""

    def close(self) -> None:
        """Lets go of connections and memory."""


def entered(rows: Sequence[tuple[int, ...]], name: Name) -> tuple[int, ...]:
    """Gives the row of a document that was entered, its number first, or refuses it."""
    if not rows:
        raise Reject(f"its collection {name.collection!r} was deleted meanwhile")
    return rows[0]


Place = tuple[int, int, int]
"""Where a chunk stands, for ever: the number of its document, its version, and its position in that."""


class Drawn(Struct, frozen=True):
    """The version of a document that was chunked last: of each chunk its position, its page and its vector."""

    document: int
    version: int
    chunks: Sequence[tuple[int, int, bytes]]


class Ground(Index, Protocol):
    """An index in a database, on which one stands that has its vectors elsewhere: the database says what is seen."""

    def number(self, name: Name) -> int | None:
        """Gives the number of a document."""

    def beginning(self, name: Name) -> list[Name]:
        """Gives the documents of a source whose keys begin with this one."""

    def drawn(self, name: Name, *, model: Model) -> Drawn | None:
        """Gives the version that was chunked last, with the vectors that are known. None: there is none."""

    def mean(self, tx: Tx, document: int, version: int, *, model: Model) -> None:
        """Has a version be found by its meaning, if it is the one that is seen: all its chunks have vectors."""

    def version(self, document: int, version: int, *, model: Model) -> Drawn:
        """Gives a version of a document, by its number, with the vectors that are known."""

    def seen(self, model: Model, places: Sequence[Place]) -> dict[Place, int]:
        """Gives the numbers of the chunks at these places, of those that are seen by their meaning."""

    def versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        """Gives the versions of documents that are seen, or are to be seen next."""

    def documents(self, where: Where) -> list[int]:
        """Gives the documents that a question is about."""

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """Gives the rows that a statement finds in what is committed. It is written with ?, for any database."""

    def unused(self, model: Model, *, after: bytes, limit: int) -> list[bytes]:
        """Gives contents that have a vector and that no chunk has any more, in their order."""

    def shed(self, tx: Tx, model: Model, contents: Sequence[bytes]) -> int:
        """Forgets the vectors of contents, but for those that a chunk has after all. Says how many."""

    def lost(self, *, limit: int) -> list[int]:
        """Gives the numbers of documents that are gone, and of which there are still chunks."""

    def discard(self, tx: Tx, document: int) -> None:
        """Deletes the chunks of a document that is gone."""


def index_of(store: Store) -> Ground:
    """Gives the index that lives in a store's own database."""
    if store.url.startswith("sqlite"):
        from holdfast.pipelines.rag.index.sqlite import SqliteIndex

        return SqliteIndex(store.url)
    if store.url.startswith("postgres"):
        from holdfast.pipelines.rag.index.postgres import PostgresIndex

        return PostgresIndex(store.url)
    raise ValueError(f"there is no index for {store.url}")
