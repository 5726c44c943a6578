"""Mutants: deliberate mistakes. Each is a small change of our source, and schedules have to find it.

Some rules are about one verb and are not simulated. For these, a mutant names the test of the conformance suite that
has to find it. What only PostgreSQL can get wrong is found by a test with a server, which runs in its own process.

The text to change must occur exactly once. If it was rewritten, the mutant fails, so it is never silently harmless.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

from holdfast.stores.sql.query_files import Query
from holdfast.stores.sqlite.dialect import SQL
from tests.simulation import pytest_runner
from tests.simulation.conformance_runner import find_failure
from tests.simulation.explorer import Results, StoreKind, run_slice


class Change(NamedTuple):
    """A changed text in one function or constant, `package.module:Class.function`, or in one statement.

    A statement is `sql:name` on SQLite, and `postgresql:name` on PostgreSQL.
    """

    where: str
    right: str
    wrong: str


class Mutant(NamedTuple):
    """A mistake: its description, and the changes of the source that make it.

    `test` is the test that finds it: `SealConformance.test_a_seal_is_journalled`, or `tests/stores/test_x.py::test_y`.
    Without one, schedules find it.
    """

    mistake: str
    changes: tuple[Change, ...]
    store: StoreKind | Literal["postgres"] = "memory"
    test: str = ""


MAX_SCHEDULES = 5000
"""How many schedules are run to find a mutant."""
FIRST_SEEDS = {
    "in SQL: the fence is not checked": 520,
    "in SQL: the number of moves is not checked": 470,
    "the number of moves is not checked": 4000,
    "a step that ends without an effect undoes nothing": 6000,
}
"""The first seeds for mutants that take long to find from seed 0."""


def find(mutant: Mutant, seeds: range) -> Results:
    """Apply a mutant and run schedules until one of them finds it, or run the test that finds it."""
    if "::" in mutant.test:
        return _found(pytest_runner.find_failure(mutant.test, mutant.mistake))
    with applied(mutant):
        if mutant.test:
            return _found(find_failure(mutant.test, mutant.store))
        assert mutant.store != "postgres", "PostgreSQL is not simulated: name a test"
        return run_slice(seeds, mutant.store)


def _found(failure: str) -> Results:
    return Results(schedules=1, violations={0: failure} if failure else {})


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Apply a mutant, and undo it at the end."""
    with ExitStack() as changes:
        for change in mutant.changes:
            changes.enter_context(_changed(change))
        yield


def _changed(change: Change) -> Any:
    kind, _, name = change.where.partition(":")
    if kind in ("sql", "postgresql"):
        statements: Any = SQL if kind == "sql" else import_module("holdfast.stores.postgres.dialect").SQL
        return patch.dict(statements, {name: Query(_replaced(statements[name], change))})
    module = import_module(f"holdfast.{kind}")
    *owners, name = name.split(".")
    owner: Any = module
    for attribute in owners:
        owner = getattr(owner, attribute)
    found = inspect.getattr_static(owner, name)
    if isinstance(found, str):
        return patch.object(owner, name, _replaced(found, change))
    function: Any = found.fget if isinstance(found, property) else found
    source = _replaced(textwrap.dedent(inspect.getsource(function)), change)
    namespace: dict[str, Any] = {}
    code = compile(f"from __future__ import annotations\n{source}", change.where, "exec")
    exec(code, function.__globals__, namespace)
    return patch.object(owner, name, namespace[function.__name__])


def _replaced(source: str, change: Change) -> str:
    found = source.count(change.right)
    assert found == 1, f"{change.where} has {change.right!r} {found} times: rewrite the mutant"
    return source.replace(change.right, change.wrong)


def _one(mistake: str, where: str, right: str, wrong: str, store: StoreKind = "memory", *, test: str = "") -> Mutant:
    return Mutant(mistake, (Change(where, right, wrong),), store, test)


HELD = "stores.memory.work:Work._held"
COMMIT = "stores.memory.work:Work._commit_together"
RECEIPTS = "tests/stores/postgres/test_receipts.py"
GUARD = "tests/stores/postgres/test_transaction_guard.py"
SESSIONS = "tests/stores/postgres/test_session_state.py"
CONFORMANCE = "tests/stores/test_conformance.py"
MOVE_RULES = "MoveRulesConformance"
POOL = "tests/engine/processes/test_pool.py"
DAMAGED_ITEMS = (
    "tests/scenarios/test_damaged_items.py"
    "::test_a_damaged_document_is_parked_when_it_is_taken_up_and_the_suggested_rewind_repairs_it"
)
SPLITTING = "__import__('sys').modules['holdfast.stores.group_commit'].commit_in_groups"
"""Commits moves whether the plan allows them or not."""
CIRCUITS = "tests/engine/test_step_circuits.py"
PROBES = "ProbeConformance"
EVIDENCE = "WorksForOthersConformance"
TEXTS = "TextLimitsConformance"
FUTURE_WAITS = "FutureWaitConformance"
FUTURE_WORK = "FutureWorkConformance"
TRUSTING = (
    "engine.executor:Executor.released_after",
    "decide_outcome(step, error, tried)",
    "__import__('sys').modules['holdfast.engine.failure_policy']._decide(step, error, tried)",
)
"""The executor decides about an error without a guard against its own code."""
LEFT_BEHIND = "test_what_an_effect_leaves_in_its_session_reaches_no_other_document"
LEFT_BY_CODE = "test_what_user_code_leaves_in_its_session_reaches_nobody_else"
LEFT_OPEN = "test_what_user_code_leaves_open_holds_up_nobody"

