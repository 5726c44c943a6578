"""Stores in lockstep: the same random verbs on each, and after every one the same answers and the same books.

    TestLockstep = lockstep(lambda clock: [MemoryStore(clock=clock), MyStore(url, clock=clock)])

The first store is the reference. The factory is called for every example, and has to give fresh databases.
Needs hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from unittest import TestCase

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Aside, Checkpoint, Claim, Failure, Item, NewDocument, Plan, Standing, Worker
from holdfast.core.moves import Ending, Move, Refused, rewound
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import LEASE

SHAPES = (
    Shape("papers", (StepShape("read", "stream"), StepShape("look", "gate"), StepShape("file", "value"))),
    Shape(
        "papers",
        (StepShape("scan", "stream"), StepShape("look", "gate"), StepShape("file", "value"), StepShape("end", "gate")),
        {"read": "scan"},
    ),
    Shape("papers", (StepShape("file", "value"), StepShape("end", "gate")), {"read": "file", "scan": "file"}),
)
KEYS = st.sampled_from("abcde")
BATCHES = st.sampled_from(["march", "april"])
SECONDS = st.integers(0, 45).map(lambda seconds: timedelta(seconds=seconds))
SOME_BATCH = st.none() | BATCHES


class Held:
    """One claim, as each store gave it."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = list(claims)

    def now_at(self, moves: Sequence[Move]) -> None:
        """The claim after a move that was accepted."""
        self.claims = [replace(claim, checkpoint=move.after) for claim, move in zip(self.claims, moves, strict=True)]


