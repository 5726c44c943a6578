"""The protocols of embedders, and the check of what they return.

Implement one of the protocols to use a model of your own. It may return anything: its vectors are checked, and
normalised to length one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from holdfast.core.errors import WrongLength

if TYPE_CHECKING:
    import numpy as np

TOLERANCE = 1e-3
"""A length that differs from one by less is left alone: the 16-bit floats that are stored are not more exact."""


class LocalEmbedder(Protocol):
    """A model that turns texts into vectors in this process. Several threads call it at the same time.

    Pass one to `rag.Library(store, embedder=...)`. The collection stores its name as `own:NAME`, and from then on only
    code that passes an embedder of this name can ingest into it or search it by meaning.

    Example:
        >>> class MyEmbedder:
        ...     name = "my-model-v1"
        ...     dimension = 384
        ...     window = 32
        ...
        ...     def __init__(self):
        ...         self._model = SentenceTransformer("my-model")
        ...
        ...     def embed(self, texts):
        ...         return self._model.encode(texts, normalize_embeddings=True)
        ...
        ...     def embed_query(self, text):
        ...         return self.embed([text])[0]
    """

    @property
    def name(self) -> str:
        """The identity of the model, such as granite-30m. Vectors of equal names are compared with each other."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def window(self) -> int:
        """How many texts to pass to one call of `embed`, at most."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts of documents.

        Args:
            texts: The texts, at most `window`.

        Returns:
            An array of shape (len(texts), dimension), 32-bit floats. Vectors of another length than one are normalised.

        Raises:
            Reject: A text cannot be embedded. It is set aside, and the document is found by its words there.
            RetryLater: The document should wait. This costs it no attempt.
        """

    def embed_query(self, text: str) -> np.ndarray:
        """Embed a question.

        Args:
            text: The question.

        Returns:
            An array of shape (dimension,), 32-bit floats.
        """


class RemoteEmbedder(LocalEmbedder, Protocol):
    """A model behind a service. One event loop waits for many responses at once.

    The pipeline calls `embed_async`. Code without an event loop, such as a search, calls `embed`.
    """

    async def embed_async(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts of documents, like `embed`. It is called from any event loop.

        Args:
            texts: The texts.

        Returns:
            An array with a row for each text.
        """


Embedder = LocalEmbedder | RemoteEmbedder


def is_remote(embedder: Embedder) -> TypeGuard[RemoteEmbedder]:
    """Return True if an embedder has `embed_async`.

    It looks at the class: reading the attributes of an instance may make a request, for its dimension.
    """
    return hasattr(type(embedder), "embed_async")


class InvalidVectors(WrongLength):
    """An embedder returned something else than vectors of its dimension. The message names it, and what it returned.

    Like a list of the wrong length, neither a smaller window nor another attempt would help.
    """


def unit_rows(returned: Any, embedder: Embedder, *, count: int) -> np.ndarray:
    """Return what an embedder returned as rows of length one that 16-bit floats can store. A row of zeros stays so.

    Raises:
        InvalidVectors: It is not an array of `count` vectors of finite numbers.
    """
    import numpy as np

    expected = (count, embedder.dimension)
    try:
        rows = np.asarray(returned, np.float32 if getattr(returned, "dtype", None) == np.float32 else np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidVectors(f"the embedder {embedder.name} returned values that are not numbers: {error}") from error
    if rows.shape != expected:
        raise InvalidVectors(
            f"the embedder {embedder.name} returned an array of shape {rows.shape} for {count} texts; {expected} was "
            "expected"
        )
    if not np.isfinite(rows).all():
        raise InvalidVectors(f"the embedder {embedder.name} returned numbers that are not finite")
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1)  # otherwise the squares of large numbers overflow
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    units = scaled / np.where(lengths > 0, lengths, 1)
    is_unit = np.abs(lengths * largest - 1) <= TOLERANCE
    normalised: np.ndarray = np.where(is_unit, rows, units).astype(np.float32)
    return normalised


def to_float16(returned: Any, embedder: Embedder, *, count: int) -> np.ndarray:
    """Return what an embedder returned as vectors of length one in the form in which they are stored.

    Raises:
        InvalidVectors: It is not an array of `count` vectors of finite numbers.
    """
    rows = unit_rows(returned, embedder, count=count)
    rows[~rows.any(axis=1), 0] = 1  # a text that the model knows nothing of needs a direction too
    return rows.astype("<f2")
