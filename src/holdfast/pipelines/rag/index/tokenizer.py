"""Cut texts into the terms that keyword search stores and looks for.

A term is a word in lower case, stemmed by the rules of the language of its document, without accents. Text of scripts
that have no spaces between words becomes overlapping pairs of characters. All databases store these terms as they are,
so all give the same answers.

If the terms of a text change, increase TOKENIZER_VERSION: stored terms are then made again.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator

from holdfast.pipelines.rag.index.languages import ENGLISH, UNKNOWN, stem

TOKENIZER_VERSION = 2
"""The number of these rules. Rules 1 were those of the databases."""
MAX_TERM = 60
"""Characters of a term, at most. The rest of a longer word is left out."""
MAX_CACHED = 200_000
"""Words whose terms are cached, at most."""
_PAIRED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Korean
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # Japanese syllables
    "\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_MARKS = "".join(chr(code) for code in range(0x300, 0x1D00) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
_SHARED_MARKS = "\u0300-\u036f\u3099\u309a"
_TOKEN = re.compile(
    rf"[{_PAIRED}]+[{_PAIRED}{_SHARED_MARKS}]*|(?:(?![{_PAIRED}])[^\W_{_MARKS}])(?:(?![{_PAIRED}])[^\W_]|[{_MARKS}])*"
)
_ASCII_TOKEN = re.compile("[0-9A-Za-z]+")
_IS_PAIRED = re.compile(f"[{_PAIRED}]")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+")
_LETTERS = str.maketrans(
    {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
_ENDINGS = {"a": "áàãâä", "e": "éèêë", "i": "íîï", "o": "óòõôö", "u": "úùûü", "c": "ç", "n": "ñ"}
"""Letters with accents that decide which ending a word has. People leave out accents when they type."""

Token = tuple[str, int, int]
"""A term, with the start and the end of its word in the text."""


class _TermCache:
    """The terms of words that occurred, by language. It is emptied when it is full."""

    def __init__(self) -> None:
        self._terms: dict[tuple[str, str], str] = {}

    def term(self, word: str, language: str) -> str:
        key = (word, language)
        term = self._terms.get(key)
        if term is None:
            if len(self._terms) > MAX_CACHED:
                self._terms = {}
            term = self._terms[key] = sys.intern(_term(word, language))
        return term


_cache = _TermCache()


def terms_of(text: str, language: str = UNKNOWN) -> list[str]:
    """Return the terms of a text, in order.

    Args:
        text: The text.
        language: The code of its language.

    Returns:
        The terms. A run of characters without spaces also has its last character as a term.
    """
    return [term for term, _, _ in tokens_of(text, language)]


def tokens_of(text: str, language: str = UNKNOWN) -> Iterator[Token]:
    """Yield the terms of a text with their positions in the text."""
    if text.isascii():  # most texts, at half of the time
        for match in _ASCII_TOKEN.finditer(text):
            yield _cache.term(match.group()[: 2 * MAX_TERM], language), *match.span()
        return
    for match in _TOKEN.finditer(text):
        word = match.group()
        if _IS_PAIRED.match(word):
            yield from _pairs(word, match.start())
        else:
            term = _cache.term(word[: 2 * MAX_TERM], language)
            if term:
                yield term, match.start(), match.end()


def words_of(text: str) -> list[str]:
    """Return the words of a question, in order, as they are written. A run without spaces is one word."""
    return _TOKEN.findall(text)


def is_paired(word: str) -> bool:
    """Return True if a word is a run of a script without spaces, which is found by pairs of characters."""
    return _IS_PAIRED.match(word) is not None


def pairs_of(word: str) -> list[str]:
    """Return the pairs of characters by which a run without spaces is looked for; one character if it has no more."""
    pairs = [term for term, _, _ in _pairs(word, 0)]
    return pairs[:-1] if len(pairs) > 1 else pairs


def term_of(word: str, language: str) -> str:
    """Return the term of one word by the rules of a language."""
    return _cache.term(word[: 2 * MAX_TERM], language)


def variants_of(word: str, languages: Iterable[str]) -> list[str]:
    """Return the terms under which a word of a question may be stored, in documents of these languages.

    A question does not say its language, and often lacks accents. So each language gives the terms of the word as it
    is written, without accents, and with those accents that change which ending it has.
    """
    terms = dict.fromkeys(
        _cache.term(form, language)
        for language in dict.fromkeys((*languages, ENGLISH))
        for form in _forms(word, language)
    )
    return [term for term in terms if term]


def _forms(word: str, language: str) -> Iterable[str]:
    word = word[: 2 * MAX_TERM].lower()
    plain = _fold(word)
    if language in (ENGLISH, UNKNOWN) or not plain:
        return dict.fromkeys((word, plain))
    places = [place for place in range(max(len(plain) - 4, 1), len(plain)) if plain[place] in _ENDINGS]
    accented = (plain[:place] + letter + plain[place + 1 :] for place in places for letter in _ENDINGS[plain[place]])
    return dict.fromkeys((word, plain, *accented)) if word == plain else dict.fromkeys((word, plain))


def _pairs(run: str, start: int) -> Iterator[Token]:
    characters = unicodedata.normalize("NFKC", run)
    if len(characters) != len(run):  # half-width letters with marks: only whole runs have positions
        spans = [(start, start + len(run))] * len(characters)
    else:
        spans = [(start + place, min(start + place + 2, start + len(run))) for place in range(len(run))]
    for place, span in enumerate(spans):
        yield characters[place : place + 2], *span


def _term(word: str, language: str) -> str:
    lowered = word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).lower()
    return _fold(stem(lowered, language))[:MAX_TERM]


def _fold(word: str) -> str:
    """Remove accents and other marks that people leave out."""
    if word.isascii():
        return word
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", word)).casefold().translate(_LETTERS)
    return "".join(filter(_is_term_character, unicodedata.normalize("NFC", plain)))


def _is_term_character(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"