class Lockstep(RuleBasedStateMachine):
    """Runs every verb on every store. Stale claims are kept and used again, on purpose."""

    open_stores: Callable[[ManualClock], Sequence[Store]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.stores = list(type(self).open_stores(self.clock))
        self.plans: list[list[Plan]] = []
        self.workers: list[list[Worker]] = []
        self.held: list[Held] = []
        self.submissions = 0

    def teardown(self) -> None:
        for store in self.stores:
            store.close()

    def both(self, ask: Callable[[int, Store], Any]) -> list[Any]:
        """Asks every store the same and compares what they say, errors too."""
        answers, said = [], []
        for number, store in enumerate(self.stores):
            try:
                answer = ask(number, store)
            except HoldfastError as error:
                answer = error
            answers.append(answer)
            said.append(_plain(answer))
        for other in said[1:]:
            assert other == said[0]
        return answers

    @initialize()
    def open(self) -> None:
        self.plans = [[plan] for plan in self.both(lambda _, store: store.declare(SHAPES[0]))]
        self.enlist()

    @rule(shape=st.sampled_from(SHAPES))
    def declare(self, shape: Shape) -> None:
        self.clock.advance(timedelta(seconds=1))
        plans = self.both(lambda _, store: store.declare(shape))
        if isinstance(plans[0], Plan):
            for known, plan in zip(self.plans, plans, strict=True):
                known.append(plan)

    @rule(
        keys=st.lists(KEYS, max_size=4), batch=BATCHES, mark=st.sampled_from(["f1", "f2"]), priority=st.integers(0, 1)
    )
    def submit(self, keys: list[str], batch: str, mark: str, priority: int) -> None:
        self.submissions += 1
        documents = [NewDocument(key, {"key": key}, mark, priority) for key in keys]
        self.both(
            lambda n, store: store.submit(self.plans[n][-1], batch, documents, submission=self.submissions, part=0)
        )

    @rule(batch=st.just("april"), chance=st.integers(0, 9))
    def seal(self, batch: str, chance: int) -> None:
        if chance == 0:
            self.both(lambda _, store: store.seal("papers", batch))

    @rule()
    def enlist(self) -> None:
        name = f"w{len(self.workers)}"
        self.workers.append(self.both(lambda _, store: store.enlist(name=name, host="h", pid=1, born="", lease=LEASE)))

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.both(lambda n, store: store.beat(worker[n]))

    @rule(data=st.data(), retires=st.booleans())
    def leave(self, data: st.DataObject, retires: bool) -> None:  # noqa: FBT001
        worker = data.draw(st.sampled_from(self.workers))
        if retires:
            self.both(lambda n, store: store.retire(worker[n]))
        else:
            keeping = data.draw(st.sets(st.integers(0, max(len(self.held) - 1, 0))))
            kept = [held for place, held in enumerate(self.held) if place in keeping]
            self.both(
                lambda n, store: store.surrender(worker[n], keeping=[held.claims[n].document_id for held in kept])
            )

    @rule(data=st.data(), limit=st.integers(1, 4), batch=SOME_BATCH, timeout=st.none() | SECONDS, suspect=st.booleans())
    def claim(
        self,
        data: st.DataObject,
        limit: int,
        batch: str | None,
        timeout: timedelta | None,
        suspect: bool,  # noqa: FBT001
    ) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        age = data.draw(st.integers(1, len(self.plans[0])))
        timeouts = {} if timeout is None else {"file": timeout}

        def ask(n: int, store: Store) -> list[Claim]:
            plan = self.plans[n][-age]
            if suspect:
                return store.claim_suspect(plan, worker[n], batch=batch, timeouts=timeouts)
            return store.claim(plan, worker[n], limit=limit, batch=batch, timeouts=timeouts)

        self.held += [Held(claims) for claims in zip(*self.both(ask), strict=True)]

    def _plan_of(self, n: int, step: str | None) -> Plan | None:
        return next((plan for plan in reversed(self.plans[n]) if step in plan.step_ids), None)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["within", "forward", "forward", "forward"]),
        breaks=st.sampled_from([False, False, False, True]),
        aside=st.booleans(),
        timeout=st.none() | SECONDS,
        value=st.sampled_from(['"v"', b"bytes", '"' + "x" * 70_000 + '"']),
    )
    def commit(  # noqa: PLR0917
        self,
        data: st.DataObject,
        kind: str,
        breaks: bool,  # noqa: FBT001
        aside: bool,  # noqa: FBT001
        timeout: timedelta | None,
        value: str | bytes,
    ) -> None:
        group = data.draw(st.lists(st.sampled_from(self.held), min_size=1, max_size=3, unique_by=_document))
        group = [held for held in group if self._plan_of(0, held.claims[0].checkpoint.step)]
        plan_of = [
            self._plan_of(n, group[0].claims[n].checkpoint.step) if group else None for n in range(len(self.stores))
        ]
        group = [held for held in group if plan_of[0] and held.claims[0].checkpoint.step in plan_of[0].step_ids]
        if not group:
            return

        def effect(_tx: Any) -> None:
            if breaks:
                raise RuntimeError("broken")

        def move(n: int, held: Held) -> Move:
            plan, claim = plan_of[n], held.claims[n]
            assert plan is not None
            at, names = claim.checkpoint, list(plan.step_ids)
            assert at.step is not None
            items = [Item(at.step, at.moves, value)]
            asides = [Aside(at.moves % 2, at.moves + 1, Failure("E", "torn"))] if aside else []
            mended = [] if aside else [at.moves % 2]
            if kind == "within":
                after = Checkpoint(at.generation, at.step, at.moves + 1, at.moves + 1)
                return Move(claim, at, after, "running", items, asides, mended, effect, timeout)
            later = names[names.index(at.step) + 1 :]
            after = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
            gate = after.step in ("look", "end")
            state: Any = "paused" if gate else "running" if later else "done"
            return Move(claim, at, after, state, items, asides, mended, effect, timeout, "gate" if gate else "")

        moves = [[move(n, held) for held in group] for n in range(len(self.stores))]
        answers = self.both(lambda n, store: store.commit(_sure(plan_of[n]), moves[n]))
        for place, held in enumerate(group):
            if type(answers[0][place]).__name__ == "Accepted" and moves[0][place].state == "running":
                held.now_at([moves[n][place] for n in range(len(self.stores))])

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        state=st.sampled_from(["waiting", "waiting", "dead", "paused"]),
        delay=SECONDS,
        costs=st.sampled_from(["attempt", "crash", "nothing"]),
        failed=st.booleans(),
    )
    def give_back(self, data: st.DataObject, state: Any, delay: timedelta, costs: Any, failed: bool) -> None:  # noqa: FBT001
        held = data.draw(st.sampled_from(self.held))
        until = self.clock() + delay if state == "paused" and failed else None
        failure = Failure("E", "torn") if failed else None
        self.both(
            lambda n, store: store.give_back(
                [Ending(held.claims[n], "ann", state, "fail", delay, until, costs, failure, "because")]
            )
        )

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        at = held.claims[0].checkpoint.step
        plan = self._plan_of(0, at)
        if plan is None or at is None:
            return
        names = list(plan.step_ids)
        to = data.draw(st.sampled_from(names[: names.index(at) + 1]))
        done = self.both(
            lambda n, store: store.rewind(_sure(self._plan_of(n, at)), held.claims[n], to=to, who="ann", reason="why")
        )
        if done[0] is True:
            before = names[: names.index(to)]
            held.claims = [rewound(claim, to=to, before=before) for claim in held.claims]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), limit=st.integers(0, 2))
    def admit(self, data: st.DataObject, limit: int) -> None:
        held = data.draw(st.lists(st.sampled_from(self.held), max_size=3, unique_by=_document))
        self.both(lambda n, store: store.admit(self.plans[n][-1], "file", [one.claims[n] for one in held], limit=limit))

    @rule(data=st.data(), dead=st.booleans(), delay=SECONDS)
    def reclaim(self, data: st.DataObject, dead: bool, delay: timedelta) -> None:  # noqa: FBT001
        gone = data.draw(st.lists(st.sampled_from(self.workers), max_size=1))
        verdict: Any = lambda _step, _attempts, crashes: ("dead" if dead and crashes else "waiting", delay)  # noqa: E731
        self.both(
            lambda n, store: store.reclaim(
                self.plans[n][-1], who="bob", verdict=verdict, gone=[worker[n].id for worker in gone]
            )
        )

    @rule()
    def wake(self) -> None:
        self.both(lambda n, store: store.wake(self.plans[n][-1]))

    @rule(key=KEYS, batch=BATCHES, verb=st.sampled_from(["resume", "reject", "cancel", "redrive"]))
    def decide(self, key: str, batch: str, verb: str) -> None:
        def ask(n: int, store: Store) -> Any:
            here = store.standing("papers", batch, key)
            if verb != "resume":
                return getattr(store, verb)(here.id, who="cat", reason="why")
            plan = self._plan_of(n, here.checkpoint.step)
            return store.resume(plan, here.id, who="cat", reason="why") if plan else None

        self.both(ask)

    @rule(span=st.integers(-60, 120))
    def time_passes(self, span: int) -> None:
        self.clock.advance(timedelta(seconds=span))

    @invariant()
    def the_books_are_the_same(self) -> None:
        if self.plans:
            self.both(self._books)

    def _books(self, n: int, store: Store) -> Any:
        plan = self.plans[n][-1]
        standings = store.standings("papers")
        assert all(batch.balance.balances for batch in store.batches("papers"))
        return (
            store.batches("papers"),
            store.balance("papers"),
            standings,
            {
                (one.batch, one.key): [
                    list(store.items(one.id)),
                    store.outputs(one.id),
                    store.asides(one.id),
                    store.journal(one.id),
                ]
                for one in standings
            },
            store.workers(),
            store.next_due(plan),
            store.running(plan),
            store.suspects_due(plan),
            store.shape("papers"),
            [store.find(key) for key in "ab"],
        )


