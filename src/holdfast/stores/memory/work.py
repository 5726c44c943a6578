"""Work in memory: claims with fences, and the one door through which checkpoints move."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from sqlite3 import IntegrityError
from typing import Any, Unpack

from msgspec.structs import replace

from holdfast.core.codec import Kept, encode_json
from holdfast.core.errors import BodyError
from holdfast.core.integrity import Traces
from holdfast.core.model import Checkpoint, Claim, Plan, Worker
from holdfast.core.moves import ACCEPTED, LOST, Answer, Ending, Move, reuses_of, rewound
from holdfast.core.retry import SUSPECT
from holdfast.stores.groups import EffectFailed, commit_in_groups, run_effect, run_effects
from holdfast.stores.memory.base import Base, Tx, place_of
from holdfast.stores.memory.tables import DocumentRow, ItemRow, WorkerRow
from holdfast.stores.protocol import Exchanged, Scope, Timeouts
from holdfast.stores.rewinds import Rewinding
from holdfast.stores.rows import legible, places


class Work(Base):
    """Lets one worker at a time advance a document."""

    def enlist(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> Worker:
        now = self.now()
        with self._writing() as tables:
            worker = Worker(tables.next_number("worker"), name, host, pid, born, lease, now)
            tables.workers[worker.id] = WorkerRow(worker, now)
        return worker

    def beat(self, worker: Worker) -> bool:
        now = self.now()
        with self._writing() as tables:
            if self._is_gone(worker):
                return False
            tables.workers[worker.id] = replace(tables.workers[worker.id], beat_at=now)
            return True

    def retire(self, worker: Worker) -> None:
        now = self.now()
        with self._writing() as tables:
            self._let_go(worker, ())
            if worker.id in tables.workers:
                tables.workers[worker.id] = replace(tables.workers[worker.id], gone_at=now)

    def surrender(self, worker: Worker, *, keeping: Sequence[int]) -> int:
        with self._writing():
            return self._let_go(worker, keeping)

    def _let_go(self, worker: Worker, keeping: Sequence[int]) -> int:
        """Lets what a worker holds by the books but not in hand wait again; it costs nothing."""
        dropped = [
            row for row in self._tables.documents.values() if row.worker_id == worker.id and row.id not in keeping
        ]
        for row in dropped:
            attempts = max(row.attempts - 1, 0)
            free = {"state": "waiting", "worker_id": None, "worked_by": row.worker_id, "deadline_at": None}
            self._change(row, **free, due_at=row.submitted_at, attempts=attempts)
        return len(dropped)

    def _is_gone(self, worker: Worker) -> bool:
        row = self._tables.workers.get(worker.id)
        return row is None or row.gone

    def claim(self, plan: Plan, worker: Worker, *, limit: int, **scope: Unpack[Scope]) -> list[Claim]:
        now = self.now()
        with self._writing():
            due = [row for row in self._due(plan, scope.get("batch"), now) if row.crashes < SUSPECT]
            return self._claim(plan, worker, due[:limit], timeouts=scope.get("timeouts", {}), now=now)

    def claim_suspect(self, plan: Plan, worker: Worker, **scope: Unpack[Scope]) -> list[Claim]:
        now = self.now()
        with self._writing():
            due = [row for row in self._due(plan, scope.get("batch"), now) if row.crashes >= SUSPECT]
            return self._claim(plan, worker, due[:1], timeouts=scope.get("timeouts", {}), now=now)

    def claim_this(self, plan: Plan, worker: Worker, document_id: int) -> list[Claim]:
        now = self.now()
        with self._writing():
            rows = [row for row in self._documents(plan) if row.id == document_id and row.state == "waiting"]
            known = [row for row in rows if row.step_id in plan.step_ids.values()]
            return self._claim(plan, worker, known, timeouts={}, now=now)

    def _claim(
        self, plan: Plan, worker: Worker, due: list[DocumentRow], *, timeouts: Timeouts, now: datetime
    ) -> list[Claim]:
        """Makes these documents the worker's. The attempt counts from here."""
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
        names = {step_id: name for name, step_id in plan.step_ids.items()}
        payload, cursor, _, damage = legible(row.payload, row.cursor, None)
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
            reuses=None
            if row.reuses is None
            else {names[step_id]: made for step_id, made in row.reuses.items() if step_id in names},
            damage=damage,
        )

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        return commit_in_groups(moves, lambda group: self._commit_together(plan, group))

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: Worker, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        return self.commit(plan, moves), self.claim(plan, worker, limit=limit, **scope)

    def _commit_together(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        now = self.now()
        answers: list[Answer] = []
        held: list[Move] = []
        try:
            with self._writing():
                for move in moves:
                    row = self._held(move.claim, move.before)
                    answers.append(ACCEPTED if row else LOST)
                    if row:
                        held.append(move)
                        self._move(plan, row, move, now)
                        self._keep(plan, move, now)
                run_effects(held, self._run_effect)
        except IntegrityError as error:  # a constraint that is only looked at when the transaction ends
            raise EffectFailed(None, error) from error
        return answers

    def _held(self, claim: Claim, at: Checkpoint) -> DocumentRow | None:
        """The guard: gives the document while fence, generation and moves are what the claim expects."""
        row = self._tables.documents.get(claim.document_id)
        if row is None or row.state != "running":
            return None
        return row if (row.fence, row.generation, row.moves) == (claim.fence, at.generation, at.moves) else None

    def _move(self, plan: Plan, row: DocumentRow, move: Move, now: datetime) -> None:
        after = move.after
        moved = self._change(
            row,
            step_id=None if after.step is None else plan.step_ids[after.step],
            cursor=None if after.cursor is None else encode_json(after.cursor),
            moves=row.moves + 1,
            moved_at=now,
            crashes=0,
            **_stays(move, now) if move.state == "running" else _ends(row, move, now),
        )
        if moved.state == "done":
            moved = self._change(moved, serves=None)
            self._drop_earlier_generations(moved)

    def _keep(self, plan: Plan, move: Move, now: datetime) -> None:
        """Keeps what the step produced, and what it set aside."""
        document_id, generation = move.claim.document_id, move.after.generation
        for item in move.items:
            items = self._tables.items[document_id, generation, plan.step_ids[item.step]]
            if item.position in items or item.position < -1:
                raise IntegrityError(f"position {item.position} of step {item.step!r} is kept already, or is none")
            items[item.position] = ItemRow(item.value, now)
        if move.asides or move.mended:
            asides = self._tables.asides[document_id, generation, plan.step_ids[move.before.step or ""]]
            for aside in move.asides:
                if aside.tries < 1:
                    raise IntegrityError("CHECK constraint failed: an item is set aside after a try")
                asides[aside.position] = aside
            for position in move.mended:
                if position in asides:
                    del asides[position]

    def _run_effect(self, move: Move) -> None:
        assert move.effect is not None
        run_effect(move.effect, Tx(self._effects))
        if not self._effects.in_transaction:
            raise BodyError("an effect ended the transaction it was given; it must leave commit and rollback alone")

    def give_back(self, endings: Sequence[Ending]) -> list[bool]:
        now = self.now()
        with self._writing():
            return [self._give_back(ending, now) for ending in endings]

    def _give_back(self, ending: Ending, now: datetime) -> bool:
        row = self._tables.documents.get(ending.claim.document_id)
        if row is None or self._held(ending.claim, replace(ending.claim.checkpoint, moves=row.moves)) is None:
            return False
        due = row.due_after(ending.delay, now) if ending.state == "waiting" else None
        if ending.state == "paused" and ending.delay:
            due = now + ending.delay
        ended = self._change(
            row,
            state=ending.state,
            worker_id=None,
            worked_by=row.worker_id,
            due_at=ending.until.astimezone(UTC) if ending.until else due,
            deadline_at=None,
            reason=str(ending.failure or ending.reason),
            error=ending.failure.kind if ending.failure else "",
            moves=row.moves + (ending.state == "paused"),
            attempts=row.attempts if ending.costs == "attempt" else max(row.attempts - 1, 0),
            crashes=row.crashes + (ending.costs == "crash"),
        )
        self._write_journal(ended, ending.verb, who=ending.who, now=now, detail=ending.detail)
        return True

    def rewind(self, plan: Plan, claim: Claim, *, to: str, who: str, reason: str) -> bool:
        now = self.now()
        at = claim.checkpoint
        back = rewound(claim, to=to, before=plan.before(to))
        with self._writing():
            row = self._held(claim, at)
            if row is None:
                return False
            rewinding = Rewinding(plan, to, self._step_orders(plan.pipeline_id))
            set_back = self._change(
                row,
                generation=row.generation + 1,
                step_id=plan.step_ids[to],
                cursor=None,
                moves=row.moves + 1,
                worked_by=None,
                reuses=rewinding.reuses(place_of(row)) | reuses_of(plan, back),
                attempts=1,
                crashes=0,
                deadline_at=None,
                moved_at=now,
            )
            detail = {"from": at.step, "cursor": at.cursor, "to": to, "reason": reason}
            self._write_journal(set_back, "rewind", who=who, now=now, detail=detail)
            self._repin(plan, [set_back])
            return True

    def lost(self, claims: Sequence[Claim]) -> list[int]:
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

    def extent(self, document_id: int, generation: int, step_id: int) -> int:
        with self._reading() as tables:
            return max(tables.items[document_id, generation, step_id], default=-1) + 1

    def traces(self, plan: Plan, claims: Sequence[Claim]) -> list[Traces]:
        with self._reading() as tables:
            latest = self._latest_kept()
            pins = {row.id: row.plan_id for row in tables.documents.values()}
            at = places(plan, claims)
            return [Traces(latest.get(one[0], -1), self.extent(*one), pins.get(one[0], 0)) for one in at]

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        with self._reading() as tables:
            items = tables.items[document_id, generation, step_id]
            return [(position, items[position].value) for position in sorted(items) if start <= position < stop]


def _stays(move: Move, now: datetime) -> dict[str, Any]:
    """The document stays with its worker; after progress, the attempt is the first at what comes next."""
    stays: dict[str, Any] = {"deadline_at": None if move.timeout is None else now + move.timeout}
    return stays | {"attempts": 1} if move.is_progress else stays


def _ends(row: DocumentRow, move: Move, now: datetime) -> dict[str, Any]:
    """The document leaves its worker: done, or parked at a gate, where it may be undecided for so long."""
    undecided = move.state == "paused" and move.timeout is not None
    return {
        "state": move.state,
        "reason": move.reason,
        "worker_id": None,
        "worked_by": row.worker_id,
        "attempts": 0,
        "due_at": now + move.timeout if undecided and move.timeout else None,
        "deadline_at": None,
    }
