"""Work on SQLite: claims with fences, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from operator import itemgetter
from sqlite3 import Connection
from typing import Any, Unpack

from holdfast.core.codec import Kept, encode_json
from holdfast.core.integrity import Traces
from holdfast.core.model import Checkpoint, Claim, Plan, Worker
from holdfast.core.moves import Ending, Move, reuses_of, rewound
from holdfast.stores.deciding import place_at
from holdfast.stores.groups import EffectFailed
from holdfast.stores.protocol import Exchanged, Scope
from holdfast.stores.rewinds import Generations, Rewinding, orders_of
from holdfast.stores.rows import MANY, items_of, legible, places
from holdfast.stores.sqlite.base import MICROSECOND, SQL, as_kept, micros, moment
from holdfast.stores.sqlite.changes import Changes
from holdfast.stores.sqlite.commit import Commit, answers

OTHER_PLAN = itemgetter(-2)
ID_PLAN_AND_STEP = itemgetter(0, -2, 7)
"""Where the rows of claimed documents have them. The plan is null in nearly all: it is the one that claims."""


class Work(Commit):
    """Lets one worker at a time advance a document."""

    def enlist(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> Worker:
        now = self._now()
        row = {"name": name, "host": host, "pid": pid, "born": born, "lease": lease // MICROSECOND, "now": now}
        with self._db.writing() as db:
            (worker_id,) = db.execute(SQL["enlist"], row).fetchone()
        return Worker(worker_id, name, host, pid, born, lease, moment(now))

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

    def claim(self, plan: Plan, worker: Worker, *, limit: int, **scope: Unpack[Scope]) -> list[Claim]:
        return self._claim("find_due", plan, self._asked(plan, worker, scope) | {"limit": limit})

    def claim_suspect(self, plan: Plan, worker: Worker, **scope: Unpack[Scope]) -> list[Claim]:
        return self._claim("find_suspect", plan, self._asked(plan, worker, scope))

    def claim_this(self, plan: Plan, worker: Worker, document_id: int) -> list[Claim]:
        return self._claim("find_this", plan, self._asked(plan, worker, {}) | {"document_id": document_id})

    def _asked(self, plan: Plan, worker: Worker, scope: Scope) -> dict[str, Any]:
        timeouts = scope.get("timeouts", {})
        return {
            "pipeline_id": plan.pipeline_id,
            "plan_id": plan.plan_id,
            "worker_id": worker.id,
            "batch": scope.get("batch"),
            "step_ids": encode_json(list(plan.step_ids.values())),
            "timeouts": encode_json({str(plan.step_ids[step]): span // MICROSECOND for step, span in timeouts.items()}),
            "now": self._now(),
        }

    def _claim(self, query: str, plan: Plan, asked: dict[str, Any]) -> list[Claim]:
        with self._db.writing() as db:
            rows = self._take(db, query, plan, asked)
        return self._claims(plan, rows)

    def _take(self, db: Connection, query: str, plan: Plan, asked: dict[str, Any]) -> list[Any]:
        """Claims documents. Gives their rows, which can be read after the commit."""
        asked["batch_id"] = self._batch_id(db, asked["pipeline_id"], asked["batch"])
        rows = db.execute(SQL[query], asked).fetchall()
        if rows:
            db.execute(SQL["claim"], asked | {"ids": encode_json([row[0] for row in rows])})
            if any(map(OTHER_PLAN, rows)):
                self._repin(db, plan, [*map(ID_PLAN_AND_STEP, filter(OTHER_PLAN, rows))])
        return rows

    def _claims(self, plan: Plan, rows: list[Any]) -> list[Claim]:
        names = {step_id: name for name, step_id in plan.step_ids.items()}
        batches = self._batch_names({row[2] for row in rows})
        rows.sort(key=lambda row: (-row[-1], row[0]))
        return [_claim(row, batches, names) for row in rows]

    def _batch_names(self, batch_ids: set[int]) -> dict[int, str]:
        """Gives the names of batches. They never change, so each is asked for once, and not while others wait."""
        if not batch_ids <= self._batches.keys():
            with self._db.reading() as db:
                self._batches |= db.execute(SQL["batch_names"], {"ids": encode_json([*batch_ids])}).fetchall()
        return self._batches

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: Worker, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        asked = self._asked(plan, worker, scope) | {"limit": limit}
        changes = Changes(plan, moves, self._now())
        try:
            with self._committing() as db:
                held = self._write(db, plan, changes)
                rows = self._take(db, "find_due", plan, asked)
        except EffectFailed:
            return self.commit(plan, moves), self._claim("find_due", plan, asked)
        return answers(moves, held), self._claims(plan, rows)

    def give_back(self, endings: Sequence[Ending]) -> list[bool]:
        now = self._now()
        with self._db.writing() as db:
            return [self._give_back(db, ending, now) for ending in endings]

    def _give_back(self, db: Connection, ending: Ending, now: int) -> bool:
        claim = ending.claim
        delayed = ending.state == "waiting" or (ending.state == "paused" and ending.delay)
        due = now + ending.delay // MICROSECOND if delayed else None
        row = {
            "id": claim.document_id,
            "generation": claim.checkpoint.generation,
            "fence": claim.fence,
            "state": ending.state,
            "due_at": micros(ending.until) if ending.until else due,
            "at_once": ending.state == "waiting" and not ending.until and not ending.delay,
            "reason": str(ending.failure or ending.reason),
            "error": ending.failure.kind if ending.failure else "",
            "refund": ending.costs != "attempt",
            "crashed": ending.costs == "crash",
        }
        held = db.execute(SQL["give_back"], row).rowcount == 1
        if held:
            self._write_journal(db, claim.document_id, ending.verb, who=ending.who, now=now, detail=ending.detail)
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
            "now": now,
        }
        with self._db.writing() as db:
            reuses = self._lineage(db, plan, claim, to) | reuses_of(plan, back)
            held = db.execute(SQL["rewind"], row | {"reuses": encode_json(reuses)}).fetchall()
            if not held:
                return False
            if held[0][0] != plan.plan_id:
                self._repin(db, plan, [(claim.document_id, held[0][0], plan.step_ids[to])])
            detail = {"from": checkpoint.step, "cursor": checkpoint.cursor, "to": to, "reason": reason}
            self._write_journal(db, claim.document_id, "rewind", who=who, now=now, detail=detail)
            return True

    def _lineage(self, db: Connection, plan: Plan, claim: Claim, to: str) -> Generations:
        """Gives what a document of another plan reuses after a rewind; one of this plan did what the plan has."""
        found = db.execute(SQL["lineage"], {"id": claim.document_id}).fetchall()
        if not found or found[0][1] == plan.plan_id:
            return {}
        orders = orders_of(db.execute(SQL["plans"], {"pipeline_id": plan.pipeline_id}).fetchall())
        return Rewinding(plan, to, orders).reuses(place_at(*found[0]))

    def lost(self, claims: Sequence[Claim]) -> list[int]:
        asked = encode_json([(claim.document_id, claim.fence) for claim in claims])
        with self._db.reading() as db:
            return [row[0] for row in db.execute(SQL["lost"], {"claims": asked}).fetchall()]

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        step_id = plan.step_ids[step]
        with self._db.writing() as db:
            db.execute(SQL["drop_permits"], {"step_id": step_id})
            inside = dict(db.execute(SQL["permits"], {"step_id": step_id}).fetchall())
            for claim in claims:
                if claim.document_id not in inside and len(inside) < limit:
                    permit = {"step_id": step_id, "document_id": claim.document_id, "fence": claim.fence}
                    if db.execute(SQL["permit"], permit).rowcount:
                        inside[claim.document_id] = claim.fence
        return [inside.get(claim.document_id) == claim.fence for claim in claims]

    def extent(self, document_id: int, generation: int, step_id: int) -> int:
        with self._db.reading() as db:
            row = db.execute(SQL["extent"], (document_id, generation, step_id)).fetchone()
        return int(row[0]) if row else 0

    def traces(self, plan: Plan, claims: Sequence[Claim]) -> list[Traces]:
        with self._db.reading() as db:
            found = db.execute(SQL["traces"], {"places": encode_json(places(plan, claims))}).fetchall()
        return [Traces(*row) for row in found]

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        with self._db.reading() as db:
            rows = db.execute(SQL["read"], (document_id, generation, step_id, start - MANY, stop, start)).fetchall()
        items = [item for place, many, *value in rows for item in items_of(place, many, as_kept(*value))]
        return [item for item in items if start <= item[0] < stop]


def _claim(row: tuple[Any, ...], batches: dict[int, str], names: dict[int, str]) -> Claim:
    (document_id, fence, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, *rest) = row
    attempts, crashes, age, reuses, _, _ = rest
    payload, cursor, reuses, damage = legible(payload, cursor, reuses)
    if batch_id not in batches:
        damage = f"its batch_id is {batch_id!r}, and there is no such batch"
    return Claim(
        document_id,
        fence,
        batches.get(batch_id, ""),
        key,
        payload,
        fingerprint,
        Checkpoint(generation, names[step_id], cursor, moves),
        attempts,
        crashes,
        age * MICROSECOND,
        None if reuses is None else {names[one]: made for one, made in reuses.items() if one in names},
        damage,
    )
