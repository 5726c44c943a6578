"""A pytest plugin that rewords the reasons that holdfast stores: `pytest -p tests.support.reworded_reasons`.

Code has to act on codes. So every test has to pass with other sentences, except tests of the wording itself. These have
the marker `wording`, and the plugin deselects them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from string import Formatter

import pytest

from holdfast.core import reasons

INGEST = "holdfast.pipelines.rag.ingest"
CONSTANTS = (("source_documents", "MOVED"), ("source_documents", "BACK"), ("trusted_sources", "FROM_ELSEWHERE"))
"""Modules of document search, and their constants that are sentences."""


def pytest_configure() -> None:
    """Reword all sentences before any test runs."""
    reword_all()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the wording itself."""
    wording = [item for item in items if item.get_closest_marker("wording")]
    items[:] = [item for item in items if item not in wording]
    config.hook.pytest_deselected(items=wording)


def reword_all() -> None:
    """Replace every sentence by another text with the same facts."""
    _reword(reasons.SENTENCES)
    try:
        removal = import_module(f"{INGEST}.removal")
    except ModuleNotFoundError:
        return  # document search needs the extra rag
    _reword(removal.WITHDRAWN)
    for module, name in CONSTANTS:
        setattr(import_module(f"{INGEST}.{module}"), name, _other_text(name))


def _reword(sentences: MutableMapping[str, str]) -> None:
    for name, sentence in sentences.items():
        sentences[name] = _other_text(name, sentence)


def _other_text(name: str, sentence: str = "") -> str:
    """Return a text that names the facts of a sentence, and nothing else of it."""
    facts = [fact for _, fact, _, _ in Formatter().parse(sentence) if fact]
    return f"another text for {name.upper()}: {'; '.join(f'<{{{fact}}}>' for fact in facts)}"
