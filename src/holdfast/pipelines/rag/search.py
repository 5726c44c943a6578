"""Search: by words and by meaning at once, and the two lists made one."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import HoldfastError
from holdfast.pipelines.rag.embedders import Embedder
from holdfast.pipelines.rag.index import Hit, Index, Model, Stored, Where, plain
from holdfast.pipelines.rag.index.words import WORD, words_of

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor  # which imports logging: it waits for the first question

    import numpy as np

DEPTH = 200
"""How many chunks each list has before they are made one: more only where more are asked for."""
DEEPEST, DEEPER = 10_000, 4
"""How many it has at most to find other documents behind one that fills it, and how many times more at each look."""
MEANING = 0.6
"""How much meaning counts beside words."""
BEST, PULL = 2, 0.3
"""Of how many documents the best answers pull a question towards themselves, and how strongly one does that fits."""
THREADS = 8
"""How many questions are embedded at once, at most."""
EVERYWHERE = Where()
By = Literal["words", "meaning"]
SNIPPET = 240
"""About how many characters of a chunk a person is shown."""


class Found(Struct, frozen=True, kw_only=True):
    """One answer: where it stands, and why it was found.

    `marks` are the places in `snippet` of words that were asked for. `by_words` and `by_meaning` are its places in the
    two lists, from 1; None where it was not in one.
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
    text: str
    snippet: str
    marks: tuple[tuple[int, int], ...]
    metadata: Mapping[str, Any]
    by_words: int | None = None
    by_meaning: int | None = None


class NoQuestion(HoldfastError, ValueError):
    """A question has no letter and no digit, so it asks for nothing; what is nearest to nothing is no answer."""


class Search:
    """Answers questions from an index. Keep it: the first question loads the model and the vectors.

    Any number of threads may share one. While the words are looked up, another thread embeds the question.
    """

    def __init__(self, index: Index, embedder: Embedder | None) -> None:
        self._index = index
        self._embedder = embedder
        self._others = _Others()

    def __call__(
        self,
        question: str,
        where: Where = EVERYWHERE,
        *,
        limit: int = 10,
        each: int | None = None,
        by: By | None = None,
    ) -> list[Found]:
        """Finds the chunks that answer a question best; `each` is how many of one document, at most.

        Raises NoQuestion where there is nothing to look for.
        """
        if not asks(question):
            raise NoQuestion(f"a question has words or numbers in it; there are none in {question[:60]!r}")
        question = plain(question)
        vector = None if by == "words" else self._embedding(question)
        depth = max(DEPTH, limit)
        while True:
            lists = self._look(question, vector, where, by=by, depth=depth)
            chosen = [*islice(_at_most(each, fuse(lists.words, lists.meaning)), limit)]
            if len(chosen) == limit or lists.complete or depth >= DEEPEST:
                break
            depth = min(DEEPER * depth, DEEPEST)
        stored = self._index.chunks([hit.chunk for hit in chosen])
        places = _places(lists.words or ()), _places(lists.meaning or ())
        asked = words_of(question)
        return [_found(hit, stored[hit.chunk], asked, *places) for hit in chosen if hit.chunk in stored]

    def _look(
        self, question: str, vector: Future[np.ndarray] | None, where: Where, *, by: By | None, depth: int
    ) -> _Lists:
        words = None if by == "meaning" else self._index.by_words(question, where, limit=depth)
        if vector is None:
            return _Lists(words, None, complete=len(words or ()) < depth)
        asked = vector.result()
        meaning = self._index.by_meaning(self._model, asked, where, limit=depth) if asked.any() else []
        complete = len(words or ()) < depth and len(meaning) < depth
        if words and meaning:
            meaning = self._asked_again(asked, meaning, fuse(words, meaning))
        return _Lists(words, meaning, complete)

    def _embedding(self, question: str) -> Future[np.ndarray] | None:
        return None if self._embedder is None else self._others.submit(self._vector, question)

    def _vector(self, question: str) -> np.ndarray:
        """Gives the vector of a question, of length one; all zeros where the model knows nothing of it."""
        from holdfast.pipelines.rag.embedders.units import unit_rows

        assert self._embedder is not None
        vector: np.ndarray = unit_rows([self._embedder.embed_query(question)], self._embedder, count=1)[0]
        return vector

    def _asked_again(self, vector: np.ndarray, hits: Sequence[Hit], ranked: Sequence[Hit]) -> list[Hit]:
        """Puts what was found by meaning into the order of a question that knows the best answers.

        They say what was asked for as documents say it, and other documents that do are nearer to them than to the
        question. On SciFact and Cranfield this finds more; looking at all vectors once again finds hardly more yet.
        """
        import numpy as np

        best = [*islice(_at_most(1, ranked), BEST)]
        known = self._index.vectors(self._model, [hit.chunk for hit in (*best, *hits)])
        there = [hit for hit in hits if hit.chunk in known]
        if not there:
            return [*hits]
        pull = [PULL * hit.score * np.frombuffer(known[hit.chunk], "<f2") for hit in best if hit.chunk in known]
        asked = sum(pull, start=vector)
        rows = np.frombuffer(b"".join(known[hit.chunk] for hit in there), "<f2").reshape(len(there), -1)
        nearness = np.einsum("ij,j->i", rows.astype(np.float32), asked)  # on this thread: @ waits for others
        order = np.argsort(-nearness, kind="stable").tolist()
        return [replace(there[place], score=float(nearness[place])) for place in order]

    @property
    def _model(self) -> Model:
        assert self._embedder is not None
        return Model(self._embedder.name, self._embedder.dimension)


