"""Is what was made searchable still there? Asked of the documents of a collection, as of those of any pipeline."""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.engine import api
from holdfast.engine.findings import Verification
from holdfast.engine.stale import stale_groups
from holdfast.pipelines.rag.library import Library


def verify(library: Library, **which: Any) -> Verification:
    """Asks of every document of a collection whether its chunks are there, have vectors and are seen.

    What is gone is done anew by the next ingest, from the step that makes it.

    `which` are the arguments of `holdfast.verify`. Where settings changed and no ingest came since, nothing is as they
    say, so the question is refused.
    """
    _refuse_other_settings(library)
    return api.verify(library.pipeline, library.store, **which)


def _refuse_other_settings(library: Library) -> None:
    name = library.collection.name
    brought = library.collection.searched is None or library.swap_if_complete()
    if not brought or stale_groups(library.store, library.pipeline):
        raise HoldfastError(
            f"the settings of {name!r} changed, and its documents are not made by them yet; "
            f"let `holdfast ingest --collection {name}` make them anew, then verify"
        )
