"""Work on PostgreSQL: claims with fences, and giving back what was claimed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any, Unpack

from holdfast.core.codec import Kept, encode_json
from holdfast.core.integrity import Traces
from holdfast.core.model import Checkpoint, Claim, Plan, Worker
from holdfast.core.moves import Ending, Move, reuses_of, rewound
from holdfast.stores.deciding import place_at
from holdfast.stores.postgres.arrays import numbers, sparse_numbers, texts
from holdfast.stores.postgres.base import MICROSECOND, SQL, kept, moment, plain
from holdfast.stores.postgres.commit import Commit
from holdfast.stores.postgres.connection import Db
from holdfast.stores.protocol import Exchanged, Scope, Timeouts
from holdfast.stores.rewinds import Generations, Rewinding, orders_of
from holdfast.stores.rows import MANY, items_of, legible, places

OTHER_PLAN = itemgetter(-2)
ID_PLAN_AND_STEP = itemgetter(0, -2, 7)
"""Where the rows of claimed documents have them. The plan is null in nearly all: it is the one that claims."""


class Work(Commit):
    """Lets one worker at a time advance a document."""

    def enlist(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> Worker:
        row = {"name": name, "host": host, "pid": pid, "born": born, "lease": lease, "now": self._now()}
        ((worker_id, enlisted_at),) = self._db.writing(lambda db: db.execute(SQL["enlist"], row).fetchall())
        return Worker(worker_id, name, host, pid, born, lease, moment(enlisted_at))

    def beat(self, worker: Worker) -> bool:
        beat = {"id": worker.id, "now": self._now()}
        return self._db.writing(lambda db: db.execute(SQL["beat"], beat).rowcount) == 1

    def retire(self, worker: Worker) -> None:
        leaving = {"id": worker.id, "now": self._now()}

        def retire(db: Db) -> None:
            db.execute(SQL["let_go"], leaving | {"keeping": "{}"})
            db.execute(SQL["retire"], leaving)

        self._db.writing(retire)

    def surrender(self, worker: Worker, *, keeping: Sequence[int]) -> int:
        held = {"id": worker.id, "now": self._now(), "keeping": numbers(keeping)}
        return self._db.writing(lambda db: db.execute(SQL["let_go"], held).rowcount)

    def claim(self, plan: Plan, worker: Worker, *, limit: int, **scope: Unpack[Scope]) -> list[Claim]:
        return self._claim("claim", plan, worker, scope, limit=limit)

    def claim_suspect(self, plan: Plan, worker: Worker, **scope: Unpack[Scope]) -> list[Claim]:
        return self._claim("claim_suspect", plan, worker, scope)

    def claim_this(self, plan: Plan, worker: Worker, document_id: int) -> list[Claim]:
        return self._claim("claim_this", plan, worker, {}, document_id=document_id)

    def exchange(
        self, plan: Plan, moves: Sequence[Move], worker: Worker, *, limit: int, **scope: Unpack[Scope]
    ) -> Exchanged:
        return self.commit(plan, moves), self.claim(plan, worker, limit=limit, **scope)

    def _claim(self, query: str, plan: Plan, worker: Worker, scope: Scope, **which: int) -> list[Claim]:
        timeouts = scope.get("timeouts")
        asked = which | {
            "batch": scope.get("batch"),
            "pipeline_id": plan.pipeline_id,
            "plan_id": plan.plan_id,
            "worker_id": worker.id,
            "step_ids": numbers([*plan.step_ids.values()]),
            "timeouts": _timeouts(plan, timeouts) if timeouts else None,
            "now": self._now(),
        }

        def claim(db: Db) -> list[tuple[Any, ...]]:
            rows = db.execute(SQL[query], asked).fetchall()
            if any(map(OTHER_PLAN, rows)):
                self._repin(db, plan, [*map(ID_PLAN_AND_STEP, filter(OTHER_PLAN, rows))])
            return rows

        rows = self._db.writing(claim)
        names = {step_id: name for name, step_id in plan.step_ids.items()}
        batches = self._batch_names({row[2] for row in rows})
        rows.sort(key=lambda row: (-row[-1], row[0]))
        return [_claim(row, batches, names) for row in rows]

    def _batch_names(self, batch_ids: set[int]) -> dict[int, str]:
        """Gives the names of batches. They never change, so each is asked for once."""
        if not batch_ids <= self._batches.keys():
            asked = {"ids": numbers([*batch_ids])}
            self._batches |= dict(self._db.reading(lambda db: db.execute(SQL["batch_names"], asked).fetchall()))
        return self._batches

    def give_back(self, endings: Sequence[Ending]) -> list[bool]:
        if not endings:
            return []
        asked = _endings(endings) | {"now": self._now()}

        def give_back(db: Db) -> set[int]:
            held = {row[0] for row in db.execute(SQL["give_back"], asked).fetchall()}
            self._write_journal(db, [_line(one) for one in endings if one.claim.document_id in held], asked["now"])
            return held

        held = self._db.writing(give_back)
        return [ending.claim.document_id in held for ending in endings]

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
        detail = {"from": checkpoint.step, "cursor": checkpoint.cursor, "to": to, "reason": reason}

        def rewind(db: Db) -> bool:
            reuses = self._lineage(db, plan, claim, to) | reuses_of(plan, back)
            held = db.execute(SQL["rewind"], row | {"reuses": encode_json(reuses)}).fetchall()
            if not held:
                return False
            if held[0][0] != plan.plan_id:
                self._repin(db, plan, [(claim.document_id, held[0][0], plan.step_ids[to])])
            self._write_journal(db, [(claim.document_id, "rewind", who, detail)], now)
            return True

        return self._db.writing(rewind)

    def _lineage(self, db: Db, plan: Plan, claim: Claim, to: str) -> Generations:
        """Gives what a document of another plan reuses after a rewind; one of this plan did what the plan has."""
        found = db.execute(SQL["lineage"], {"id": claim.document_id}).fetchall()
        if not found or found[0][1] == plan.plan_id:
            return {}
        orders = orders_of(db.execute(SQL["plans"], {"pipeline_id": plan.pipeline_id}).fetchall())
        return Rewinding(plan, to, orders).reuses(place_at(*found[0]))

    def lost(self, claims: Sequence[Claim]) -> list[int]:
        asked = {
            "ids": numbers([claim.document_id for claim in claims]),
            "fences": numbers([claim.fence for claim in claims]),
        }
        return [row[0] for row in self._db.reading(lambda db: db.execute(SQL["lost"], asked).fetchall())]

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        step_id = plan.step_ids[step]

        def admit(db: Db) -> dict[int, int]:
            db.execute(SQL["hold_step"], {"step_id": step_id})
            db.execute(SQL["drop_permits"], {"step_id": step_id})
            inside: dict[int, int] = dict(db.execute(SQL["permits"], {"step_id": step_id}).fetchall())
            asking = [claim for claim in claims if claim.document_id not in inside]
            ids, fences = [claim.document_id for claim in asking], [claim.fence for claim in asking]
            room = max(limit - len(inside), 0)
            permits = {"document_ids": numbers(ids), "fences": numbers(fences), "step_id": step_id, "room": room}
            return inside | dict(db.execute(SQL["permit"], permits).fetchall())

        inside = self._db.writing(admit)
        return [inside.get(claim.document_id) == claim.fence for claim in claims]

    def extent(self, document_id: int, generation: int, step_id: int) -> int:
        place = {"document_id": document_id, "generation": generation, "step_id": step_id}
        row = self._db.reading(lambda db: db.execute(SQL["extent"], place).fetchone())
        return int(row[0]) if row else 0

    def traces(self, plan: Plan, claims: Sequence[Claim]) -> list[Traces]:
        ids, generations, step_ids = zip(*places(plan, claims), strict=True) if claims else ((), (), ())
        asked = {"ids": numbers(ids), "generations": numbers(generations), "step_ids": numbers(step_ids)}
        return [Traces(*row) for row in self._db.reading(lambda db: db.execute(SQL["traces"], asked).fetchall())]

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        place = {"document_id": document_id, "generation": generation, "step_id": step_id}
        asked = place | {"first": start - MANY, "start": start, "stop": stop}
        rows = self._db.reading(lambda db: db.execute(SQL["read"], asked, binary=True).fetchall())
        items = [item for position, count, *value in rows for item in items_of(position, count, kept(*value))]
        return [item for item in items if start <= item[0] < stop]


def _timeouts(plan: Plan, timeouts: Timeouts) -> str:
    return encode_json({str(plan.step_ids[step]): span // MICROSECOND for step, span in timeouts.items()})


def _claim(row: tuple[Any, ...], batches: dict[int, str], names: dict[int, str]) -> Claim:
    (document_id, fence, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, *rest) = row
    attempts, crashes, age, reuses, _, _ = rest
    payload, cursor, reuses, damage = legible(payload, cursor, reuses)
    return Claim(
        document_id,
        fence,
        batches[batch_id],
        key,
        payload,
        fingerprint,
        Checkpoint(generation, names[step_id], cursor, moves),
        attempts,
        crashes,
        age,
        None if reuses is None else {names[one]: made for one, made in reuses.items() if one in names},
        damage,
    )


def _endings(endings: Sequence[Ending]) -> dict[str, Any]:
    claims = [ending.claim for ending in endings]
    delays = [_delay(ending) for ending in endings]
    return {
        "ids": numbers([claim.document_id for claim in claims]),
        "generations": numbers([claim.checkpoint.generation for claim in claims]),
        "fences": numbers([claim.fence for claim in claims]),
        "states": texts([ending.state for ending in endings]),
        "untils": [ending.until for ending in endings],
        "delays": sparse_numbers(delays),
        "reasons": texts([plain(str(ending.failure or ending.reason)) for ending in endings]),
        "errors": texts([plain(ending.failure.kind) if ending.failure else "" for ending in endings]),
        "refunds": numbers([int(ending.costs != "attempt") for ending in endings]),
        "crashed": numbers([int(ending.costs == "crash") for ending in endings]),
    }


def _delay(ending: Ending) -> int | None:
    delayed = ending.state == "waiting" or (ending.state == "paused" and ending.delay)
    return ending.delay // MICROSECOND if delayed else None


def _line(ending: Ending) -> tuple[int, str, str, Any]:
    return ending.claim.document_id, ending.verb, ending.who, ending.detail
