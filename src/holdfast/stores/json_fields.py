"""Read the JSON fields of documents, which somebody may have edited or a disk damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.extents import Extents
from holdfast.core.model import Claim, Damage, Plan

UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, AttributeError, RecursionError)
"""What reading a field raises that somebody else wrote."""


def decode_or_text(text: str | None) -> Any:
    """Return the value of a JSON field that may be empty. Return the text itself if it cannot be read."""
    try:
        return None if text is None else decode_json(text)
    except UNREADABLE:
        return text


NumbersBySteps = dict[int, int] | None
"""Numbers by the ids of steps."""


def decode_claim(
    payload: str, cursor: str | None, reuses: str | None, effects: str | None, extents: str | None
) -> tuple[Any, Any, NumbersBySteps, NumbersBySteps, NumbersBySteps, Damage | None]:
    """Decode what a worker needs of a row: payload, cursor and so on; and the damage, if one cannot be decoded.

    A damaged row is claimed too. Its worker parks it, and the other documents go on.
    """
    try:
        return (
            decode_json(payload),
            None if cursor is None else decode_json(cursor),
            None if reuses is None else _numbered(reuses),
            None if effects is None else {} if effects == "{}" else _numbered(effects),
            None if extents is None else _counted(extents),
            None,
        )
    except UNREADABLE:
        return None, None, None, None, None, damage_of(payload, cursor, reuses, effects, extents)


def _numbered(reuses: str) -> dict[int, int]:
    return {int(step_id): made for step_id, made in decode_json(reuses).items()}


def _counted(extents: str) -> dict[int, int]:
    numbers = _numbered(extents)
    for number in numbers.values():
        if type(number) is not int:
            raise ValueError(f"{number!r} is not a number")
    return numbers


def numbers_or_none(text: str | None) -> NumbersBySteps:
    """Return the numbers of a JSON field. Return None if the field is empty, or cannot be read."""
    try:
        return None if text is None else _numbered(text)
    except UNREADABLE:
        return None


def damage_of(
    payload: str, cursor: str | None, reuses: str | None, effects: str | None = None, extents: str | None = None
) -> Damage | None:
    """Return which field of a document cannot be read, and why. A bad cursor says nothing about the earlier steps."""
    fields = (
        ("payload", payload, decode_json),
        ("cursor", cursor, decode_json),
        ("reuses", reuses, _numbered),
        ("effects", effects, _numbered),
        ("extents", extents, _counted),
    )
    for name, text, read in fields:
        try:
            read("{}" if text is None else text)
        except UNREADABLE as error:
            what = f"its {name} cannot be read ({error or type(error).__name__}): {str(text)[:100]!r}"
            return Damage(what, "earlier steps" if name == "cursor" else "nothing")
    return None


def by_name(numbers: NumbersBySteps, names: Mapping[int, str]) -> dict[str, int] | None:
    """Return numbers by the names of steps. Steps without a name are left out: the pipeline has them no more."""
    if not numbers:
        return None if numbers is None else {}
    return {names[step]: number for step, number in numbers.items() if step in names}


def by_id(numbers: Mapping[str, int | None] | Mapping[str, int], step_ids: Mapping[Any, int | None]) -> str:
    """Return numbers by the ids of steps, as JSON text."""
    if len(numbers) == 1:  # nearly always
        for step, number in numbers.items():
            return f'{{"{step_ids[step]}":{"null" if number is None else number}}}'
    return encode_json({step_ids[step]: number for step, number in numbers.items()})


def extents_by_name(extents: NumbersBySteps, names: Mapping[int, str]) -> dict[str, int] | None:
    """Return extents by the names of steps. Steps without a name keep their ids: they may come back."""
    return None if extents is None else dict(zip(names_or_ids([*extents], names), extents.values(), strict=True))


def names_or_ids(step_ids: Sequence[int], names: Mapping[int, str]) -> list[str]:
    """Return names of steps. A step without a name gets its id: no step has a number as its name."""
    return [names.get(step_id) or str(step_id) for step_id in step_ids]


def extents_by_id(extents: Extents, step_ids: Mapping[str, int]) -> str:
    """Return extents by the ids of steps, as JSON text."""
    if len(extents) == 1:  # nearly always
        for step, number in extents.items():
            return f'{{"{step_ids.get(step, step)}":{number}}}'
    return encode_json({step_ids.get(step, step): number for step, number in extents.items()})


def claimed_places(plan: Plan, claims: Sequence[Claim]) -> list[tuple[int, int, int]]:
    """Return the places of claimed documents: the ids of document, generation and step."""
    checkpoints = [(claim.document_id, claim.checkpoint) for claim in claims]
    return [(document_id, at.generation, plan.step_ids[at.step or ""]) for document_id, at in checkpoints]


def places_of_steps(plan: Plan, claim: Claim) -> dict[str, tuple[int, int]]:
    """Return where the items of each step are that a document uses: the generation, and the id of the step."""
    generation, reuses = claim.checkpoint.generation, claim.reuses or {}
    return {step: (reuses.get(step, generation), step_id) for step, step_id in plan.step_ids.items()}
