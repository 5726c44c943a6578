"""A case: one document that somebody asks about, what is said of it, and the commands that help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from holdfast.core.batches import CLOSING
from holdfast.core.commands import FILE, WHY, about, pasteable
from holdfast.core.model import Entry, Standing
from holdfast.core.plan import Shape
from holdfast.core.words import count
from holdfast.engine.hosts import is_gone
from holdfast.stores.protocol import Store

Command = Callable[..., str]
"""Gives a command that a person can paste, from its words."""

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
        self._which = where(store, here)

    @property
    def step(self) -> str:
        """The step at which it stands."""
        return self.here.checkpoint.step or ""

    @property
    def stands_at_a_gate(self) -> bool:
        """Whether its step is a gate."""
        return is_gate(self.shape, self.step)

    @property
    def is_closing(self) -> bool:
        """Whether it is the document of a batch's closing steps."""
        return self.here.pipeline.endswith(CLOSING)

    @property
    def start(self) -> str:
        """Says how somebody comes to work on it."""
        return start_of(self.here.pipeline, self.here.batch, self._command)

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

    def prioritise(self, priority: int) -> str:
        """Gives the command that gives it another priority, which may be below nothing."""
        return f"`{self._command(*about(('priority',), str(priority), self.here.key, options=(*self._which, *WHY)))}`"

    def requeue(self, grace: timedelta | None = None) -> str:
        """Gives the command that lets it wait again, and nothing else: if the same worker still does not advance it."""
        where = ("--batch", self.here.batch, "--worker", self.here.holder)
        patience = ("--grace", f"{grace.total_seconds():g}s") if grace else ()
        options = (*where, *patience, "--strategy", "requeue", *WHY)
        return f"`{self._command(*about(('orphans',), self.here.pipeline, self.here.key, options=options))}`"

    def redo(self) -> str:
        """Gives the command that has stale work of its batch redone."""
        return f"`{self._command('rewind', '--stale', FILE, '--batch', self.here.batch)}`"

    def brought_here(self, *verbs: str) -> Entry | None:
        """Gives the line of the journal that brought it into its state."""
        for entry in reversed(self.store.journal(self.here.id)):
            detail = entry.detail if isinstance(entry.detail, dict) else {}
            if entry.verb in verbs and detail.get("state", self.here.state) == self.here.state:
                return entry
        return None


def where(store: Store, here: Standing) -> tuple[str, ...]:
    """Gives the options that a command needs to mean this document: none while no other has its key."""
    alike = len(store.find(here.key)) > 1
    return ("--pipeline", here.pipeline, "--batch", here.batch) if alike else ()


def is_gate(shape: Shape | None, step: str | None) -> bool:
    """Answers whether a step is a gate."""
    return shape is not None and any(one.kind == "gate" and one.name == step for one in shape.steps)


def start_of(pipeline: str, batch: str, command: Command) -> str:
    """Says how somebody comes to work on a pipeline: closing steps are done by closing again."""
    if pipeline.endswith(CLOSING):
        return f"go on with `{command(*about(('close',), FILE, batch))}`"
    return f"start one with `{command('work', FILE)}`"


def workers_told(store: Store, pipeline: str, facts: dict[str, Any], *, start: str) -> str:
    """Says whether anybody is there to work on the documents of a pipeline that wait."""
    alive = [worker for worker, _, stale in store.workers() if not stale and not is_gone(worker)]
    facts["workers_alive"] = len(alive)
    if not alive:
        return f"No worker is alive: {start}."
    numbers = {worker.id for worker in alive}
    busy = sum(documents for holder, documents in store.holders(pipeline) if holder.worker.id in numbers)
    facts["worked_on"] = busy
    are = "1 worker is" if len(alive) == 1 else f"{len(alive):,} workers are"
    if not busy:
        return f"{are} alive, with nothing of {pipeline} in hand: if none of them works on it, {start}."
    return f"{are} alive, with {count(busy, 'document')} of {pipeline} in hand; to go faster, {start} as well."


def named(keys: Sequence[str]) -> str:
    """Names the first few of many."""
    more = f" and {len(keys) - SHOWN:,} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more
