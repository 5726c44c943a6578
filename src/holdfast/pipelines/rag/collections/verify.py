"""Verify that the documents of a collection are still searchable."""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.ops.forecast import stale_groups
from holdfast.ops.verify import Verification
from holdfast.ops.verify import verify as verify_documents
from holdfast.pipelines.rag.collections.library import Library


def verify(library: Library, **options: Any) -> Verification:
    """Check for every document of a collection that its chunks are there, have vectors and are visible to searches.

    The next ingest makes missing ones again, from the step that makes them.

    Args:
        library: The library of the collection.
        **options: The options of `holdfast.verify`.

    Raises:
        HoldfastError: The settings changed, and there was no ingest since.
    """
    _refuse_changed_settings(library)
    return verify_documents(library.pipeline, library.store, **options)


def _refuse_changed_settings(library: Library) -> None:
    name = library.collection.name
    is_current = library.collection.searched is None or library.switch_if_complete()
    if not is_current or stale_groups(library.store, library.pipeline):
        raise HoldfastError(
            f"the settings of {name!r} changed, and its documents are not processed with them yet; "
            f"run `holdfast ingest --collection {name}`, then verify again"
        )
