"""Work on SQLite: claims with fences, and the one door through which checkpoints move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from sqlite3 import Connection, IntegrityError
from typing import Any

from holdfast.core.codec import Kept, decode_json, encode_json
from holdfast.core.errors import BodyError
from holdfast.core.model import Checkpoint, Claim, Plan, Worker
from holdfast.core.moves import ACCEPTED, LOST, Answer, Ending, Move, reuses_of, rewound
from holdfast.stores.groups import EffectFailed, commit_in_groups, run_effects
from holdfast.stores.protocol import NO_TIMEOUTS, Timeouts
from holdfast.stores.queries import in_statements
from holdfast.stores.rows import BIG, MANY, as_blob, blob_hash, item_rows, items_of
from holdfast.stores.sqlite.base import MICROSECOND, SQL, Base, as_kept, micros
from holdfast.stores.sqlite.connection import Tx


class Work(Base):
    """Lets one worker at a time advance a document."""

    def enlist(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> Worker:
        row = {"name": name, "host": host, "pid": pid, "born": born, "lease": lease // MICROSECOND, "now": self._now()}
        with self._db.writing() as db:
            (worker_id,) = db.execute(SQL["enlist"], row).fetchone()
        return Worker(worker_id, name, host, pid, born, lease)

    def beat(self, worker: Worker) -> bool:
        with self._db.writing() as db:
            return db.execute(SQL["beat"], {"id": worker.id, "now": self._now()}).rowcount == 1

    def retire(self, worker: Worker) -> None:
        now = self._now()
        with self._db.writing() as db:
            db.execute(SQL["let_go"], {"id": worker.id, "keeping": "[]"})
            db.execute(SQL["retire"], {"id": worker.id, "now": now})

    def surrender(self, worker: Worker, *, keeping: Sequence[int]) -> int:
        with self._db.writing() as db:
            kept_ids = encode_json(list(keeping))
            return db.execute(SQL["let_go"], {"id": worker.id, "keeping": kept_ids}).rowcount

    def claim(
        self, plan: Plan, worker: Worker, *, limit: int, batch: str | None = None, timeouts: Timeouts = NO_TIMEOUTS
    ) -> list[Claim]:
        return self._claim("claim", plan, self._asked(plan, worker, batch, timeouts) | {"limit": limit})

    def claim_suspect(
        self, plan: Plan, worker: Worker, *, batch: str | None = None, timeouts: Timeouts = NO_TIMEOUTS
    ) -> list[Claim]:
        return self._claim("claim_suspect", plan, self._asked(plan, worker, batch, timeouts))

    def _asked(self, plan: Plan, worker: Worker, batch: str | None, timeouts: Timeouts) -> dict[str, Any]:
        return {
            "pipeline_id": plan.pipeline_id,
            "plan_id": plan.plan_id,
            "worker_id": worker.id,
            "batch": batch,
            "step_ids": encode_json(list(plan.step_ids.values())),
            "timeouts": encode_json({str(plan.step_ids[step]): span // MICROSECOND for step, span in timeouts.items()}),
            "now": self._now(),
        }

    def _claim(self, query: str, plan: Plan, asked: dict[str, Any]) -> list[Claim]:
        with self._db.writing() as db:
            found = self._take(db, query, asked)
        return _claims(plan, *found)

    def _take(self, db: Connection, query: str, asked: dict[str, Any]) -> tuple[list[Any], dict[int, str]]:
        """Claims documents. Gives their rows, which can be read after the commit, and the names of the batches."""
        asked["batch_id"] = self._batch_id(db, asked["pipeline_id"], asked["batch"])
        rows = db.execute(SQL[query], asked).fetchall()
        return rows, {} if not rows else dict(db.execute("select id, name from hf_batch").fetchall())

    def commit(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        return commit_in_groups(moves, lambda group: self._commit_together(plan, group))

    def exchange(
        self,
        plan: Plan,
        moves: Sequence[Move],
        worker: Worker,
        *,
        limit: int,
        batch: str | None = None,
        timeouts: Timeouts = NO_TIMEOUTS,
    ) -> tuple[list[Answer], list[Claim]]:
        asked = self._asked(plan, worker, batch, timeouts) | {"limit": limit}
        try:
            with self._committing() as db:
                held = self._write(db, plan, moves)
                found = self._take(db, "claim", asked)
        except EffectFailed:
            return self.commit(plan, moves), self._claim("claim", plan, asked)
        return _answers(moves, held), _claims(plan, *found)

    def _commit_together(self, plan: Plan, moves: Sequence[Move]) -> list[Answer]:
        with self._committing() as db:
            held = self._write(db, plan, moves)
        return _answers(moves, held)

    @contextmanager
    def _committing(self) -> Iterator[Connection]:
        try:
            with self._db.writing() as db:
                yield db
        except IntegrityError as error:  # a constraint that is only looked at when the transaction ends
            raise EffectFailed(None, error) from error

    def _write(self, db: Connection, plan: Plan, moves: Sequence[Move]) -> Sequence[Move]:
        """Writes all that the moves bring. Gives those whose documents are still held."""
        now = self._now()
        held = self._move(db, plan, moves, now)
        self._keep(db, plan, held, now)
        self._run_effects(db, held)
        return held

    def _move(self, db: Connection, plan: Plan, moves: Sequence[Move], now: int) -> Sequence[Move]:
        """Moves the checkpoints that still match, and answers which did: nearly always all."""
        if self._move_all(db, plan, moves, now) == len(moves):
            return moves
        db.execute("rollback")  # nothing else was written yet, and only where each stood tells which are lost
        db.execute("begin immediate")
        asked = encode_json([_place(move.claim, move.before) for move in moves])
        held = [moves[place] for (place,) in db.execute(SQL["held"], {"moves": asked}).fetchall()]
        self._move_all(db, plan, held, now)
        return held

    def _move_all(self, db: Connection, plan: Plan, moves: Sequence[Move], now: int) -> int:
        going: list[Any] = []
        ending: list[Any] = []
        for move in moves:
            if move.state == "running":
                going += _going(plan, move, now)
            else:
                ending += _ending(plan, move)
        moved = sum(db.execute(*one).rowcount for one in in_statements(SQL["move"], (now,), going, 8))
        return moved + sum(db.execute(*one).rowcount for one in in_statements(SQL["move_and_end"], (now,), ending, 8))

    def _keep(self, db: Connection, plan: Plan, moves: Sequence[Move], now: int) -> None:
        rows: list[Any] = []
        for move in moves:
            document_id, generation = move.claim.document_id, move.after.generation
            for step, position, items, kept in item_rows(move.items) if move.items else ():
                place = (document_id, generation, plan.step_ids[step], position)
                if isinstance(kept, str) and (items > 1 or len(kept) <= BIG):
                    rows += (*place, items, kept)
                else:
                    self._keep_apart(db, place, kept, now)
            if move.asides or move.mended:
                self._keep_asides(db, plan, move, now)
            if move.state == "done" and generation:
                db.execute(SQL["drop_items"], {"document_id": document_id})
        for statement in in_statements(SQL["keep_items"], (now,), rows, 6):
            db.execute(*statement)

    def _keep_apart(self, db: Connection, place: tuple[Any, ...], kept: Kept, now: int) -> None:
        if len(kept) <= BIG:
            db.execute(SQL["keep_bytes"], (*place, kept, now))
            return
        address = blob_hash(kept)
        db.execute(SQL["keep_blob"], (address, *as_blob(kept)))
        db.execute(SQL["keep_big"], (*place, address, now))

    def _keep_asides(self, db: Connection, plan: Plan, move: Move, now: int) -> None:
        assert move.before.step is not None
        place = (move.claim.document_id, move.after.generation, plan.step_ids[move.before.step])
        for aside in move.asides:
            db.execute(SQL["set_aside"], (*place, aside.position, aside.tries, encode_json(aside.error), now))
        for position in move.mended:
            db.execute(SQL["mend"], (*place, position))

    def _run_effects(self, db: Connection, moves: Sequence[Move]) -> None:
        tx = Tx(db, self.url)

        def run(move: Move) -> None:
            assert move.effect is not None
            move.effect(tx)
            if not db.in_transaction:
                raise BodyError("an effect ended the transaction it was given; it must leave commit and rollback alone")

        run_effects(moves, run)

    def give_back(self, endings: Sequence[Ending]) -> list[bool]:
        now = self._now()
        with self._db.writing() as db:
            return [self._give_back(db, ending, now) for ending in endings]

    def _give_back(self, db: Connection, ending: Ending, now: int) -> bool:
        claim = ending.claim
        due = now + ending.delay // MICROSECOND if ending.state == "waiting" else None
        row = {
            "id": claim.document_id,
            "generation": claim.checkpoint.generation,
            "fence": claim.fence,
            "state": ending.state,
            "due_at": micros(ending.until) if ending.until else due,
            "at_once": ending.state == "waiting" and not ending.until and not ending.delay,
            "reason": str(ending.failure or ending.reason),
            "refund": ending.costs != "attempt",
            "crashed": ending.costs == "crash",
        }
        held = db.execute(SQL["give_back"], row).rowcount == 1
        if held:
            detail = {"state": ending.state, "reason": ending.reason, "error": ending.failure, "costs": ending.costs}
            self._write_journal(db, claim.document_id, ending.verb, who=ending.who, now=now, detail=detail)
        return held

    def rewind(self, plan: Plan, claim: Claim, *, to: str, who: str, reason: str) -> bool:
        now = self._now()
        checkpoint = claim.checkpoint
        back = rewound(claim, to=to, before=plan.before(to))
        row = {
            "id": claim.document_id,
            "generation": checkpoint.generation,
            "fence": claim.fence,
            "moves": checkpoint.moves,
            "step_id": plan.step_ids[to],
            "reuses": encode_json(reuses_of(plan, back)),
            "now": now,
        }
        with self._db.writing() as db:
            if db.execute(SQL["rewind"], row).rowcount != 1:
                return False
            detail = {"from": checkpoint.step, "cursor": checkpoint.cursor, "to": to, "reason": reason}
            self._write_journal(db, claim.document_id, "rewind", who=who, now=now, detail=detail)
            return True

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        step_id = plan.step_ids[step]
        with self._db.writing() as db:
            db.execute(SQL["drop_permits"], {"step_id": step_id})
            inside = {row[0] for row in db.execute(SQL["permits"], {"step_id": step_id}).fetchall()}
            for claim in claims:
                if claim.document_id not in inside and len(inside) < limit:
                    permit = {"step_id": step_id, "document_id": claim.document_id, "fence": claim.fence}
                    db.execute(SQL["permit"], permit)
                    inside.add(claim.document_id)
        return [claim.document_id in inside for claim in claims]

    def extent(self, document_id: int, generation: int, step_id: int) -> int:
        with self._db.reading() as db:
            row = db.execute(SQL["extent"], (document_id, generation, step_id)).fetchone()
        return int(row[0]) if row else 0

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        with self._db.reading() as db:
            rows = db.execute(SQL["read"], (document_id, generation, step_id, start - MANY, stop, start)).fetchall()
        items = [item for place, many, *value in rows for item in items_of(place, many, as_kept(*value))]
        return [item for item in items if start <= item[0] < stop]


def _answers(moves: Sequence[Move], held: Sequence[Move]) -> list[Answer]:
    if len(held) == len(moves):
        return [ACCEPTED] * len(moves)
    accepted = set(map(id, held))
    return [ACCEPTED if id(move) in accepted else LOST for move in moves]


def _claims(plan: Plan, rows: list[Any], batches: dict[int, str]) -> list[Claim]:
    names = {step_id: name for name, step_id in plan.step_ids.items()}
    rows.sort(key=lambda row: (-row[-1], row[0]))
    return [_claim(row, batches, names) for row in rows]


def _claim(row: tuple[Any, ...], batches: dict[int, str], names: dict[int, str]) -> Claim:
    (document_id, fence, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, *rest) = row
    attempts, crashes, age, reuses, _ = rest
    return Claim(
        document_id,
        fence,
        batches[batch_id],
        key,
        decode_json(payload),
        fingerprint,
        Checkpoint(generation, names[step_id], None if cursor is None else decode_json(cursor), moves),
        attempts,
        crashes,
        age * MICROSECOND,
        None if reuses is None else {names[int(k)]: made for k, made in decode_json(reuses).items() if int(k) in names},
    )


def _place(claim: Claim, checkpoint: Checkpoint) -> tuple[int, int, int, int]:
    return claim.document_id, checkpoint.generation, claim.fence, checkpoint.moves


def _going(plan: Plan, move: Move, now: int) -> tuple[Any, ...]:
    after = move.after
    assert after.step is not None
    cursor = None if after.cursor is None else encode_json(after.cursor)
    deadline = None if move.timeout is None else now + move.timeout // MICROSECOND
    return (*_place(move.claim, move.before), plan.step_ids[after.step], cursor, deadline, move.is_progress)


def _ending(plan: Plan, move: Move) -> tuple[Any, ...]:
    after = move.after
    step_id = None if after.step is None else plan.step_ids[after.step]
    cursor = None if after.cursor is None else encode_json(after.cursor)
    return (*_place(move.claim, move.before), step_id, cursor, move.state, move.reason)