def _document(held: Held) -> int:
    return held.claims[0].document_id


def _sure(plan: Plan | None) -> Plan:
    assert plan is not None
    return plan


def _plain(answer: Any) -> Any:
    """Takes away what may differ between stores: the numbers they give, and the classes of databases' errors."""
    if isinstance(answer, Standing | Worker):
        return replace(answer, id=0)
    if isinstance(answer, Claim):
        return replace(answer, document_id=0)
    if isinstance(answer, Plan):
        return answer.pipeline, list(answer.step_ids)
    if isinstance(answer, Refused):
        return "refused", str(answer.error) if isinstance(answer.error, RuntimeError) else "by the database"
    if isinstance(answer, HoldfastError):
        return type(answer), str(answer)
    if isinstance(answer, list | tuple):
        return [_plain(one) for one in answer]
    if isinstance(answer, dict):
        return {key: _plain(value) for key, value in answer.items()}
    return answer


def lockstep(
    open_stores: Callable[[ManualClock], Sequence[Store]], *, examples: int = 25, steps: int = 40
) -> type[TestCase]:
    """Gives a test case that runs these stores in lockstep."""
    machine: Any = type("LockstepOfStores", (Lockstep,), {"open_stores": staticmethod(open_stores)})
    case: type[TestCase] = machine.TestCase
    case.settings = settings(  # type: ignore[attr-defined]
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case
