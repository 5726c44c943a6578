"""Ingest sources from the command line, and print what changed in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.cli.context import CliContext
from holdfast.cli.ui.progress import Display, Progress
from holdfast.cli.ui.progress_counts import ProgressCounts
from holdfast.core.errors import RetryLater
from holdfast.core.formatting import format_count, one_line
from holdfast.pipelines.rag.collections.library import Library
from holdfast.pipelines.rag.ingest.intake import ALL_CHANGE_KINDS, ScanOptions, SourceIngest
from holdfast.sources import SourceRefused, Unreachable, parse_source

ITEM_NOUNS = {"extract": "page", "chunk": "chunk", "embed": "vector"}
CHANGE_KINDS = ("new", "changed", "back", "moved", "deleted")
MAX_SKIPPED_SHOWN = 5
NO_DOCUMENTS_HINT = "no file was found that can be ingested"
NO_SOURCES_HINT = "name a folder, file or URL to ingest"

UNREACHABLE_ERRORS = (Unreachable, RetryLater)
"""Errors of a source that does not answer, or not now. Nothing is known about its files then."""


def collection_counts(library: Library, *, threads: int) -> ProgressCounts:
    """Return the counts of a collection, for the progress display."""
    counts = ProgressCounts(
        library.pipeline,
        library.store,
        batch=None,
        threads=threads,
        nouns=ITEM_NOUNS,
        withdrawn=library.count_withdrawn,
    )
    counts.items = library.progress
    return counts


def source_args(scan: ScanOptions) -> tuple[str, ...]:
    """Return the command-line options for the same scan. Metadata is left out, because the store has it."""
    ignore = [arg for pattern in scan.ignore for arg in ("--ignore", pattern)]
    flat = () if scan.recursive else ("--flat",)
    private = ("--allow-private",) if scan.allow_private else ()
    return (*ignore, *flat, *private, *(("--follow-symlinks",) if scan.follow_symlinks else ()))


def ingest_source(cli: CliContext, library: Library, source: str, scan: ScanOptions, progress: Progress) -> bool:
    """Submit the changes of a source and print them. Return False if the source could not be reached."""
    counts = progress.counts
    counts.submitting = True
    try:
        with _add_forget_hint(cli, library, source):
            ingest = library.submit_changes(source, scan, report=lambda _: _count_submitted(counts))
    except UNREACHABLE_ERRORS as error:
        progress.display.show_message(format_unreachable(source, error) + _forget_hint(cli, library, source))
        return False
    finally:
        counts.submitting = False
    progress.display.show_message(f"{source}: {format_ingest(ingest)}")
    skipped = [(path.key, path.why) for path in ingest.skipped]
    print_skipped([*skipped, *((file.key, file.why) for file in ingest.unreadable)], progress.display)
    return True


def require_sources(cli: CliContext, library: Library, sources: Sequence[str]) -> None:
    """Raise SourceRefused for the first argument that is no source, before anything is ingested."""
    for source in sources:
        with _add_forget_hint(cli, library, source):
            parse_source(source)


@contextmanager
def _add_forget_hint(cli: CliContext, library: Library, source: str) -> Iterator[None]:
    try:
        yield
    except SourceRefused as error:
        raise SourceRefused(f"{error}{_forget_hint(cli, library, source)}") from error


def format_unreachable(source: str, error: Exception) -> str:
    """Return one line: a source could not be reached, and why."""
    return one_line(f"{source}: could not be reached, so its documents stay as they are: {error}", 300)


def _forget_hint(cli: CliContext, library: Library, source: str) -> str:
    """Return how to remove the documents of a source that no longer exists, if it has any."""
    try:
        root = library.find_source_root(source)
    except SourceRefused:
        return ""
    forget = cli.command("collection", "forget", library.collection.name, root)
    return f". If it no longer exists, remove its documents from the index: {forget}"


def format_ingest(ingest: SourceIngest, kinds: Sequence[str] = ALL_CHANGE_KINDS) -> str:
    """Return how many files of a source changed in which way."""
    counts = ", ".join(f"{ingest.counts[kind]:,} {kind}" for kind in kinds if ingest.counts[kind]) or "no files"
    return counts + (f"; new metadata for {format_count(ingest.described, 'document')}" if ingest.described else "")


def print_skipped(skipped: Sequence[tuple[str, str]], display: Display) -> None:
    """Print the first few files that were skipped, and why, and how many more were skipped for which reason."""
    for key, why in skipped[:MAX_SKIPPED_SHOWN]:
        display.show_message(f"  skipped: {key}: {why}")
    more = Counter(why for _, why in skipped[MAX_SKIPPED_SHOWN:])
    for why, count in more.most_common(MAX_SKIPPED_SHOWN):
        display.show_message(f"  and {count:,} more were skipped: {why}")
    if others := sum(more.values()) - sum(count for _, count in more.most_common(MAX_SKIPPED_SHOWN)):
        display.show_message(f"  and {others:,} more were skipped for other reasons")


def _count_submitted(counts: ProgressCounts) -> None:
    counts.submitted += 1
