"""Detect the language of a document, by a model inside a package (py3langid)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from holdfast.pipelines.rag.index.languages import UNKNOWN, UNSPACED

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SAMPLE = 4000
"""Characters of a text that are looked at."""
MIN_LETTERS = 20
"""Letters of a text, at least: the language of a shorter one is not known. Of scripts without spaces, a fifth."""
MIN_PROBABILITY = 0.5
"""How sure the model must be, at least."""


class _Identifier:
    """The model of this process. It is loaded when it is first used, which takes half a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: LanguageIdentifier | None = None

    def most_likely(self, text: str) -> tuple[str, float]:
        with self._lock:
            if self._model is None:
                from py3langid.langid import MODEL_FILE, LanguageIdentifier

                self._model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        language, probability = self._model.classify(text)
        return str(language), float(probability)


_identifier = _Identifier()


def detect_language(text: str) -> str:
    """Return the code of the language of a text, such as `de`; empty if the text is too short, or not clear.

    Args:
        text: The text. Its first 4,000 characters are looked at.

    Returns:
        The code by ISO 639, or an empty text.
    """
    sample = text[:SAMPLE]
    letters = sum(map(str.isalpha, sample))
    if letters < MIN_LETTERS // 5:
        return UNKNOWN
    language, probability = _identifier.most_likely(sample)
    if language in UNSPACED and probability >= MIN_PROBABILITY:
        return language
    is_sure = letters >= MIN_LETTERS and probability >= MIN_PROBABILITY
    return language if is_sure and len(language) == 2 else UNKNOWN
