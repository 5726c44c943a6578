"""Intake in memory: declare pipelines, and submit and rename documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.core.codec import encode_json
from holdfast.core.errors import StoreError
from holdfast.core.model import OPEN_STATES, NewDocument, Plan, State, SubmitResult
from holdfast.core.plan import (
    CountAndKeys,
    Orders,
    Shape,
    refuse_if_reordered,
    refuse_if_sent_back,
    refuse_if_stranded,
    refuse_long_names,
    unknown_step,
)
from holdfast.core.reasons import DAMAGED, REORDERED, sentence
from holdfast.stores.json_fields import decode_or_text
from holdfast.stores.memory.base import Base, payload_of
from holdfast.stores.memory.tables import BatchRow, DocumentRow, PlanRow, StepRow
from holdfast.stores.protocol import RenameEffect
from holdfast.stores.rename_rules import Renames, rename_detail, with_new_keys
from holdfast.stores.submission import (
    CheckDone,
    UnchangedDocuments,
    classify,
    new_submission,
    refuse_bad_batch,
    refuse_if_sealed,
)


class Intake(Base):
    """Declare pipelines, and submit and rename documents."""

    def declare(self, shape: Shape) -> Plan:
        with self._writing():
            return self._declare(shape)

    def check(self, shape: Shape) -> None:
        with suppress(CheckDone), self._writing():
            self._declare(shape)
            raise CheckDone

    def _declare(self, shape: Shape) -> Plan:
        refuse_long_names(shape)
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
        plan = Plan(shape.pipeline, pipeline_id, plan_id, step_ids, shape.kinds, self._removed(pipeline_id, step_ids))
        rows = [tables.documents[number] for number in sorted(moved)]
        self._repin(plan, [row for row in rows if row.plan_id not in others and row.step_id in step_ids.values()])
        self._restart_dead_letters(plan, others, now)
        return plan

    def _rename_step(self, pipeline_id: int, old: str, new: str) -> None:
        """Rename a step. Its id stays, so documents and items need no change."""
        step_id = self._step_id(pipeline_id, old)
        if step_id is not None and self._step_id(pipeline_id, new) is None:
            self._tables.steps[step_id] = replace(self._tables.steps[step_id], name=new)
            self._rename_in_journals(pipeline_id, old, new)

    def _rename_in_journals(self, pipeline_id: int, old: str, new: str) -> None:
        """Rename a step in journal entries: decisions are looked up by the current name of a step."""
        documents = [row.id for row in self._tables.documents.values() if row.pipeline_id == pipeline_id]
        for lines in [self._tables.journals[number] for number in documents]:
            for place, line in list(lines.items()):
                if line.step == old:
                    lines[place] = replace(line, step=new)

    def _declare_step(self, pipeline_id: int, name: str) -> int:
        """Return the id of a step. Add the step if it is new."""
        known = self._step_id(pipeline_id, name)
        if known is not None:
            return known
        step_id = len(self._tables.steps) + 1
        self._tables.steps[step_id] = StepRow(step_id, pipeline_id, name)
        return step_id

    def _move_to_step(self, pipeline_id: int, old: str, new: str) -> list[int]:
        """Move documents from a removed step to the start of another. Return their ids."""
        gone, step_id = self._step_id(pipeline_id, old), self._step_id(pipeline_id, new)
        there = [row for row in self._tables.documents.values() if row.step_id == gone and row.state != "running"]
        if gone is None:
            return []
        return [self._change(row, step_id=step_id, cursor=None, extents={0: 1}, totals=None).id for row in there]

    def _stranded(self, pipeline_id: int, step_ids: dict[str, int]) -> dict[str, tuple[int, list[str]]]:
        """Find open documents at steps that the plan does not have: their number, and the keys of the first three."""
        stranded: dict[str, tuple[int, list[str]]] = {}
        for row in self._tables.documents.values():
            if row.pipeline_id == pipeline_id and row.state in OPEN_STATES and row.step_id not in step_ids.values():
                step = self._step_name(row) if self._has_known_step(row) else ""
                assert step is not None
                count, keys = stranded.get(step, (0, []))
                stranded[step] = (count + 1, [*keys, row.key][:3])
        return stranded

    def _has_known_step(self, row: DocumentRow) -> bool:
        """Return True if a document is at a step that its pipeline has, or had."""
        step = self._tables.steps.get(row.step_id or 0)
        return step is not None and step.pipeline_id == row.pipeline_id

    def _park_lost(self, pipeline_id: int, shape: Shape, now: datetime) -> None:
        """Park documents at a step that the pipeline never had, because no worker can claim them."""
        reason = unknown_step(shape)
        for row in list(self._tables.documents.values()):
            if row.pipeline_id == pipeline_id and row.state == "waiting" and not self._has_known_step(row):
                at_rest = {
                    "state": "paused",
                    "due_at": None,
                    "reason": reason,
                    "code": DAMAGED,
                    "error": "",
                    "recoverable": None,
                }
                parked = self._change(row, **at_rest, moves=row.moves + 1)
                detail = {"reason": reason, "was": "waiting", "state": "paused"}
                self._write_journal(parked, "pause", who="declare", now=now, detail=detail, code=DAMAGED)

    def _orders(self, pipeline_id: int) -> Orders:
        """Return the steps of every plan of a pipeline, in order, with their current names."""
        steps = self._tables.steps
        return {row.id: [steps[one].name for one in row.step_ids] for row in self._plans(pipeline_id)}

    def _pinned(
        self, pipeline_id: int, plan_ids: Sequence[int], states: Sequence[State], step: str | None
    ) -> CountAndKeys:
        """Find the documents that are pinned to these plans: their number, and the keys of the first three."""
        step_id = None if step is None else self._step_id(pipeline_id, step)
        rows = [row for row in self._tables.documents.values() if row.plan_id in plan_ids and row.state in states]
        keys = [row.key for row in rows if step is None or row.step_id == step_id]
        return len(keys), keys[:3]

    def _restart_dead_letters(self, plan: Plan, others: Sequence[int], now: datetime) -> None:
        """Rewind dead letters of plans with another order to the first step: their items belong to that order."""
        dead = [row for row in self._tables.documents.values() if row.state == "dead" and row.plan_id in others]
        going = [row for row in dead if self._tables.batches[row.batch_id].state != "closed"]
        first = next(iter(plan.step_ids))
        generations = self._next_generations(going)
        for row in going:
            place = {"from": self._step_name(row), "cursor": decode_or_text(row.cursor), "to": first}
            detail = place | {"reason": sentence(REORDERED)}
            restarted = self._change(
                row,
                plan_id=plan.plan_id,
                generation=generations[row.id],
                step_id=plan.first,
                cursor=None,
                moves=row.moves + 1,
                reuses=None,
                extents=None,
                totals=None,
                moved_at=now,
            )
            self._write_journal(restarted, "rewind", who="declare", now=now, detail=detail, code=REORDERED)

    def _declare_plan(self, pipeline_id: int, shape: Shape, step_ids: dict[str, int], now: datetime) -> int:
        """Save the shape. The plan declared last is the current one: its time is later than that of all others."""
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
    ) -> SubmitResult:
        with self._writing():
            return self._submit(plan, batch, documents, submission=submission, part=part, unchanged=self._unchanged)

    def _submit(
        self,
        plan: Plan,
        batch: str,
        documents: Sequence[NewDocument],
        *,
        submission: int,
        part: int,
        unchanged: UnchangedDocuments,
    ) -> SubmitResult:
        refuse_bad_batch(batch)
        now, tables = self.now(), self._tables
        into = self._open_batch(plan, batch, now)
        named = {one.key: tables.keys.get((into.id, one.key)) for one in documents}
        held = {key: tables.documents[found] for key, found in named.items() if found is not None}
        known = {key: (row.id, row.fingerprint, row.submission, row.part) for key, row in held.items()}
        new, changed, touched, same = classify(documents, known, unchanged, submission=submission, part=part)
        refuse_if_sealed(plan.pipeline, batch, into.state, brought=len(new) + len(changed))
        self._add_documents(plan, into, new, submission=submission, part=part, now=now)
        generations = self._next_generations([held[one.key] for one in changed])
        for one in changed:
            row = held[one.key]
            self._start_again(plan, row, one, generation=generations[row.id], submission=submission, part=part, now=now)
        for number, fingerprint in touched if into.state == "open" else ():
            self._change(tables.documents[number], fingerprint=fingerprint)
        return SubmitResult(len(new), len(changed), same)

    def submit_on_connection(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        shape: Shape,
        batch: str,  # noqa: ARG002
        parts: Iterable[Sequence[NewDocument]],  # noqa: ARG002
    ) -> SubmitResult:
        raise StoreError(
            f"{shape.pipeline!r}: connection= needs a store in a database, and memory:// is in none: its documents "
            "cannot be committed with your rows. Use a SQLite file, also in tests"
        )

    def _submit_within(self, shape: Shape, batch: str, document: NewDocument) -> SubmitResult:
        refuse_bad_batch(batch)
        plan, number = self._chained_plan(shape), {"submission": new_submission(), "part": 0}
        return self._submit(plan, batch, [document], **number, unchanged=UnchangedDocuments())

    def _chained_plan(self, shape: Shape) -> Plan:
        """Return the plan of a shape. Declare it within the transaction if no earlier transaction has."""
        name = encode_json(shape)
        plan = self._chained.get(name)
        if plan is not None and self._tables.pipelines.get(shape.pipeline) == plan.pipeline_id:
            row = self._tables.plans.get(plan.plan_id)
            if row is not None and row.step_ids == tuple(plan.step_ids.values()) and row.shape == shape:
                return plan
        plan = self._chained[name] = self._declare(shape)
        return plan

    def _open_batch(self, plan: Plan, name: str, now: datetime) -> BatchRow:
        """Return a batch. Add it if it is new."""
        batches = self._tables.batches
        batch = self._batch(plan.pipeline_id, name) or BatchRow(len(batches) + 1, plan.pipeline_id, name, now)
        batches[batch.id] = batch
        return batch

    def _start_again(
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
        """Start a changed document again, as a new generation. A worker that holds it loses its claim."""
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
            waits_since=now,
            generation=generation,
            moves=row.moves + 1,
            fence=row.fence + 1,
            serves=self._served(row),
            effects=row.effects,
        )

    def rename(
        self,
        pipeline: str,
        batch: str,
        documents: Mapping[str, NewDocument],
        *,
        who: str,
        reason: str,
        code: str = "",
        effect: RenameEffect | None = None,
    ) -> list[str]:
        now = self.now()
        with self._writing() as tables:
            within = self._batch(tables.pipelines.get(pipeline), batch)
            if within is None or within.state == "closed":
                return []
            renames = Renames(documents)
            going = renames.possible({key for key in renames.keys if (within.id, key) in tables.keys})
            rows = {old: tables.documents[tables.keys[within.id, old]] for old in going}
            for old in going:
                del tables.keys[within.id, old]
            for old, one in going.items():
                tables.keys[within.id, one.key] = rows[old].id
                self._rename(rows[old], one, now)
                detail = rename_detail(old, one.key, rows[old].state, reason=reason)
                self._write_journal(rows[old], "rename", who=who, now=now, detail=detail, code=code)
            tables.manifests[within.id] = tuple(with_new_keys(tables.manifests.get(within.id, ()), going))
            if effect:
                with self._guarded_tx("the effect of a rename") as tx:
                    effect(tx, [*going])
            return [*going]

    def _rename(self, row: DocumentRow, one: NewDocument, now: datetime) -> None:
        """Change the key of a document. A worker that holds it loses its claim; the attempt does not count."""
        named = self._change(row, key=one.key, payload=payload_of(one), fingerprint=one.fingerprint)
        if row.state == "running":
            attempts = max(row.attempts - 1, 0)
            free = {"state": "waiting", "worker_id": None, "worked_by": row.worker_id, "deadline_at": None}
            at_once = {"due_at": min(row.submitted_at, now), "waits_since": now}
            self._change(named, **free, **at_once, fence=row.fence + 1, attempts=attempts)
