"""Work in memory: claims with fences, and commits, the only way in which checkpoints move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from sqlite3 import IntegrityError
from typing import Any, Unpack

from msgspec.structs import replace

from holdfast.core.codec import Kept, encode_json
from holdfast.core.extents import Extents
from holdfast.core.integrity import KeptState, StepItems, takes_long_to_count
from holdfast.core.model import WHOLE, Checkpoint, Claim, Plan, WorkerRecord
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move, Release, reuses_of, rewound
from holdfast.stores.group_commit import EffectFailed, commit_allowed, run_effect
from holdfast.stores.json_fields import (
    by_name,
    claimed_places,
    decode_claim,
    decode_or_text,
    extents_by_name,
    places_of_steps,
)
from holdfast.stores.memory.base import Base, MemoryTx, place_of
from holdfast.stores.memory.tables import NO_SETBACKS, DocumentRow, StoredItem, WorkerRow
from holdfast.stores.protocol import ClaimChoice, Exchanged, Scope, Timeouts
from holdfast.stores.rewind_rules import Rewind


class Work(Base):
    """Let one worker at a time process a document."""

    def register_worker(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> WorkerRecord:
        now = self.now()
        with self._writing() as tables:
            worker = WorkerRecord(tables.next_number("worker"), name, host, pid, born, lease, now)
            tables.workers[worker.id] = WorkerRow(worker, now)
        return worker

    def heartbeat(self, worker: WorkerRecord) -> bool:
        now = self.now()
        with self._writing() as tables:
            if self._is_gone(worker):
                return False
            tables.workers[worker.id] = replace(tables.workers[worker.id], heartbeat_at=now)
            return True

    def retire_worker(self, worker: WorkerRecord) -> None:
        now = self.now()
        with self._writing() as tables:
            self._release_all(worker, ())
            if worker.id in tables.workers:
                tables.workers[worker.id] = replace(tables.workers[worker.id], gone_at=now)

    def release_unknown(self, worker: WorkerRecord, *, keeping: Sequence[int]) -> int:
        with self._writing():
            return self._release_all(worker, keeping)

    def _release_all(self, worker: WorkerRecord, keeping: Sequence[int]) -> int:
        """Release all documents of a worker except some. That costs no attempt."""
        now = self.now()
        dropped = [
            row for row in self._tables.documents.values() if row.worker_id == worker.id and row.id not in keeping
        ]
        for row in dropped:
            attempts = max(row.attempts - 1, 0)
            free = {"state": "waiting", "worker_id": None, "worked_by": row.worker_id, "deadline_at": None}
            self._change(row, **free, due_at=min(row.submitted_at, now), waits_since=now, attempts=attempts)
        return len(dropped)

    def _is_gone(self, worker: WorkerRecord) -> bool:
        row = self._tables.workers.get(worker.id)
        return row is None or row.gone

    def claim(
        self,
        plan: Plan,
        worker: WorkerRecord,
        *,
        limit: int,
        which: ClaimChoice = "due",
        **scope: Unpack[Scope],
    ) -> list[Claim]:
        now = self.now()
        with self._writing():
            rows = self._claimable(plan, which, scope, now)
            return self._claim(plan, worker, rows[:limit], timeouts=scope.get("timeouts", {}), now=now)

    def _claimable(self, plan: Plan, which: ClaimChoice, scope: Scope, now: datetime) -> list[DocumentRow]:
        batch, paused = scope.get("batch"), scope.get("paused", ())
        if which == "due":
            return [row for row in self._due(plan, batch, now, paused) if not row.is_suspect]
        if which == "suspect":
            return [row for row in self._due(plan, batch, now, paused) if row.is_suspect]
        rows = [row for row in self._documents(plan, batch) if row.id == which and row.state == "waiting"]
        return [row for row in rows if row.step_id in plan.step_ids.values()]

    def _claim(
        self, plan: Plan, worker: WorkerRecord, due: list[DocumentRow], *, timeouts: Timeouts, now: datetime
    ) -> list[Claim]:
        """Assign documents to a worker. The attempt is counted now."""
        if self._is_gone(worker):
            return []
        deadlines = {plan.step_ids[step]: now + span for step, span in timeouts.items()}
        claimed = [
            self._change(
                row,
                state="running",
                worker_id=worker.id,
                fence=row.fence + 1,
                attempts=row.attempts + 1,
                due_at=None,
                claimed_at=now,
                deadline_at=deadlines.get(row.step_id or 0),
            )
            for row in due
        ]
        self._repin(plan, claimed)
        claimed.sort(key=lambda row: (-row.priority, row.id))
        return [self._as_claim(plan, row, now) for row in claimed]

    def _as_claim(self, plan: Plan, row: DocumentRow, now: datetime) -> Claim:
        names = plan.names
        payload, cursor, *_, damage = decode_claim(row.payload, row.cursor, None, None, None)
        return Claim(
            document_id=row.id,
            fence=row.fence,
            batch=self._tables.batches[row.batch_id].name,
            key=row.key,
            payload=payload,
            fingerprint=row.fingerprint,
            checkpoint=Checkpoint(
                row.generation,
                names[row.step_id or 0],
                cursor,
                row.moves,
            ),
            attempts=row.attempts,
            crashes=row.crashes,
            cursor_age=now - row.moved_at,
            reuses=by_name(row.reuses, names),
            damage=damage,
            losses=row.losses,
            deferrals=row.deferrals,
            deferred_for=now - (row.deferred_at or now),
            interruptions=row.interruptions,
            effects=by_name(row.effects, plan.all_names),
            extents=extents_by_name(row.extents, names),
            totals=by_name(row.totals, names),
            held_before=row.worked_by is not None,
        )

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        return commit_allowed(plan, moves, lambda group: self._commit_together(plan, group))

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: WorkerRecord, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        return self.commit(plan, moves), self.claim(plan, worker, limit=limit, **scope)

    def _commit_together(self, plan: Plan, moves: Sequence[Move]) -> list[CommitResult]:
        now = self.now()
        answers: list[CommitResult] = []
        held: list[Move] = []
        try:
            with self._writing():
                for move in moves:
                    row = self._held_at(plan, move)
                    answers.append(ACCEPTED if row else LOST)
                    if row:
                        held.append(move)
                        self._move(plan, row, move, now)
                        self._save_items(plan, move, now)
                self._run_effects(held)
        except IntegrityError as error:  # a constraint that is only looked at when the transaction ends
            raise EffectFailed(None, error) from error
        return answers

    def _held(self, claim: Claim, at: Checkpoint) -> DocumentRow | None:
        """Return the row of a claimed document. None unless fence, generation and moves are what the claim expects."""
        row = self._tables.documents.get(claim.document_id)
        if row is None or row.state != "running":
            return None
        return row if (row.fence, row.generation, row.moves) == (claim.fence, at.generation, at.moves) else None

    def _held_at(self, plan: Plan, move: Move) -> DocumentRow | None:
        """Return the row of a document that is where a move starts. None if it is lost."""
        row, before = self._held(move.claim, move.before), move.before
        if row is None or row.step_id != plan.step_ids[before.step or ""]:
            return None
        return row if before is move.claim.checkpoint or decode_or_text(row.cursor) == before.cursor else None

    def _move(self, plan: Plan, row: DocumentRow, move: Move, now: datetime) -> None:
        after = move.after
        moved = self._change(
            row,
            step_id=None if after.step is None else plan.step_ids[after.step],
            cursor=None if after.cursor is None else encode_json(after.cursor),
            moves=row.moves + 1,
            moved_at=now,
            crashes=0,
            **NO_SETBACKS,
            effects=row.effects if move.effects is None else _merged(row.effects, plan, move.effects),
            extents=row.extents if move.extents is None else _extents_by_id(plan, move.extents),
            totals=row.totals if move.totals is None else _extents_by_id(plan, move.totals),
            **_stays(move, now) if move.state == "running" else _ends(row, move, now),
        )
        if moved.state == "done":
            moved = self._change(moved, serves=None)
            self._drop_earlier_generations(moved)

    def _save_items(self, plan: Plan, move: Move, now: datetime) -> None:
        """Save the items of a move, and those that were set aside."""
        document_id, generation = move.claim.document_id, move.after.generation
        for item in move.items:
            items = self._tables.items[document_id, generation, plan.step_ids[item.step]]
            if item.position in items or item.position < -1:
                raise IntegrityError(f"position {item.position} of step {item.step!r} is kept already, or is none")
            items[item.position] = StoredItem(item.value, now)
        if move.asides or move.mended:
            asides = self._tables.asides[document_id, generation, plan.step_ids[move.before.step or ""]]
            for aside in move.asides:
                if aside.tries < 1:
                    raise IntegrityError("CHECK constraint failed: an item is set aside after a try")
                asides[aside.position] = aside
            for position in move.mended:
                if position in asides:
                    del asides[position]

    def _run_effects(self, moves: Sequence[Move]) -> None:
        if any(move.effect is not None for move in moves):
            self._effects.guard.run_effects(self._effects, moves, partial(self._run_effect, self._tx()))

    def _run_effect(self, tx: MemoryTx, move: Move) -> None:
        self._running.move = move
        try:
            tx.batch = move.claim.batch
            run_effect(move, tx)
        finally:
            self._running.move = None

    def release(self, releases: Sequence[Release]) -> list[bool]:
        now = self.now()
        with self._writing():
            return [self._release(release, now) for release in releases]

    def _release(self, release: Release, now: datetime) -> bool:
        row = self._tables.documents.get(release.claim.document_id)
        if row is None or self._held(release.claim, replace(release.claim.checkpoint, moves=row.moves)) is None:
            return False
        due = row.due_after(release.delay, now) if release.state == "waiting" else None
        if release.state == "paused" and release.delay:
            due = now + release.delay
        ended = self._change(
            row,
            state=release.state,
            worker_id=None,
            worked_by=row.worker_id,
            due_at=release.until.astimezone(UTC) if release.until else due,
            waits_since=None if release.until else now,
            deadline_at=None,
            reason=str(release.failure or release.reason),
            code=release.code,
            error=release.failure.kind if release.failure else "",
            moves=row.moves + (release.state == "paused"),
            attempts=row.attempts if release.costs == "attempt" else max(row.attempts - 1, 0),
            crashes=row.crashes + (release.costs == "crash"),
            losses=row.losses + (release.costs == "loss"),
            deferrals=row.deferrals + (release.costs == "deferral"),
            deferred_at=row.deferred_at or now if release.costs == "deferral" else row.deferred_at,
            interruptions=row.interruptions + (release.costs == "interruption"),
            recoverable=release.recoverable,
        )
        self._write_journal(ended, release.verb, who=release.who, now=now, detail=release.detail, code=release.code)
        return True

    def rewind(self, plan: Plan, claim: Claim, *, to: str, who: str, reason: str, code: str = "") -> bool:
        now = self.now()
        at = claim.checkpoint
        back = rewound(claim, to=to, steps=[*plan.step_ids], gates=plan.gates)
        with self._writing():
            row = self._held(claim, at)
            if row is None:
                return False
            rewind = Rewind(plan, to, self._step_orders(plan.pipeline_id))
            set_back = self._change(
                row,
                generation=row.generation + 1,
                step_id=plan.step_ids[to],
                cursor=None,
                moves=row.moves + 1,
                worked_by=None,
                reuses=rewind.reuses(place_of(row)) | reuses_of(plan, back),
                extents=None if back.extents is None else _extents_by_id(plan, back.extents),
                totals=None,
                attempts=1,
                crashes=0,
                **NO_SETBACKS,
                deadline_at=None,
                moved_at=now,
            )
            detail = {"from": at.step, "cursor": at.cursor, "to": to, "reason": reason}
            self._write_journal(set_back, "rewind", who=who, now=now, detail=detail, code=code)
            self._repin(plan, [set_back])
            return True

    def lost_claims(self, claims: Sequence[Claim]) -> list[int]:
        with self._reading() as tables:
            held = {row.id: row.fence for row in tables.documents.values() if row.state == "running"}
        return [claim.document_id for claim in claims if held.get(claim.document_id) != claim.fence]

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        step_id = plan.step_ids[step]
        with self._writing() as tables:
            inside = tables.permits[step_id]
            for document_id, fence in list(inside.items()):
                row = tables.documents.get(document_id)
                if row is None or (row.state, row.fence, row.step_id) != ("running", fence, step_id):
                    del inside[document_id]
            for claim in claims:
                row = tables.documents.get(claim.document_id)
                held = row is not None and (row.state, row.fence) == ("running", claim.fence)
                if held and claim.document_id not in inside and len(inside) < limit:
                    inside[claim.document_id] = claim.fence
            return [inside.get(claim.document_id) == claim.fence for claim in claims]

    def next_position(self, document_id: int, generation: int, step_id: int) -> int:
        with self._reading() as tables:
            return max(tables.items[document_id, generation, step_id], default=-1) + 1

    def kept_state(self, plan: Plan, claims: Sequence[Claim]) -> list[KeptState]:
        with self._reading() as tables:
            latest = self._latest_kept()
            pins = {row.id: row.plan_id for row in tables.documents.values()}
            return [
                KeptState(
                    latest.get(place[0], -1),
                    self.next_position(*place),
                    pins.get(place[0], 0),
                    None if takes_long_to_count(claim) else self.count_kept(plan, claim),
                )
                for claim, place in zip(claims, claimed_places(plan, claims), strict=True)
            ]

    def count_kept(self, plan: Plan, claim: Claim) -> Mapping[str, StepItems]:
        with self._reading() as tables:
            steps: dict[str, StepItems] = {}
            for step, (generation, step_id) in places_of_steps(plan, claim).items():
                place = claim.document_id, generation, step_id
                positions, failed = tables.items[place], tables.asides[place]
                if positions or failed:
                    whole = int(WHOLE in positions)
                    steps[step] = StepItems(len(positions) - whole, whole, len(failed))
            return steps

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        with self._reading() as tables:
            items = tables.items[document_id, generation, step_id]
            return [(position, items[position].value) for position in sorted(items) if start <= position < stop]


def _extents_by_id(plan: Plan, extents: Extents) -> dict[int, int]:
    return {int(plan.step_ids.get(step, step)): number for step, number in extents.items()}


def _merged(effects: dict[int, int], plan: Plan, changes: dict[str, int | None]) -> dict[int, int]:
    """Return the effects of a document after a move. None removes a step."""
    now = effects | {plan.step_ids[step]: generation for step, generation in changes.items()}
    return {step_id: generation for step_id, generation in now.items() if generation is not None}


def _stays(move: Move, now: datetime) -> dict[str, Any]:
    """Return the fields of a document that stays with its worker. Progress resets the attempts."""
    stays: dict[str, Any] = {"deadline_at": None if move.timeout is None else now + move.timeout}
    return stays | {"attempts": 1} if move.is_progress else stays


def _ends(row: DocumentRow, move: Move, now: datetime) -> dict[str, Any]:
    """Return the fields of a document that leaves its worker: it is done, or waits at a gate."""
    undecided = move.state == "paused" and move.timeout is not None
    return {
        "state": move.state,
        "reason": move.reason,
        "code": move.code,
        "worker_id": None,
        "worked_by": row.worker_id,
        "attempts": 0,
        "due_at": now + move.timeout if undecided and move.timeout else None,
        "waits_since": now if move.state == "paused" else row.waits_since,
        "deadline_at": None,
    }
