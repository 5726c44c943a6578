"""What the parts of a submit mean: which documents are new, changed or unchanged, and which were named twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.errors import DuplicateKey
from holdfast.core.model import NewDocument

Known = Mapping[str, tuple[Any, ...]]
"""By key: (id, fingerprint, submission, part) of documents that the store has."""


def sort_out(
    documents: Sequence[NewDocument], known: Known, *, submission: int, part: int
) -> tuple[list[NewDocument], list[NewDocument], int]:
    """Sorts documents into new, changed, and a count of unchanged ones. Raises DuplicateKey.

    A document that this very part wrote before was committed by a try whose answer was lost: it counts as unchanged.
    One that an earlier part found unchanged bears no mark of it: that would rewrite every row of every submit that
    changes nothing.
    """
    new: list[NewDocument] = []
    changed: list[NewDocument] = []
    unchanged = 0
    seen: set[str] = set()
    for document in documents:
        row = known.get(document.key)
        if document.key in seen or (row is not None and row[2] == submission and row[3] != part):
            raise DuplicateKey(
                f"the key {document.key!r} was named twice in one submit. Keys name documents within a batch: "
                "give each document its own, or put them in different batches. Nothing of the slice that names it "
                "again was taken in; the slices before it stay submitted, and submitting again is safe"
            )
        seen.add(document.key)
        if row is None:
            new.append(document)
        elif row[1] != document.fingerprint:
            changed.append(document)
        else:
            unchanged += 1
    return new, changed, unchanged
