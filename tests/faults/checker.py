"""The checker: compares histories with the books. It knows the tables and what the pipeline of the laboratory must
leave, and nothing of the engine.

Every value that a body gives bears the number of the operation that made it. So it can be told whose value was kept,
whether the effect wrote the very same one, and whether a later step was given what is in the books.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.faults import books, histories
from tests.faults.books import Batch, Books, Document, Effect
from tests.faults.histories import Operation

STEPS = ("read", "weigh", "risk", "add")
WHOLE = (-1,)
"""Where a step keeps the one value that it returned."""
ENDED = ("done", "dead", "cancelled")
OPENS_A_GENERATION = ("rewind", "change")

Name = tuple[str, str]


def violations(url: str, folder: Path) -> list[str]:
    """Names everything that is not as promised, of a store that nobody works on any more."""
    return list(Checker(books.read(url), histories.read(folder)).violations())


class Checker:
    """One set of books, and the histories of all that worked on it."""

    def __init__(self, found: Books, operations: dict[str, Operation]) -> None:
        self._books = found
        self._operations = operations
        self._documents: dict[Name, Document] = {(one.batch, one.key): one for one in found.documents}
        self._written: dict[Name, list[Effect]] = defaultdict(list)
        for effect in found.effects:
            self._written[effect.batch, effect.key].append(effect)
        self._writing: dict[str, list[Operation]] = defaultdict(list)
        self._asked: dict[Name, list[Operation]] = defaultdict(list)
        for one in operations.values():
            for made in one.what["made"] if one.kind == "effect" else ():
                self._writing[made].append(one)
            for key in one.what["keys"] if one.kind == "decision" else ():
                self._asked[one.what["batch"], key].append(one)

    def violations(self) -> Iterator[str]:
        """Goes through all that was promised."""
        yield from self._submits()
        for batch in self._books.batches:
            yield from self._balance(batch)
        for name in self._written.keys() - self._documents.keys():
            yield f"{'/'.join(name)} has effects and is not in the books"
        for document in self._books.documents:
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
                yield f"{document.name} is dead, and nothing was wrong with it: {document.reason}"
            if document.state not in ENDED:
                yield f"{document.name} did not end: it is {document.state} at {document.step}"

    # submits

    def _submits(self) -> Iterator[str]:
        submits = [one for one in self._operations.values() if one.kind == "submit"]
        named: Counter[Name] = Counter()
        for one in submits:
            named.update((one.what["batch"], key) for key in one.what["documents"])
        for one in submits:
            names = [(one.what["batch"], key) for key in one.what["documents"]]
            missing = [name for name in names if name not in self._documents]
            if one.completed is not None and missing:
                yield f"submit {one.id} was answered, and {len(missing)} of its documents are lost: {missing[:3]}"
            ours = [name for name in missing if named[name] == 1]
            if one.completed is None and ours and len(missing) < len(names):
                yield f"submit {one.id} was not answered, and is there in part: without {ours[:3]}"
        payloads = {
            (one.what["batch"], key): payload for one in submits for key, payload in one.what["documents"].items()
        }
        for name, document in self._documents.items():
            if name not in payloads:
                yield f"{document.name} is in the books, and nobody submitted it"
            elif payloads[name] != document.payload:
                yield f"{document.name} was submitted with {payloads[name]} and has {document.payload}"

    def _balance(self, batch: Batch) -> Iterator[str]:
        states = Counter(one.state for one in self._books.documents if one.batch == batch.name)
        if batch.expected != states.total() + batch.gone:
            yield f"batch {batch.name} expects {batch.expected} and has {dict(states)}"
        if sorted(batch.manifest) != sorted(one.key for one in self._books.documents if one.batch == batch.name):
            yield f"the manifest of batch {batch.name} does not name the documents that it has"

    # effects

    def _once_and_in_order(self, document: Document, written: list[Effect]) -> Iterator[str]:
        for place, count in Counter(effect.place for effect in written).items():
            if count > 1:
                yield f"{document.name}: the effect {place[2:]} was committed {count} times"
        order = [(one.generation, STEPS.index(one.step)) for one in written]
        pages = [(one.generation, one.item) for one in written if one.step == "read"]
        if order != sorted(order) or pages != sorted(pages):
            yield f"{document.name} went back: {[one.place[2:] for one in written]}"

    def _was_computed(self, document: Document, effect: Effect) -> Iterator[str]:
        what = f"{document.name}: the effect {effect.place[2:]}"
        if effect.generation > document.generation:
            yield f"{what} is of a generation that the document never had"
        body = self._operations.get(str(effect.value.get("made")))
        if body is None or body.completed is None or body.result.get("value") != effect.value:
            yield f"{what} has a value that no body computed: {effect.value}"
            return
        if (*body.place, body.what["item"]) != effect.place:
            yield f"{what} has a value that was computed for {body.place}"
        writing = self._writing[body.id]
        if not any(one.invoked >= body.completed for one in writing):
            yield f"{what} was written, and no effect was called after its body"

    def _writers(self, document: Document, written: list[Effect]) -> Iterator[str]:
        """A process that wrote had claimed the document, and each claim raised the fence."""
        bodies = [self._operations[made] for one in written if (made := one.value.get("made")) in self._operations]
        only = {self._writing[body.id][0].process for body in bodies if len(self._writing[body.id]) == 1}
        if len(only) > document.fence:
            yield f"{document.name} was written by {len(only)} processes and was claimed {document.fence} times"

    # what is kept

    def _kept(self, document: Document, written: list[Effect]) -> Iterator[str]:
        effects = {(one.generation, one.step, one.item): one.value for one in written}
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

    def _sources(self, document: Document, step: str, item: int, value: Any) -> Iterator[str]:
        """Later steps were given what is in the books."""
        before = {"weigh": "read", "add": "weigh"}.get(step)
        if before:
            given = {position: one["made"] for position, one in self._items(document, before).items()}
            ought = given.get(item) if step == "weigh" else [given[place] for place in sorted(given)]
            if value.get("of") != ought:
                yield f"{document.name}: {step} at {item} was made of {value.get('of')}, and {before} keeps {ought}"

    def _items(self, document: Document, step: str) -> dict[int, Any]:
        made_by = document.reuses.get(step, document.generation)
        return self._books.items.get((document.id, made_by, step), {})

    def _checkpoint(self, document: Document) -> Iterator[str]:
        """What is behind the checkpoint is there, and nothing is before it."""
        at = len(STEPS) if document.step is None else STEPS.index(document.step)
        if (document.step is None) != (document.state == "done"):
            yield f"{document.name} is {document.state} at {document.step}"
        where = f"{document.name} is at {document.step} {document.cursor}"
        for place, step in enumerate(STEPS):
            kept = set(self._items(document, step))
            whole = range(document.payload["pages"]) if step in ("read", "weigh") else WHOLE
            ought = set(whole) if place < at else self._up_to(document) if place == at else set[int]()
            if missing := ought - kept:
                yield f"{where}, and {step} lacks {sorted(missing)}"
            if beyond := kept - ought:
                yield f"{where}, and {step} has {sorted(beyond)} already"

    def _up_to(self, document: Document) -> set[int]:
        """What the step at which a document stands has kept, by its cursor."""
        cursor = document.cursor
        if isinstance(cursor, dict):
            spans = [(0, cursor["next"]), *cursor.get("done", ())]
            aside = {position for position, _ in cursor.get("aside", ())}
            return {position for start, stop in spans for position in range(start, stop)} - aside
        return set(range(cursor or 0))

    # the journal

    def _journal(self, document: Document) -> Iterator[str]:
        lines = self._books.journal.get(document.id, [])
        opened = sum(verb in OPENS_A_GENERATION for verb, _ in lines)
        if opened != document.generation:
            yield f"{document.name} is at generation {document.generation}, and its journal tells of {opened} rewinds"
        generations = [generation for _, generation in lines]
        if generations != sorted(generations) or (generations and generations[-1] > document.generation):
            yield f"{document.name} is at generation {document.generation}, and its journal goes {generations}"

    def _decisions(self, document: Document, written: list[Effect]) -> Iterator[str]:
        asked = self._asked[document.batch, document.key]
        rewinds = [one for one in asked if one.what["verb"] == "rewind"]
        told = sum(verb == "rewind" for verb, _ in self._books.journal.get(document.id, []))
        answered = sum(_was_done(one, document) for one in rewinds)
        unknown = sum(one.completed is None for one in rewinds)
        if not answered <= told <= answered + unknown:
            yield f"{document.name} was rewound {answered} to {answered + unknown} times; its journal tells of {told}"
        cancels = [one for one in asked if one.what["verb"] == "cancel"]
        cancelled = [one for one in cancels if _was_done(one, document)]
        if document.state == "cancelled":
            if not cancels:
                yield f"{document.name} is cancelled, and nobody asked for it"
            ends = [one.completed for one in cancelled]
            yield from self._silent_since(document, written, [end for end in ends if end is not None])
        elif cancelled and not any(_may_follow(one, cancelled[-1], document) for one in rewinds):
            yield f"{document.name} was cancelled, and is {document.state}"

    def _silent_since(self, document: Document, written: list[Effect], ends: Iterable[int]) -> Iterator[str]:
        end = max(ends, default=None)
        for effect in written if end is not None else ():
            calls = self._writing[str(effect.value.get("made"))]
            if calls and min(one.invoked for one in calls) > end:
                yield f"{document.name} was cancelled, and the effect {effect.place[2:]} was written after that"


def _may_follow(rewind: Operation, cancel: Operation, document: Document) -> bool:
    """Answers whether a rewind may have brought a document back that was cancelled."""
    return rewind.completed is None or (_was_done(rewind, document) and rewind.completed > cancel.invoked)


def _was_done(decision: Operation, document: Document) -> bool:
    return decision.completed is not None and document.key in decision.result["decided"]
