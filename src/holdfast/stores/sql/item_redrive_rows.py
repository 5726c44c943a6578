"""What SQL stores read and write for items that are tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.codec import decode_json, encode_json
from holdfast.stores.item_redrive import ItemRedrive, KeptInStep
from holdfast.stores.json_fields import UNREADABLE
from holdfast.stores.sql.decision_rules import DecisionRow
from holdfast.stores.sql.dialect import Rows
from holdfast.stores.sql.session import Session


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
