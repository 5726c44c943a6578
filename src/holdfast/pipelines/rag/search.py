"""Search: by words and by meaning at once, and the two lists made one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from holdfast.core.errors import HoldfastError, Signal
from holdfast.pipelines.rag.embedders import Embedder
from holdfast.pipelines.rag.index import Hit, Index, Stored, Where, plain
from holdfast.pipelines.rag.index.words import WORD, words_of
from holdfast.pipelines.rag.ranking import at_most, fuse, joined
from holdfast.pipelines.rag.senses import Sense

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np

    Asked = tuple[Sense, Callable[[], np.ndarray | None]]
    """A model, and how to get the vector of a question from it."""

NEVER: tuple[type[Exception], ...] = ()
AWAY = (Signal, HoldfastError)
"""What a service that cannot be asked just now raises, or one that nobody gave a key."""
DEPTH = 200
"""How many chunks each list has before they are made one: more only where more are asked for."""
DEEPEST, DEEPER = 10_000, 4
"""How many it has at most to find other documents behind one that fills it, and how many times more at each look."""
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

    Any number of threads may share one. While the words are looked up, others embed the question. Without an embedder
    only words are asked for. `newer` has the vectors of documents that lack those of the first, while a collection
    changes its embedder; a service behind it that does not answer is done without.
    """

    def __init__(self, index: Index, embedder: Embedder | None, *, newer: Embedder | None = None) -> None:
        self._index = index
        self._sense = None if embedder is None else Sense(index, embedder)
        self._newer = None if newer is None else Sense(index, newer)

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
        senses = () if by == "words" else self._senses_of(question)
        depth = max(DEPTH, limit)
        while True:
            lists = self._look(question, senses, where, by=by, depth=depth)
            chosen = [*islice(at_most(each, fuse(lists.words, lists.meaning)), limit)]
            if len(chosen) == limit or lists.complete or depth >= DEEPEST:
                break
            depth = min(DEEPER * depth, DEEPEST)
        stored = self._index.chunks([hit.chunk for hit in chosen])
        places = _places(lists.words or ()), _places(lists.meaning or ())
        asked = words_of(question)
        return [_found(hit, stored[hit.chunk], asked, *places) for hit in chosen if hit.chunk in stored]

    def _senses_of(self, question: str) -> Sequence[Asked]:
        """Gives each model with the vector of a question, once that is there; None where nobody made one."""
        asked = [(self._sense, NEVER), (self._newer, AWAY)]
        return [
            (sense, partial(_unless, errors, sense.vector(question))) for sense, errors in asked if sense is not None
        ]

    def _look(
        self,
        question: str,
        senses: Sequence[Asked],
        where: Where,
        *,
        by: By | None,
        depth: int,
    ) -> _Lists:
        words = None if by == "meaning" else self._index.by_words(question, where, limit=depth)
        complete = len(words or ()) < depth
        meanings: list[list[Hit]] = []
        for sense, made in senses:
            if (vector := made()) is not None:
                near = sense.near(vector, where, limit=depth)
                complete = complete and len(near) < depth
                meanings.append(sense.asked_again(vector, near, fuse(words, near)) if words and near else near)
        return _Lists(words, joined(meanings) if meanings else None, complete)


def _unless(errors: tuple[type[Exception], ...], vector: Future[np.ndarray]) -> np.ndarray | None:
    try:
        return vector.result()
    except errors:
        return None


class _Lists(Struct, frozen=True):
    """What was found by words and by meaning, None where that was not asked for, and whether that is all there is."""

    words: Sequence[Hit] | None
    meaning: Sequence[Hit] | None
    complete: bool


def asks(question: str) -> bool:
    """Answers whether there is a letter or a digit in a question."""
    return any(map(str.isalnum, question))


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
