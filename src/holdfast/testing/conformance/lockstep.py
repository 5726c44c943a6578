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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from holdfast.core.errors import HoldfastError
from holdfast.core.model import (
    Aside,
    Checkpoint,
    Claim,
    Failure,
    Item,
    NewDocument,
    Plan,
    State,
    Worker,
)
from holdfast.core.moves import Accepted, Ending, Move, Tx, rewound
from holdfast.core.orphans import STRATEGIES, Orphan
from holdfast.core.plan import Shape
from holdfast.stores.protocol import Store
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import LEASE
from holdfast.testing.conformance.books import books, cleaned_alike, plain
from holdfast.testing.conformance.chances import (
    ASIDES,
    BATCHES,
    COSTS,
    DECISIONS,
    GATES,
    KEYS,
    MARKS,
    SECONDS,
    SHAPES,
    SOME_BATCH,
    VALUES,
    VERBS,
    VERBS_OF_PEOPLE,
    WAYS,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Held:
    """One claim, as each store gave it."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = list(claims)

    @property
    def step(self) -> str:
        """The step at which the document stands, as its worker knows."""
        return self.claims[0].checkpoint.step or ""


class Lockstep(RuleBasedStateMachine):
    """Runs every verb on every store. Stale claims are kept and used again, on purpose."""

    open_stores: Callable[[ManualClock], Sequence[Store]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.stores = list(type(self).open_stores(self.clock))
        self.plans: list[list[Plan]] = [[] for _ in self.stores]
        self.workers: list[list[Worker]] = []
        self.held: list[Held] = []
        self.scans: list[list[list[Orphan]]] = []
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
            said.append(plain(answer))
        for other in said[1:]:
            assert other == said[0]
        return answers

    @initialize()
    def begin(self) -> None:
        """Documents wait, and a worker is there."""
        self._declare(SHAPES[0])
        self._enlist()
        self._submit("abcd", "march", "f1", 0)

    @rule(verb=st.sampled_from(VERBS), data=st.data())
    def next(self, verb: str, data: st.DataObject) -> None:
        """Runs the next verb on every store."""
        getattr(self, f"_next_{verb}")(data.draw)

    def _next_declare(self, draw: Draw) -> None:
        self.clock.advance(timedelta(seconds=1))
        self._declare(draw(st.sampled_from(SHAPES)))

    def _next_check(self, draw: Draw) -> None:
        shape = draw(st.sampled_from(SHAPES))
        self.both(lambda _, store: store.check(shape))

    def _declare(self, shape: Shape) -> None:
        plans = self.both(lambda _, store: store.declare(shape))
        if isinstance(plans[0], Plan):
            for known, plan in zip(self.plans, plans, strict=True):
                known.append(plan)

    def _next_submit(self, draw: Draw) -> None:
        keys, mark = draw(st.lists(KEYS, min_size=1, max_size=3)), draw(MARKS)
        self._submit(keys, draw(BATCHES), mark, draw(st.integers(0, 1)))

    def _submit(self, keys: Sequence[str], batch: str, mark: str, priority: int) -> None:
        self.submissions += 1
        documents = [NewDocument(key, {"key": key}, mark, priority) for key in keys]
        self.both(
            lambda n, store: store.submit(self.plans[n][-1], batch, documents, submission=self.submissions, part=0)
        )

    def _next_rename(self, draw: Draw) -> None:
        names, batch, mark = draw(st.dictionaries(KEYS, KEYS, max_size=3)), draw(BATCHES), draw(MARKS)
        documents = {old: NewDocument(new, {"key": new, "was": old}, mark) for old, new in names.items()}
        self.both(lambda _, store: store.rename("papers", batch, documents, who="cat", reason="moved"))

    def _next_seal(self, draw: Draw) -> None:
        if draw(st.integers(0, 5)) == 5:
            self.both(lambda _, store: store.seal("papers", "april", who="cat"))

    def _next_close(self, draw: Draw) -> None:
        batch, tolerate = draw(BATCHES), draw(st.sampled_from([0.0, 0.5, 1.0]))
        if draw(st.integers(0, 3)) == 3:
            self.both(lambda _, store: store.seal("papers", batch, who="cat"))
        self.both(
            lambda n, store: store.close_batch(self.plans[n][-1], batch, who="cat", reason="why", tolerate=tolerate)
        )

    def _next_cleanup(self, draw: Draw) -> None:
        batch, older = draw(BATCHES), timedelta(seconds=draw(st.sampled_from([-1, 60, 3600])))
        how: dict[str, Any] = {"who": "cat", "limit": 1000}
        retention: dict[str, Any] = {"older": older, "with_errors": draw(st.booleans())}
        self.both(lambda _, store: store.count_closed("papers", batch))
        self.both(lambda _, store: store.count_finished("papers", batch, **retention))
        self.both(lambda _, store: cleaned_alike(store.cleanup_finished("papers", batch, **how, **retention)))
        for _ in range(2):  # the manifest goes first
            self.both(lambda _, store: store.cleanup_closed("papers", batch, **how).documents >= 0)
        self.both(lambda _, store: store.count_workers(older=older))
        self.both(lambda _, store: store.cleanup_workers(older=older))

    def _next_enlist(self, _draw: Draw) -> None:
        self._enlist()

    def _enlist(self) -> None:
        name = f"w{len(self.workers)}"
        self.workers.append(self.both(lambda _, store: store.enlist(name=name, host="h", pid=1, born="", lease=LEASE)))

    def _worker(self, draw: Draw) -> list[Worker]:
        """Mostly one that is still at work."""
        alive = [worker for worker, _, _ in self.stores[0].workers()]
        living = [worker for worker in self.workers if worker[0] in alive]
        if not living:
            self._enlist()
            living = self.workers[-1:]
        worker: list[Worker] = draw(st.sampled_from(living * 3 + self.workers))
        return worker

    def _next_beat(self, draw: Draw) -> None:
        worker = self._worker(draw)
        self.both(lambda n, store: store.beat(worker[n]))

    def _next_retire(self, draw: Draw) -> None:
        worker = self._worker(draw)
        self.both(lambda n, store: store.retire(worker[n]))

    def _next_surrender(self, draw: Draw) -> None:
        worker, kept = self._worker(draw), self.held[-draw(st.integers(1, 3)) :]
        self.both(lambda n, store: store.surrender(worker[n], keeping=[one.claims[n].document_id for one in kept]))

    def _next_claim(self, draw: Draw) -> None:
        worker, age = self._worker(draw), draw(st.sampled_from([1, 1, 1, len(self.plans[0])]))
        asked = {"limit": draw(st.integers(1, 4)), "batch": draw(SOME_BATCH), "timeouts": self._timeouts(draw, age)}
        claimed = self.both(lambda n, store: store.claim(self.plans[n][-age], worker[n], **asked))
        self.held += [Held(claims) for claims in zip(*claimed, strict=True)]

    def _next_claim_suspect(self, draw: Draw) -> None:
        worker = self._worker(draw)
        claimed = self.both(lambda n, store: store.claim_suspect(self.plans[n][-1], worker[n]))
        self.held += [Held(claims) for claims in zip(*claimed, strict=True)]

    def _timeouts(self, draw: Draw, age: int) -> dict[str, timedelta]:
        names = list(self.plans[0][-age].step_ids)
        return {name: draw(SECONDS) for name in draw(st.lists(st.sampled_from(names), max_size=1))}

    def _claims(self, draw: Draw, *, most: int) -> list[Held]:
        """Claims of different documents, mostly of those that were given last, at a step that the plan knows."""
        lately = self.held[-5:] * 3 + self.held
        known = [one for one in lately if one.step in self.plans[0][-1].step_ids]
        if not known:
            return []
        chosen: list[Held] = draw(st.lists(st.sampled_from(known), min_size=1, max_size=most, unique_by=_document))
        return chosen

    def _next_commit(self, draw: Draw) -> None:
        group = self._claims(draw, most=3)
        how = [(draw(WAYS), draw(VALUES), draw(ASIDES), draw(st.none() | SECONDS)) for _ in group]
        moves = [
            [self._move(n, one.claims[n], *way) for one, way in zip(group, how, strict=True)]
            for n in range(len(self.stores))
        ]
        answers = self.both(lambda n, store: store.commit(self.plans[n][-1], moves[n]))
        for place, one in enumerate(group):
            if isinstance(answers[0][place], Accepted) and moves[0][place].state == "running":
                one.claims = [replace(claim, checkpoint=moves[n][place].after) for n, claim in enumerate(one.claims)]

    def _move(  # noqa: PLR0917
        self,
        n: int,
        claim: Claim,
        way: str,
        value: str | bytes,
        aside: str,
        timeout: timedelta | None,
    ) -> Move:
        at, names = claim.checkpoint, list(self.plans[n][-1].step_ids)
        assert at.step is not None
        items = [Item(at.step, at.moves, value)]
        asides = [Aside(at.moves % 2, at.moves + 1, Failure("E", "torn"))] if aside == "aside" else []
        mended = [at.moves % 2] if aside == "mend" else []
        effect = _broken if way == "broken" else None
        if way == "within":
            to = Checkpoint(at.generation, at.step, {"page": at.moves}, at.moves + 1)
            return Move(claim, at, to, "running", items, asides, mended, effect, timeout)
        later = names[names.index(at.step) + 1 :]
        to = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
        gate = to.step in GATES
        state: Any = "paused" if gate else "running" if later else "done"
        return Move(claim, at, to, state, items, asides, mended, effect, timeout, f"gate {to.step}" if gate else "")

    def _next_give_back(self, draw: Draw) -> None:
        state, costs = draw(st.sampled_from(["waiting", "waiting", "dead", "paused"])), draw(COSTS)
        failure, delay = draw(st.none() | st.just(Failure("E", "torn"))), draw(SECONDS)
        until = self.clock() + delay if state == "paused" and failure else None
        group = self._claims(draw, most=2)
        self.both(
            lambda n, store: store.give_back(
                [Ending(one.claims[n], "ann", state, "fail", delay, until, costs, failure, "why") for one in group]
            )
        )

    def _next_rewind(self, draw: Draw) -> None:
        for one in self._claims(draw, most=1):
            names = list(self.plans[0][-1].step_ids)
            to = draw(st.sampled_from(names[: names.index(one.step) + 1] * 3 + names))
            if self._rewinds(one, to)[0] is True:
                before = names[: names.index(to)]
                one.claims = [rewound(claim, to=to, before=before) for claim in one.claims]

    def _rewinds(self, one: Held, to: str) -> list[Any]:
        return self.both(
            lambda n, store: store.rewind(self.plans[n][-1], one.claims[n], to=to, who="ann", reason="why")
        )

    def _next_admit(self, draw: Draw) -> None:
        group, limit = self._claims(draw, most=3), draw(st.integers(0, 2))
        self.both(
            lambda n, store: store.admit(self.plans[n][-1], "file", [one.claims[n] for one in group], limit=limit)
        )

    def _next_reclaim(self, draw: Draw) -> None:
        gone, delay = draw(st.lists(st.sampled_from(self.workers), max_size=1)), draw(SECONDS)
        state: State = draw(st.sampled_from(["waiting", "waiting", "dead"]))
        self.both(
            lambda n, store: store.reclaim(
                self.plans[n][-1],
                who="bob",
                verdict=lambda _step, _attempts, crashes: (state if crashes > 1 else "waiting", delay),
                gone=[worker[n].id for worker in gone],
            )
        )

    def _next_scan(self, draw: Draw) -> None:
        grace, strategy = draw(SECONDS), draw(st.sampled_from([*STRATEGIES]))
        gone = draw(st.lists(st.sampled_from(self.workers), max_size=1))
        self.scans.append(
            self.both(lambda n, store: store.orphans("papers", grace=grace, gone=[worker[n].id for worker in gone]))
        )
        scan = draw(st.sampled_from(self.scans[-3:]))  # mostly of now; at times an old one, on purpose
        self.both(lambda n, store: store.resolve_orphans(scan[n], strategy=strategy, who="cat", reason="why"))

    def _next_pace(self, draw: Draw) -> None:
        spent = {step: (draw(st.integers(0, 9)), 0.5) for step in self.plans[0][-1].step_ids}
        self.both(lambda n, store: store.pace(self.plans[n][-1], spent))

    def _next_wake(self, _draw: Draw) -> None:
        self.both(lambda n, store: store.wake(self.plans[n][-1], who="bob"))

    def _next_set_time(self, draw: Draw) -> None:
        gate, within = draw(st.sampled_from(sorted(self.plans[0][-1].gates))), draw(SECONDS)
        self.both(lambda n, store: store.set_time(self.plans[n][-1], gate, within=within))

    def _next_decide(self, draw: Draw) -> None:
        here = draw(st.sampled_from(self.stores[0].standings("papers")))
        verb = draw(st.sampled_from([DECISIONS.get(here.state, "reject")] * 8 + [*VERBS_OF_PEOPLE]))
        how = self._how_decided(draw, verb)

        def decides(n: int, store: Store) -> Any:
            document_id = store.standing("papers", here.batch, here.key).id
            ids = {document_id: 0, 10**9: 1}  # and one that never was
            if verb in ("resume", "rewind_to"):
                decided = getattr(store, verb)(self.plans[n][-1], [*ids], who="cat", reason="why", **how)
            else:
                decided = getattr(store, verb)([*ids], who="cat", reason="why", **how)
            return [ids[one] for one in decided]

        self.both(decides)

    def _how_decided(self, draw: Draw, verb: str) -> dict[str, Any]:
        """Draws what a decision says beside who and why."""
        span = draw(SECONDS)
        if verb == "resume":
            return {"answer": draw(st.sampled_from([None, {"page": 1.50}, "yes"]))}
        if verb == "pause":
            return {"until": draw(st.sampled_from([None, self.clock() + span]))}
        if verb == "redrive":
            return {"every": span, "after": draw(SECONDS)}
        if verb == "prioritise":
            return {"priority": draw(st.integers(0, 2))}
        if verb == "rewind_to":
            to = draw(st.sampled_from([*self.plans[0][-1].step_ids]))
            return {"to": to, "parked": draw(st.sampled_from(["", "", "looked at again"]))}
        return {}

    def _next_time_passes(self, draw: Draw) -> None:
        self.clock.advance(timedelta(seconds=draw(st.sampled_from([1, 10, 31, 45, 3600, -20]))))

    @invariant()
    def the_books_are_the_same(self) -> None:
        if self.workers:
            self.both(lambda n, store: books(store, self.plans[n][-1], [one.claims[n] for one in self.held]))


def _document(held: Held) -> int:
    return held.claims[0].document_id


def _broken(_tx: Tx) -> None:
    raise RuntimeError("broken")


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
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return case
