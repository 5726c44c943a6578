"""A case: one document that somebody asks about, what is said of it, and the commands that help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from holdfast.core.commands import WHY, about, pasteable
from holdfast.core.model import Entry, Standing
from holdfast.core.plan import Shape
from holdfast.core.words import count
from holdfast.engine.hosts import is_gone
from holdfast.stores.protocol import Store

Command = Callable[..., str]
"""Gives a command that a person can paste, from its words."""

START = "start one with `holdfast work` and the pipeline's file"
SHOWN = 3
"""How many documents are named where many could be."""


def plain_command(*words: str) -> str:
    """Gives a command for the default store."""
    return pasteable(words)


class Case:
    """One document, what is known of it, and what is said about it."""

    def __init__(self, store: Store, here: Standing, command: Command) -> None:
        self.store = store
        self.here = here
        self.now = store.now()
        self.shape: Shape | None = store.shape(here.pipeline)
        self.sentences: list[str] = []
        self.facts: dict[str, Any] = {}
        self._command = command
        alike = len(store.find(here.key)) > 1
        self._which = ["--pipeline", here.pipeline, "--batch", here.batch] if alike else []

    @property
    def step(self) -> str:
        """The step at which it stands."""
        return self.here.checkpoint.step or ""

    @property
    def stands_at_a_gate(self) -> bool:
        """Whether its step is a gate."""
        return is_gate(self.shape, self.step)

    def say(self, sentence: str) -> None:
        """Says one more sentence."""
        self.sentences.append(sentence)

    def because(self, cause: str, **facts: Any) -> None:
        """Notes what keeps it, in a word for programs."""
        self.facts |= {"cause": cause, **facts}

    def look(self, verb: str, *more: str) -> str:
        """Gives a command that looks at this document."""
        return f"`{self._command(*about((verb,), self.here.key, options=(*self._which, *more)))}`"

    def decide(self, *words: str, more: Sequence[str] = ()) -> str:
        """Gives a command that decides about this document, with a place for the reason."""
        return f"`{self._command(*about(words, self.here.key, options=(*self._which, *more, *WHY)))}`"

    def requeue(self, grace: timedelta | None = None) -> str:
        """Gives the command that lets it wait again, and nothing else: if the same worker still does not advance it."""
        where = ("--batch", self.here.batch, "--worker", self.here.holder)
        patience = ("--grace", f"{grace.total_seconds():g}s") if grace else ()
        options = (*where, *patience, "--strategy", "requeue", *WHY)
        return f"`{self._command(*about(('orphans',), self.here.pipeline, self.here.key, options=options))}`"

    def brought_here(self, *verbs: str) -> Entry | None:
        """Gives the line of the journal that brought it into its state."""
        for entry in reversed(self.store.journal(self.here.id)):
            detail = entry.detail if isinstance(entry.detail, dict) else {}
            if entry.verb in verbs and detail.get("state", self.here.state) == self.here.state:
                return entry
        return None


def is_gate(shape: Shape | None, step: str | None) -> bool:
    """Answers whether a step is a gate."""
    return shape is not None and any(one.kind == "gate" and one.name == step for one in shape.steps)


def workers_told(store: Store, pipeline: str, facts: dict[str, Any]) -> str:
    """Says whether anybody is there to work on the documents of a pipeline that wait."""
    alive = [worker for worker, _, stale in store.workers() if not stale and not is_gone(worker)]
    facts["workers_alive"] = len(alive)
    if not alive:
        return f"No worker is alive: {START}."
    numbers = {worker.id for worker in alive}
    busy = sum(documents for holder, documents in store.holders(pipeline) if holder.worker.id in numbers)
    facts["worked_on"] = busy
    are = "1 worker is" if len(alive) == 1 else f"{len(alive):,} workers are"
    if not busy:
        return f"{are} alive, with nothing of {pipeline} in hand: if none of them works on it, {START}."
    return f"{are} alive, with {count(busy, 'document')} of {pipeline} in hand; to go faster, {START} as well."


def named(keys: Sequence[str]) -> str:
    """Names the first few of many."""
    more = f" and {len(keys) - SHOWN:,} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more
