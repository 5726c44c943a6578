"""After random changes of documents in any order, every index finds what a dictionary has."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.pipelines.rag.index.conftest import index_harness
from tests.support.index_harness import IndexHarness

KEYS = st.sampled_from("abc")


class Documents(RuleBasedStateMachine):
    """Dictionaries of what keyword and vector searches must find, and of the latest versions."""

    kind = "sqlite"
    url: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        place = Path(self.folder.name)
        self.open = index_harness(self.url or f"sqlite:///{place / 'index.db'}", self.kind, place)
        self.harness: IndexHarness = next(self.open)
        self.words: dict[str, set[str]] = {}
        self.meaning: dict[str, set[str]] = {}
        self.next: dict[str, set[str]] = {}
        self.begun: set[str] = set()
        self.version = 0

    def teardown(self) -> None:
        for key in "abc":
            self.harness.delete(key)  # the next example finds the same database, where there is only one
        next(self.open, None)
        self.folder.cleanup()

    @rule(key=KEYS, count=st.integers(1, 3))
    def add(self, key: str, count: int) -> None:
        self.version += 1
        texts = [f"heron v{self.version} n{n}" for n in range(count)]
        self.harness.add(key, texts, version=self.version)
        self.harness.save_vectors(*texts)
        self.begun.add(key)
        self.next[key] = set(texts)
        self.words.setdefault(key, set(texts))

    @rule(key=KEYS)
    def add_half(self, key: str) -> None:
        self.version += 1
        self.harness.add(key, [f"heron half {self.version}"], version=self.version, last=False)
        self.begun.add(key)

    @rule(key=KEYS)
    def publish(self, key: str) -> None:
        self.harness.upload(key)

    @rule(key=KEYS)
    def show(self, key: str) -> None:
        self.harness.upload(key)
        self.harness.make_visible(key)
        if key in self.next:
            self.words[key] = self.meaning[key] = self.next[key]

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.harness.delete(key)
        self._drop(key)

    @rule(key=KEYS, to=KEYS)
    def rename(self, key: str, to: str) -> None:
        self.harness.rename(key, to=to)
        if key not in self.begun or key == to:
            return
        self._drop(to)
        self.begun.remove(key)
        self.begun.add(to)
        for seen in (self.words, self.meaning, self.next):
            if key in seen:
                seen[to] = seen.pop(key)

    @rule(key=KEYS)
    def roll_back(self, key: str) -> None:
        with self.harness.rolled_back() as tx:
            self.harness.delete(key, tx=tx)
            self.harness.add(key, ["heron never"], version=self.version + 1, tx=tx)
            assert self.found() == self.expected()

    @invariant()
    def searches_see_what_is_to_be_seen(self) -> None:
        assert self.found() == self.expected()
        for key, texts in self.meaning.items():
            whole = self.next[key] == texts
            assert self.harness.has(key, len(texts)) == whole

    def found(self) -> Any:
        return sorted(self.harness.word_hits("heron")), sorted(self.harness.vector_hits("heron"))

    def expected(self) -> Any:
        return (
            sorted(text for texts in self.words.values() for text in texts),
            sorted(text for texts in self.meaning.values() for text in texts),
        )

    def _drop(self, key: str) -> None:
        for seen in (self.words, self.meaning, self.next):
            seen.pop(key, None)
        self.begun.discard(key)


def test_an_index_finds_what_a_dictionary_has(kind: str, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue("postgres_url") if kind == "postgres" else None

    class Here(Documents):
        pass

    Here.kind, Here.url = kind, place
    quick = settings(
        max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    run_state_machine_as_test(Here, settings=quick)
