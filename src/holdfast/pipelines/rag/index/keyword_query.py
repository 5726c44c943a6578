"""Choose the words of a question that a keyword search looks for, and those that select the chunks to rank.

It takes long to rank every chunk that has any word of the question if one of the words is common. So the rarest words
select chunks, and all words rank them: a chunk that has only the common words would hardly be among the best.

A word of a question may be stored as several terms, one for each language of the documents: its variants. The
expressions are those of SQLite's full-text search. PostgreSQL has queries of its own, in postgres/keyword_query.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from holdfast.pipelines.rag.index.languages import ENGLISH, without_stop_words
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.tokenizer import is_paired, pairs_of, terms_of, variants_of, words_of

MAX_SELECTED = 3000
"""Chunks that are ranked, at most, if the rarest words select so few."""
MAX_RANKED_OCCURRENCES = 40_000
"""Sum of the chunks that have each word that ranks, at most. To compute how rare a word is, every chunk that has it is
read; and the more chunks have it, the less it says."""
MAX_WORDS = 64
"""Words of a question that are used, at most: the rarest ones."""
MAX_READ = 20_000
"""Characters of a question that are read, at most."""
RUN = 3
"""Words of a run that selects chunks. A question of two words has one run of two."""
MAX_RUNS = 100
"""Words of a question whose runs are looked for, at most."""
MAX_RUN_COUNT = 5000
"""A run selects chunks if one of its words is in at most this number of chunks."""
MAX_RUN_COUNTS = 2000
"""Sum of the chunks that have the rarest word of each run that selects, at most."""
PREFIX = "*"
"""The end of a term that stands for all terms that begin with it: one character of a script without spaces."""
PREFIX_COUNT = 500
"""The number of chunks that a prefix is taken to be in. Nothing counts them."""

Word = tuple[str, ...]
"""The terms under which a word may be stored. A chunk with any of them has the word."""
Phrase = tuple[str, ...]
"""Terms that follow one another."""
Phrases = tuple[Phrase, ...]
"""The terms under which a phrase may be stored, one phrase for each language."""
Count = Callable[[Sequence[str]], Mapping[str, int]]
"""Returns the number of chunks that have each term. Terms that no chunk has may be missing."""


class Run(Struct, frozen=True):
    """Words of a question that follow one another.

    Args:
        phrases: Their terms, for each language.
        start: The place of the first word in the question.
        size: How many words there are.
    """

    phrases: Phrases
    start: int
    size: int


class KeywordQuery(Struct, frozen=True):
    """What a keyword search looks for.

    Args:
        words: The words that rank.
        phrases: The phrases that a chunk must have.
        excluded: The phrases that a chunk must not have.
        runs: The runs of the question, of three words and of two.
        length: How many words the question has, with stop words.
    """

    words: Sequence[Word]
    phrases: Sequence[Phrases] = ()
    excluded: Sequence[Phrases] = ()
    runs: Sequence[Run] = ()
    length: int = 0


def keyword_query(question: Question, languages: Iterable[str]) -> KeywordQuery:
    """Return what to look for in documents of these languages."""
    return _keyword_query(question, tuple(dict.fromkeys((ENGLISH, *languages))))


@lru_cache(maxsize=64)  # each question is needed for its words, its runs and its phrases
def _keyword_query(question: Question, languages: tuple[str, ...]) -> KeywordQuery:
    text = question.text[:MAX_READ]
    terms = [_phrase(text, language)[:MAX_RUNS] for language in languages]
    return KeywordQuery(
        words=[*_words(text, languages)],
        phrases=[*filter(None, (_phrases(phrase, languages) for phrase in question.phrases))],
        excluded=[*filter(None, (_phrases(phrase, languages) for phrase in question.excluded))],
        runs=_runs(terms),
        length=min(map(len, terms)),
    )


def query_words(text: str, languages: Iterable[str] = ()) -> list[str]:
    """Return the words of a question in lower case, without stop words; all words if there are no others."""
    return without_stop_words(list(dict.fromkeys(word.lower() for word in words_of(text))), languages)


def _words(text: str, languages: Sequence[str]) -> dict[Word, None]:
    words: dict[Word, None] = {}
    for word in query_words(text, languages):
        if not is_paired(word):
            words[tuple(variants_of(word, languages))] = None
            continue
        pairs = pairs_of(word)
        for pair in pairs:
            words[(pair if len(pair) > 1 else pair + PREFIX,)] = None
    words.pop((), None)
    return words


def _phrases(text: str, languages: Sequence[str]) -> Phrases:
    return tuple(filter(None, dict.fromkeys(_phrase(text, language) for language in languages)))


def title_patterns(titles: Iterable[str], languages: Iterable[str]) -> list[list[str]]:
    """Return the parts of stored title terms that a document must have: of each title at least one part."""
    known = tuple(dict.fromkeys((ENGLISH, *languages)))
    return [[_part(phrase) for phrase in _phrases(title, known)] for title in titles]


def title_terms(title: str, language: str) -> str:
    """Return the terms of a title as documents store them, with spaces around each term."""
    return f" {' '.join(terms_of(title, language))} "


def _part(phrase: Phrase) -> str:
    terms = " ".join(phrase)
    return f" {terms[:-1]}" if terms.endswith(PREFIX) else f" {terms} "


def _phrase(text: str, language: str) -> Phrase:
    """Return the terms of a text. If it ends within a run without spaces, its last character is not alone."""
    terms = terms_of(text, language)
    last = words_of(text)[-1:]
    if last and is_paired(last[0]):
        return tuple(terms[:-1]) if len(last[0]) > 1 else (*terms[:-1], terms[-1] + PREFIX)
    return tuple(terms)


def _runs(by_language: Sequence[Phrase]) -> list[Run]:
    """Return the runs of a question, by its terms in each language. Runs of stop words say nothing."""
    length = min(map(len, by_language))
    return [
        Run(tuple(dict.fromkeys(terms[start : start + size] for terms in by_language)), start, size)
        for size in (RUN, 2)
        for start in range(length - size + 1)
    ]


def selecting_runs(query: KeywordQuery, count: Count) -> list[Phrase]:
    """Return the runs that select chunks: those with the rarest words. All words of each occur.

    One run selects a copied passage, and its other runs are then seen. To look for a run takes as long as its rarest
    word is common, so runs of common words are left out.
    """
    longest = [run for run in query.runs if run.size == min(RUN, query.length)]
    counts = count(list(dict.fromkeys(term for run in longest for phrase in run.phrases for term in phrase)))
    rarest = {
        phrase: rarest
        for run in longest
        for phrase in run.phrases
        if 0 < (rarest := min(_count(term, counts) for term in phrase)) <= MAX_RUN_COUNT
    }
    chosen: list[Phrase] = []
    total = 0
    for phrase in sorted(rarest, key=lambda phrase: rarest[phrase]):
        if chosen and total + rarest[phrase] > MAX_RUN_COUNTS:
            break
        total += rarest[phrase]
        chosen.append(phrase)
    return chosen


def has_run(run: Run, terms: str) -> bool:
    """Return True if a chunk has a run. Its terms have a space before and after each."""
    return any(_part(phrase) in terms for phrase in run.phrases)


def covered_share(query: KeywordQuery, found: Sequence[bool]) -> float:
    """Return the share of the words of a question that are in runs which a chunk has.

    Args:
        query: The question.
        found: For each run of the question, whether the chunk has it.
    """
    runs = (run for run, is_found in zip(query.runs, found, strict=True) if is_found)
    covered = {place for run in runs for place in range(run.start, run.start + run.size)}
    return len(covered) / query.length


def match_expressions(query: KeywordQuery, count: Count, *, enough: int = 1) -> list[str]:
    """Return the FTS5 expressions to try in turn: first the rarest words select, then all words.

    Args:
        query: What to look for.
        count: Returns the number of chunks that have each term.
        enough: Words are added until they select at least this number of chunks, if there are that many.

    Returns:
        Two expressions; one if all words together select few more chunks, or if there are phrases; none if no chunk
        has any of the words.
    """
    rarest, counts = rarest_words(query.words, count)
    excluded = "".join(f" NOT ({any_phrase(phrases)})" for phrases in query.excluded)
    if query.phrases:
        required = " AND ".join(f"({any_phrase(phrases)})" for phrases in query.phrases)
        ranking = words_within(MAX_RANKED_OCCURRENCES, rarest, counts, at_least=1)
        ranked = f"({required}) OR {_any_of(ranking)}" if ranking else required
        return [f"(({required}) AND ({ranked})){excluded}"]
    selecting = words_within(MAX_SELECTED, rarest, counts, at_least=enough)
    selected = sum(counts[word] for word in selecting)
    ranking = words_within(MAX_RANKED_OCCURRENCES, rarest, counts, at_least=max(enough, selected))
    if len(selecting) == len(ranking):
        return [f"({_any_of(ranking)}){excluded}"] if ranking else []
    return [
        f"(({_any_of(selecting)}) AND ({_any_of(ranking)})){excluded}",
        f"({_any_of(ranking)}){excluded}",
    ]


def rarest_words(words: Sequence[Word], count: Count) -> tuple[list[Word], dict[Word, int]]:
    """Return the words that chunks have, the rarest first, with only those terms that occur; and their counts."""
    term_counts = count([term for word in words for term in word])
    found = {
        terms: sum(_count(term, term_counts) for term in terms)
        for word in words
        if (terms := tuple(term for term in word if _count(term, term_counts)))
    }
    return sorted(found, key=lambda word: found[word])[:MAX_WORDS], found


def words_within(most: int, rarest: Sequence[Word], counts: Mapping[Word, int], *, at_least: int) -> list[Word]:
    """Return the first words whose counts add up to at most `most`; more words only until the sum is `at_least`."""
    chosen: list[Word] = []
    total = 0
    for word in rarest:
        if total >= at_least and total + counts[word] > most:
            break
        total += counts[word]
        chosen.append(word)
    return chosen


def any_phrase(phrases: Iterable[Phrase]) -> str:
    """Return the FTS5 expression for chunks that have any of these phrases."""
    return " OR ".join(_quoted(phrase) for phrase in phrases)


def _any_of(words: Iterable[Word]) -> str:
    return any_phrase((term,) for word in words for term in word)


def _quoted(phrase: Phrase) -> str:
    terms = " ".join(phrase)
    return f'"{terms.removesuffix(PREFIX)}" *' if terms.endswith(PREFIX) else f'"{terms}"'


def _count(term: str, counts: Mapping[str, int]) -> int:
    return PREFIX_COUNT if term.endswith(PREFIX) else counts.get(term, 0)
