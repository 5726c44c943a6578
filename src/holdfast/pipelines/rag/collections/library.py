"""A library: one collection of a store, to ingest documents and to search them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Unpack

from msgspec.structs import replace

from holdfast.core.document import Document
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.engine.settings import DEFAULT_PROCESSES, WorkerOptions
from holdfast.observe.report import Report
from holdfast.pipelines.rag.chunk.chunks import Split
from holdfast.pipelines.rag.collections import jobs, metadata, reindex
from holdfast.pipelines.rag.collections.open_collection import OpenCollection
from holdfast.pipelines.rag.collections.settings import Collection, CollectionSettings, remove_collection
from holdfast.pipelines.rag.embed import Embedder, is_service
from holdfast.pipelines.rag.extract.readers import LocalReader, Reader, ServiceReader, preload_parsers
from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, Index, Where
from holdfast.pipelines.rag.index.registry import STORE, Indexes, check_processes
from holdfast.pipelines.rag.ingest.attachments import submit_attachments
from holdfast.pipelines.rag.ingest.file_changes import FileChange
from holdfast.pipelines.rag.ingest.intake import DEFAULT_SCAN, ScanOptions, SourceIngest, require_extra
from holdfast.pipelines.rag.ingest.removal import SOURCE_FORGOTTEN, WITHDRAWN, withdraw_all
from holdfast.pipelines.rag.ingest.source_documents import forget_document
from holdfast.pipelines.rag.ingest.trusted_sources import TrustedSources
from holdfast.pipelines.rag.ingest.watcher import SourceSnapshot
from holdfast.pipelines.rag.pipeline import PageStep, PipelineParts, ProgressCounter, build_pipeline
from holdfast.pipelines.rag.search.search import EVERYWHERE, By, Search, SearchResult
from holdfast.pipelines.rag.sources import Source, find_root, parse_source
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION, DEFAULT_RESULTS
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

    Attributes:
        progress: How many pages, chunks and vectors this process made, by step.

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
        self._trusted = TrustedSources(store, name)
        self._given_reader = reader
        self._split = split
        self._pages = pages
        self._allow_private = allow_private
        self._follow_symlinks = follow_symlinks
        self.progress = ProgressCounter()

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

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that documents go through."""
        reader = self._reader()
        self._trusted.refresh()
        settings = self.collection.settings
        parts = PipelineParts(
            reader=reader,
            embedder=self.embedder,
            index=self.index,
            split=self._split,
            pages=self._pages,
            at_once=settings.at_once if isinstance(reader, ServiceReader) else None,
            submit=self._submit_attachments,
            pages_per_commit=settings.pages_per_commit,
            progress=self.progress,
            without_vectors=self._count_without_vectors,
            refuse=self._trusted.reject_untrusted,
            follow_symlinks=self._follow_symlinks,
        )
        return build_pipeline(self.collection, parts)

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
        self._require_service_settings()
        if self.collection.settings.index != STORE:
            self.index.check_reachable(self.collection.name, model=self.model)
        self._trusted.refresh()
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

    def drain(self, **options: Unpack[WorkerOptions]) -> Report:
        """Process all waiting documents of the collection, then complete its index.

        Args:
            **options: Options of the workers, as for `holdfast.drain`. By default one thread per core and one more.

        Returns:
            How many documents were done, failed and so on.
        """
        report = Report()
        check_processes(self.collection.settings.index, options.get("processes", DEFAULT_PROCESSES))
        self._trusted.refresh()
        if waiting := self.store.balance(self.collection.name).open:
            self.preload_parsers()
            options.setdefault("threads", INGEST_THREADS)
            options["processes"] = min(
                options.get("processes", DEFAULT_PROCESSES), 1 + waiting // DOCUMENTS_PER_PROCESS
            )
            report = api.drain(self.pipeline, self.store, **options)
        self.finish_indexing()
        return report

    def preload_parsers(self) -> None:
        """Import the parsers that most of the waiting documents need, before processes are forked."""
        preload_parsers(pdfs=bool(self.store.select(self.pipeline.name, state="waiting", key="*.pdf", limit=1)))

    def trust_source(self, source: Source) -> None:
        """Allow the files of a source to be read, because somebody named it here.

        Args:
            source: The source.
        """
        self._trusted.trust(source.root, self.indexes.database)

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
        name = self.collection.name
        with self.store.transaction() as tx:
            jobs.delete_jobs(tx, name)
        withdraw_all(self.store, self.indexes.database, name, who="delete", reason="its collection was deleted")
        with self.store.transaction() as tx:
            remove_collection(tx, name)
            metadata.delete_metadata(tx, name)
        self.indexes.drop_abandoned()

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
        root = self.find_source_root(source)
        with self.store.transaction() as tx:
            jobs.delete_jobs(tx, self.collection.name, source=root)
        if document is None:
            withdrawn = self._forget_source(root)
        else:
            name = DocumentName(self.collection.name, root, document)
            withdrawn = forget_document(self.store, self.indexes.database, name)
        if self.collection.settings.index != STORE and self._opened.has_embedder():
            self.index.maintain(self.collection.name, model=self.model)
        return withdrawn

    def _forget_source(self, root: str) -> int:
        name = self.collection.name
        withdrawn = withdraw_all(
            self.store, self.indexes.database, name, source=root, who="forget", code=SOURCE_FORGOTTEN
        )
        with self.store.transaction() as tx:
            metadata.delete_metadata(tx, name, source=root)
        return withdrawn

    def find_source_root(self, source: str) -> str:
        """Find the root by which the collection knows a source, even if it does not exist any more.

        Args:
            source: A folder, file, glob or URL, as it was ingested.

        Returns:
            The root: the name of its batch.

        Raises:
            SourceRefused: Nothing was ingested from this source.
        """
        return find_root(source, [batch.batch for batch in self.store.batch_counts(self.collection.name)])

    def count_withdrawn(self) -> int:
        """Count the documents that were withdrawn: their files were deleted, or their source was forgotten.

        Returns:
            How many documents there are.
        """
        return sum(self.store.count(self.pipeline.name, state="cancelled", code=code) for code in WITHDRAWN)

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

    def _require_service_settings(self) -> None:
        """Raise MissingSetting if a service has no key. Otherwise each document would fail with it."""
        if isinstance(reader := self._reader(), ServiceReader):
            reader.azure.require_settings()
        if is_service(self.collection.settings.embedder):
            from holdfast.pipelines.rag.embed.remote_base import HttpEmbedder

            if isinstance(self.embedder, HttpEmbedder):
                self.embedder.require_settings()

    def _reader(self) -> Reader:
        if self._given_reader is not None:
            return self._given_reader
        if self.collection.settings.reader == "local":
            return LocalReader(self._allow_private)
        from holdfast.pipelines.rag.extract.azure_reader import AzureReader

        return ServiceReader(AzureReader(), self._allow_private)

    def _submit_attachments(self, doc: Document, names: Sequence[str]) -> None:
        submit_attachments(self.pipeline, self.store, self.indexes.database, doc, names=names)

    def _count_without_vectors(self, doc: Document) -> int:
        """Count the chunks of a document that were set aside because no vector could be made."""
        document = self.store.document(doc.pipeline, doc.batch, doc.key)
        return sum(step == "embed" for step, _ in self.store.failed_items(document.id))
