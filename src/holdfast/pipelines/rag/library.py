"""A library: one collection of a store, ready to take documents in and to answer questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Unpack

from msgspec.structs import replace

from holdfast.core.document import Document
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.engine.report import Report
from holdfast.engine.settings import How
from holdfast.engine.stale import stale_groups
from holdfast.pipelines.rag import metadata
from holdfast.pipelines.rag.asking import ServiceError
from holdfast.pipelines.rag.carried import take_in_carried
from holdfast.pipelines.rag.changes import Change
from holdfast.pipelines.rag.collections import (
    Collection,
    Settings,
    collection_or_none,
    collections,
    configure,
    create,
    no_such,
    remove,
    swap,
)
from holdfast.pipelines.rag.cutting import Split
from holdfast.pipelines.rag.elsewhere import Elsewhere
from holdfast.pipelines.rag.embedders import Embedder, is_service
from holdfast.pipelines.rag.extra import require_extra
from holdfast.pipelines.rag.index import Index, Model, Where
from holdfast.pipelines.rag.index.choice import STORE, Indexes, refuse_crew
from holdfast.pipelines.rag.ingest import AS_USUAL, Intake, Looking
from holdfast.pipelines.rag.meanings import embed_what_is_seen
from holdfast.pipelines.rag.model import DEFAULT
from holdfast.pipelines.rag.models import Models, model_of
from holdfast.pipelines.rag.pipeline import OverPages, Parts, document_search
from holdfast.pipelines.rag.reading import LocalReader, Reader, ServiceReader, warm
from holdfast.pipelines.rag.search import EVERYWHERE, By, Found, Search
from holdfast.pipelines.rag.sources import Source, root_named, source_of
from holdfast.pipelines.rag.tallying import Tally
from holdfast.pipelines.rag.watching import Glance
from holdfast.pipelines.rag.withdrawing import FORGOTTEN, OUT, withdraw_all
from holdfast.stores.protocol import Store, Which

SLICE = 2000
HANDS = 1 + (os.cpu_count() or 1)
"""How many bodies run at once: one for each core, and one more, for while others wait for children and the disk."""


WORTH_IT = 100
"""Documents for which one more process is worth its start."""


class Library:
    """One collection: `ingest` takes in what a source has, `search` answers questions.

    embedder  a model of one's own, instead of the one that the collection's settings name; they name it from then on
    reader    what reads the pages of documents, instead of the one that the settings name
    split     where a text is cut into chunks, instead of as the settings say
    pages     steps of one's own over pages, between extract and chunk
    """

    def __init__(
        self,
        store: Store,
        name: str = DEFAULT,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        reader: Reader | None = None,
        split: Split | None = None,
        pages: Sequence[OverPages] = (),
        allow_private: bool = False,
    ) -> None:
        self.store = store
        self.indexes = Indexes(store)
        self._models = Models(store, embedder)
        self.collection = self._opened(name, settings)
        self._elsewhere = Elsewhere(store, name)
        self._given_reader = reader
        self._split = split
        self._pages = pages
        self._allow_private = allow_private
        self._searches: dict[tuple[str, str, str | None], Search] = {}
        self.tally = Tally()
        """How many pages, chunks and vectors were made here, by step."""

    def _opened(self, name: str, settings: Settings | None) -> Collection:
        with self.store.transaction() as tx:
            self.indexes.ground.prepare(tx)
            metadata.prepare(tx)
            there = collection_or_none(tx, name)
            wanted = settings or (there.settings if there else Settings())
            wanted = replace(wanted, embedder=self._models.spec(wanted))
            if there is None:
                there = Collection(name, wanted)
                create(tx, there)
            elif wanted != there.settings:
                configure(tx, Collection(name, wanted))
                there = collection_or_none(tx, name) or there
        return there

    @property
    def index(self) -> Index:
        """Where documents are made searchable."""
        return self.indexes.named(self.collection.settings.index)

    @cached_property
    def embedder(self) -> Embedder:
        """The model that gives vectors."""
        return self._models.named(self.collection, self.collection.settings.embedder)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that documents go through."""
        reader = self._reader()
        self._elsewhere.look()
        parts = Parts(
            reader=reader,
            embedder=self.embedder,
            index=self.index,
            split=self._split,
            pages=self._pages,
            at_once=self.collection.settings.at_once if isinstance(reader, ServiceReader) else None,
            submit=self._take_attachments,
            pages_per_commit=self.collection.settings.pages_per_commit,
            tally=self.tally,
            without_vectors=self._without_vectors,
            refuse=self._elsewhere.refuse,
        )
        return document_search(self.collection, parts)

    def ingest(self, source: str, looking: Looking = AS_USUAL, **how: Unpack[How]) -> Report:
        """Takes in what a source has, and works until all of it can be found. Call it again to go on.

        Files that did not change since the last time cost nothing; those that are gone leave the index.
        """
        self.make_ready(processes=how.get("processes", 1))
        self.take_in(source, looking)
        return self.drain(**how)

    def make_ready(self, *, processes: int = 1) -> None:
        """Raises at once if nothing could be made searchable; sets documents back that other settings made so."""
        require_extra()
        refuse_crew(self.collection.settings.index, processes)
        self._require_settings_of_services()
        if self.collection.settings.index != STORE:
            self.index.reach(self.collection.name, model=self._model)
        self._elsewhere.look()
        self.redo_what_is_stale()

    def _require_settings_of_services(self) -> None:
        """Raises MissingSetting where a service has no key: each document would find that out by itself."""
        if isinstance(reader := self._reader(), ServiceReader):
            reader.azure.require_settings()
        if is_service(self.collection.settings.embedder):
            from holdfast.pipelines.rag.embedders.service import Service

            if isinstance(self.embedder, Service):
                self.embedder.require_settings()

    def drain(self, **how: Unpack[How]) -> Report:
        """Works until nothing of the collection waits any more."""
        report = Report()
        refuse_crew(self.collection.settings.index, how.get("processes", 1))
        self._elsewhere.look()
        if waiting := self.store.balance(self.collection.name).open:
            self.warm()
            how.setdefault("threads", HANDS)
            how["processes"] = min(how.get("processes", 1), 1 + waiting // WORTH_IT)
            report = api.drain(self.pipeline, self.store, **how)
        self.settle()
        return report

    def warm(self) -> None:
        """Imports what most of the documents that wait are read with, before processes are forked that read them."""
        warm(pdfs=bool(self.store.select(self.pipeline.name, state="waiting", key="*.pdf", limit=1)))

    def withdrawn(self) -> int:
        """Counts the documents that are no more: their files were deleted, or somebody wanted them out."""
        return sum(self.store.count(self.pipeline.name, state="cancelled", text=why) for why in OUT)

    def _without_vectors(self, doc: Document) -> int:
        """Counts the chunks of a document of which no vector could be made, so that they were set aside."""
        here = self.store.standing(doc.pipeline, doc.batch, doc.key)
        return sum(step == "embed" for step, _ in self.store.asides(here.id))

    def settle(self) -> None:
        """Puts the index in order after work: what nobody makes anew gets vectors of a new embedder, what is searched
        elsewhere is brought there, what is outdated leaves it.

        Where the settings are new and all is there, it is searched by them from now on. Killed, the next one goes on.
        """
        name = self.collection.name
        if self.collection.settings.embedder != self._searched.embedder:
            embed_what_is_seen(self.store, self.indexes.ground, name, self.embedder)
        if self.collection.settings.index == self._searched.index == STORE:
            return
        self.index.bring(name, model=self._model)
        self.swap_if_complete()
        self.index.tend(name, model=self._model)
        self.indexes.clear()

    def take_in(
        self, source: str, looking: Looking = AS_USUAL, tell: Callable[[Change], object] = lambda _: None
    ) -> Intake:
        """Submits what is new or changed, renames what moved and forgets what is gone. Works on nothing yet."""
        named = source_of(source)
        intake = Intake(self.pipeline, self.store, self.index, named, looking)
        self.require_the_collection()
        self.admit(named)
        intake.take_in(tell)
        return intake

    def take_glance(
        self,
        source: Source,
        glance: Glance,
        looking: Looking = AS_USUAL,
        *,
        tell: Callable[[Change], object] = lambda _: None,
    ) -> Intake:
        """Takes in what somebody who watches a source was given, as `take_in` does.

        Raises NothingThere instead of forgetting all that a source had: a disk that is away looks like that.
        """
        intake = Intake(self.pipeline, self.store, self.index, source, looking, glance=glance)
        self.require_the_collection()
        self.admit(source)
        intake.take_in(tell)
        return intake

    def admit(self, source: Source) -> None:
        """Lets files of a source be read: somebody named it here."""
        self._elsewhere.admit(source.root, self.indexes.ground)

    def require_the_collection(self) -> None:
        """Raises NoSuchCollection if somebody deleted it meanwhile."""
        with self.store.reading() as tx:
            there = [one.name for one in collections(tx)]
        if self.collection.name not in there:
            raise no_such(self.collection.name, there)

    def is_outdated(self) -> bool:
        """Answers whether somebody gave the collection other settings meanwhile: another library has those.

        Raises NoSuchCollection if somebody deleted it.
        """
        with self.store.reading() as tx:
            there = {one.name: one.settings for one in collections(tx)}
        if self.collection.name not in there:
            raise no_such(self.collection.name, there)
        return there[self.collection.name] != self.collection.settings

    def redo_what_is_stale(self) -> int:
        """Sets documents back that were made searchable by other settings. Meanwhile searches see what there was."""
        if self.pipeline.name not in self.store.pipelines():
            return 0
        groups = stale_groups(self.store, self.pipeline)
        plan = self.store.declare(self.pipeline.shape())
        redone = 0
        for group in groups:
            for place in group.counts:
                which: Which = {"plan": group.plan_id, "state": place.state, "step": place.step}
                after = 0
                while some := self.store.select(self.pipeline.name, after=after, limit=SLICE, **which):
                    after = some[-1]
                    redone += len(self.store.rewind_to(plan, some, to=group.to, who="ingest", reason=group.why))
        return redone

    def delete(self) -> None:
        """Takes the collection and all its documents out of the index. Killed in the middle, it can be called again.

        The files are not touched. Ingested again, they are new documents.
        """
        name = self.collection.name
        withdraw_all(self.store, self.indexes.ground, name, who="delete", reason="its collection was deleted")
        with self.store.transaction() as tx:
            remove(tx, name)
            metadata.forget(tx, name)
        self.indexes.clear()

    def forget(self, source: str) -> int:
        """Takes all that came from a source out of the index, also where it is not there any more. Says how many.

        The files are not touched. Ingested again, they are new documents. Killed in the middle, it can be called again.
        """
        name = self.collection.name
        root = self.root_of(source)
        withdrawn = withdraw_all(self.store, self.indexes.ground, name, source=root, who="forget", reason=FORGOTTEN)
        with self.store.transaction() as tx:
            metadata.forget(tx, name, source=root)
        settings = self.collection.settings
        if settings.index != STORE and self._models.has(self.collection, settings.embedder):
            self.index.tend(name, model=self._model)
        return withdrawn

    def root_of(self, source: str) -> str:
        """Answers what a source is known by here, also one that is not there any more, or refuses it."""
        return root_named(source, [found.batch for found in self.store.census(self.collection.name)])

    def close(self) -> None:
        """Lets go of connections, memory and folders. What is asked next opens them anew."""
        self._searches.clear()
        self.indexes.close()

    def search(
        self,
        question: str,
        where: Where = EVERYWHERE,
        *,
        limit: int = 10,
        each: int | None = None,
        by: By | None = None,
    ) -> list[Found]:
        """Finds the chunks of this collection that answer a question best; `by` asks only words, or only meaning."""
        here = replace(where, collection=self.collection.name)
        if by == "words":
            return Search(self.indexes.named(STORE), None)(question, here, limit=limit, each=each, by=by)
        return self._searching()(question, here, limit=limit, each=each, by=by)

    def _searching(self) -> Search:
        """Searches with the vectors that are complete: as before, while others are being made or brought elsewhere."""
        if self.collection.searched is not None and self._models.has(
            self.collection, self.collection.settings.embedder
        ):
            self.swap_if_complete()
        by = self._searched
        newer = self.collection.settings.embedder if self._some_have_only_newer_vectors() else None
        where = (by.index, by.embedder, newer)
        if where not in self._searches:
            embedder = self._models.named(self.collection, by.embedder)
            beside = self.embedder if newer else None
            self._searches[where] = Search(self.indexes.named(by.index), embedder, newer=beside)
        return self._searches[where]

    def _some_have_only_newer_vectors(self) -> bool:
        """Answers whether documents that are seen lack vectors of the model by which the collection is searched.

        So it is while its embedder changes, where documents were cut anew, too, or came in meanwhile.
        """
        now, by = self.collection.settings, self._searched
        if now.embedder == by.embedder or now.index != by.index or not self._models.has(self.collection, now.embedder):
            return False
        model = model_of(self._models.named(self.collection, by.embedder))
        return not self.indexes.named(by.index).complete(self.collection.name, model=model)

    @property
    def _searched(self) -> Settings:
        return self.collection.searched or self.collection.settings

    @property
    def _model(self) -> Model:
        return model_of(self.embedder)

    def swap_if_complete(self) -> bool:
        """Has the collection searched by its own embedder and in its own index, if all is there. Answers whether."""
        if self.collection.searched is None:
            return False
        try:
            model = self._model
        except ServiceError:  # it does not answer, so it cannot say how long its vectors are
            return False
        if not self.index.complete(self.collection.name, model=model):
            return False
        with self.store.transaction() as tx:
            swap(tx, self.collection, model)
        self.collection = replace(self.collection, searched=None)
        return True

    def _reader(self) -> Reader:
        if self._given_reader is not None:
            return self._given_reader
        if self.collection.settings.reader == "local":
            return LocalReader(self._allow_private)
        from holdfast.pipelines.rag.azure import AzureReader

        return ServiceReader(AzureReader(), self._allow_private)

    def _take_attachments(self, doc: Document, names: Sequence[str]) -> None:
        take_in_carried(self.pipeline, self.store, self.indexes.ground, doc, names=names)
