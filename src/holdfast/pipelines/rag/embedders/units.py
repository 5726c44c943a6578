"""What an embedder gave, checked and brought to length one: an embedder of one's own may give anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.errors import WrongLength
from holdfast.pipelines.rag.embedders import Embedder

if TYPE_CHECKING:
    import numpy as np

EXACT = 1e-3
"""By how much a length may differ from one and be left alone: what is kept, halves, is not more exact than that."""


class WrongVectors(WrongLength):
    """An embedder gave what are not vectors of its dimension. The message names it, and says what it gave.

    Like an answer of the wrong length it is nothing that a smaller window or a second try would mend.
    """


def unit_rows(given: Any, embedder: Embedder, *, count: int) -> np.ndarray:
    """Gives `count` rows of length one, of numbers that halves can keep. One that points nowhere stays all zeros."""
    import numpy as np

    wanted = (count, embedder.dimension)
    try:
        rows = np.asarray(given, np.float32 if getattr(given, "dtype", None) == np.float32 else np.float64)
    except (TypeError, ValueError) as error:
        raise WrongVectors(f"the embedder {embedder.name} gave what are not numbers: {error}") from error
    if rows.shape != wanted:
        raise WrongVectors(
            f"the embedder {embedder.name} gave an array of shape {rows.shape} for {count} texts; {wanted} was expected"
        )
    if not np.isfinite(rows).all():
        raise WrongVectors(f"the embedder {embedder.name} gave numbers that are not finite")
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1)  # else the squares of large numbers are too large
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    units = scaled / np.where(lengths > 0, lengths, 1)
    is_unit = np.abs(lengths * largest - 1) <= EXACT
    found: np.ndarray = np.where(is_unit, rows, units).astype(np.float32)
    return found


def in_halves(given: Any, embedder: Embedder, *, count: int) -> np.ndarray:
    """Gives `count` vectors as they are kept."""
    rows = unit_rows(given, embedder, count=count)
    rows[~rows.any(axis=1), 0] = 1  # a text of which the model knows nothing still points somewhere
    return rows.astype("<f2")
