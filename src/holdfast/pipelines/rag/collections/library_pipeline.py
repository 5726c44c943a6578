"""The pipeline of a library: the parts that it is built from, and what they need before documents are processed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from holdfast.core.document import Document
from holdfast.core.pipeline import Pipeline
from holdfast.pipelines.rag.chunk.chunks import Split
from holdfast.pipelines.rag.collections.open_collection import OpenCollection
from holdfast.pipelines.rag.collections.spending import SpendingMeter
from holdfast.pipelines.rag.embed import is_service
from holdfast.pipelines.rag.extract.limits import DEFAULT_OCR_LANGUAGES
from holdfast.pipelines.rag.extract.readers import LocalReader, Reader, ServiceReader, preload_parsers
from holdfast.pipelines.rag.ingest.attachments import submit_entries
from holdfast.pipelines.rag.ingest.trusted_sources import TrustedSources
from holdfast.pipelines.rag.pipeline import PageStep, PipelineParts, ProgressCounter, build_pipeline
from holdfast.pipelines.rag.values import EntryDocument


class ReadOptions(Struct, frozen=True, kw_only=True):
    """How a Library reads documents, besides the settings of its collection. `Library` describes each option."""

    reader: Reader | None = None
    split: Split | None = None
    pages: Sequence[PageStep] = ()
    allow_private: bool = False
    follow_symlinks: bool = False


class LibraryPipeline:
    """Builds the pipeline of an open collection.

    Attributes:
        trusted: The sources whose files may be read.
        progress: How many pages, chunks and vectors this process made, by step.
        meter: Counts what is spent of the budget of the collection.
    """

    def __init__(self, opened: OpenCollection, options: ReadOptions) -> None:
        self._opened = opened
        self._options = options
        self.trusted = TrustedSources(opened.store, opened.name)
        self.progress = ProgressCounter()
        self.meter = SpendingMeter(opened.store, opened.name)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that documents go through."""
        opened, options = self._opened, self._options
        reader = self._reader()
        self.trusted.refresh()
        parts = PipelineParts(
            reader=reader,
            embedder=opened.embedder,
            index=opened.index,
            split=options.split,
            pages=options.pages,
            at_once=opened.settings.at_once if isinstance(reader, ServiceReader) else None,
            submit=self._submit_entries,
            pages_per_commit=opened.settings.pages_per_commit,
            progress=self.progress,
            without_vectors=self._count_without_vectors,
            refuse=self.trusted.reject_untrusted,
            follow_symlinks=options.follow_symlinks,
            meter=self.meter,
        )
        return build_pipeline(opened.collection, parts)

    def require_service_settings(self) -> None:
        """Raise MissingSetting if a service has no key, and NoOcrModel if pictures cannot be read in a language.

        Otherwise each document would fail with it.
        """
        if isinstance(reader := self._reader(), ServiceReader):
            reader.azure.require_settings()
        languages = self._opened.settings.ocr_languages
        if languages != DEFAULT_OCR_LANGUAGES:
            from holdfast.pipelines.rag.extract.ocr import require_models

            require_models(languages)
        if is_service(self._opened.settings.embedder):
            from holdfast.pipelines.rag.embed.remote_base import HttpEmbedder

            if isinstance(self._opened.embedder, HttpEmbedder):
                self._opened.embedder.require_settings()

    def preload_parsers(self) -> None:
        """Import the parsers that most of the waiting documents need, before processes are forked."""
        store = self._opened.store
        preload_parsers(pdfs=bool(store.select(self.pipeline.name, state="waiting", key="*.pdf", limit=1)))

    def _reader(self) -> Reader:
        if self._options.reader is not None:
            return self._options.reader
        if self._opened.settings.reader == "local":
            return LocalReader(self._options.allow_private, self._opened.settings.ocr_languages)
        from holdfast.pipelines.rag.extract.azure_reader import AzureReader

        return ServiceReader(AzureReader(), self._options.allow_private)

    def _submit_entries(self, doc: Document, entries: Iterator[EntryDocument]) -> None:
        submit_entries(self.pipeline, self._opened.store, self._opened.indexes.database, doc, entries=entries)

    def _count_without_vectors(self, doc: Document) -> int:
        """Count the chunks of a document that were set aside because no vector could be made."""
        store = self._opened.store
        document = store.document(doc.pipeline, doc.batch, doc.key)
        return sum(step == "embed" for step, _ in store.failed_items(document.id))
