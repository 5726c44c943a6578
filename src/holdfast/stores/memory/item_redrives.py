"""Redrives of items that were set aside, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.codec import encode_json
from holdfast.core.model import Plan
from holdfast.core.reasons import ITEMS_REDRIVEN
from holdfast.stores.item_redrive import REDRIVABLE, ItemRedrive, KeptInStep, Reopened
from holdfast.stores.json_fields import decode_or_text
from holdfast.stores.memory.base import place_of
from holdfast.stores.memory.decisions import Decisions
from holdfast.stores.memory.tables import DocumentRow


class ItemRedrives(Decisions):
    """Let items be tried again, as new generations of their documents that begin with what the step kept."""

    def redrive_items(
        self, plan: Plan, items: Mapping[int, Sequence[int]], *, step: str, who: str, reason: str
    ) -> dict[int, list[int]]:
        now = self.now()
        with self._writing():
            shapes = {row.id: self._present_shape(row) for row in self._plans(plan.pipeline_id)}
            rules = ItemRedrive(plan, step, self._step_orders(plan.pipeline_id), shapes)
            ours = [row for row in self._decidable([*items], REDRIVABLE) if row.pipeline_id == plan.pipeline_id]
            allowed = [row for row in ours if rules.allows(place_of(row), row.state, row.code)]
            found = [(row, self._reopened(rules, row, items[row.id])) for row in allowed]
            going = [(row, one) for row, one in found if one is not None]
            generations = self._next_generations([row for row, _ in going])
            for row, reopened in going:
                after = {"state": "waiting", "due_at": now, "waits_since": now}
                generation = generations[row.id]
                back = self._rewound(plan, row, rules.rewind, to=step, after=after, generation=generation, now=now)
                place = {"from": self._step_name(row), "cursor": decode_or_text(row.cursor), "to": step}
                detail = {"reason": reason, **place, "items": reopened.items}
                self._record_decision(row, back, "rewind", who=who, now=now, detail=detail, code=ITEMS_REDRIVEN)
                self._reopen(rules.step_id, row, back, reopened)
            self._repin(plan, [self._tables.documents[row.id] for row, _ in going])
            return {row.id: reopened.items for row, reopened in going}

    def _reopened(self, rules: ItemRedrive, row: DocumentRow, positions: Sequence[int]) -> Reopened | None:
        tables, place = self._tables, place_of(row)
        here = (row.id, place.generation_of(rules.step_id), rules.step_id)
        source = tables.items[row.id, place.generation_of(rules.source_id), rules.source_id]
        items = sum(position >= 0 for position in tables.items[here])
        asides = {position: aside.tries for position, aside in tables.asides[here].items()}
        kept = KeptInStep(items, max(source, default=-1) + 1, asides)
        return rules.reopened(place, decode_or_text(row.cursor), kept, positions)

    def _reopen(self, step_id: int, before: DocumentRow, row: DocumentRow, reopened: Reopened) -> None:
        """Put a rewound document inside a step, with what the step kept in the generation before."""
        tables = self._tables
        earlier, now = (row.id, before.generation_of(step_id), step_id), (row.id, row.generation, step_id)
        for position, item in tables.items[earlier].items():
            tables.items[now][position] = item
        for position in reopened.staying:
            tables.asides[now][position] = tables.asides[earlier][position]
        effects = row.effects | {step_id: row.generation} if step_id in row.effects else row.effects
        self._change(row, cursor=encode_json(reopened.cursor), extents=reopened.extents, effects=effects)
