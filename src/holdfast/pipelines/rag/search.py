"""Search: by words and by meaning at once, and the two lists made one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.pipelines.rag.embedders import Embedder
from holdfast.pipelines.rag.index import Hit, Index, Model, Stored, Where
from holdfast.pipelines.rag.index.words import WORD, words_of

DEPTH = 200
"""How many chunks each list has before they are made one."""
MEANING = 0.55
"""How much meaning counts beside words."""
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


class Search:
    """Answers questions from an index. Keep it: the first question loads the model and the vectors."""

    def __init__(self, index: Index, embedder: Embedder | None) -> None:
        self._index = index
        self._embedder = embedder

    def __call__(
        self,
        question: str,
        where: Where = EVERYWHERE,
        *,
        limit: int = 10,
        each: int | None = None,
        by: By | None = None,
    ) -> list[Found]:
        """Finds the chunks that answer a question best; `each` is how many of one document, at most."""
        words = [] if by == "meaning" else self._index.by_words(question, where, limit=DEPTH)
        meaning = [] if by == "words" else self._by_meaning(question, where)
        ranked = _at_most(each, fuse(words, meaning))
        best = [next(ranked, None) for _ in range(limit)]
        chosen = [one for one in best if one is not None]
        stored = self._index.chunks([hit.chunk for hit in chosen])
        places = _places(words), _places(meaning)
        asked = words_of(question)
        return [_found(hit, stored[hit.chunk], asked, *places) for hit in chosen if hit.chunk in stored]

    def _by_meaning(self, question: str, where: Where) -> list[Hit]:
        if self._embedder is None:
            return []
        vector = self._embedder.embed_query(question)
        model = Model(self._embedder.name, self._embedder.dimension)
        return self._index.by_meaning(model, vector, where, limit=DEPTH)


def fuse(words: Sequence[Hit], meaning: Sequence[Hit]) -> list[Hit]:
    """Makes one list of two. Scores of different kinds do not compare; how far each is from the best of its list does.

    On SciFact and Cranfield this was better than counting places.
    """
    scores: Counter[int] = Counter()
    documents: dict[int, int] = {}
    for hits, weight in ((words, 1 - MEANING), (meaning, MEANING)):
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
    start = max(
        (begin for begin, _ in places),
        key=lambda begin: len({text[a:b].lower() for a, b in places if begin <= a and b <= begin + SNIPPET}),
        default=0,
    )
    start = _back_to_a_word(text, max(start - SNIPPET // 6, 0))
    end = min(start + SNIPPET, len(text))
    end = max(_back_to_a_word(text, end), start) if end < len(text) else end
    end = end if end > start else start + SNIPPET  # one endless word
    return text[start:end].rstrip(), tuple((a - start, b - start) for a, b in places if start <= a and b <= end)


def _beginnings(words: Sequence[str]) -> tuple[str, ...]:
    """Gives how words begin that full text takes for one of these: they differ at their ends."""
    return tuple({word[: max(len(word) - 2, 4)] for word in words})


def _back_to_a_word(text: str, place: int) -> int:
    while 0 < place < len(text) and not text[place - 1].isspace():
        place -= 1
    return place