class _Lists(Struct, frozen=True):
    """What was found by words and by meaning, None where that was not asked for, and whether that is all there is."""

    words: Sequence[Hit] | None
    meaning: Sequence[Hit] | None
    complete: bool


class _Others:
    """Other threads. A forked child has none of its parent's, and gets some of its own."""

    def __init__(self) -> None:
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def submit(self, call: Callable[[str], Any], question: str) -> Future[Any]:
        if self._pool is None or self._pool[0] != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            self._pool = (os.getpid(), ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-search"))
        return self._pool[1].submit(call, question)


def asks(question: str) -> bool:
    """Answers whether there is a letter or a digit in a question."""
    return any(map(str.isalnum, question))


def fuse(words: Sequence[Hit] | None, meaning: Sequence[Hit] | None) -> list[Hit]:
    """Makes one list of two. Scores of different kinds do not compare; how far each is from the best of its list does.

    On SciFact and Cranfield this was better than counting places. A list that was not asked for, None, has no weight.
    """
    scores: Counter[int] = Counter()
    documents: dict[int, int] = {}
    by_meaning = 0.0 if meaning is None else 1.0 if words is None else MEANING
    for hits, weight in ((words or (), 1 - by_meaning), (meaning or (), by_meaning)):
        for hit, nearness in zip(hits, _spread(hits), strict=True):
            scores[hit.chunk] += weight * nearness  # type: ignore[assignment]
            documents[hit.chunk] = hit.document
    return [Hit(chunk, documents[chunk], score) for chunk, score in scores.most_common()]


def _spread(hits: Sequence[Hit]) -> list[float]:
    """Gives scores from 1, for the best of a list, to 0, for its last."""
    if not hits:
        return []
    best, last = hits[0].score, hits[-1].score
    return [(hit.score - last) / (best - last) if best > last else 1.0 for hit in hits]


def _at_most(each: int | None, hits: Sequence[Hit]) -> Iterator[Hit]:
    shown: Counter[int] = Counter()
    for hit in hits:
        shown[hit.document] += 1
        if each is None or shown[hit.document] <= each:
            yield hit


def _places(hits: Sequence[Hit]) -> dict[int, int]:
    return {hit.chunk: place for place, hit in enumerate(hits, 1)}


def _found(
    hit: Hit, stored: Stored, asked: Sequence[str], words: Mapping[int, int], meaning: Mapping[int, int]
) -> Found:
    snippet, marks = snippet_of(stored.text, asked)
    return Found(
        score=hit.score,
        collection=stored.name.collection,
        source=stored.name.source,
        key=stored.name.key,
        kind=stored.kind,
        title=stored.title,
        page=stored.page,
        start=stored.start,
        end=stored.end,
        text=stored.text,
        snippet=snippet,
        marks=marks,
        metadata=stored.metadata,
        by_words=words.get(hit.chunk),
        by_meaning=meaning.get(hit.chunk),
    )


def snippet_of(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Gives the stretch of a text that has most of the words, on one line, and where they stand in it."""
    text = " ".join(text.split())
    beginnings = _beginnings(words)
    places = [match.span() for match in WORD.finditer(text) if match.group().lower().startswith(beginnings)]
    start = _back_to_a_word(text, max(_richest(text, places) - SNIPPET // 6, 0))
    end = min(start + SNIPPET, len(text))
    end = max(_back_to_a_word(text, end), start) if end < len(text) else end
    end = end if end > start else start + SNIPPET  # one endless word
    return text[start:end].rstrip(), tuple((a - start, b - start) for a, b in places if start <= a and b <= end)


def _richest(text: str, places: Sequence[tuple[int, int]]) -> int:
    """Finds from which of some words on a snippet has most of them, each counted once."""
    inside: deque[str] = deque()
    ahead = iter(places)
    coming = next(ahead, None)
    most, best = 0, places[0][0] if places else 0
    for place in places:
        while coming is not None and coming[1] <= place[0] + SNIPPET:
            inside.append(text[slice(*coming)].lower())
            coming = next(ahead, None)
        if coming == place:  # a word that is longer than a snippet
            coming = next(ahead, None)
            continue
        if len(set(inside)) > most:
            most, best = len(set(inside)), place[0]
        inside.popleft()
    return best


def _beginnings(words: Sequence[str]) -> tuple[str, ...]:
    """Gives how words begin that full text takes for one of these: they differ at their ends."""
    return tuple({word[: max(len(word) - 2, 4)] for word in words})


def _back_to_a_word(text: str, place: int) -> int:
    while 0 < place < len(text) and not text[place - 1].isspace():
        place -= 1
    return place
