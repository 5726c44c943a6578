"""`holdfast plan SOURCE`: show what an ingest would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import SOURCE_UNREACHABLE
from holdfast.cli.output import print_json, print_line, styled
from holdfast.cli.store_access import open_store_if_exists
from holdfast.cli.ui.ingest_output import UNREACHABLE_ERRORS, format_unreachable
from holdfast.core.formatting import format_count, format_duration, format_money, one_line, printable
from holdfast.engine.api import opened
from holdfast.pipelines.rag.collections.library import Library
from holdfast.pipelines.rag.embed import is_free
from holdfast.pipelines.rag.ingest.intake import ALL_CHANGE_KINDS, ScanOptions
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.pipelines.rag.estimate.ingest import IngestEstimate

MAX_FILES_SHOWN = 5


def print_ingest_plan(
    cli: CliContext,
    source: str,
    *,
    collection: str,
    price: float | None,
    page_price: float | None,
    ignore: Sequence[str],
    flat: bool,
    allow_private: bool,
    follow_symlinks: bool,
) -> None:
    """Print what an ingest of a source would do."""
    from holdfast.pipelines.rag.estimate.ingest import estimate_ingest

    options = ScanOptions(
        ignore=ignore, recursive=not flat, allow_private=allow_private, follow_symlinks=follow_symlinks
    )
    with (
        _open_store(cli) as store,
        closing(Library(store, collection, allow_private=allow_private, follow_symlinks=follow_symlinks)) as library,
    ):
        try:
            estimate = estimate_ingest(library, source, options)
        except UNREACHABLE_ERRORS as error:
            raise CliError(format_unreachable(source, error), code=SOURCE_UNREACHABLE) from error
        embedder = library.collection.settings.embedder
    cost = _cost(estimate, price, page_price, is_free_model=is_free(embedder))
    if cli.json:
        print_json(asdict(estimate) | {"embedder": embedder, "cost": cost})
        return
    for line in _format_plan(estimate, embedder, _format_cost(estimate, cost, is_free_model=is_free(embedder))):
        print_line(line)


@contextmanager
def _open_store(cli: CliContext) -> Iterator[Store]:
    """Open the store. If it does not exist, use a temporary one: a plan creates nothing."""
    with open_store_if_exists(cli) as store:
        if store is not None:
            yield store
            return
    with TemporaryDirectory(prefix="holdfast-") as folder, opened(f"sqlite:///{folder}/empty.db") as store:
        yield store


def _format_plan(estimate: IngestEstimate, embedder: str, cost: str) -> Iterator[str]:
    kinds = [f"{estimate.changes[kind]:,} {kind}" for kind in ALL_CHANGE_KINDS if estimate.changes.get(kind)]
    yield f"{styled(printable(estimate.source), bold=True)}: {', '.join(kinds) or 'no files'}"
    if estimate.documents:
        read = format_count(estimate.documents - len(estimate.rejected), "file")
        yield f"  to read: {read} with about {format_count(estimate.pages, 'page')}"
    else:
        yield "  Nothing has to be read."
    for work in estimate.again:
        chunks = (
            f"about {format_count(work.chunks, 'chunk')}"
            if work.step != "embed"
            else f"{format_count(work.chunks, 'chunk')} to embed"
        )
        yield f"  to redo from {work.step} on: {format_count(work.documents, 'document')}, {chunks} ({work.why})"
    if estimate.going_on:
        at = ", ".join(f"{number:,} at {step}" for step, number in estimate.going_on.items())
        yield f"  to continue, in addition: {at}"
    if estimate.documents or estimate.again:
        yield f"  to embed: about {format_count(estimate.chunks, 'chunk')}, {estimate.tokens:,} tokens, with {embedder}"
        yield f"  time: {_time(estimate)}"
        yield f"  cost: {cost}"
    yield from _format_files("would be rejected", estimate.rejected)
    yield from _format_files("skipped", estimate.missed)


def _time(estimate: IngestEstimate) -> str:
    if estimate.seconds is None:
        return "unknown; ingest a few documents first"
    rough = "a rough estimate; scanned pages take longer"
    basis = "from the documents of this collection so far" if estimate.from_history else rough
    return f"about {format_duration(estimate.seconds)} ({basis})"


def _cost(
    estimate: IngestEstimate, price: float | None, page_price: float | None, *, is_free_model: bool
) -> float | None:
    """Return what the services cost. None if a price is missing."""
    if (price is None and not is_free_model) or (page_price is None and estimate.service_pages):
        return None
    if price is None and page_price is None:
        return None
    return estimate.tokens / 1_000_000 * (price or 0) + estimate.service_pages / 1_000 * (page_price or 0)


def _format_cost(estimate: IngestEstimate, cost: float | None, *, is_free_model: bool) -> str:
    pages = format_count(estimate.service_pages, "page")
    if is_free_model and not estimate.service_pages:
        return "nothing; the model runs on this machine"
    if cost is not None:
        return f"about {format_money(cost)}"
    if is_free_model:
        return f"unknown; a service reads {pages}: give the price of a thousand pages with --page-price"
    more = f", and of a thousand pages with --page-price: a service reads {pages}" if estimate.service_pages else ""
    return f"unknown; give the price of a million tokens with --price{more}"


def _format_files(label: str, files: Mapping[str, str]) -> Iterator[str]:
    for key, reason in list(files.items())[:MAX_FILES_SHOWN]:
        yield f"  {label}: {printable(key)}: {one_line(reason)}"
    if len(files) > MAX_FILES_SHOWN:
        yield f"  {label}: {len(files) - MAX_FILES_SHOWN:,} more"
