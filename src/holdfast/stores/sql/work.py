"""Work on SQL: claims with fences, and how they end without a move."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any, Unpack

from holdfast.core.codec import Kept, decode_json, encode_json
from holdfast.core.errors import ItemDamaged
from holdfast.core.integrity import KeptState, StepItems, takes_long_to_count
from holdfast.core.model import Checkpoint, Claim, Damage, Plan, WorkerRecord
from holdfast.core.moves import Release, reuses_of, rewound
from holdfast.stores.json_fields import (
    by_name,
    claimed_places,
    decode_claim,
    extents_by_id,
    extents_by_name,
    numbers_or_none,
    places_of_steps,
)
from holdfast.stores.protocol import ClaimChoice, Scope
from holdfast.stores.rewind_rules import Generations, Rewind
from holdfast.stores.sql.base import Base, Line, write_journal
from holdfast.stores.sql.decision_rules import place_at
from holdfast.stores.sql.dialect import MICROSECOND, Rows, without_nul
from holdfast.stores.sql.row_codec import MANY, UnreadableRow, items_of, orders_of
from holdfast.stores.sql.session import Row, Session

NO_TIME = timedelta(0)
DUE = ("due", "ordinary")
SUSPECT = ("due", "suspect")
DOCUMENT = ("document",)
"""The conditions of claim.sql for the three kinds of claims."""

OTHER_PLAN = itemgetter(-2)
ID_PLAN_AND_STEP = itemgetter(0, -2, 7)
"""Where they are in the rows of claimed documents. The plan is null in nearly all: it is the one that claims."""


class Work(Base):
    """Claim documents, and release them. One worker at a time advances a document."""

    @abstractmethod
    def _claim_rows(self, db: Session, kind: Sequence[str], parameters: dict[str, Any]) -> list[Row]:
        """Claim documents of a kind. Return their rows as they are now."""

    def register_worker(self, *, name: str, host: str, pid: int, born: str, lease: timedelta) -> WorkerRecord:
        row = {"name": name, "host": host, "pid": pid, "born": born, "lease": lease}
        ((worker_id, registered_at),) = self._write(lambda db: db.all("register_worker", **row))
        return WorkerRecord(worker_id, name, host, pid, born, lease, self.dialect.moment(registered_at))

    def heartbeat(self, worker: WorkerRecord) -> bool:
        return self._write(lambda db: db.run("heartbeat", id=worker.id)) == 1

    def retire_worker(self, worker: WorkerRecord) -> None:
        def retire(db: Session) -> None:
            db.run("release_unknown", id=worker.id, keeping=[])
            db.run("retire_worker", id=worker.id)

        self._write(retire)

    def release_unknown(self, worker: WorkerRecord, *, keeping: Sequence[int]) -> int:
        return self._write(lambda db: db.run("release_unknown", id=worker.id, keeping=[*keeping]))

    def claim(
        self,
        plan: Plan,
        worker: WorkerRecord,
        *,
        limit: int,
        which: ClaimChoice = "due",
        **scope: Unpack[Scope],
    ) -> list[Claim]:
        parameters = claim_parameters(plan, worker, scope, limit=limit)
        if isinstance(which, int):
            return self._claim(DOCUMENT, plan, parameters | {"document_id": which})
        return self._claim(DUE if which == "due" else SUSPECT, plan, parameters)

    def _claim(self, kind: Sequence[str], plan: Plan, parameters: dict[str, Any]) -> list[Claim]:
        return self._claims(plan, self._write(lambda db: self._take(db, kind, plan, parameters)))

    def _take(self, db: Session, kind: Sequence[str], plan: Plan, parameters: dict[str, Any]) -> list[Row]:
        """Claim documents, and pin those of another plan. Return their rows, which can be read after the commit."""
        rows = self._claim_rows(db, kind, parameters)
        if any(map(OTHER_PLAN, rows)):
            self._repin(db, plan, [*map(ID_PLAN_AND_STEP, filter(OTHER_PLAN, rows))])
        return rows

    def _claims(self, plan: Plan, rows: list[Row]) -> list[Claim]:
        names = plan.names
        all_names = plan.all_names if plan.removed else names
        batches = self._batch_names({row[2] for row in rows})
        rows.sort(key=lambda row: (-row[-1], row[0]))
        return [self._claim_of(row, batches, names, all_names) for row in rows]

    def _batch_names(self, batch_ids: set[int]) -> dict[int, str]:
        """Return the names of batches. They never change, so each is read once, and not while others wait to write."""
        if not batch_ids <= self._batches.keys():
            self._batches |= dict(self._all("batch_names", ids=[*batch_ids]))
        return self._batches

    def _claim_of(self, row: Row, batches: dict[int, str], names: dict[int, str], all_names: dict[int, str]) -> Claim:
        (document_id, fence, batch_id, key, payload, fingerprint, generation, step_id, cursor, moves, *rest) = row
        (attempts, crashes, age, reuses, losses, deferrals, deferred, interruptions, effects, *rest) = rest
        extents, totals, held, _, _ = rest
        payload, cursor, reuses, effects, extents, damage = decode_claim(payload, cursor, reuses, effects, extents)
        if batch_id not in batches:
            damage = Damage(f"its batch_id is {batch_id!r}, and there is no such batch", "nothing")
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
            self.dialect.duration(age),
            None if reuses is None else by_name(reuses, names),
            damage,
            losses,
            deferrals,
            self.dialect.duration(deferred) if deferrals else NO_TIME,
            interruptions,
            by_name(effects, all_names),
            None if extents is None else extents_by_name(extents, names),
            bool(held),
            None if totals is None else by_name(numbers_or_none(totals), names),
        )

    def release(self, releases: Sequence[Release]) -> list[bool]:
        if not releases:
            return []

        first: dict[tuple[int, int], Release] = {}  # a claim that is released twice is lost the second time
        for release in releases:
            first.setdefault(_claim_key(release), release)

        def write(db: Session) -> set[tuple[int, int]]:
            rows = _release_rows([*first.values()])
            held = {(document_id, fence) for document_id, fence in db.all("release", endings=rows)}
            write_journal(db, [_line(release) for key, release in first.items() if key in held])
            return held

        held = self._write(write)
        return [(key := _claim_key(release)) in held and first[key] is release for release in releases]

    def rewind(self, plan: Plan, claim: Claim, *, to: str, who: str, reason: str, code: str = "") -> bool:
        checkpoint = claim.checkpoint
        back = rewound(claim, to=to, steps=[*plan.step_ids], gates=plan.gates)
        row = {
            "id": claim.document_id,
            "generation": checkpoint.generation,
            "fence": claim.fence,
            "moves": checkpoint.moves,
            "step_id": plan.step_ids[to],
            "extents": None if back.extents is None else extents_by_id(back.extents, plan.step_ids),
        }
        detail = {"from": checkpoint.step, "cursor": checkpoint.cursor, "to": to, "reason": reason}

        def rewind(db: Session) -> bool:
            reuses = _reuses_of_other_plan(db, plan, claim, to) | reuses_of(plan, back)
            held = db.all("rewind", **row, reuses=encode_json(reuses))
            if not held:
                return False
            if held[0][0] != plan.plan_id:
                self._repin(db, plan, [(claim.document_id, held[0][0], plan.step_ids[to])])
            write_journal(db, [(claim.document_id, "rewind", who, detail, code)])
            return True

        return self._write(rewind)

    def lost_claims(self, claims: Sequence[Claim]) -> list[int]:
        return [row[0] for row in self._all("lost_claims", claims=_claim_rows(claims))]

    def admit(self, plan: Plan, step: str, claims: Sequence[Claim], *, limit: int) -> list[bool]:
        step_id = plan.step_ids[step]

        def admit(db: Session) -> dict[int, int]:
            db.run_if_present("lock_step", step_id=step_id)
            db.run("delete_stale_permits", step_id=step_id)
            inside: dict[int, int] = dict(db.all("permits", step_id=step_id))
            asking = _claim_rows([claim for claim in claims if claim.document_id not in inside])
            room = max(limit - len(inside), 0)
            return inside | dict(db.all("insert_permits", step_id=step_id, claims=asking, room=room))

        inside = self._write(admit)
        return [inside.get(claim.document_id) == claim.fence for claim in claims]

    def next_position(self, document_id: int, generation: int, step_id: int) -> int:
        row = self._first("next_position", document_id=document_id, generation=generation, step_id=step_id)
        return int(row[0]) if row else 0

    def kept_state(self, plan: Plan, claims: Sequence[Claim]) -> list[KeptState]:
        return self._kept_state(plan, claims, [int(not takes_long_to_count(claim)) for claim in claims])

    def count_kept(self, plan: Plan, claim: Claim) -> Mapping[str, StepItems]:
        (state,) = self._kept_state(plan, [claim], [1])
        return state.steps or {}

    def _kept_state(self, plan: Plan, claims: Sequence[Claim], counted: Sequence[int]) -> list[KeptState]:
        ids, generations, step_ids = zip(*claimed_places(plan, claims), strict=True) if claims else ((), (), ())
        places = Rows(id=ids, generation=generations, step_id=step_ids, counted=counted, nth=range(len(ids)))
        rows = zip(claims, counted, self._all("kept_state", places=places), strict=True)
        return [_state_of(plan, claim, row, is_counted=bool(count)) for claim, count, row in rows]

    def read(
        self, document_id: int, generation: int, step_id: int, start: int, stop: int
    ) -> Sequence[tuple[int, Kept]]:
        place = {"document_id": document_id, "generation": generation, "step_id": step_id}
        span = place | {"first": start - MANY, "start": start, "stop": stop}
        rows = self._read(lambda db: db.large_values("read_items", **span))
        try:
            items = [item for row in rows for item in items_of(row)]
        except UnreadableRow as bad:
            names = {"step": f"number {step_id}", "document": f"number {document_id}"}
            raise ItemDamaged(bad.why, position=bad.position, **names) from bad
        return [item for item in items if start <= item[0] < stop]


def _state_of(plan: Plan, claim: Claim, row: Row, *, is_counted: bool) -> KeptState:
    """Return a row of kept_state.sql as a value."""
    extent, plan_id, latest, items, asides = row
    if not is_counted:
        return KeptState(latest, extent, plan_id)
    failed = {(generation, step_id): count for generation, step_id, count in decode_json(asides or "[]")}
    kept = {(made, step_id): (count, whole) for made, step_id, count, whole in decode_json(items or "[]")}
    steps = {
        step: StepItems(*kept.get(place, (0, 0)), aside=failed.get(place, 0))
        for step, place in places_of_steps(plan, claim).items()
        if place in kept or place in failed
    }
    return KeptState(latest, extent, plan_id, steps)


def claim_parameters(plan: Plan, worker: WorkerRecord, scope: Scope, *, limit: int) -> dict[str, Any]:
    """Return the parameters of claim.sql."""
    timeouts = scope.get("timeouts", {})
    return {
        "pipeline_id": plan.pipeline_id,
        "plan_id": plan.plan_id,
        "worker_id": worker.id,
        "batch": scope.get("batch"),
        "step_ids": plan.claimable_ids(scope.get("paused", ())),
        "timeouts": encode_json({str(plan.step_ids[step]): span // MICROSECOND for step, span in timeouts.items()}),
        "limit": limit,
    }


def _reuses_of_other_plan(db: Session, plan: Plan, claim: Claim, to: str) -> Generations:
    """Return what a document of another plan reuses after a rewind. One of this plan did what the plan has."""
    place = db.first("document_place", id=claim.document_id)
    if place is None or place[1] == plan.plan_id:
        return {}
    orders = orders_of(db.all("plans", pipeline_id=plan.pipeline_id))
    return Rewind(plan, to, orders).reuses(place_at(*place))


def _claim_rows(claims: Sequence[Claim]) -> Rows:
    return Rows(
        id=[claim.document_id for claim in claims],
        fence=[claim.fence for claim in claims],
        place=range(len(claims)),
    )


def _claim_key(release: Release) -> tuple[int, int]:
    return release.claim.document_id, release.claim.fence


def _release_rows(releases: Sequence[Release]) -> Rows:
    claims = [release.claim for release in releases]
    return Rows(
        id=[claim.document_id for claim in claims],
        generation=[claim.checkpoint.generation for claim in claims],
        fence=[claim.fence for claim in claims],
        state=[release.state for release in releases],
        until=[release.until for release in releases],
        delay=[_delay(release) for release in releases],
        at_once=[int(not release.until and _delay(release) == timedelta(0)) for release in releases],
        reason=[without_nul(str(release.failure or release.reason)) for release in releases],
        code=[release.code for release in releases],
        error=[without_nul(release.failure.kind) if release.failure else "" for release in releases],
        refund=[int(release.costs != "attempt") for release in releases],
        crashed=[int(release.costs == "crash") for release in releases],
        lost=[int(release.costs == "loss") for release in releases],
        deferred=[int(release.costs == "deferral") for release in releases],
        interrupted=[int(release.costs == "interruption") for release in releases],
        recoverable=[release.recoverable for release in releases],
    )


def _delay(release: Release) -> timedelta | None:
    delayed = release.state == "waiting" or (release.state == "paused" and release.delay)
    return release.delay if delayed else None


def _line(release: Release) -> Line:
    return release.claim.document_id, release.verb, release.who, release.detail, release.code
