"""The checker: compare histories with the stored state. It uses the tables and the pipeline of the fault cases, and
nothing of the engine.

Every value that a body returns has the id of the operation that made it. So the checker knows whose value was stored,
whether the effect wrote the same value, and whether a later step was given the stored value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.faults import final_state, histories
from tests.faults.final_state import FinalState, StoredBatch, StoredDocument, WrittenEffect
from tests.faults.histories import Operation

STEPS = ("read", "weigh", "risk", "add")
WHOLE = (-1,)
"""The position at which a step keeps the one value that it returned."""
ENDED = ("done", "dead", "cancelled")
OPENS_A_GENERATION = ("rewind", "change")

Name = tuple[str, str]


def violations(url: str, folder: Path) -> list[str]:
    """Return everything that violates a guarantee. No worker may run any more."""
    return list(Checker(final_state.read(url), histories.read(folder)).violations())


class Checker:
    """Compares one stored state with the histories of all processes that used the store."""

    def __init__(self, state: FinalState, operations: dict[str, Operation]) -> None:
        self._state = state
        self._operations = operations
        self._documents: dict[Name, StoredDocument] = {
            (document.batch, document.key): document for document in state.documents
        }
        self._written: dict[Name, list[WrittenEffect]] = defaultdict(list)
        for effect in state.effects:
            self._written[effect.batch, effect.key].append(effect)
        self._effect_calls: dict[str, list[Operation]] = defaultdict(list)
        """The calls of effects, by the body operation whose value they wrote."""
        self._decisions_about: dict[Name, list[Operation]] = defaultdict(list)
        for operation in operations.values():
            for made in operation.what["made"] if operation.kind == "effect" else ():
                self._effect_calls[made].append(operation)
            for key in operation.what["keys"] if operation.kind == "decision" else ():
                self._decisions_about[operation.what["batch"], key].append(operation)

    def violations(self) -> Iterator[str]:
        """Yield everything that violates a guarantee."""
        yield from self._submits()
        for batch in self._state.batches:
            yield from self._balance(batch)
        for name in self._written.keys() - self._documents.keys():
            yield f"{'/'.join(name)} has effects and is not in the store"
        for document in self._state.documents:
            written = self._written[document.batch, document.key]
            yield from self._once_and_in_order(document, written)
            for effect in written:
                yield from self._was_computed(document, effect)
            yield from self._writers(document, written)
            yield from self._kept(document, written)
            yield from self._checkpoint(document)
            yield from self._journal(document)
            yield from self._decisions(document, written)
            if document.state == "dead" and "risk" not in document.payload:
                yield f"{document.name} is dead without a cause: {document.reason}"
            if document.state not in ENDED:
                yield f"{document.name} is not finished: it is {document.state} at {document.step}"

    # submits

    def _submits(self) -> Iterator[str]:
        submits = [operation for operation in self._operations.values() if operation.kind == "submit"]
        named: Counter[Name] = Counter()
        for submit in submits:
            named.update((submit.what["batch"], key) for key in submit.what["documents"])
        for submit in submits:
            names = [(submit.what["batch"], key) for key in submit.what["documents"]]
            missing = [name for name in names if name not in self._documents]
            if submit.completed is not None and missing:
                yield f"submit {submit.id} was answered, and {len(missing)} of its documents are lost: {missing[:3]}"
            ours = [name for name in missing if named[name] == 1]
            if submit.completed is None and ours and len(missing) < len(names):
                yield f"submit {submit.id} was not answered, and only a part is stored: without {ours[:3]}"
        payloads = {
            (submit.what["batch"], key): payload
            for submit in submits
            for key, payload in submit.what["documents"].items()
        }
        for name, document in self._documents.items():
            if name not in payloads:
                yield f"{document.name} is in the store, and was not submitted"
            elif payloads[name] != document.payload:
                yield f"{document.name} was submitted with {payloads[name]} and has {document.payload}"

    def _balance(self, batch: StoredBatch) -> Iterator[str]:
        states = Counter(document.state for document in self._state.documents if document.batch == batch.name)
        if batch.expected != states.total() + batch.gone:
            yield f"batch {batch.name} expects {batch.expected} and has {dict(states)}"
        keys = sorted(document.key for document in self._state.documents if document.batch == batch.name)
        if sorted(batch.manifest) != keys:
            yield f"the manifest of batch {batch.name} does not have the keys of its documents"

    # effects

    def _once_and_in_order(self, document: StoredDocument, written: list[WrittenEffect]) -> Iterator[str]:
        for place, count in Counter(effect.place for effect in written).items():
            if count > 1:
                yield f"{document.name}: the effect {place[2:]} was committed {count} times"
        order = [(effect.generation, STEPS.index(effect.step)) for effect in written]
        pages = [(effect.generation, effect.item) for effect in written if effect.step == "read"]
        if order != sorted(order) or pages != sorted(pages):
            yield f"{document.name} went back: {[effect.place[2:] for effect in written]}"

    def _was_computed(self, document: StoredDocument, effect: WrittenEffect) -> Iterator[str]:
        what = f"{document.name}: the effect {effect.place[2:]}"
        if effect.generation > document.generation:
            yield f"{what} is of a generation that the document never had"
        body = self._operations.get(str(effect.value.get("made")))
        if body is None or body.completed is None or body.result.get("value") != effect.value:
            yield f"{what} has a value that no body computed: {effect.value}"
            return
        if (*body.place, body.what["item"]) != effect.place:
            yield f"{what} has a value that was computed for {body.place}"
        if not any(call.invoked >= body.completed for call in self._effect_calls[body.id]):
            yield f"{what} was written, and no effect was called after its body"

    def _writers(self, document: StoredDocument, written: list[WrittenEffect]) -> Iterator[str]:
        """Check that no more processes wrote than there were claims: each claim raises the fence."""
        bodies = [
            self._operations[made] for effect in written if (made := effect.value.get("made")) in self._operations
        ]
        only = {self._effect_calls[body.id][0].process for body in bodies if len(self._effect_calls[body.id]) == 1}
        if len(only) > document.fence:
            yield f"{document.name} was written by {len(only)} processes and was claimed {document.fence} times"

    # items

    def _kept(self, document: StoredDocument, written: list[WrittenEffect]) -> Iterator[str]:
        effects = {(effect.generation, effect.step, effect.item): effect.value for effect in written}
        for generation, step in {(document.reuses.get(step, document.generation), step) for step in STEPS}:
            for position, value in self._items(document, step).items():
                item = max(position, 0)
                written_there = effects.get((generation, step, item))
                if written_there != value:
                    yield f"{document.name}: {step} keeps {value} at {item}; its effect is {written_there}"
                yield from self._sources(document, step, item, value)
        for place in effects:
            generation, step, item = place
            current = generation == document.reuses.get(step, document.generation)
            if current and item not in {max(position, 0) for position in self._items(document, step)}:
                yield f"{document.name}: the effect {place} is there, and {step} keeps nothing at {item}"

    def _sources(self, document: StoredDocument, step: str, item: int, value: Any) -> Iterator[str]:
        """Check that a later step was given the stored items of the earlier one."""
        before = {"weigh": "read", "add": "weigh"}.get(step)
        if before:
            given = {position: source["made"] for position, source in self._items(document, before).items()}
            expected = given.get(item) if step == "weigh" else [given[place] for place in sorted(given)]
            if value.get("of") != expected:
                yield f"{document.name}: {step} at {item} was made of {value.get('of')}, and {before} keeps {expected}"

    def _items(self, document: StoredDocument, step: str) -> dict[int, Any]:
        made_by = document.reuses.get(step, document.generation)
        return self._state.items.get((document.id, made_by, step), {})

    def _checkpoint(self, document: StoredDocument) -> Iterator[str]:
        """Check that all items before the checkpoint are there, and none after it."""
        at = len(STEPS) if document.step is None else STEPS.index(document.step)
        if (document.step is None) != (document.state == "done"):
            yield f"{document.name} is {document.state} at {document.step}"
        where = f"{document.name} is at {document.step} {document.cursor}"
        for place, step in enumerate(STEPS):
            kept = set(self._items(document, step))
            whole = range(document.payload["pages"]) if step in ("read", "weigh") else WHOLE
            expected = set(whole) if place < at else self._up_to(document) if place == at else set[int]()
            if missing := expected - kept:
                yield f"{where}, and {step} lacks {sorted(missing)}"
            if beyond := kept - expected:
                yield f"{where}, and {step} has {sorted(beyond)} already"

    def _up_to(self, document: StoredDocument) -> set[int]:
        """Return the positions that the present step must have kept, by the cursor."""
        cursor = document.cursor
        if isinstance(cursor, dict):
            spans = [(0, cursor["next"]), *cursor.get("done", ())]
            aside = {position for position, _ in cursor.get("aside", ())}
            return {position for start, stop in spans for position in range(start, stop)} - aside
        return set(range(cursor or 0))

    # the journal

    def _journal(self, document: StoredDocument) -> Iterator[str]:
        lines = self._state.journal.get(document.id, [])
        opened = sum(verb in OPENS_A_GENERATION for verb, _ in lines)
        if opened != document.generation:
            yield f"{document.name} is at generation {document.generation}, and its journal has {opened} rewinds"
        generations = [generation for _, generation in lines]
        if generations != sorted(generations) or (generations and generations[-1] > document.generation):
            yield f"{document.name} is at generation {document.generation}, and its journal goes {generations}"

    def _decisions(self, document: StoredDocument, written: list[WrittenEffect]) -> Iterator[str]:
        decisions = self._decisions_about[document.batch, document.key]
        rewinds = [decision for decision in decisions if decision.what["verb"] == "rewind"]
        journalled = sum(verb == "rewind" for verb, _ in self._state.journal.get(document.id, []))
        least = sum(_was_done(rewind, document) for rewind in rewinds)
        most = least + sum(rewind.completed is None for rewind in rewinds)
        if not least <= journalled <= most:
            yield f"{document.name} was rewound {least} to {most} times; its journal has {journalled}"
        cancels = [decision for decision in decisions if decision.what["verb"] == "cancel"]
        cancelled = [cancel for cancel in cancels if _was_done(cancel, document)]
        if document.state == "cancelled":
            if not cancels:
                yield f"{document.name} is cancelled, and no cancel was called"
            ends = [cancel.completed for cancel in cancelled]
            yield from self._nothing_written_after(document, written, [end for end in ends if end is not None])
        elif cancelled and not any(_may_follow(rewind, cancelled[-1], document) for rewind in rewinds):
            yield f"{document.name} was cancelled, and is {document.state}"

    def _nothing_written_after(
        self, document: StoredDocument, written: list[WrittenEffect], ends: Iterable[int]
    ) -> Iterator[str]:
        end = max(ends, default=None)
        for effect in written if end is not None else ():
            calls = self._effect_calls[str(effect.value.get("made"))]
            if calls and min(call.invoked for call in calls) > end:
                yield f"{document.name} was cancelled, and the effect {effect.place[2:]} was written after that"


def _may_follow(rewind: Operation, cancel: Operation, document: StoredDocument) -> bool:
    """Return True if a rewind may have happened after a cancel, so that the document is open again."""
    return rewind.completed is None or (_was_done(rewind, document) and rewind.completed > cancel.invoked)


def _was_done(decision: Operation, document: StoredDocument) -> bool:
    return decision.completed is not None and document.key in decision.result["decided"]
