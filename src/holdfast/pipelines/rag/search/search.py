"""Search by keyword and by vector, and combine the two lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, Signal
from holdfast.pipelines.rag.embed.protocol import Embedder
from holdfast.pipelines.rag.extract.file_type import FILE_TYPES_WITH_PAGES
from holdfast.pipelines.rag.index.protocol import Index
from holdfast.pipelines.rag.index.question import Question, parse_question
from holdfast.pipelines.rag.index.values import Hit, StoredChunk, Where, storable_text
from holdfast.pipelines.rag.search.fusion import add_runs, fuse, limit_per_document, merge_models
from holdfast.pipelines.rag.search.snippets import snippet_of
from holdfast.pipelines.rag.search.vector_search import VectorSearch
from holdfast.pipelines.rag.values import DEFAULT_RESULTS

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np

    QuestionVector = tuple[VectorSearch, Callable[[], np.ndarray | None]]
    """A vector search, and a function that waits for the vector of the question; None if it has none."""

NO_ERRORS: tuple[type[Exception], ...] = ()
UNAVAILABLE = (Signal, HoldfastError)
"""Errors of a service that cannot be called now, or that has no key."""
DEPTH = 200
"""Hits of each list before they are combined; more only if more results are wanted."""
MAX_RUN_HITS = 300
"""Chunks that have a run of the question, at most."""
MAX_DEPTH, DEPTH_FACTOR = 10_000, 4
"""If one document fills the lists, they are read deeper to find others: by this factor each time, up to this depth."""
EVERYWHERE = Where()
By = Literal["words", "meaning"]
"""Search by keyword only, or by vector only."""


class SearchResult(Struct, frozen=True, kw_only=True):
    """One result of a search: a chunk, its document, and why it was found.

    Args:
        score: How well it fits, from 0 to 1. Only scores of the same search can be compared.
        collection: The collection of the document.
        source: The source of the document, such as a folder.
        key: The key of the document within the source, such as a relative path.
        kind: The file type of the document.
        title: The title of the document.
        page: The page number, from 1.
        start: Where the chunk starts in the text of the page.
        end: Where the chunk ends in the text of the page.
        position: How many chunks of the document come before it.
        chunk_index: How many chunks of the same page come before it.
        text: The text of the chunk.
        snippet: The part of the text that has most words of the question.
        marks: Start and end of each word of the question in `snippet`.
        metadata: The metadata of the document.
        page_metadata: What the reader said about the page, its label, and `how` if its text is not from the file.
        by_words: The rank in the keyword search, from 1; None if it was not found there.
        by_meaning: The rank in the vector search, from 1; None if it was not found there.
    """

    score: float
    collection: str
    source: str
    key: str
    kind: str
    title: str
    page: int
    start: int
    end: int
    position: int
    chunk_index: int
    text: str
    snippet: str
    marks: tuple[tuple[int, int], ...]
    metadata: Mapping[str, Any]
    page_metadata: Mapping[str, Any] = {}
    by_words: int | None = None
    by_meaning: int | None = None

    @property
    def shows_page(self) -> bool:
        """True if the page number helps a person to find the text."""
        return self.kind in FILE_TYPES_WITH_PAGES or self.page > 1


class EmptyQuestion(HoldfastError, ValueError):
    """A question has no letter and no digit, so there is nothing to search for."""


class Search:
    """Search an index. Keep the object: the first question loads the model and the vectors. Threads may share one.

    The question is embedded in another thread during the keyword search.

    Args:
        index: The index.
        embedder: The embedder of the vectors. None: search by keyword only.
        newer: The embedder that a collection is changing to. It finds documents that lack vectors of the first one. It
            is left out if its service is unavailable.
    """

    def __init__(self, index: Index, embedder: Embedder | None, *, newer: Embedder | None = None) -> None:
        self._index = index
        self._vector_search = None if embedder is None else VectorSearch(index, embedder)
        self._newer_vector_search = None if newer is None else VectorSearch(index, newer)

    def __call__(
        self,
        question: str,
        where: Where = EVERYWHERE,
        *,
        limit: int = DEFAULT_RESULTS,
        each: int | None = None,
        by: By | None = None,
    ) -> list[SearchResult]:
        """Find the chunks that answer a question best.

        Args:
            question: Words, or a sentence. "Words in quotes" must be in a result in this order, and a -word must not
                be in it. title:, path: and type: restrict the documents. No question is an error.
            where: The documents to look at.
            limit: Maximum number of results.
            each: Maximum number of results for each document. None: no maximum.
            by: Search by `words` only or by `meaning` only. None: both.

        Returns:
            The results, best first.

        Raises:
            EmptyQuestion: The question has no letter and no digit.
        """
        if not is_question(question):
            raise EmptyQuestion(f"a question needs words or numbers; there are none in {question[:60]!r}")
        asked = parse_question(storable_text(question))
        where = restricted(where, asked)
        vectors = () if by == "words" else self._question_vectors(asked.text)
        depth = max(DEPTH, limit)
        while True:
            lists = self._search(asked, vectors, where, by=by, depth=depth)
            chosen = [*islice(limit_per_document(each, lists.fused), limit)]
            if len(chosen) == limit or lists.are_complete or depth >= MAX_DEPTH:
                break
            depth = min(DEPTH_FACTOR * depth, MAX_DEPTH)
        chunks = self._index.chunks([hit.chunk for hit in chosen])
        ranks = _ranks(lists.words or ()), _ranks(lists.vectors or ())
        return [_result(hit, chunks[hit.chunk], asked.text, *ranks) for hit in chosen if hit.chunk in chunks]

    def _question_vectors(self, question: str) -> Sequence[QuestionVector]:
        """Start to embed a question with each model."""
        searches = [(self._vector_search, NO_ERRORS), (self._newer_vector_search, UNAVAILABLE)]
        return [
            (search, partial(_result_unless, ignored, search.embed(question)))
            for search, ignored in searches
            if search is not None
        ]

    def _search(
        self,
        question: Question,
        vectors: Sequence[QuestionVector],
        where: Where,
        *,
        by: By | None,
        depth: int,
    ) -> _HitLists:
        needs_words = by != "meaning" or question.phrases
        found = self._index.search_words(question, where, limit=depth) if needs_words else None
        words = None if by == "meaning" else found
        runs = [] if by == "meaning" else self._runs(question, where)
        are_complete = len(found or ()) < depth
        lists: list[list[Hit]] = []
        for search, wait_for_vector in vectors:
            vector = wait_for_vector()
            if vector is None:
                continue
            if question.phrases:  # only chunks that have them are compared
                lists.append(search.compare(vector, found or ()))
                continue
            near = search.nearest(vector, where, limit=depth)
            are_complete = are_complete and len(near) < depth
            near = self._allowed(question, near)
            lists.append(search.rerank(vector, near, add_runs(fuse(words, near), runs)) if words and near else near)
        return _HitLists(words, merge_models(lists) if lists else None, runs, are_complete)

    def _runs(self, question: Question, where: Where) -> Sequence[Hit]:
        return self._allowed(question, self._index.search_runs(question, where, limit=MAX_RUN_HITS))

    def _allowed(self, question: Question, hits: Sequence[Hit]) -> list[Hit]:
        """Leave out chunks that lack a phrase of the question, or have a word that it excludes."""
        if not question.restricts_chunks or not hits:
            return [*hits]
        allowed = self._index.chunks_allowed(question, [hit.chunk for hit in hits])
        return [hit for hit in hits if hit.chunk in allowed]


def _result_unless(ignored: tuple[type[Exception], ...], vector: Future[np.ndarray]) -> np.ndarray | None:
    try:
        return vector.result()
    except ignored:
        return None


class _HitLists(Struct, frozen=True):
    """The hits of the keyword search and of the vector search; None if that search was not asked for."""

    words: Sequence[Hit] | None
    vectors: Sequence[Hit] | None
    runs: Sequence[Hit]
    are_complete: bool
    """True if no search has more hits."""

    @property
    def fused(self) -> list[Hit]:
        """All hits in one list, best first."""
        return add_runs(fuse(self.words, self.vectors), self.runs)


def restricted(where: Where, question: Question) -> Where:
    """Add the filters of a question to those of a search."""
    if not (question.titles or question.paths or question.kinds):
        return where
    return replace(where, titles=question.titles, paths=question.paths, kinds=question.kinds)


def is_question(question: str) -> bool:
    """Return True if a question has a letter or a digit."""
    return any(map(str.isalnum, question))


def _ranks(hits: Sequence[Hit]) -> dict[int, int]:
    return {hit.chunk: rank for rank, hit in enumerate(hits, 1)}


def _result(
    hit: Hit,
    chunk: StoredChunk,
    question: str,
    word_ranks: Mapping[int, int],
    vector_ranks: Mapping[int, int],
) -> SearchResult:
    snippet, marks = snippet_of(chunk.text, question, chunk.language)
    return SearchResult(
        score=hit.score,
        collection=chunk.name.collection,
        source=chunk.name.source,
        key=chunk.name.key,
        kind=chunk.kind,
        title=chunk.title,
        page=chunk.page,
        start=chunk.start,
        end=chunk.end,
        position=chunk.position,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        snippet=snippet,
        marks=marks,
        metadata=chunk.metadata,
        page_metadata=chunk.page_metadata,
        by_words=word_ranks.get(hit.chunk),
        by_meaning=vector_ranks.get(hit.chunk),
    )
