"""Mutants: deliberate mistakes, each made by changing a few words of our own source, for as long as it is looked for.

The words have to be there exactly once, so a mutant whose place was rewritten is noticed, not silently harmless.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple
from unittest.mock import patch

from holdfast.stores.queries import Query
from holdfast.stores.sqlite.base import SQL
from holdfast.testing.simulation.exploring import Seen, StoreKind, run_slice


class Change(NamedTuple):
    """Other words in one function, `package.module:Class.function`, or in one statement, `sql:name`."""

    where: str
    right: str
    wrong: str


class Mutant(NamedTuple):
    """A mistake, in words, and the changes that make it."""

    mistake: str
    changes: tuple[Change, ...]
    store: StoreKind = "memory"


MOST = 5000
"""How many schedules a mutant is looked for in."""
HINTS = {
    "whoever does not know a gate wakes what is parked there": 751,
    "in SQL: the fence is not checked": 399,
    "in SQL: a changed document reuses what the old one kept": 3036,
}
"""The seeds to begin with, where beginning with 0 takes long."""


def found_in(mutant: Mutant, seeds: range) -> Seen:
    """Makes the mistake, and runs schedules until one of them finds it."""
    with made(mutant):
        return run_slice(seeds, mutant.store)


@contextmanager
def made(mutant: Mutant) -> Iterator[None]:
    """Makes the mistake."""
    with ExitStack() as made_so_far:
        for change in mutant.changes:
            made_so_far.enter_context(_changed(change))
        yield


def _changed(change: Change) -> Any:
    kind, _, name = change.where.partition(":")
    if kind == "sql":
        return patch.dict(SQL, {name: Query(_replaced(SQL[name], change))})
    module = import_module(f"holdfast.{kind}")
    *owners, name = name.split(".")
    owner: Any = module
    for one in owners:
        owner = getattr(owner, one)
    found = inspect.getattr_static(owner, name)
    function: Any = found.fget if isinstance(found, property) else found
    source = _replaced(textwrap.dedent(inspect.getsource(function)), change)
    made_anew: dict[str, Any] = {}
    code = compile(f"from __future__ import annotations\n{source}", change.where, "exec")
    exec(code, function.__globals__, made_anew)
    return patch.object(owner, name, made_anew[function.__name__])


def _replaced(source: str, change: Change) -> str:
    found = source.count(change.right)
    assert found == 1, f"{change.where} has {change.right!r} {found} times: the mutant has to be written anew"
    return source.replace(change.right, change.wrong)


def _one(mistake: str, where: str, right: str, wrong: str, store: StoreKind = "memory") -> Mutant:
    return Mutant(mistake, (Change(where, right, wrong),), store)


HELD = "stores.memory.work:Work._held"
COMMIT = "stores.memory.work:Work._commit_together"

MUTANTS: tuple[Mutant, ...] = (
    # who may write
    _one("the fence is not checked", HELD, "(row.fence, row.generation", "(claim.fence, row.generation"),
    _one(
        "the generation is forgotten: a worker's rewind opens none",
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
        "cancelled documents are written on",
        (
            Change(HELD, 'row.state != "running"', 'row.state not in ("running", "cancelled")'),
            Change("stores.memory.decisions:Decisions.cancel", "fence=row.fence + 1, ", ""),
        ),
    ),
    _one(
        "somebody's rewind opens no new generation",
        "stores.memory.decisions:Decisions._set_back",
        '"generation": generation,',
        '"generation": row.generation,',
    ),
    _one(
        "a worker sets back what another holds",
        "stores.memory.work:Work.rewind",
        "row = self._held(claim, at)",
        "row = self._tables.documents[claim.document_id]\n"
        "        row = row if (row.state, row.generation) == ('running', at.generation) else None",
    ),
    # what commits together
    _one(
        "the cursor is committed before the items",
        COMMIT,
        "                    self._keep(plan, move, now)\n            run_effects(held, self._run_effect)",
        "        with self._writing():\n            for move in held:\n                self._keep(plan, move, now)\n"
        "            run_effects(held, self._run_effect)",
    ),
    _one(
        "effects run after the commit",
        COMMIT,
        "            run_effects(held, self._run_effect)",
        "        with self._writing():\n            run_effects(held, self._run_effect)",
    ),
    _one(
        "effects commit before the checkpoint",
        COMMIT,
        "        with self._writing():\n",
        "        with self._writing():\n"
        "            run_effects([one for one in moves if self._held(one.claim, one.before)], self._run_effect)\n"
        "        with self._writing():\n",
    ),
    _one(
        "a move whose effect failed is taken for made",
        "stores.memory.work:commit_in_groups",
        "answers[start] = Refused(failed.error)",
        "answers[start] = together([__import__('msgspec').structs.replace(moves[start], effect=None)])[0]",
    ),
    _one(
        "a submit is acknowledged before it is committed",
        "stores.memory.intake:Intake.submit",
        "    with self._writing() as tables:\n",
        "    if not hasattr(self, 'late'):\n        self.late = True\n        return Receipt(len(documents))\n"
        "    with self._writing() as tables:\n",
    ),
    _one(
        "a batch learns too late what it expects",
        "stores.memory.base:Base._take_in",
        "expected=into.expected + len(new)",
        "expected=into.expected",
    ),
    _one(
        "a submit that comes twice is expected twice",
        "stores.memory.intake:Intake.submit",
        "self._take_in(plan, into, new,",
        "into = __import__('msgspec').structs.replace(into, expected=into.expected + unchanged)\n"
        "        self._take_in(plan, into, new,",
    ),
    # claims, leases and crashes
    _one(
        "a worker that was given up is told that it lives",
        "stores.memory.work:Work.beat",
        "            return False\n",
        "            return True\n",
    ),
    _one(
        "a worker that was given up does not begin anew",
        "engine.worker:Worker._renew_if_given_up",
        "if not self._heartbeat.given_up:",
        "if True:",
    ),
    _one(
        "documents are reclaimed by age alone",
        "stores.memory.tables:WorkerRow.is_stale",
        "self.beat_at + self.worker.lease",
        "(self.worker.enlisted_at or now) + self.worker.lease",
    ),
    _one(
        "attempts count at failure only",
        "stores.memory.work:Work._claim",
        "attempts=row.attempts + 1",
        "attempts=row.attempts",
    ),
    _one(
        "a crash is not counted",
        "stores.reclaiming:_counted",
        "held.crashes + crashed",
        "held.crashes",
    ),
    _one(
        "suspects are claimed among others",
        "stores.memory.work:Work.claim",
        "if row.crashes < SUSPECT]",
        "]",
    ),
    _one(
        "a suspect in hand is joined by others",
        "engine.rounds:Rounds._is_alone",
        "self._caretaker.suspects or self._suspect is not None",
        "self._caretaker.suspects",
    ),
    _one(
        "a claim whose answer was lost is kept for ever",
        "stores.memory.work:Work.surrender",
        "return self._let_go(worker, keeping)",
        "return 0",
    ),
    _one(
        "putting off costs an attempt",
        "stores.memory.work:Work._give_back",
        'row.attempts if ending.costs == "attempt" else max(row.attempts - 1, 0)',
        "row.attempts",
    ),
    _one(
        "a claim whose answer was lost costs an attempt",
        "stores.memory.work:Work._let_go",
        "max(row.attempts - 1, 0)",
        "row.attempts",
    ),
    _one(
        "attempts are counted over steps that made progress",
        "stores.memory.work:_stays",
        'stays | {"attempts": 1} if move.is_progress else stays',
        "stays",
    ),
    _one("crashes are counted over progress", "stores.memory.work:Work._move", "crashes=0,", "crashes=row.crashes,"),
    _one("priorities are ignored", "stores.memory.base:Base._due", "-row.priority", "0"),
    _one(
        "those that left a step are counted as in it",
        "stores.memory.work:Work.admit",
        '!= ("running", fence, step_id)',
        "!= (row.state, fence, step_id)",
    ),
    _one(
        "waits are not waited for",
        "stores.memory.base:Base._due",
        "row.due_at is not None and row.due_at <= now",
        "row.due_at is not None",
    ),
    _one(
        "one more may be in a step than its limit says",
        "stores.memory.work:Work.admit",
        "len(inside) < limit",
        "len(inside) <= limit",
    ),
    _one(
        "what is overdue is never reclaimed",
        "stores.memory.upkeep:_is_overdue",
        "row.deadline_at is not None and row.deadline_at < now",
        "False",
    ),
    _one(
        "what has a deadline is reclaimed before it",
        "stores.memory.upkeep:_is_overdue",
        "row.deadline_at < now",
        "row.deadline_at < now + timedelta(days=1)",
    ),
    _one(
        "a failure is tried again at once",
        "stores.memory.work:Work._give_back",
        "row.due_after(ending.delay, now)",
        "row.due_after(timedelta(0), now)",
    ),
    _one(
        "after crashes nobody waits",
        "engine.caretaker:Caretaker._verdict",
        "retry.wait(tries) if tries else timedelta(0)",
        "timedelta(0)",
    ),
    _one(
        "three crashes more than allowed are survived",
        "engine.caretaker:Caretaker._verdict",
        "crashes >= retry.crashes",
        "crashes >= 3 + retry.crashes",
    ),
    _one(
        "what is in hand is surrendered, too",
        "stores.memory.work:Work.surrender",
        "return self._let_go(worker, keeping)",
        "return self._let_go(worker, ())",
    ),
    _one(
        "what is given back has no line in the journal",
        "stores.memory.work:Work._give_back",
        "self._write_journal(ended, ending.verb, who=ending.who, now=now, detail=ending.detail)",
        "pass",
    ),
    # bodies and cursors
    _one(
        "a stream goes on one item too late",
        "engine.bodies:_begin",
        "cursor=cursor)",
        "cursor=cursor + 1)",
    ),
    _one(
        "a stream goes on one item too early",
        "engine.bodies:_begin",
        "cursor=cursor)",
        "cursor=cursor - 1 or None)",
    ),
    _one(
        "the cursor passes windows that are not done",
        "core.windows:Windows.cursor",
        "self._done[0][1] if self._done and self._done[0][0] == 0 else 0",
        "max((stop for _, stop in self._done), default=0)",
    ),
    _one(
        "a result that came too late is heard",
        "engine.hand:InHand.forget",
        "return self.calls.pop(id(call), None) is None",
        "return not self.calls.pop(id(call), True)",
    ),
    _one(
        "a worker forgets what others kept of the step that it goes on with",
        "engine.bodies:StoreReader.learn",
        "None if begun.cursor is None else begun.step",
        "None",
    ),
    _one(
        "a changed document goes on where the old one was",
        "stores.memory.intake:Intake._begin_anew",
        "step_id=plan.first,",
        "step_id=row.step_id or plan.first,",
    ),
    _one(
        "the second half of a window that failed lacks an item",
        "engine.walk:Walk._take_apart",
        "RunWindow(call.step, (middle, stop))",
        "RunWindow(call.step, (middle + 1, stop))",
    ),
    _one(
        "what a stream gave before its error is kept without its effect",
        "engine.executor:Executor._stream",
        "if pulled.cursor != cursor:",
        "if (effect := None) or pulled.cursor != cursor:",
    ),
    _one(
        "items that were mended are still listed as set aside",
        "stores.memory.work:Work._keep",
        "for position in move.mended:",
        "for position in ():",
    ),
    _one(
        "nobody asks whether the work behind is there",
        "engine.executor:Executor._verify_what_is_behind",
        "if step.verify_body is None or",
        "if True or",
    ),
    _one("work that is gone is redone for ever", "engine.executor:Executor._redo", "if place is None:", "if True:"),
    _one(
        "a second rewind reuses what the first left behind",
        "stores.rewinds:Rewinding.reuses",
        "place.generation_of(step_id)",
        "place.generation",
    ),
    _one(
        "what earlier generations kept stays for ever",
        "stores.memory.base:Base._drop_earlier_generations",
        "if row.generation else ()",
        "if row.generation < 0 else ()",
    ),
    _one(
        "what is reused is dropped with the earlier generations",
        "stores.memory.base:Base._drop_earlier_generations",
        "if earlier and generation != row.generation_of(step_id):",
        "if earlier:",
    ),
    _one(
        "a changed document reuses what the old one kept",
        "stores.memory.intake:Intake._begin_anew",
        "serves=self._served(row),",
        "serves=self._served(row), reuses=row.reuses,",
    ),
    # other versions of the pipeline
    _one(
        "what an earlier version of a step made is not out of date",
        "core.stale:_changed",
        '("version", "kind",',
        '("kind",',
    ),
    _one(
        "what a step made under other settings is not out of date",
        "core.stale:_changed",
        "[*_changed_settings(was.settings, now.settings)]",
        "[]",
    ),
    _one(
        "a document that goes on under another plan counts as done under it",
        "core.pins:went_on",
        "begun.steps)]",
        "under.steps)]",
    ),
    _one(
        "a document counts as done under the plan that it was begun under",
        "stores.memory.work:Work._claim",
        "    self._repin(plan, claimed)\n",
        "",
    ),
    # people
    _one(
        "a pause costs the attempt",
        "stores.memory.decisions:Decisions.pause",
        'max(row.attempts - (row.state == "running"), 0)',
        "row.attempts",
    ),
    _one(
        "a redriven document is not forgiven",
        "stores.memory.decisions:Decisions.redrive",
        "**FORGIVEN)",
        '**FORGIVEN | {"attempts": row.attempts})',
    ),
    _one(
        "a cancel has no line in the journal",
        "stores.memory.decisions:Decisions.cancel",
        'self._decided(row, ended, "cancel", who=who, now=now, detail={"reason": reason})',
        "pass",
    ),
    _one(
        "a pause that a body asked for never ends",
        "stores.memory.work:Work._give_back",
        "due_at=ending.until.astimezone(UTC) if ending.until else due",
        "due_at=due",
    ),
    _one(
        "a pause never ends by itself",
        "stores.memory.upkeep:Upkeep.wake",
        "and row.due_at <= now]",
        "and row.due_at < row.submitted_at]",
    ),
    _one(
        "nobody decides when the time of a gate is over",
        "stores.memory.stories:Stories.undecided",
        "row.due_at <= now]",
        "row.due_at < row.submitted_at]",
    ),
    _one(
        "a gate is decided before its time",
        "stores.memory.stories:Stories.undecided",
        "and row.due_at <= now]",
        "]",
    ),
    _one("a pause ends before its time", "stores.memory.upkeep:Upkeep.wake", "and row.due_at <= now]", "]"),
    _one(
        "what is claimed has no deadline",
        "stores.memory.work:Work._claim",
        "deadline_at=deadlines.get(row.step_id or 0)",
        "deadline_at=None",
    ),
    _one(
        "what gets on has no deadline any more",
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
        "whoever does not know a gate wakes what is parked there",
        "stores.memory.upkeep:Upkeep.wake",
        "row.step_id in plan.body_ids",
        "row.step_id not in plan.gate_ids",
    ),
    _one(
        "time passes gates",
        "stores.memory.upkeep:Upkeep.wake",
        "due = [(row.due_at, row.id, row) for row in asleep if row.due_at is not None and row.due_at <= now]",
        "due = [(row.due_at or now, row.id, replace(row, due_at=now)) for row in paused]",
    ),
    _one(
        "a redriven document begins at its first step, as the same generation",
        "stores.memory.decisions:Decisions.redrive",
        'state="waiting", due_at',
        'state="waiting", step_id=self._plans(row.pipeline_id)[-1].step_ids[0], cursor=None, due_at',
    ),
    Mutant(
        "whoever stops leaves documents behind, as if it had crashed",
        (
            Change("stores.memory.work:Work.retire", "        self._let_go(worker, ())\n", ""),
            Change("engine.rounds:Rounds.release_everything", "        self._release(desk)\n", "        pass\n"),
            Change(
                "engine.rounds:Rounds.release_what_has_not_begun", "        self._release(desk)\n", "        pass\n"
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
                ("move_and_end", "   and fence = m.column3\n"),
                ("held", "   and d.fence = m.value ->> 2\n"),
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
                ("move_and_end", "   and moves = m.column4\n"),
                ("held", "   and d.moves = m.value ->> 3\n"),
            )
        ),
        "sqlite",
    ),
    _one(
        "in SQL: the cursor is committed before the items",
        "stores.sqlite.commit:Commit._write",
        "    for statement in changes.keeping:\n        db.execute(*statement)\n"
        "    self._run_effects(db, changes.moves)\n",
        "    self._run_effects(db, changes.moves)\n    db.execute('commit')\n    db.execute('begin immediate')\n"
        "    for statement in changes.keeping:\n        db.execute(*statement)\n",
        "sqlite",
    ),
    _one(
        "in SQL: effects commit after the checkpoint",
        "stores.sqlite.commit:Commit._write",
        "    self._run_effects(db, changes.moves)\n",
        "    db.execute('commit')\n    db.execute('begin immediate')\n    self._run_effects(db, changes.moves)\n",
        "sqlite",
    ),
    _one("in SQL: a claim does not raise the fence", "sql:claim", "fence = fence + 1", "fence = fence", "sqlite"),
    _one("in SQL: what is not due is claimed", "sql:find_due", "   and due_at <= :now\n", "", "sqlite"),
    _one("in SQL: a batch does not learn what it expects", "sql:expect", "expected + :count", "expected", "sqlite"),
    _one("in SQL: a beat revives who was given up", "sql:beat", "\n   and gone_at is null", "", "sqlite"),
    _one(
        "in SQL: the attempt is counted twice",
        "sql:claim",
        "attempts = attempts + 1",
        "attempts = attempts + 2",
        "sqlite",
    ),
    _one("in SQL: suspects are claimed among others", "sql:find_due", "   and crashes < 2\n", "", "sqlite"),
    _one(
        "in SQL: a document counts as done under the plan that it was begun under",
        "sql:repin",
        "where ",
        "where false and ",
        "sqlite",
    ),
    _one("in SQL: priorities are ignored", "sql:find_due", "priority desc, ", "", "sqlite"),
    _one("in SQL: a redriven document is not forgiven", "sql:redrive", "attempts = 0, crashes = 0,", "", "sqlite"),
    _one(
        "in SQL: a changed document reuses what the old one kept",
        "sql:change_documents",
        "reuses = null,",
        "",
        "sqlite",
    ),
    _one("in SQL: whoever lost a document gives it back", "sql:give_back", "   and fence = :fence\n", "", "sqlite"),
    _one(
        "in SQL: a worker sets back what another holds",
        "sql:rewind",
        "   and fence = :fence\n   and moves = :moves\n",
        "",
        "sqlite",
    ),
    _one(
        "in SQL: what is in hand is surrendered, too",
        "sql:let_go",
        "\n   and id not in (select value from json_each(:keeping))",
        "",
        "sqlite",
    ),
    _one("in SQL: what is overdue is never reclaimed", "sql:orphans", "d.deadline_at < :now", "false", "sqlite"),
)
