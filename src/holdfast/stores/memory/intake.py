"""Intake in memory: pipelines are declared, documents submitted, batches sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from holdfast.core.model import OPEN_STATES, NewDocument, Plan, Receipt, State
from holdfast.core.plan import (
    REORDERED,
    Crowd,
    Orders,
    Shape,
    lost,
    refuse_if_reordered,
    refuse_if_sent_back,
    refuse_if_stranded,
)
from holdfast.stores.memory.base import Base, Tx, payload_of
from holdfast.stores.memory.tables import BatchRow, DocumentRow, PlanRow, StepRow
from holdfast.stores.parts import Judged, refuse_bad_batch, refuse_if_sealed, sort_out
from holdfast.stores.protocol import RenameEffect
from holdfast.stores.renaming import Renaming, line_of, with_new_names
from holdfast.stores.rows import told


class Intake(Base):
    """Takes documents in."""

    def declare(self, shape: Shape) -> Plan:
        with self._writing():
            return self._declare(shape)

    def check(self, shape: Shape) -> None:
        with suppress(Judged), self._writing():
            self._declare(shape)
            raise Judged

    def _declare(self, shape: Shape) -> Plan:
        now = self.now()
        tables = self._tables
        pipeline_id = tables.pipelines.get(shape.pipeline, len(tables.pipelines) + 1)
        tables.pipelines[shape.pipeline] = pipeline_id
        for old, new in shape.renamed.items():
            self._rename_step(pipeline_id, old, new)
        step_ids = {name: self._declare_step(pipeline_id, name) for name in shape.names}
        orders, pinned = self._orders(pipeline_id), partial(self._pinned, pipeline_id)
        refuse_if_sent_back(shape, orders, pinned)
        moved = {number for old, new in shape.renamed.items() for number in self._move_to_step(pipeline_id, old, new)}
        stranded = self._stranded(pipeline_id, step_ids)
        if stranded.pop("", None):
            self._park_lost(pipeline_id, shape, now)
        refuse_if_stranded(shape, stranded, orders)
        others = refuse_if_reordered(shape, orders, pinned)
        plan_id = self._declare_plan(pipeline_id, shape, step_ids, now)
        plan = Plan(shape.pipeline, pipeline_id, plan_id, step_ids, shape.gates)
        rows = [tables.documents[number] for number in sorted(moved)]
        self._repin(plan, [row for row in rows if row.plan_id not in others and row.step_id in step_ids.values()])
        self._begin_dead_letters_anew(plan, others, now)
        return plan

    def _rename_step(self, pipeline_id: int, old: str, new: str) -> None:
        """Gives a step a new name: its number stays, so documents and items follow by themselves."""
        step_id = self._step_id(pipeline_id, old)
        if step_id is not None and self._step_id(pipeline_id, new) is None:
            self._tables.steps[step_id] = StepRow(step_id, pipeline_id, new)
            self._rename_in_journals(pipeline_id, old, new)

    def _rename_in_journals(self, pipeline_id: int, old: str, new: str) -> None:
        """Lets the lines of a step follow it: what was decided there is asked for by its present name."""
        documents = [row.id for row in self._tables.documents.values() if row.pipeline_id == pipeline_id]
        for lines in [self._tables.journals[number] for number in documents]:
            for place, line in list(lines.items()):
                if line.step == old:
                    lines[place] = replace(line, step=new)

    def _declare_step(self, pipeline_id: int, name: str) -> int:
        """Makes a step known, under the number it had if it was known before."""
        known = self._step_id(pipeline_id, name)
        if known is not None:
            return known
        step_id = len(self._tables.steps) + 1
        self._tables.steps[step_id] = StepRow(step_id, pipeline_id, name)
        return step_id

    def _move_to_step(self, pipeline_id: int, old: str, new: str) -> list[int]:
        """Lets documents that stand at a step that is gone go on at the start of another. Answers their numbers."""
        gone, step_id = self._step_id(pipeline_id, old), self._step_id(pipeline_id, new)
        there = [row for row in self._tables.documents.values() if row.step_id == gone and row.state != "running"]
        if gone is None:
            return []
        return [self._change(row, step_id=step_id, cursor=None).id for row in there]

    def _stranded(self, pipeline_id: int, step_ids: dict[str, int]) -> dict[str, tuple[int, list[str]]]:
        """Finds open documents at steps that the plan lacks: how many, and the first three."""
        stranded: dict[str, tuple[int, list[str]]] = {}
        for row in self._tables.documents.values():
            if row.pipeline_id == pipeline_id and row.state in OPEN_STATES and row.step_id not in step_ids.values():
                step = self._step_name(row) if self._knows(row) else ""
                assert step is not None
                count, keys = stranded.get(step, (0, []))
                stranded[step] = (count + 1, [*keys, row.key][:3])
        return stranded

    def _knows(self, row: DocumentRow) -> bool:
        """Answers whether a document stands at a step that its pipeline has, or had."""
        step = self._tables.steps.get(row.step_id or 0)
        return step is not None and step.pipeline_id == row.pipeline_id

    def _park_lost(self, pipeline_id: int, shape: Shape, now: datetime) -> None:
        """Parks documents that stand at a step that the pipeline never had: nobody could claim them."""
        for row in list(self._tables.documents.values()):
            if row.pipeline_id == pipeline_id and row.state == "waiting" and not self._knows(row):
                at_rest = {"state": "paused", "due_at": None, "reason": lost(shape), "error": ""}
                parked = self._change(row, **at_rest, moves=row.moves + 1)
                detail = {"reason": lost(shape), "was": "waiting", "state": "paused"}
                self._write_journal(parked, "pause", who="declare", now=now, detail=detail)

    def _orders(self, pipeline_id: int) -> Orders:
        """Gives the steps of every plan that the pipeline had, in order, under their present names."""
        steps = self._tables.steps
        return {row.id: [steps[one].name for one in row.step_ids] for row in self._plans(pipeline_id)}

    def _pinned(self, pipeline_id: int, plan_ids: Sequence[int], states: Sequence[State], step: str | None) -> Crowd:
        """Finds the documents that are pinned to these plans: how many, and the first three."""
        step_id = None if step is None else self._step_id(pipeline_id, step)
        rows = [row for row in self._tables.documents.values() if row.plan_id in plan_ids and row.state in states]
        keys = [row.key for row in rows if step is None or row.step_id == step_id]
        return len(keys), keys[:3]

    def _begin_dead_letters_anew(self, plan: Plan, others: Sequence[int], now: datetime) -> None:
        """Rewinds the dead letters of another order to the start: redriven, they would trip over what they kept."""
        dead = [row for row in self._tables.documents.values() if row.state == "dead" and row.plan_id in others]
        going = [row for row in dead if self._tables.batches[row.batch_id].state != "closed"]
        first = next(iter(plan.step_ids))
        generations = self._next_generations(going)
        for row in going:
            detail = {"from": self._step_name(row), "cursor": told(row.cursor), "to": first, "reason": REORDERED}
            anew = self._change(
                row,
                plan_id=plan.plan_id,
                generation=generations[row.id],
                step_id=plan.first,
                cursor=None,
                moves=row.moves + 1,
                reuses=None,
                moved_at=now,
            )
            self._write_journal(anew, "rewind", who="declare", now=now, detail=detail)

    def _declare_plan(self, pipeline_id: int, shape: Shape, step_ids: dict[str, int], now: datetime) -> int:
        """Remembers the shape; the one declared last is the present one, and is later than the others on any clock."""
        plans = self._tables.plans
        numbers = tuple(step_ids.values())
        sought = (pipeline_id, shape.mark(numbers))
        same = (row.id for row in plans.values() if (row.pipeline_id, row.shape.mark(row.step_ids)) == sought)
        plan_id = next(same, len(plans) + 1)
        others = [row.declared_at for row in self._plans(pipeline_id) if row.id != plan_id and row.declared_at]
        declared_at = max([now, *(other + datetime.resolution for other in others)])
        plans[plan_id] = PlanRow(plan_id, pipeline_id, shape, numbers, declared_at)
        return plan_id

    def _step_id(self, pipeline_id: int, name: str) -> int | None:
        steps = self._tables.steps.values()
        return next((row.id for row in steps if (row.pipeline_id, row.name) == (pipeline_id, name)), None)

    def submit(
        self, plan: Plan, batch: str, documents: Sequence[NewDocument], *, submission: int, part: int
    ) -> Receipt:
        refuse_bad_batch(batch)
        now = self.now()
        with self._writing() as tables:
            into = self._open_batch(plan, batch, now)
            named = {one.key: tables.keys.get((into.id, one.key)) for one in documents}
            held = {key: tables.documents[found] for key, found in named.items() if found is not None}
            known = {key: (row.id, row.fingerprint, row.submission, row.part) for key, row in held.items()}
            new, changed, unchanged = sort_out(documents, known, self._unchanged, submission=submission, part=part)
            refuse_if_sealed(plan.pipeline, batch, into.state, brought=len(new) + len(changed))
            self._take_in(plan, into, new, submission=submission, part=part, now=now)
            generations = self._next_generations([held[one.key] for one in changed])
            for one in changed:
                row = held[one.key]
                self._begin_anew(
                    plan, row, one, generation=generations[row.id], submission=submission, part=part, now=now
                )
        return Receipt(len(new), len(changed), unchanged)

    def _open_batch(self, plan: Plan, name: str, now: datetime) -> BatchRow:
        """Opens a batch, or finds it."""
        batches = self._tables.batches
        batch = self._batch(plan.pipeline_id, name) or BatchRow(len(batches) + 1, plan.pipeline_id, name, now)
        batches[batch.id] = batch
        return batch

    def _begin_anew(
        self,
        plan: Plan,
        row: DocumentRow,
        one: NewDocument,
        *,
        generation: int,
        submission: int,
        part: int,
        now: datetime,
    ) -> None:
        """Lets a changed document begin anew, as a new generation. A worker that holds it loses it."""
        detail = {"from": row.fingerprint, "to": one.fingerprint, "state": row.state}
        self._write_journal(row, "change", who="submit", now=now, detail=detail)
        self._tables.documents[row.id] = DocumentRow(
            id=row.id,
            pipeline_id=row.pipeline_id,
            batch_id=row.batch_id,
            plan_id=plan.plan_id,
            key=row.key,
            payload=payload_of(one),
            fingerprint=one.fingerprint,
            submission=submission,
            part=part,
            priority=one.priority,
            submitted_at=row.submitted_at,
            moved_at=now,
            step_id=plan.first,
            due_at=now,
            generation=generation,
            moves=row.moves + 1,
            fence=row.fence + 1,
            serves=self._served(row),
        )

    def rename(
        self,
        pipeline: str,
        batch: str,
        documents: Mapping[str, NewDocument],
        *,
        who: str,
        reason: str,
        effect: RenameEffect | None = None,
    ) -> list[str]:
        now = self.now()
        with self._writing() as tables:
            within = self._batch(tables.pipelines.get(pipeline), batch)
            if within is None or within.state == "closed":
                return []
            renaming = Renaming(documents)
            going = renaming.among({key for key in renaming.keys if (within.id, key) in tables.keys})
            rows = {old: tables.documents[tables.keys[within.id, old]] for old in going}
            for old in going:
                del tables.keys[within.id, old]
            for old, one in going.items():
                tables.keys[within.id, one.key] = rows[old].id
                self._rename(rows[old], one)
                detail = line_of(old, one.key, rows[old].state, reason=reason)
                self._write_journal(rows[old], "rename", who=who, now=now, detail=detail)
            tables.manifests[within.id] = tuple(with_new_names(tables.manifests.get(within.id, ()), going))
            if effect:
                effect(Tx(self._effects), [*going])
            return [*going]

    def _rename(self, row: DocumentRow, one: NewDocument) -> None:
        """Gives a document another key. A worker that holds it loses it, and the attempt does not count."""
        named = self._change(row, key=one.key, payload=payload_of(one), fingerprint=one.fingerprint)
        if row.state == "running":
            attempts = max(row.attempts - 1, 0)
            free = {"state": "waiting", "worker_id": None, "worked_by": row.worker_id, "deadline_at": None}
            self._change(named, **free, due_at=row.submitted_at, fence=row.fence + 1, attempts=attempts)