MUTANTS: tuple[Mutant, ...] = (
    # who may write
    _one("the fence is not checked", HELD, "(row.fence, row.generation", "(claim.fence, row.generation"),
    _one(
        "a rewind by a worker opens no new generation",
        "stores.memory.work:Work.rewind",
        "generation=row.generation + 1",
        "generation=row.generation",
    ),
    _one("the number of moves is not checked", HELD, "row.moves) == (", "at.moves) == ("),
    _one(
        "a claim does not raise the fence", "stores.memory.work:Work._claim", "fence=row.fence + 1", "fence=row.fence"
    ),
    Mutant(
        "a document is claimed that another holds",
        (
            Change(
                "stores.memory.base:Base._due", 'row.state == "waiting" and', 'row.state in ("waiting", "running") and'
            ),
            Change("stores.memory.work:Work._claim", "due_at=None", "due_at=now"),
        ),
    ),
    Mutant(
        "a worker may commit to a cancelled document",
        (
            Change(HELD, 'row.state != "running"', 'row.state not in ("running", "cancelled")'),
            Change("stores.memory.decisions:Decisions.cancel", "fence=row.fence + 1, ", ""),
        ),
    ),
    _one(
        "a rewind by a person opens no new generation",
        "stores.memory.decisions:Decisions._rewound",
        '"generation": generation,',
        '"generation": row.generation,',
    ),
    _one(
        "a worker rewinds a document that another holds",
        "stores.memory.work:Work.rewind",
        "row = self._held(claim, at)",
        "row = self._tables.documents[claim.document_id]\n"
        "        row = row if (row.state, row.generation) == ('running', at.generation) else None",
    ),
    _one(
        "a claim forgets that a worker had the document before",
        "stores.memory.work:Work._as_claim",
        "held_before=row.worked_by is not None",
        "held_before=False",
        test="ClaimConformance.test_a_claim_says_whether_a_worker_had_the_document_before",
    ),
    # what commits together
    _one(
        "the cursor is committed before the items",
        COMMIT,
        "                    self._save_items(plan, move, now)\n            self._run_effects(held)",
        "        with self._writing():\n            for move in held:\n"
        "                self._save_items(plan, move, now)\n            self._run_effects(held)",
    ),
    _one(
        "effects run after the commit",
        COMMIT,
        "            self._run_effects(held)",
        "        with self._writing():\n            self._run_effects(held)",
    ),
    _one(
        "effects commit before the checkpoint",
        COMMIT,
        "        with self._writing():\n",
        "        with self._writing():\n"
        "            self._run_effects([one for one in moves if self._held(one.claim, one.before)])\n"
        "        with self._writing():\n",
    ),
    _one(
        "a move whose effect failed is committed without the effect",
        "stores.group_commit:commit_in_groups",
        "answers[start] = Refused(failed.error)",
        "answers[start] = commit([__import__('msgspec').structs.replace(moves[start], effect=None)])[0]",
    ),
    _one(
        "a submit is acknowledged before it is committed",
        "stores.memory.intake:Intake.submit",
        "    with self._writing():\n",
        "    if not hasattr(self, 'late'):\n        self.late = True\n        return SubmitResult(len(documents))\n"
        "    with self._writing():\n",
    ),
    _one(
        "a batch does not expect its new documents",
        "stores.memory.base:Base._add_documents",
        "expected=into.expected + len(new)",
        "expected=into.expected",
    ),
    _one(
        "documents of a submit that is delivered twice are expected twice",
        "stores.memory.intake:Intake._submit",
        "self._add_documents(plan, into, new,",
        "into = __import__('msgspec').structs.replace(into, expected=into.expected + same)\n"
        "    self._add_documents(plan, into, new,",
    ),
    # claims, leases and crashes
    _one(
        "the heartbeat of a worker that was given up returns true",
        "stores.memory.work:Work.heartbeat",
        "            return False\n",
        "            return True\n",
    ),
    _one(
        "a worker that was given up does not register again",
        "engine.worker:Worker._renew_if_given_up",
        "if not self._heartbeat.given_up:",
        "if True:",
    ),
    _one(
        "documents are reclaimed by the age of the worker",
        "stores.memory.tables:WorkerRow.is_stale",
        "self.heartbeat_at + self.worker.lease",
        "(self.worker.registered_at or now) + self.worker.lease",
    ),
    _one(
        "attempts are counted only when they fail",
        "stores.memory.work:Work._claim",
        "attempts=row.attempts + 1",
        "attempts=row.attempts",
    ),
    _one(
        "a crash is not counted",
        "stores.reclaim_rules:_counted",
        'held.crashes + (charge == "crash")',
        "held.crashes",
    ),
    _one(
        "suspects are claimed together with other documents",
        "stores.memory.work:Work._claimable",
        "if not row.is_suspect]",
        "]",
    ),
    _one(
        "a worker with a suspect claims other documents",
        "engine.scheduler:Scheduler._claims_nothing_else",
        "self._suspect_is_next or self._suspect is not None",
        "self._suspect_is_next",
    ),
    _one(
        "a loss counts as a crash",
        "core.worker_deaths:WorkerDeath.charge",
        '"crash" if self.evidence else "loss"',
        '"crash"',
    ),
    _one(
        "a crash with evidence counts as a loss",
        "engine.maintenance:WorkerMaintenance._reclaim",
        "deaths=reports.deaths",
        "deaths={}",
    ),
    _one("a loss is not counted", "stores.reclaim_rules:_counted", 'held.losses + (charge == "loss")', "held.losses"),
    _one(
        "documents that were not running are charged",
        "core.worker_deaths:WorkerDeath.charge",
        "if self.running and document_id not in self.running:",
        "if False:",
    ),
    _one(
        "a document whose body runs is not marked",
        "engine.runners:Runners._run_jobs",
        "cells[cell] = document.claim.document_id",
        "pass",
    ),
    _one(
        "losses are not reset by progress",
        "stores.memory.work:Work._move",
        "**NO_SETBACKS,",
        '**NO_SETBACKS | {"losses": row.losses},',
    ),
    _one(
        "losses never end",
        "engine.maintenance:WorkerMaintenance._decide_orphan",
        "losses >= retry.losses",
        "losses < 0",
    ),
    _one(
        "a document that lost many workers is not run alone",
        "stores.memory.tables:DocumentRow.is_suspect",
        "losses=self.losses",
        "losses=0",
    ),
    _one(
        "a document that was not running waits after the death of its worker",
        "engine.maintenance:WorkerMaintenance._decide_orphan",
        'charge == "nothing" or ',
        "",
    ),
    _one(
        "a claim whose answer was lost is never released",
        "stores.memory.work:Work.release_unknown",
        "return self._release_all(worker, keeping)",
        "return 0",
    ),
    _one(
        "a deferred attempt is counted",
        "stores.memory.work:Work._release",
        'row.attempts if release.costs == "attempt" else max(row.attempts - 1, 0)',
        "row.attempts",
    ),
    _one(
        "a claim whose answer was lost costs an attempt",
        "stores.memory.work:Work._release_all",
        "max(row.attempts - 1, 0)",
        "row.attempts",
    ),
    _one(
        "attempts are not reset by progress",
        "stores.memory.work:_stays",
        'stays | {"attempts": 1} if move.is_progress else stays',
        "stays",
    ),
    _one("crashes are not reset by progress", "stores.memory.work:Work._move", "crashes=0,", "crashes=row.crashes,"),
    _one("priorities are ignored", "stores.memory.base:Base._due", "-row.priority", "0"),
    _one(
        "documents that left a step count as inside it",
        "stores.memory.work:Work.admit",
        '!= ("running", fence, step_id)',
        "!= (row.state, fence, step_id)",
    ),
    _one(
        "documents are claimed before they are due",
        "stores.memory.base:Base._due",
        "row.due_at is not None and row.due_at <= now",
        "row.due_at is not None",
    ),
    _one(
        "a step admits one document more than its limit",
        "stores.memory.work:Work.admit",
        "len(inside) < limit",
        "len(inside) <= limit",
    ),
    _one(
        "overdue documents are never reclaimed",
        "stores.memory.maintenance:_is_overdue",
        "row.deadline_at is not None and row.deadline_at < now",
        "False",
    ),
    _one(
        "documents are reclaimed before their deadline",
        "stores.memory.maintenance:_is_overdue",
        "row.deadline_at < now",
        "row.deadline_at < now + timedelta(days=1)",
    ),
    _one(
        "a failed attempt is retried without a wait",
        "stores.memory.work:Work._release",
        "row.due_after(release.delay, now)",
        "row.due_after(timedelta(0), now)",
    ),
    _one(
        "a document is retried without a wait after crashes",
        "engine.maintenance:WorkerMaintenance._decide_orphan",
        "retry.wait(tries) if tries else timedelta(0)",
        "timedelta(0)",
    ),
    _one(
        "a document may crash three more workers than allowed",
        "engine.maintenance:WorkerMaintenance._decide_orphan",
        "crashes >= retry.crashes",
        "crashes >= 3 + retry.crashes",
    ),
    _one(
        "a worker releases documents that it still works on",
        "stores.memory.work:Work.release_unknown",
        "return self._release_all(worker, keeping)",
        "return self._release_all(worker, ())",
    ),
    _one(
        "a release is not journalled",
        "stores.memory.work:Work._release",
        "self._write_journal(ended, release.verb, who=release.who, now=now, detail=release.detail, code=release.code)",
        "pass",
    ),
    # bodies and cursors
    _one(
        "a stream continues one item too late",
        "engine.body_calls:_open_stream",
        "cursor=cursor)",
        "cursor=cursor + 1)",
    ),
    _one(
        "a stream continues one item too early",
        "engine.body_calls:_open_stream",
        "cursor=cursor)",
        "cursor=cursor - 1 or None)",
    ),
    _one(
        "the cursor passes windows that are not done",
        "core.item_windows:Windows.cursor",
        "self._done[0][1] if self._done and self._done[0][0] == 0 else 0",
        "max((stop for _, stop in self._done), default=0)",
    ),
    _one(
        "a result that came too late is used",
        "engine.claimed_document:ClaimedDocument.remove_call",
        "return self.calls.pop(id(call), None) is None",
        "return not self.calls.pop(id(call), True)",
    ),
    _one(
        "a worker ignores the items that others kept of the present step",
        "engine.stored_items:StoreReader.cache_items",
        "None if begun.cursor is None else begun.step",
        "None",
    ),
    _one(
        "a changed document continues at the step of the old content",
        "stores.memory.intake:Intake._start_again",
        "step_id=plan.first,",
        "step_id=row.step_id or plan.first,",
    ),
    _one(
        "the second half of a failed window lacks an item",
        "engine.over_items:OverItemsRun._on_error",
        "RunWindow(call.step, (middle, stop))",
        "RunWindow(call.step, (middle + 1, stop))",
    ),
    _one(
        "items of a stream before its error are kept without their effect",
        "engine.executor:Executor._run_stream",
        "if pulled.cursor != cursor:",
        "if (effect := None) or pulled.cursor != cursor:",
    ),
    _one(
        "a stream goes on after it said that it is over",
        "engine.stream_collector:Collector.may_go_on",
        "not self.said_end and not self.transactions",
        "not self.transactions",
    ),
    _one(
        "the end that a stream says is committed as a cursor",
        "engine.stream_collector:Collector._own_cursor",
        "self.said_end, self.count = True, 0\n        return self.cursor",
        "self.count = 0\n        return None",
    ),
    _one(
        "a part of a stream is committed twice",
        "engine.scheduler:Scheduler._take_parts",
        "for part in parts]",
        "for part in parts * 2]",
    ),
    _one(
        "a part of a stream is committed without its effect",
        "engine.executor:Executor._run_stream",
        "self._commit_part(step, move, events)",
        "self._commit_part(step, replace(move, effect=None), events)",
    ),
    _one(
        "a silent stream is not committed by time",
        "engine.stream_collector:TimedCollector._is_due",
        "self.moved == self.taken",
        "True",
        test="tests/scenarios/test_commits_by_time.py"
        "::test_items_are_kept_while_the_body_computes_the_next_one[thread-time]",
    ),
    _one(
        "a body begins again while it still runs, after a part of it was refused",
        "engine.executor:Executor._commit_part",
        "while all(isinstance(event, Yielded) for event in events):",
        "while False:",
        test="tests/scenarios/test_commits_by_time.py::test_a_body_does_not_begin_again_before_it_has_ended[thread]",
    ),
    _one(
        "mended items are still listed as failed",
        "stores.memory.work:Work._save_items",
        "for position in move.mended:",
        "for position in ():",
    ),
    _one(
        "results of earlier steps are not verified",
        "engine.executor:Executor._verify_earlier_steps",
        "if step.verify_body is None or",
        "if True or",
    ),
    _one(
        "results that are gone are redone without end",
        "engine.executor:Executor._redo",
        "if place is None:",
        "if True:",
    ),
    _one(
        "a second rewind reuses items that the first one replaced",
        "stores.rewind_rules:Rewind.reuses",
        "place.generation_of(step_id)",
        "place.generation",
    ),
    _one(
        "items of earlier generations are never deleted",
        "stores.memory.base:Base._drop_earlier_generations",
        "if row.generation else ()",
        "if row.generation < 0 else ()",
    ),
    _one(
        "reused items are deleted with the earlier generations",
        "stores.memory.base:Base._drop_earlier_generations",
        "if earlier and generation != row.generation_of(step_id):",
        "if earlier:",
    ),
    _one(
        "a changed document reuses items of the old content",
        "stores.memory.intake:Intake._start_again",
        "serves=self._served(row),",
        "serves=self._served(row), reuses=row.reuses,",
    ),
    # rows of superseded generations
    _one(
        "rows of an earlier generation stay",
        "engine.effect_rows:EffectRows.replace_earlier",
        "if not step.can_undo:",
        "if True:",
    ),
    _one(
        "every effect of a generation undoes the one before it",
        "engine.effect_rows:EffectRows.replace_earlier",
        "if written == generation or (",
        "if (",
    ),
    _one(
        "a step that ends without an effect undoes nothing",
        "engine.effect_rows:EffectRows.replace_earlier",
        "(written is None or not ends)",
        "True",
    ),
    _one(
        "an undo gets the generation that replaces the rows",
        "engine.effect_rows:EffectRows.replace_earlier",
        "partial(_undo, step, self._document, written, effect)",
        "partial(_undo, step, self._document, generation, effect)",
    ),
    _one(
        "an undo runs before and after the new effect",
        "engine.effect_rows:_undo",
        "if effect is not None:\n        effect(tx)\n",
        "if effect is not None:\n        effect(tx)\n"
        "        step.remove_rows(tx, without_output(document, step, generation))\n",
    ),
    _one(
        "a move does not record which generation wrote rows",
        "stores.memory.work:Work._move",
        "row.effects if move.effects is None else _merged(row.effects, plan, move.effects)",
        "row.effects",
    ),
    _one(
        "a step that was undone without an effect is undone again",
        "stores.memory.work:_merged",
        "effects | {plan.step_ids[step]: generation for step, generation in changes.items()}",
        "effects | {plan.step_ids[step]: generation for step, generation in changes.items() if generation is not None}",
        test="EffectRowsConformance.test_a_move_changes_the_rows_of_its_steps_and_no_others",
    ),
    _one(
        "in PostgreSQL: a move forgets the rows of other steps",
        "postgresql:move_one",
        "coalesce(d.effects, '{}')",
        "coalesce(null, '{}')",
        "postgres",
        test="tests/stores/test_conformance.py::TestPostgres::test_a_move_changes_the_rows_of_its_steps_and_no_others",
    ),
    _one(
        "a changed document forgets which generation wrote rows",
        "stores.memory.intake:Intake._start_again",
        "effects=row.effects,",
        "effects={},",
    ),
    _one(
        "a rewind forgets which generation wrote rows",
        "stores.memory.decisions:Decisions._rewound",
        '"cursor": None,',
        '"cursor": None, "effects": {},',
    ),
    _one(
        "a withdrawn document is undone again when it is withdrawn again",
        "stores.memory.decisions:rows_that_stay",
        "if step_id not in known",
        "if step_id",
    ),
    _one(
        "a withdrawn document goes on where it was, without its rows",
        "stores.memory.decisions:Decisions.withdraw",
        '"step_id": plan.first',
        '"step_id": row.step_id or plan.first',
    ),
    _one(
        "a withdrawal undoes steps that wrote nothing",
        "ops.withdraw:Withdrawal._undo",
        "effects = rows.effects\n",
        "effects = rows.effects or dict.fromkeys(self._pipeline._places, 0)\n",
    ),
    # other versions of the pipeline
    _one(
        "work of an earlier version of a step is not stale",
        "core.staleness:_changed",
        '("version", "kind",',
        '("kind",',
    ),
    _one(
        "work of a step with other settings is not stale",
        "core.staleness:_changed",
        "[*_changed_settings(was.settings, now.settings)]",
        "[]",
    ),
    _one(
        "a document that continues under another plan counts as done under it",
        "core.plan:combined_shape",
        "begun.steps)]",
        "under.steps)]",
    ),
    _one(
        "a document counts as done under the plan with which it started",
        "stores.memory.work:Work._claim",
        "    self._repin(plan, claimed)\n",
        "",
    ),
    # a clock that is set back
    _one(
        "nothing is put right after a clock was set back",
        "engine.maintenance:WorkerMaintenance.run",
        "self._reset_future_times(me)",
        "pass",
    ),
    _one(
        "documents wait for a submission in the future",
        "stores.memory.tables:DocumentRow.due_after",
        "min(self.submitted_at, now)",
        "self.submitted_at",
        test=f"{FUTURE_WAITS}.test_what_is_given_back_at_once_waits_for_no_submission_in_the_future",
    ),
    _one(
        "every long wait is taken for one of a wrong clock",
        "stores.memory.maintenance:_is_due_too_late",
        "row.due_at > now and is_future(row.waits_since, now)",
        "is_future(row.due_at, now)",
        test=f"{FUTURE_WAITS}.test_a_long_wait_that_began_in_the_past_stays_as_it_is",
    ),
    _one(
        "a long wait ends when a clock is set back",
        "stores.memory.maintenance:ClockCorrection._restart_wait",
        "due_at=now + wait",
        "due_at=now",
        test=f"{FUTURE_WAITS}.test_a_long_wait_that_began_in_the_future_keeps_its_length",
    ),
    _one(
        "a wait is put right again and again",
        "stores.memory.maintenance:ClockCorrection._restart_wait",
        "waits_since=now",
        "waits_since=row.waits_since",
        test=f"{FUTURE_WAITS}.test_what_was_put_right_is_put_right_once",
    ),
    _one(
        "the end of a pause that a person gave is moved",
        "stores.memory.decisions:Decisions.pause",
        "waits_since=None",
        "waits_since=now",
        test=f"{FUTURE_WAITS}.test_a_pause_until_a_moment_stays_as_it_was_given",
    ),
    _one(
        "heartbeats in the future stay",
        "stores.memory.maintenance:ClockCorrection.reset_future_times",
        "replace(worker, heartbeat_at=now)",
        "worker",
        test=f"{FUTURE_WORK}.test_a_dead_worker_with_a_heartbeat_in_the_future_has_one_lease_left",
    ),
    _one(
        "in SQL: a wait that is put right becomes shorter",
        "sql:restart_waits",
        "then :now + (due_at - waits_since) else :now end",
        "then :now else :now end",
        "sqlite",
        test=f"{FUTURE_WAITS}.test_a_wait_starts_again_as_long_as_it_was_meant",
    ),
    _one(
        "in SQL: every long wait is taken for one of a wrong clock",
        "sql:future_waits",
        "   and waits_since > :now + :tolerance\n",
        "   and due_at > :now + :tolerance\n",
        "sqlite",
        test=f"{FUTURE_WAITS}.test_a_long_wait_that_began_in_the_past_stays_as_it_is",
    ),
    _one(
        "in SQL: a deadline that was set since is moved",
        "sql:reset_running",
        "min(d.deadline_at, :now + t.timeout)",
        ":now + t.timeout",
        "sqlite",
        test=f"{FUTURE_WORK}.test_a_deadline_that_was_set_since_stays_as_it_is",
    ),
    # people
    _one(
        "a pause costs the attempt",
        "stores.memory.decisions:Decisions.pause",
        'max(row.attempts - (row.state == "running"), 0)',
        "row.attempts",
    ),
    _one(
        "a redrive does not reset attempts and crashes",
        "stores.memory.decisions:Decisions.redrive",
        "**WITHOUT_FAILURES",
        '**WITHOUT_FAILURES | {"attempts": row.attempts}',
    ),
    _one(
        "a cancel is not journalled",
        "stores.memory.decisions:Decisions.cancel",
        'self._record_decision(row, ended, "cancel", who=who, now=now, detail={"reason": reason}, code=code)',
        "pass",
    ),
    _one(
        "a pause with an end by a body never ends",
        "stores.memory.work:Work._release",
        "due_at=release.until.astimezone(UTC) if release.until else due",
        "due_at=due",
    ),
    _one(
        "a paused document never wakes",
        "stores.memory.maintenance:Maintenance.wake",
        "and row.due_at <= now]",
        "and row.due_at < row.submitted_at]",
    ),
    _one(
        "the deadline of a gate decides nothing",
        "stores.memory.documents:DocumentReads.overdue_at_gate",
        "row.due_at <= now]",
        "row.due_at < row.submitted_at]",
    ),
    _one(
        "a gate is decided before its deadline",
        "stores.memory.documents:DocumentReads.overdue_at_gate",
        "and row.due_at <= now]",
        "]",
    ),
    _one("a pause ends too early", "stores.memory.maintenance:Maintenance.wake", "and row.due_at <= now]", "]"),
    _one(
        "a claim sets no deadline",
        "stores.memory.work:Work._claim",
        "deadline_at=deadlines.get(row.step_id or 0)",
        "deadline_at=None",
    ),
    _one(
        "a move removes the deadline",
        "stores.memory.work:_stays",
        "None if move.timeout is None else now + move.timeout",
        "None",
    ),
    _one(
        "a clock decides which plan was declared last",
        "stores.memory.intake:Intake._declare_plan",
        "declared_at = max([now, *(other + datetime.resolution for other in others)])",
        "declared_at = now",
    ),
    _one(
        "a worker that does not know a gate wakes documents there",
        "stores.memory.maintenance:Maintenance.wake",
        "row.step_id in plan.body_ids",
        "row.step_id not in plan.gate_ids",
        test="GateDecisionConformance.test_a_document_at_a_gate_is_not_woken_by_a_plan_without_the_gate",
    ),
    _one(
        "a document at a gate is woken by time",
        "stores.memory.maintenance:Maintenance.wake",
        "due = [(row.due_at, row.id, row) for row in asleep if row.due_at is not None and row.due_at <= now]",
        "due = [(row.due_at or now, row.id, replace(row, due_at=now)) for row in paused]",
    ),
    _one(
        "a redriven document starts at its first step in the same generation",
        "stores.memory.decisions:Decisions.redrive",
        'state="waiting", due_at',
        'state="waiting", step_id=self._plans(row.pipeline_id)[-1].step_ids[0], cursor=None, due_at',
    ),
    Mutant(
        "a worker that stops does not release its documents",
        (
            Change("stores.memory.work:Work.retire_worker", "        self._release_all(worker, ())\n", ""),
            Change("engine.scheduler:Scheduler.release_all", "        self._release(document)\n", "        pass\n"),
            Change(
                "engine.scheduler:Scheduler.release_unstarted",
                "        self._release(document)\n",
                "        pass\n",
            ),
        ),
    ),
    # the same mistakes in SQL
    Mutant(
        "in SQL: the fence is not checked",
        tuple(
            Change(f"sql:{name}", words, "")
            for name, words in (
                ("move", "   and fence = m.column3\n"),
                ("move_and_release", "   and fence = m.column3\n"),
                ("matching_moves", "   and d.fence = m.value ->> 2\n"),
            )
        ),
        "sqlite",
    ),
    Mutant(
        "in SQL: the number of moves is not checked",
        tuple(
            Change(f"sql:{name}", words, "")
            for name, words in (
                ("move", "   and moves = m.column4\n"),
                ("move_and_release", "   and moves = m.column4\n"),
                ("matching_moves", "   and d.moves = m.value ->> 3\n"),
            )
        ),
        "sqlite",
    ),
    _one(
        "in SQL: the cursor is committed before the items",
        "stores.sqlite.commit:Commit._write_moves",
        "    for statement in statements.keeping:\n        db.execute(*statement)\n"
        "    self._run_effects(db, statements.moves)\n",
        "    self._run_effects(db, statements.moves)\n    db.execute('commit')\n    db.execute('begin immediate')\n"
        "    for statement in statements.keeping:\n        db.execute(*statement)\n",
        "sqlite",
    ),
    _one(
        "in SQL: effects commit after the checkpoint",
        "stores.sqlite.commit:Commit._write_moves",
        "    self._run_effects(db, statements.moves)\n",
        "    db.execute('commit')\n    db.execute('begin immediate')\n    self._run_effects(db, statements.moves)\n",
        "sqlite",
    ),
    _one("in SQL: a claim does not raise the fence", "sql:claim", "fence = fence + 1", "fence = fence", "sqlite"),
    _one(
        "in SQL: documents are claimed before they are due",
        "sql:claimable",
        "   and due_at <= :now -- if due\n",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: a batch does not expect its new documents",
        "sql:add_expected",
        "expected + :count",
        "expected",
        "sqlite",
    ),
    _one(
        "in SQL: the heartbeat of a worker that was given up returns true",
        "sql:heartbeat",
        "\n   and gone_at is null",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: the attempt is counted twice",
        "sql:claim",
        "attempts = attempts + 1",
        "attempts = attempts + 2",
        "sqlite",
    ),
    _one(
        "in SQL: suspects are claimed together with other documents",
        "sql:claimable",
        "   and crashes < 2 and losses < 5 -- if ordinary\n",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: a document counts as done under the plan with which it started",
        "sql:repin",
        "where ",
        "where false and ",
        "sqlite",
    ),
    _one("in SQL: priorities are ignored", "sql:claimable", "priority desc, ", "", "sqlite"),
    _one(
        "in SQL: a redrive does not reset attempts and crashes",
        "sql:redrive",
        "attempts = 0, crashes = 0,",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: a changed document reuses items of the old content",
        "sql:restart_changed_documents",
        "reuses = null,",
        "",
        "sqlite",
        test="ChangedContentConformance.test_a_changed_document_reuses_nothing",
    ),
    Mutant(
        "in SQL: a move does not record which generation wrote rows",
        tuple(
            Change(f"sql:{name}", f"json_patch(coalesce(effects, '{{}}'), {change})", "effects")
            for name, change in (("move", "m.column11"), ("move_and_release", "m.column7"), ("move_alike", "?4"))
        ),
        "sqlite",
    ),
    _one(
        "in SQL: a changed document forgets which generation wrote rows",
        "sql:restart_changed_documents",
        "reuses = null,",
        "reuses = null, effects = '{}',",
        "sqlite",
    ),
    _one(
        "in SQL: a rewind forgets which generation wrote rows",
        "sql:rewind_to",
        "cursor = null,",
        "cursor = null, effects = '{}',",
        "sqlite",
    ),
    _one(
        "in SQL: a withdrawn document is undone again when it is withdrawn again",
        "sql:withdraw",
        "effects = withdrawn.effects",
        "effects = d.effects",
        "sqlite",
    ),
    _one(
        "in SQL: a worker releases a document that it lost", "sql:release", "   and d.fence = e.fence\n", "", "sqlite"
    ),
    _one(
        "in SQL: a worker rewinds a document that another holds",
        "sql:rewind",
        "   and fence = :fence\n   and moves = :moves\n",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: a worker releases documents that it still works on",
        "sql:release_unknown",
        "\n   and id not in (select value from json_each(:keeping))",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: a document that lost many workers is not run alone",
        "sql:claimable",
        " and losses < 5",
        "",
        "sqlite",
    ),
    Mutant(
        "in SQL: losses are not reset by progress",
        (Change("sql:move", "losses = 0, ", ""), Change("sql:move_and_release", "losses = 0, ", "")),
        "sqlite",
    ),
    _one("in SQL: a loss is not counted", "sql:reclaim", "losses = o.losses,", "", "sqlite"),
    _one(
        "in SQL: overdue documents are never reclaimed",
        "sql:orphans_to_reclaim",
        "d.deadline_at < :now",
        "false",
        "sqlite",
    ),
    # batches
    _one(
        "a batch with more documents than declared is sealed",
        "stores.memory.batches:refuse_wrong_count",
        "declared != submitted",
        "declared > submitted",
        test="SealConformance.test_a_batch_with_too_many_documents_is_not_sealed",
    ),
    _one(
        "a deadline ends documents before it has passed",
        "stores.memory.batches:_is_overdue",
        " and row.deadline_at <= now",
        "",
        test="DeadlineConformance.test_nothing_is_ended_before_the_deadline",
    ),
    _one(
        "a deadline leaves paused documents open",
        "stores.memory.batches:Deadlines.expire_batch",
        "row.state in OPEN_STATES",
        'row.state in ("waiting", "running")',
        test="DeadlineConformance.test_at_the_deadline_open_documents_become_dead_letters",
    ),
    _one(
        "a deadline leaves its batch open for new documents",
        "stores.memory.batches:Deadlines.expire_batch",
        'replace(batch, state="sealed", sealed_at=now)',
        "batch",
        test="DeadlineConformance.test_at_the_deadline_an_open_batch_is_sealed",
    ),
    _one(
        "a deadline ends documents that a person opens after it",
        "stores.memory.batches:Deadlines.expire_batch",
        "replace(batch, expired_at=now)",
        "batch",
        test="DeadlineConformance.test_a_document_that_is_opened_after_the_deadline_is_left_alone",
    ),
    _one(
        "a clock that was set back ends the scans",
        "stores.memory.maintenance:Maintenance.begin_scan",
        "last <= now < last + every",
        "now < last + every",
        test="BeginScanConformance.test_a_clock_that_was_set_back_does_not_end_the_scans",
    ),
    _one(
        "in SQL: every worker scans",
        "sql:begin_scan",
        "scanned_at is null or ",
        "true or ",
        "sqlite",
        test="BeginScanConformance.test_a_scan_begins_once_in_each_interval",
    ),
    _one(
        "in SQL: a deadline ends documents that a person opens after it",
        "sql:expire_batch",
        "expired_at = :now",
        "expired_at = null",
        "sqlite",
        test="DeadlineConformance.test_a_document_that_is_opened_after_the_deadline_is_left_alone",
    ),
    _one(
        "in SQL: a document that a deadline ended still has its worker",
        "sql:end_documents",
        "worker_id = null, ",
        "",
        "sqlite",
        test="DeadlineConformance.test_a_worker_that_holds_a_document_at_the_deadline_cannot_write_to_it",
    ),
    _one(
        "in SQL: a deadline ends documents of other batches",
        "sql:open_documents",
        "batch_id = :batch_id",
        ":batch_id = :batch_id",
        "sqlite",
        test="DeadlineConformance.test_each_batch_has_its_own_deadline",
    ),
    # effects that end their transaction, call the store, or submit documents
    _one(
        "an effect may commit the transaction that it is given",
        "stores.sqlite_guard:TransactionGuard.refuses",
        "return self.active",
        "return False",
        test="EffectGuardConformance.test_an_effect_that_ends_the_transaction_by_the_drivers_connection_is_refused",
    ),
    _one(
        "in SQL: an effect may commit the transaction that it is given",
        "stores.sqlite_guard:TransactionGuard.refuses",
        "return self.active",
        "return False",
        "sqlite",
        test="EffectGuardConformance.test_a_group_in_which_every_effect_ends_the_transaction_moves_nothing",
    ),
    _one(
        "statements of an effect commit by themselves after a rollback",
        "stores.memory.base:require_transaction",
        "if not db.in_transaction",
        "if False",
        test="EffectGuardConformance.test_a_statement_that_rolls_back_the_transaction_ends_the_effect",
    ),
    _one(
        "a call of the store inside a transaction begins another one",
        "stores.memory.base:refuse_inside_transaction",
        "if db.in_transaction",
        "if False",
        test="EffectGuardConformance.test_a_write_inside_a_transaction_is_refused_and_the_transaction_goes_on",
    ),
    _one(
        "an effect may roll back to a savepoint of another document",
        "stores.sqlite_guard:TransactionGuard.authorize",
        "self._has_savepoints = True",
        "pass",
        test="EffectGuardConformance.test_an_effect_cannot_roll_back_to_a_savepoint_of_another_document",
    ),
    _one(
        "an effect may close the store",
        "stores.memory.base:Base.close",
        "refuse_inside_effect(self._effects)",
        "pass",
        test="EffectGuardConformance.test_an_effect_cannot_close_the_store",
    ),
    _one(
        "an undo may commit the transaction of a withdrawal",
        "stores.sqlite_guard:TransactionGuard.guarding",
        "self._refuse_an_end(db, what, None)",
        "pass",
        test="EffectGuardConformance.test_user_code_in_a_rename_or_a_withdrawal_cannot_end_the_transaction",
    ),
    _one(
        "an effect submits to a plan that was rolled back",
        "stores.memory.intake:Intake._chained_plan",
        "row is not None and row.step_ids == tuple(plan.step_ids.values()) and row.shape == shape",
        "True",
        test="ChainedSubmitConformance.test_an_effect_that_fails_submits_nothing",
    ),
    _one(
        "in SQL: an effect submits to a plan that another pipeline got",
        "sql:is_plan",
        "   and l.name = :pipeline",
        "",
        "sqlite",
        test="ChainedSubmitConformance.test_a_pipeline_that_was_declared_in_vain_is_declared_again",
    ),
    _one(
        "an effect submits to the batch of another document",
        "stores.memory.work:Work._run_effect",
        "tx.batch = move.claim.batch",
        "tx.batch = tx.batch or move.claim.batch",
        test="ChainedSubmitConformance.test_each_document_of_a_group_submits_to_its_own_batch",
    ),
    _one(
        "in PostgreSQL: an effect may commit the transaction that it is given",
        "stores.postgres.commit:Commit._commit_in_transaction",
        "self._db.writing(commit, GUARDED)",
        "self._db.writing(commit)",
        "postgres",
        test=f"{GUARD}::test_the_server_refuses_a_commit_that_is_sent_past_our_cursors[commit; begin]",
    ),
    _one(
        "in PostgreSQL: an effect may begin another transaction",
        "stores.postgres.connection_watchdog:WatchedConnection.watch_statement",
        "if ends_transaction(text)",
        "if False",
        "postgres",
        test=f"{GUARD}::test_effects_that_together_begin_and_commit_another_transaction_repeat_no_rows_of_others"
        "['rollback; begin']",
    ),
    _one(
        "in PostgreSQL: an effect may roll back to a savepoint of another document",
        "stores.postgres.connection_watchdog:WatchedConnection.watch_statement",
        '"savepoint" in text.lower()',
        "False",
        "postgres",
        test="tests/stores/test_conformance.py::TestPostgres"
        "::test_an_effect_cannot_roll_back_to_a_savepoint_of_another_document[the first]",
    ),
    _one(
        "a quick stream may yield inside a transaction",
        "engine.stream_collector:Collector.transaction_opened",
        "self.count = 0",
        "pass",
        test="tests/scenarios/test_streams_in_transactions.py"
        "::test_a_stream_that_yields_inside_a_transaction_fails_with_its_step[memory-thread-reading]",
    ),
    _one(
        "two documents share an idempotency key",
        "core.document:Document.idempotency_key",
        'f"{len(name)}:{name}"',
        'f"{name}\\x1f"',
        test="tests/core/test_document.py::test_no_two_places_share_a_key_whatever_their_names_contain",
    ),
    # the store as the last guard, and damaged checkpoints
    _one(
        "a store takes a move over a step",
        "stores.memory.work:Work.commit",
        "commit_allowed(plan, moves,",
        f"{SPLITTING}(moves,",
        test=f"{MOVE_RULES}.test_a_move_over_a_step_is_refused",
    ),
    _one(
        "in SQL: a store takes a move back to an earlier step",
        "stores.sqlite.commit:Commit.commit",
        "commit_allowed(plan, moves,",
        f"{SPLITTING}(moves,",
        "sqlite",
        test=f"{MOVE_RULES}.test_a_move_back_to_an_earlier_step_is_refused",
    ),
    _one(
        "in SQL: a claim in the same transaction lets any move pass",
        "stores.sqlite.commit:Commit.exchange",
        "if refused_moves(plan, moves):",
        "if False:",
        "sqlite",
        test=f"{MOVE_RULES}.test_documents_are_claimed_beside_a_refused_move",
    ),
    Mutant(
        "in PostgreSQL: a store takes a move over a step",
        (Change("stores.postgres.commit:Commit.commit", "commit_allowed(plan, once,", f"{SPLITTING}(once,"),),
        "postgres",
        f"{CONFORMANCE}::TestPostgres::test_a_move_over_a_step_is_refused",
    ),
    _one(
        "a cursor that is a number may go back",
        "core.move_rules:_is_further",
        "return before < after",
        "return before != after",
        test=f"{MOVE_RULES}.test_a_cursor_that_is_a_number_goes_forward",
    ),
    _one(
        "a cursor over items may cover less than before",
        "core.move_rules:_covers_more",
        "not later.covers(earlier)",
        "False",
        test=f"{CONFORMANCE}::TestMemory"
        "::test_a_cursor_over_items_never_covers_less[5-{'next': 4, 'done': [[6, 8]]}]",
    ),
    _one(
        "the cursor of a stream is not compared with its items",
        "engine.executor:Executor._check_kept",
        "stream_damage(",
        "(lambda *_: None)(",
        test=f"{DAMAGED_ITEMS}[memory-a count set forward]",
    ),
    _one(
        "the items of finished steps are not counted",
        "engine.executor:Executor._check_kept",
        "count_damage(",
        "(lambda *_: None)(",
        test=f"{DAMAGED_ITEMS}[memory-an item of an earlier step deleted]",
    ),
    _one(
        "a document may be at a step before which one has not ended",
        "engine.executor:Executor._check_kept",
        " or order_damage(self.claim, shape)",
        "",
        test=f"{DAMAGED_ITEMS}[memory-the step set ahead of a stream in the middle]",
    ),
    _one(
        "a large value is not compared with its hash",
        "stores.sql.row_codec:_data",
        "blob_hash(kept) != address",
        "False",
        "sqlite",
        test="tests/scenarios/test_damaged_values.py"
        "::test_a_damaged_value_is_named_and_the_suggested_rewind_repairs_it[sqlite-changed]",
    ),
    # limits of waiting, and kills from outside
    _one(
        "a document that is put off again is asked at once",
        "engine.failure_policy:_put_off",
        "max(after, SHORTEST)",
        "after",
        test="tests/engine/test_failure_policy.py::test_only_the_first_wait_may_be_very_short",
    ),
    _one(
        "a document may be put off for ever",
        "core.retry:Retry.puts_off",
        "deferred_for <= self.deferred_for",
        "True",
        test="tests/engine/test_failure_policy.py::test_a_document_is_put_off_for_a_week_at_most[1-age2-paused]",
    ),
    _one(
        "a deferral is not counted",
        "stores.memory.work:Work._release",
        'row.deferrals + (release.costs == "deferral")',
        "row.deferrals",
        test="ReleaseConformance.test_losses_deferrals_and_interruptions_are_counted_until_the_document_moves",
    ),
    _one(
        "in SQL: an interruption is not counted",
        "sql:release",
        "interruptions = d.interruptions + e.interrupted",
        "interruptions = d.interruptions",
        "sqlite",
        test="ReleaseConformance.test_losses_deferrals_and_interruptions_are_counted_until_the_document_moves",
    ),
    _one(
        "a body that is interrupted is only released",
        "engine.scheduler:Scheduler._interrupt",
        "if not begun or",
        "if True or not begun or",
        test="tests/engine/test_interruptions.py::test_at_the_limit_the_document_is_parked_for_a_person_who_can_let_it_go_on",
    ),
    _one(
        "deferrals that repeat fill the journal",
        "stores.memory.base:Base._write_journal",
        "repeated_line(lines, line)",
        "None",
        test="DeferralConformance.test_a_deferral_that_repeats_is_one_line_that_counts",
    ),
    _one(
        "a child that was killed from outside has crashed",
        "engine.processes.pool:ProcessPool._end_of",
        "-exit_code in OWN_SIGNALS",
        "True",
        test=f"{POOL}::test_a_child_that_was_killed_from_outside_is_lost_and_did_not_crash",
    ),
    _one(
        "bytes that a program writes into the pipe of its child count as a message",
        "engine.processes.messages:MessageChannel.receive",
        "if mark != MARK:",
        "if False:",
        test="tests/engine/processes/test_messages.py::test_bytes_without_the_mark_are_refused_at_once[almost]",
    ),
    # answers that are lost on the way from PostgreSQL
    Mutant(
        "in PostgreSQL: a lost commit counts as kept unless it was rolled back",
        (
            Change("stores.postgres.thread_connections:END_BACKEND", "wait_event is distinct from 'SyncRep'", "true"),
            Change(
                "stores.postgres.connection:Connections._was_committed",
                "self.settling(lambda db: db.execute(self.sql(SETTLE), receipt._asdict())",
                "self.reading(lambda db: db.execute('select number = %(number)s from hf_receipt where connection = '"
                " '%(connection)s', receipt._asdict())",
            ),
        ),
        "postgres",
        f"{RECEIPTS}::test_a_commit_that_waits_for_a_standby_is_not_acknowledged_when_its_connection_is_lost[a submit]",
    ),
    Mutant(
        "in PostgreSQL: moves whose answer is lost count as made if one server has them",
        (
            Change("stores.postgres.thread_connections:END_BACKEND", "wait_event is distinct from 'SyncRep'", "true"),
            Change("stores.postgres.commit:Commit._moved", "self._db.settling", "self._db.reading"),
            Change("postgresql:moved_documents", "for no key update", ""),
        ),
        "postgres",
        f"{RECEIPTS}::test_a_commit_that_waits_for_a_standby_is_not_acknowledged_when_its_connection_is_lost[moves]",
    ),
    Mutant(
        "in PostgreSQL: a commit counts although the server stopped waiting for its standby",
        (Change("stores.postgres.connection_watchdog:WatchedConnection._on_notice", "= True", "= False"),),
        "postgres",
        f"{RECEIPTS}::test_a_commit_that_the_server_stopped_waiting_for_is_not_acknowledged",
    ),
    # what an effect does to its session, or to its commit
    Mutant(
        "a temporary table that an effect leaves behind stays",
        (Change("stores.sqlite_guard:TransactionGuard.authorize", "or action in TEMPORARY", "or False"),),
        "sqlite",
        f"{CONFORMANCE}::TestSqlite::{LEFT_BEHIND}[a temporary table]",
    ),
    Mutant(
        "an effect may set pragmas for all others",
        (Change("stores.sqlite_guard:TransactionGuard.authorize", "if sets_pragma or", "if"),),
        "memory",
        f"{CONFORMANCE}::TestMemory::{LEFT_BEHIND}[a session that only reads]",
    ),
    Mutant(
        "in PostgreSQL: a session that an effect has changed is used again",
        (
            Change(
                "stores.postgres.connection:Connections.replace_changed_session",
                "not self._is_clean(link.db)",
                "False",
            ),
            Change("stores.postgres.connection:Connections._close_changed_session", "self._is_clean(link.db)", "True"),
        ),
        "postgres",
        f"{SESSIONS}::{LEFT_BEHIND}[a search path]",
    ),
    Mutant(
        "in PostgreSQL: effects run with what another effect of their group has set",
        (Change("stores.postgres.commit:Commit._run_effects", "for move in moves) > 1", "for move in moves) > 99"),),
        "postgres",
        f"{SESSIONS}::{LEFT_BEHIND}[a search path of this transaction]",
    ),
    Mutant(
        "in PostgreSQL: a session that a trigger has changed stops the worker",
        (
            Change(
                "stores.postgres.connection:Connections.replace_changed_session",
                "link.db.suspicious or reported(link.db) != link.db.reported",
                "False",
            ),
            Change("stores.postgres.connection:Connections.again", "if self._close_changed_session():", "if False:"),
        ),
        "postgres",
        f"{SESSIONS}::test_what_a_trigger_leaves_in_a_session_stops_no_worker[a search path-after insert]",
    ),
    _one(
        "a cursor that user code leaves open stays open",
        "stores.sqlite_session_state:CleanedConnection.clean",
        "opened.close()",
        "pass",
        test=f"{CONFORMANCE}::TestSqlite::{LEFT_OPEN}[a cursor-a block that reads]",
    ),
    _one(
        "a function that an effect creates stays",
        "stores.sqlite_session_state:CleanedConnection.clean",
        "self._removals.pop()()",
        "self._removals.pop()",
        test="SessionConformance.test_a_function_of_an_effect_is_gone_after_it",
    ),
    _one(
        "an effect may replace a function of SQLite",
        "stores.sqlite_session_state:CleanedConnection._refuse_built_in",
        "name.lower() in built_in",
        "False",
        test=f"{CONFORMANCE}::TestMemory::test_an_effect_cannot_change_the_connection_of_others[create_function]",
    ),
    Mutant(
        "in PostgreSQL: what an undo leaves in its session stays",
        (Change("stores.postgres.base:PostgresBase._write", "self._db.replace_changed_session()", "pass"),),
        "postgres",
        f"{CONFORMANCE}::TestPostgres::{LEFT_BY_CODE}[a temporary table-an undo]",
    ),
    Mutant(
        "in PostgreSQL: what a block of the user leaves in its session stays",
        (Change("stores.postgres.connection:Connections.of_user_code", "self.replace_changed_session()", "pass"),),
        "postgres",
        f"{CONFORMANCE}::TestPostgres::{LEFT_BY_CODE}[another database-a block that writes]",
    ),
    Mutant(
        "in PostgreSQL: a commit that a trigger of the user refuses stops the worker",
        (Change("stores.postgres.connection:_commit", "raise CommitRefused from error", "raise"),),
        "postgres",
        f"{SESSIONS}::test_a_commit_that_a_deferred_trigger_refuses_fails_the_document_of_its_effect[45000]",
    ),
    # errors that cannot be read, and texts that are too long
    Mutant(
        "an error whose text cannot be read stops its worker",
        (
            Change("engine.failure_policy:failure_of", "except BaseException:", "except Exception:"),
            Change(*TRUSTING),
        ),
    ),
    _one(
        "an error whose wait cannot be read stops its worker",
        "engine.over_items:OverItemsRun._on_error",
        "or retry_after(error) is not None",
        "or getattr(error, 'retry_after', None) is not None",
    ),
    _one(
        "the text of an error in an effect is read by the store",
        "stores.group_commit:EffectFailed.__init__",
        "super().__init__(place, type(error).__name__)",
        "Exception.__init__(self, str(error))",
    ),
    _one(
        "a wait that is no wait stops its worker",
        *TRUSTING,
        test="tests/scenarios/test_unreadable_errors.py::test_a_value_body_raises_it[memory]",
    ),
    _one(
        "a batch may have a name that PostgreSQL cannot look up",
        "stores.memory.intake:Intake._submit",
        "refuse_bad_batch(batch)",
        "pass",
        test=f"{TEXTS}.test_a_longer_batch_is_refused_with_its_length",
    ),
    _one(
        "a step may have a name that PostgreSQL cannot look up",
        "stores.memory.intake:Intake._declare",
        "refuse_long_names(shape)",
        "pass",
        test=f"{TEXTS}.test_a_longer_pipeline_or_step_is_refused_with_its_length",
    ),
    _one(
        "in SQL: a step may have a name that PostgreSQL cannot look up",
        "stores.sql.intake:Intake._declare",
        "refuse_long_names(shape)",
        "pass",
        "sqlite",
        test=f"{TEXTS}.test_a_longer_pipeline_or_step_is_refused_with_its_length",
    ),
    _one(
        "a long reason is kept whole",
        "stores.memory.base:Base._change",
        "> MAX_REASON",
        "> 10**9",
        test=f"{TEXTS}.test_a_long_reason_of_a_decision_is_cut",
    ),
    _one(
        "in SQL: a long reason is kept whole",
        "stores.sql.decisions:Decisions._decide",
        "reason=stored_reason(reason)",
        "reason=reason",
        "sqlite",
        test=f"{TEXTS}.test_a_long_reason_of_a_decision_is_cut",
    ),
    _one(
        "the journal keeps a long name whole",
        "stores.memory.base:Base._write_journal",
        "shorten(who, MAX_NAME)",
        "who",
        test=f"{TEXTS}.test_a_long_reason_of_a_decision_is_cut",
    ),
    _one(
        "two documents are tried at a paused step at once",
        "stores.memory.circuits:Circuits._is_probing",
        '(held.fence, held.state) == (fence, "running")',
        "False",
        test=f"{PROBES}.test_one_document_at_a_time_is_tried",
    ),
    _one(
        "in SQL: two documents are tried at a paused step at once",
        "sql:take_probe",
        "and d.state = 'running'",
        "and d.state = 'nothing'",
        "sqlite",
        test=f"{PROBES}.test_one_document_at_a_time_is_tried",
    ),
    _one(
        "in SQL: a document is tried before its time",
        "sql:take_probe",
        "probe_at <= :now or",
        "true or",
        "sqlite",
        test=f"{PROBES}.test_a_document_is_tried_when_its_time_has_come",
    ),
    _one(
        "in SQL: an urgent document that always fails is tried each time",
        "sql:probe_candidate",
        "order by error <> '', due_at, id",
        "order by priority desc, due_at, id",
        "sqlite",
        test=f"{PROBES}.test_documents_that_fail_are_tried_in_turn_whatever_their_priority",
    ),
    _one(
        "in SQL: a document that did not fail is not tried first",
        "sql:probe_candidate",
        "order by error <> '', due_at, id",
        "order by id",
        "sqlite",
        test=f"{PROBES}.test_a_document_that_did_not_fail_is_tried_first",
    ),
    _one(
        "in SQL: a circuit that is open opens again",
        "sql:open_circuit",
        "where hf_circuit.opened_at is null",
        "where true",
        "sqlite",
        test="CircuitConformance.test_a_circuit_opens_once",
    ),
    _one(
        "in SQL: a document that moved since gets attempts back",
        "sql:give_back_attempts",
        "(d.generation = back.generation and d.moves = back.moves)",
        "true",
        "sqlite",
        test="CircuitConformance.test_a_document_that_moved_since_gets_no_attempt_back",
    ),
    _one(
        "in SQL: a step that worked in the future works now",
        "sql:works_for_others",
        "and p.worked_at <= :now",
        "",
        "sqlite",
        test=f"{EVIDENCE}.test_a_step_that_worked_in_the_future_says_nothing",
    ),
    _one(
        "in SQL: it counts when it was written that a step worked",
        "sql:add_step_times",
        "coalesce(spent.worked_at, :now)",
        ":now",
        "sqlite",
        test=f"{EVIDENCE}.test_it_counts_when_the_body_began_not_when_that_was_written",
    ),
    _one(
        "in SQL: a deferral of a document itself is a failure of its service",
        "sql:works_for_others",
        "(j.verb, j.code) in (('fail', :service_failed), ('defer', :circuit_open))",
        "j.verb in ('fail', 'defer')",
        "sqlite",
        test=f"{EVIDENCE}.test_a_deferral_of_its_own_does_not_count",
    ),
    _one(
        "successes between failures are not counted",
        "engine.step_circuits:StepCircuits.after_result",
        "self._forget_failures(event.call.step)",
        "pass",
        test=f"{CIRCUITS}::test_failures_with_successes_in_between_open_no_circuit",
    ),
    _one(
        "a document that was held back goes on without its calls",
        "engine.scheduler:Scheduler._on_compute",
        "(self._circuits.paused or document.held_back)",
        "self._circuits.paused",
        test=f"{CIRCUITS}::test_a_document_that_was_stopped_in_the_middle_goes_on_after_a_short_outage",
    ),
    _one(
        "a body that began before the outage is evidence",
        "engine.step_timings:StepTimings.add_results",
        "document.body_began = began",
        "document.body_began = began + seconds",
        test=f"{CIRCUITS}::test_a_body_that_began_before_the_outage_is_no_evidence",
    ),
    _one(
        "an outage ends documents if the step works for others",
        "engine.failure_policy:_decide",
        'if why["outage"] and says_outage(error):',
        "if False:",
        test=f"{CIRCUITS}::test_an_error_that_is_an_outage_ends_no_document_even_if_the_step_works_for_others",
    ),
    _one(
        "the circuit of a step that was removed stays open",
        "engine.step_circuits:StepCircuits.start",
        "self._close(circuit.step, CIRCUIT_REMOVED, who=who)",
        "pass",
        test=f"{CIRCUITS}::test_a_circuit_of_a_step_that_was_removed_is_closed",
    ),
    _one(
        "a document dies of an outage alone",
        "engine.step_circuits:StepCircuits._is_last_hope",
        'release.state == "dead" and',
        "False and",
    ),
    _one(
        "any success is evidence that a service works",
        "stores.memory.circuits:Circuits.works_for_others",
        "min(failed_at) < worked_at <= now",
        "True",
    ),
    _one(
        "workers claim documents at paused steps",
        "engine.scheduler:Scheduler._set_paused",
        "(*self._circuits.paused,)",
        "()",
    ),
    _one(
        "nothing is tried at a paused step",
        "engine.step_circuits:StepCircuits.due_probes",
        "self._probe_times.get(step, 0.0) <= now",
        "False",
    ),
    _one(
        "beside a suspect another document is tried",
        "engine.scheduler:Scheduler._claim_probes",
        "if self._suspect is not None:",
        "if False:",
        test=f"{CIRCUITS}::test_a_suspect_that_is_tried_is_alone_also_if_another_step_is_paused",
    ),
    _one(
        "an own failure of a document is evidence against it in an outage",
        "stores.memory.circuits:Circuits.works_for_others",
        "(line.verb, line.code) in FAILED",
        'line.verb == "fail"',
        test=f"{EVIDENCE}.test_a_failure_of_its_own_does_not_count",
    ),
    _one(
        "attempts that were given back while a body ran do not count",
        "engine.step_circuits:StepCircuits._attempts_if_left",
        "one.attempts < limit",
        "False",
        test=f"{CIRCUITS}::test_attempts_that_were_given_back_count_also_for_a_body_that_runs",
    ),
)
