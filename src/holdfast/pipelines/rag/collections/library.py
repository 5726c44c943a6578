"""A library: one collection of a store, to ingest documents and to search them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Unpack

from msgspec.structs import replace

from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.engine.settings import DEFAULT_PROCESSES, WorkerOptions
from holdfast.observe.report import Report
from holdfast.pipelines.rag.chunk.chunks import Split
from holdfast.pipelines.rag.collections import deletion, reindex
from holdfast.pipelines.rag.collections.library_pipeline import LibraryPipeline, ReadOptions
from holdfast.pipelines.rag.collections.open_collection import OpenCollection
from holdfast.pipelines.rag.collections.settings import Collection, CollectionSettings
from holdfast.pipelines.rag.collections.spending import (
    Spending,
    SpendingBudget,
    SpendingLimits,
    delete_limits,
    merge_limits,
    read_limits,
    read_spent,
    save_limits,
)
from holdfast.pipelines.rag.embed import Embedder
from holdfast.pipelines.rag.extract.readers import Reader
from holdfast.pipelines.rag.index import EmbeddingModel, Index, Where
from holdfast.pipelines.rag.index.registry import STORE, Indexes, check_processes
from holdfast.pipelines.rag.ingest.file_changes import FileChange
from holdfast.pipelines.rag.ingest.intake import DEFAULT_SCAN, ScanOptions, SourceIngest, require_extra
from holdfast.pipelines.rag.ingest.removal import is_withdrawn
from holdfast.pipelines.rag.ingest.watcher import SourceSnapshot
from holdfast.pipelines.rag.pipeline import PageStep, ProgressCounter
from holdfast.pipelines.rag.search.search import EVERYWHERE, By, Search, SearchResult
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION, DEFAULT_RESULTS
from holdfast.sources import Source, parse_source
from holdfast.stores.protocol import Store

INGEST_THREADS = 1 + (os.cpu_count() or 1)
"""How many bodies run at once: one for each core, and one more for while others wait for children and the disk."""
DOCUMENTS_PER_PROCESS = 100
"""How many documents justify the start of one more process."""


class Library:
    """One collection of a store: `ingest` makes the files of a source searchable, `search` finds chunks in them.

    The collection is created if it does not exist. Any number of processes may use the same collection.

    Args:
        store: The store.
        name: The name of the collection: small letters, digits, `-` and `_`.
        settings: New settings. None: those that it has, or the defaults.
        embedder: An embedder of your own. The settings name it from then on.
        reader: Reads the pages of documents, instead of the reader that the settings name.
        split: Splits texts into chunks, instead of the splitting of the settings.
        pages: Extra steps over pages, between extract and chunk.
        allow_private: Allow documents whose URLs lead to private networks.
        follow_symlinks: Allow documents that links in a folder lead to, outside of that folder.
        indexes: The indexes of the store, to share them with other libraries.

    Raises:
        HoldfastError: The name is not valid.
        ChunkTooLong: Chunks would be longer than the embedder reads.

    Example:
        with holdfast.open("sqlite:///holdfast.db") as store:
            library = rag.Library(store)
            library.ingest("contracts")
            for found in library.search("termination for convenience", limit=3):
                print(found.key, found.page, found.snippet)
    """

    def __init__(
        self,
        store: Store,
        name: str = DEFAULT_COLLECTION,
        *,
        settings: CollectionSettings | None = None,
        embedder: Embedder | None = None,
        reader: Reader | None = None,
        split: Split | None = None,
        pages: Sequence[PageStep] = (),
        allow_private: bool = False,
        follow_symlinks: bool = False,
        indexes: Indexes | None = None,
    ) -> None:
        self.store = store
        self._opened = OpenCollection(store, name, settings, embedder, indexes or Indexes(store))
        options = ReadOptions(
            reader=reader, split=split, pages=pages, allow_private=allow_private, follow_symlinks=follow_symlinks
        )
        self._pipeline = LibraryPipeline(self._opened, options)

    @property
    def collection(self) -> Collection:
        """The name and settings of the collection."""
        return self._opened.collection

    @property
    def indexes(self) -> Indexes:
        """The indexes of the store."""
        return self._opened.indexes

    @property
    def index(self) -> Index:
        """The index that documents are added to."""
        return self._opened.index

    @property
    def embedder(self) -> Embedder:
        """The embedder that makes vectors."""
        return self._opened.embedder

    @property
    def model(self) -> EmbeddingModel:
        """The name and dimension of the embedder."""
        return self._opened.model

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that documents go through."""
        return self._pipeline.pipeline

    @property
    def progress(self) -> ProgressCounter:
        """How many pages, chunks and vectors this process made, by step."""
        return self._pipeline.progress

    # ingest

    def ingest(self, source: str, scan: ScanOptions = DEFAULT_SCAN, **options: Unpack[WorkerOptions]) -> Report:
        """Make the files of a source searchable. Return when all of them are processed.

        Unchanged files are not read again. Deleted files leave the index. If it is interrupted, call it again: it
        continues where it stopped.

        Args:
            source: A folder, file, glob or URL.
            scan: How the source is scanned, and the metadata of its documents.
            **options: Options of the workers, as for `holdfast.drain`: `threads`, `processes` and others.

        Returns:
            How many documents were done, failed and so on.

        Raises:
            SourceRefused: The source does not exist or cannot be read.
            MissingExtra: The packages of document search are not installed.
            MissingSetting: A service needs an environment variable that is not set.
            NoSuchCollection: Somebody deleted the collection.
        """
        self.prepare(processes=options.get("processes", DEFAULT_PROCESSES))
        self.submit_changes(source, scan)
        return self.drain(**options)

    def prepare(self, *, processes: int = DEFAULT_PROCESSES) -> None:
        """Check that documents can be processed, and rewind those that were processed with other settings.

        `ingest` calls this first. It raises errors early, before every document fails with them.

        Args:
            processes: How many processes will work.

        Raises:
            HoldfastError: A package, a setting or a service is missing, or the index allows only one process.
        """
        require_extra()
        check_processes(self.collection.settings.index, processes)
        self._pipeline.require_service_settings()
        if self.collection.settings.index != STORE:
            self.index.check_reachable(self.collection.name, model=self.model)
        self._pipeline.trusted.refresh()
        self._pipeline.meter.refresh()
        self.reprocess_stale()

    def submit_changes(
        self, source: str, scan: ScanOptions = DEFAULT_SCAN, report: Callable[[FileChange], object] = lambda _: None
    ) -> SourceIngest:
        """Submit new and changed files, rename moved ones, and remove deleted ones. Nothing is processed yet.

        Args:
            source: A folder, file, glob or URL.
            scan: How the source is scanned, and the metadata of its documents.
            report: Called with each change after it was applied.

        Returns:
            The ingest, with its counts.

        Raises:
            SourceRefused: The source does not exist or cannot be read.
            NoSuchCollection: Somebody deleted the collection.
        """
        return self._apply(parse_source(source), scan, None, report)

    def submit_snapshot(
        self,
        source: Source,
        snapshot: SourceSnapshot,
        scan: ScanOptions = DEFAULT_SCAN,
        *,
        report: Callable[[FileChange], object] = lambda _: None,
    ) -> SourceIngest:
        """Apply the snapshot of a `Watcher`, as `submit_changes` does.

        Args:
            source: The source.
            snapshot: Its files.
            scan: How the source is scanned, and the metadata of its documents.
            report: Called with each change after it was applied.

        Returns:
            The ingest, with its counts.

        Raises:
            SourceEmpty: The snapshot is empty, and the source had files. The disk may be missing.
            NoSuchCollection: Somebody deleted the collection.
        """
        return self._apply(source, scan, snapshot, report)

    def limit_spending(self, limits: SpendingLimits) -> SpendingLimits:
        """Give the collection a budget of pages, tokens or money. Work stops when it is spent.

        The budget is kept in the store, and counts for all later runs together: a run that goes on spends only the
        rest. Limits that are not given stay as they were. What was spent since the first budget counts.

        Args:
            limits: The limits.

        Returns:
            The limits that hold now.

        Raises:
            PriceMissing: Money is limited, and no price is known.
        """
        with self.store.transaction() as tx:
            merged = merge_limits(read_limits(tx, self.collection.name), limits)
            save_limits(tx, self.collection.name, merged)
        self._pipeline.meter.refresh()
        return merged

    def remove_spending_limits(self) -> None:
        """Remove the budget of the collection, and forget what was spent. The next budget counts from zero."""
        with self.store.transaction() as tx:
            delete_limits(tx, self.collection.name)
        self._pipeline.meter.refresh()

    @property
    def spending_limits(self) -> SpendingLimits | None:
        """The budget of the collection, if it has one."""
        with self.store.reading() as tx:
            return read_limits(tx, self.collection.name)

    @property
    def spent(self) -> Spending:
        """What the collection has spent since its first budget. Without a budget, nothing is counted."""
        with self.store.reading() as tx:
            return read_spent(tx, self.collection.name)

    def spending_budget(self, within: Budget | None = None) -> SpendingBudget:
        """Return a budget for workers that is over when the budget of the collection is spent.

        Args:
            within: Another budget of a worker, which must hold, too.

        Returns:
            The budget. Without limits, it is only over when the other one is.
        """
        return SpendingBudget(self._pipeline.meter, within)

    def drain(self, *, budget: Budget | timedelta | None = None, **options: Unpack[WorkerOptions]) -> Report:
        """Process all waiting documents of the collection, then complete its index.

        If the collection has a budget and it is spent, work stops, and `Report.stopped_by` says so.

        Args:
            budget: When to stop: after this long, or a Budget that you can stop from your own code.
            **options: Options of the workers, as for `holdfast.drain`. By default one thread per core and one more.

        Returns:
            How many documents were done, failed and so on.
        """
        report = Report()
        within = Budget(budget) if isinstance(budget, timedelta) else budget
        check_processes(self.collection.settings.index, options.get("processes", DEFAULT_PROCESSES))
        self._pipeline.trusted.refresh()
        self._pipeline.meter.refresh()
        if waiting := self.store.balance(self.collection.name).open:
            self.preload_parsers()
            options.setdefault("threads", INGEST_THREADS)
            options["processes"] = min(
                options.get("processes", DEFAULT_PROCESSES), 1 + waiting // DOCUMENTS_PER_PROCESS
            )
            report = api.drain(self.pipeline, self.store, budget=self.spending_budget(within), **options)
        self.finish_indexing()
        return report

    def preload_parsers(self) -> None:
        """Import the parsers that most of the waiting documents need, before processes are forked."""
        self._pipeline.preload_parsers()

    def trust_source(self, source: Source) -> None:
        """Allow the files of a source to be read, because somebody named it here.

        Args:
            source: The source.
        """
        self._pipeline.trusted.trust(source.root, self.indexes.database)

    # settings

    def reprocess_stale(self) -> int:
        """Rewind documents that were processed with other settings.

        Until they are processed again, searches see their former version.

        Returns:
            How many documents were rewound.
        """
        return reindex.reprocess_stale(self.store, self.pipeline)

    def finish_indexing(self) -> None:
        """Complete the index after work, and search by new settings if all their vectors are in place.

        `drain` calls this at its end. After a kill, the next call continues.
        """
        reindex.finish_indexing(self._opened)

    def switch_if_complete(self) -> bool:
        """Search by the collection's own embedder and index from now on, if all vectors are there.

        Returns:
            True if the collection was switched. False if it was before, or if vectors are missing.
        """
        return self._opened.switch_if_complete()

    def require_collection(self) -> None:
        """Raise NoSuchCollection if somebody deleted the collection."""
        self._opened.require_exists()

    def is_outdated(self) -> bool:
        """Check whether somebody gave the collection other settings. A new Library has these.

        Returns:
            True if there are other settings.

        Raises:
            NoSuchCollection: Somebody deleted the collection.
        """
        return self._opened.is_outdated()

    # search

    def search(
        self,
        question: str,
        where: Where = EVERYWHERE,
        *,
        limit: int = DEFAULT_RESULTS,
        each: int | None = None,
        by: By | None = None,
    ) -> list[SearchResult]:
        """Find the chunks of this collection that answer a question best.

        Args:
            question: The question.
            where: Search only in documents that match: by source, key, path, type or metadata.
            limit: Maximum number of results.
            each: Maximum number of results per document.
            by: `"words"` or `"meaning"`: search only by keywords or only by vectors. None: both.

        Returns:
            The results, best first.

        Raises:
            CustomEmbedderRequired: The vectors are of an embedder that only your own code has.
            ServiceError: The service of the embedder does not answer.
        """
        filtered = replace(where, collection=self.collection.name)
        search = Search(self.indexes.get(STORE), None) if by == "words" else self._opened.current_search()
        return search(question, filtered, limit=limit, each=each, by=by)

    # removal

    def delete(self) -> None:
        """Delete the collection and all its documents from the index. After a kill, it can be called again.

        The files are not touched. If they are ingested again, they are new documents.
        """
        deletion.delete_collection(self._opened)

    def forget(self, source: str, *, document: str | None = None) -> int:
        """Delete all documents of a source from the index, or one of them, even if they do not exist any more.

        The files are not touched. If they are ingested again, they are new documents. Jobs of the source are forgotten
        too. After a kill, it can be called again.

        Args:
            source: The folder, file, glob or URL, as it was ingested.
            document: The key of the only document to delete. The attachments of a message are deleted with it.

        Returns:
            How many documents were withdrawn.

        Raises:
            SourceRefused: Nothing was ingested from this source.
            UnknownDocument: The source has no such document.
        """
        return deletion.forget(self._opened, source, document=document)

    def find_sources_of(self, key: str) -> list[str]:
        """Find the sources that have a document of this key, to forget it.

        Args:
            key: The key of a document, as a search shows it.

        Returns:
            The roots of the sources, sorted.

        Example:
            for source in library.find_sources_of("tides.txt"):
                library.forget(source, document="tides.txt")
        """
        found = self.store.find(key)
        name = self.collection.name
        return sorted({one.batch for one in found if (one.pipeline, one.key) == (name, key) and not is_withdrawn(one)})

    def find_source_root(self, source: str) -> str:
        """Find the root by which the collection knows a source, even if it does not exist any more.

        Args:
            source: A folder, file, glob or URL, as it was ingested.

        Returns:
            The root: the name of its batch.

        Raises:
            SourceRefused: Nothing was ingested from this source.
        """
        return deletion.find_source_root(self._opened, source)

    def count_withdrawn(self) -> int:
        """Count the documents that were withdrawn: their files were deleted, or their source was forgotten.

        Returns:
            How many documents there are.
        """
        return deletion.count_withdrawn(self._opened)

    def close(self) -> None:
        """Close connections and free memory. The next use opens them again."""
        self._opened.close()

    def _apply(
        self,
        source: Source,
        scan: ScanOptions,
        snapshot: SourceSnapshot | None,
        report: Callable[[FileChange], object],
    ) -> SourceIngest:
        intake = SourceIngest(self.pipeline, self.store, self.index, source, scan, snapshot=snapshot)
        self.require_collection()
        self.trust_source(source)
        intake.apply_changes(report)
        return intake
