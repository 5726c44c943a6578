"""Is what was made searchable still there? Asked of the documents of a collection, as of those of any pipeline."""

from __future__ import annotations

from typing import Any

from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError
from holdfast.engine import api
from holdfast.engine.findings import Verification
from holdfast.engine.stale import stale_groups
from holdfast.pipelines.rag.dialects import run
from holdfast.pipelines.rag.library import Library


def verify(library: Library, **which: Any) -> Verification:
    """Asks of every document of a collection whether all its chunks are found, and has done anew what is gone.

    `which` are the arguments of `holdfast.verify`. Documents whose files are gone are not missed. Where settings
    changed and no ingest came since, nothing is as they say, so the question is refused.
    """
    _refuse_other_settings(library)
    step = library.pipeline["index"]
    ask = step.verify_body
    assert ask is not None
    gone = _gone(library)

    def is_there(doc: Document) -> object:
        return (doc.batch, doc.key) in gone or ask(doc)

    step.verify_body = is_there
    try:
        return api.verify(library.pipeline, library.store, **which)
    finally:
        step.verify_body = ask


def _refuse_other_settings(library: Library) -> None:
    name = library.collection.name
    brought = library.collection.searched is None or library.swap_if_complete()
    if not brought or stale_groups(library.store, library.pipeline):
        raise HoldfastError(
            f"the settings of {name!r} changed, and its documents are not made by them yet; "
            f"let `holdfast ingest --collection {name}` make them anew, then verify"
        )


def _gone(library: Library) -> set[tuple[str, str]]:
    """Gives the documents that were done before their files were gone, by source and key."""
    statement = "select source, key from rag_file where collection = ? and hash is null"
    with library.store.reading() as tx:
        return {(source, key) for source, key in run(tx, statement, library.collection.name).fetchall()}
