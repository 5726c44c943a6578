"""What SQL stores decide with and write when people decide about documents, or let items be tried again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.integrity import is_earlier
from holdfast.core.model import Plan, State
from holdfast.core.text_limits import MAX_REASON, shorten
from holdfast.stores.item_redrive import ItemRedrive, KeptInStep
from holdfast.stores.json_fields import UNREADABLE, numbers_or_none
from holdfast.stores.rewind_rules import Place, Rewind
from holdfast.stores.sql.dialect import Rows
from holdfast.stores.sql.session import Session


class DecisionRow(NamedTuple):
    """A document that a decision is about: a row of lock_documents.sql."""

    id: int
    state: State
    step_id: int | None
    moves: int
    generation: int
    plan_id: int
    pipeline_id: int
    priority: int
    reuses: str | None
    cleaned: bool
    on_hold: bool
    extents: str | None
    code: str

    @property
    def place(self) -> Place:
        """Where the document is."""
        place = place_at(self.step_id, self.plan_id, self.generation, self.reuses, cleaned=bool(self.cleaned))
        return place._replace(extents=numbers_or_none(self.extents))


def place_at(
    step_id: int | None, plan_id: int, generation: int, kept_reuses: str | None, *, cleaned: bool = False
) -> Place:
    """Return a place from its columns. A document with damaged reuses can reuse nothing, as if it were cleaned up."""
    try:
        reuses = {int(step): made for step, made in decode_json(kept_reuses or "{}").items()}
    except UNREADABLE:
        return Place(step_id, plan_id, generation, None, cleaned=True)
    sound = all(is_earlier(made, generation) for made in reuses.values())
    return Place(step_id, plan_id, generation, reuses, cleaned or not sound)


def decision_detail(reason: str, state: State, answer: Any = None, more: Mapping[str, Any] | None = None) -> str:
    """Return the journal detail of a decision as JSON: the reason and the new state. SQL adds the state before."""
    detail = {"reason": shorten(reason, MAX_REASON), "state": state, **(more or {})}
    return encode_json(detail if answer is None else detail | {"answer": answer})


def steps_after_gates(plan: Plan, documents: Sequence[DecisionRow]) -> dict[int | None, list[int]]:
    """Return where paused documents go on: step -> ids. None is the end, after the last gate.

    A document at a gate goes on at the step after it, others at their own step. Documents that were put on hold before
    they reached their gate go on at the gate: nobody decided about them. Documents of other pipelines, and at steps
    that the plan lacks, are left out.
    """
    step_ids: list[int | None] = [*plan.step_ids.values(), None]
    gates = plan.gate_ids
    ids: dict[int | None, list[int]] = defaultdict(list)
    for document in documents:
        if document.pipeline_id == plan.pipeline_id and document.step_id in step_ids:
            place = step_ids.index(document.step_id) + (document.step_id in gates and not document.on_hold)
            ids[step_ids[place]].append(document.id)
    return dict(ids)


def passed_gates(plan: Plan, documents: Sequence[DecisionRow]) -> list[tuple[int, int, int]]:
    """Return the documents that pass their gate when they go on, to be pinned: (document, plan, gate)."""
    ours = [document for document in documents if document.pipeline_id == plan.pipeline_id and not document.on_hold]
    places = [(document.id, document.plan_id, document.step_id) for document in ours]
    return [(document_id, plan_id, gate) for document_id, plan_id, gate in places if gate in plan.gate_ids and gate]


class RewindGroup(NamedTuple):
    """Documents of one plan that are rewound together, with what they reuse, and what finished ones serve, as JSON."""

    ids: list[int]
    reuses: str
    serves: str | None
    plan_id: int


def rewind_groups(rewind: Rewind, documents: Sequence[DecisionRow], step_ids: Sequence[int]) -> list[RewindGroup]:
    """Return the documents that may be rewound, in few groups, however many they are."""
    by_place: dict[tuple[Any, ...], list[DecisionRow]] = defaultdict(list)
    for document in documents:
        by_place[document.step_id, document.plan_id, document.generation, document.reuses, document.cleaned].append(
            document
        )
    groups = []
    for same_place in by_place.values():
        place, ids = same_place[0].place, [document.id for document in same_place]
        if rewind.allows(place):
            finished = place.step_id is None and not place.cleaned
            serves = encode_json({step_id: place.generation_of(step_id) for step_id in step_ids}) if finished else None
            groups.append(RewindGroup(ids, encode_json(rewind.reuses(place)), serves, place.plan_id))
    return groups


def rewound_extents(rewind: Rewind, documents: Sequence[DecisionRow]) -> Rows:
    """Return the extents of documents after a rewind: of the steps that each reuses."""
    extents = [rewind.extents(document.place) for document in documents]
    return Rows(
        id=[document.id for document in documents],
        extents=[None if kept is None else encode_json(kept) for kept in extents],
    )


def rewound_places(groups: Sequence[RewindGroup], step_id: int) -> list[tuple[int, int, int]]:
    """Return the documents that are rewound to a step, to be pinned: (document, plan, step)."""
    return sorted((document_id, group.plan_id, step_id) for group in groups for document_id in group.ids)


def ids_of(groups: Sequence[RewindGroup]) -> list[int]:
    """Return the ids of all documents, ascending."""
    return sorted(document_id for group in groups for document_id in group.ids)


class ReopenedDocument(NamedTuple):
    """A document that goes back into a step, and the generation in which the step kept its items so far."""

    generation: int
    cursor: str
    extents: str | None
    items: list[int]
    staying: list[int]


def reopened_documents(
    db: Session, rules: ItemRedrive, documents: Sequence[DecisionRow], items: Mapping[int, Sequence[int]]
) -> dict[int, ReopenedDocument]:
    """Return where documents go on whose items are tried again, by id. Others are left out."""
    places = {document.id: document.place for document in documents}
    rows = Rows(
        id=[*places],
        generation=[place.generation_of(rules.step_id) for place in places.values()],
        source_generation=[place.generation_of(rules.source_id) for place in places.values()],
    )
    found: dict[int, ReopenedDocument] = {}
    ids = {"step_id": rules.step_id, "source_id": rules.source_id}
    for document_id, cursor, count, total, asides in db.all("kept_in_step", places=rows, **ids) if places else ():
        place, kept = places[document_id], KeptInStep(count, total, dict(decode_json(asides or "[]")))
        one = rules.reopened(place, _cursor(cursor), kept, items[document_id])
        if one is not None:
            extents = None if one.extents is None else encode_json(one.extents)
            now = ReopenedDocument(
                place.generation_of(rules.step_id), encode_json(one.cursor), extents, one.items, one.staying
            )
            found[document_id] = now
    return found


def _cursor(text: str | None) -> Any:
    """Return the cursor of a document. A damaged one is no cursor over items, so its document is left as it is."""
    try:
        return None if text is None else decode_json(text)
    except UNREADABLE:
        return text


def reopened_rows(reopened: Mapping[int, ReopenedDocument]) -> Rows:
    """Return the cursors and extents of documents."""
    return Rows(
        id=[*reopened],
        cursor=[one.cursor for one in reopened.values()],
        extents=[one.extents for one in reopened.values()],
    )


def staying_items(reopened: Mapping[int, ReopenedDocument]) -> Rows:
    """Return the items that stay set aside, with the generations in which they are."""
    staying = [(number, one.generation, position) for number, one in reopened.items() for position in one.staying]
    ids, generations, positions = zip(*staying, strict=True) if staying else ((), (), ())
    return Rows(id=ids, generation=generations, position=positions)
