"""What a decision is about, as every SQL store reads it, and what it says in the journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.integrity import is_earlier
from holdfast.core.model import Plan, State
from holdfast.stores.rewinds import Place, Rewinding
from holdfast.stores.rows import UNREADABLE


class Deciding(NamedTuple):
    """A document that a decision is about: a row of deciding.sql."""

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

    @property
    def place(self) -> Place:
        """Where it stands."""
        return place_at(self.step_id, self.plan_id, self.generation, self.reuses, cleaned=bool(self.cleaned))


def place_at(
    step_id: int | None, plan_id: int, generation: int, kept_reuses: str | None, *, cleaned: bool = False
) -> Place:
    """Gives a place as it was read. Where reuses are damaged nothing can be reused: as if it were cleaned up."""
    try:
        reuses = {int(step): made for step, made in decode_json(kept_reuses or "{}").items()}
    except UNREADABLE:
        return Place(step_id, plan_id, generation, None, cleaned=True)
    sound = all(is_earlier(made, generation) for made in reuses.values())
    return Place(step_id, plan_id, generation, reuses, cleaned or not sound)


def decisive(reason: str, state: State, answer: Any = None, more: Mapping[str, Any] | None = None) -> str:
    """Says in JSON why, and what state it led to. The state before is added where the line is written."""
    said = {"reason": reason, "state": state, **(more or {})}
    return encode_json(said if answer is None else said | {"answer": answer})


def after_gates(plan: Plan, here: Sequence[Deciding]) -> dict[int | None, list[int]]:
    """Says where paused documents go on: at their own step, at the one after their gate, or, after the last, nowhere.

    Those that were put on hold before they were parked at a gate are parked there now: nobody decided about them.
    Documents of other pipelines, and at steps that the plan lacks, are left out.
    """
    step_ids: list[int | None] = [*plan.step_ids.values(), None]
    gates = plan.gate_ids
    going: dict[int | None, list[int]] = defaultdict(list)
    for one in here:
        if one.pipeline_id == plan.pipeline_id and one.step_id in step_ids:
            place = step_ids.index(one.step_id) + (one.step_id in gates and not one.on_hold)
            going[step_ids[place]].append(one.id)
    return dict(going)


def at_gates(plan: Plan, here: Sequence[Deciding]) -> list[tuple[int, int, int]]:
    """Names the documents that pass their gate when they go on, to be pinned: (document, plan, gate)."""
    gates, known = plan.gate_ids, plan.pipeline_id
    passing = [one for one in here if one.pipeline_id == known and not one.on_hold]
    return [(one.id, one.plan_id, one.step_id) for one in passing if one.step_id is not None and one.step_id in gates]


class Going(NamedTuple):
    """Documents that are rewound together: what they reuse, and what they serve now if they were complete, as JSON.

    They are pinned to one plan.
    """

    ids: list[int]
    reuses: str
    serves: str | None
    plan_id: int


def going_back(rewinding: Rewinding, here: Sequence[Deciding], step_ids: Sequence[int]) -> list[Going]:
    """Gives the documents that may be rewound: in few groups, however many they are."""
    groups: dict[tuple[Any, ...], list[Deciding]] = defaultdict(list)
    for one in here:
        groups[one.step_id, one.plan_id, one.generation, one.reuses, one.cleaned].append(one)
    going = []
    for alike in groups.values():
        place = alike[0].place
        if rewinding.may_take(place):
            complete = place.step_id is None and not place.cleaned
            serves = encode_json({step_id: place.generation_of(step_id) for step_id in step_ids}) if complete else None
            going.append(Going([one.id for one in alike], encode_json(rewinding.reuses(place)), serves, place.plan_id))
    return going


def to_be_pinned(going: Sequence[Going], step_id: int) -> list[tuple[int, int, int]]:
    """Names the documents that are rewound to a step, to be pinned: (document, plan, step)."""
    return sorted((number, group.plan_id, step_id) for group in going for number in group.ids)


def all_ids(going: Sequence[Going]) -> list[int]:
    """Gives the numbers of all of them, ascending."""
    return sorted(number for group in going for number in group.ids)
