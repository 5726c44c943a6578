"""Lockstep: run the same random verbs on several stores and compare every answer and the whole content.

    TestLockstep = lockstep(lambda clock: [MemoryStore(clock=clock), MyStore(url, clock=clock)])

The first store is the reference. The factory is called for every example and has to return empty databases.
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

from holdfast.core.batches import AT_DEADLINE
from holdfast.core.errors import HoldfastError
from holdfast.core.model import (
    Checkpoint,
    Claim,
    FailedItem,
    Failure,
    Item,
    NewDocument,
    Plan,
    State,
    WorkerRecord,
    WrittenRows,
)
from holdfast.core.moves import Accepted, Move, Release, Tx, rewound
from holdfast.core.orphans import STRATEGIES, Orphan
from holdfast.core.plan import Shape
from holdfast.core.reasons import LOST_TOO_OFTEN, WORK_GONE
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.stores.protocol import OrphanCounts, OrphanVerdict, Store
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import LEASE, SEGFAULT
from holdfast.testing.conformance.lockstep.snapshot import cleanup_counts, comparable, read_everything
from holdfast.testing.conformance.lockstep.strategies import (
    ASIDES,
    BATCHES,
    CIRCUIT_VERBS,
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


class ComparedClaim:
    """One claim, as each of the stores returned it."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = list(claims)

    @property
    def step(self) -> str:
        """The step of the document, as its worker knows it."""
        return self.claims[0].checkpoint.step or ""


class Lockstep(RuleBasedStateMachine):
    """Runs every verb on every store. Stale claims are kept and used again, on purpose."""

    open_stores: Callable[[ManualClock], Sequence[Store]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.stores = list(type(self).open_stores(self.clock))
        self.plans: list[list[Plan]] = [[] for _ in self.stores]
        self.workers: list[list[WorkerRecord]] = []
        self.held: list[ComparedClaim] = []
        self.scans: list[list[list[Orphan]]] = []
        self.submissions = 0

    def teardown(self) -> None:
        for store in self.stores:
            store.close()

    def compare(self, call: Callable[[int, Store], Any]) -> list[Any]:
        """Call every store with the same arguments. Compare the answers, and errors too."""
        answers, compared = [], []
        for number, store in enumerate(self.stores):
            try:
                answer = call(number, store)
            except HoldfastError as error:
                answer = error
            answers.append(answer)
            compared.append(comparable(answer))
        for other in compared[1:]:
            assert other == compared[0]
        return answers

    @initialize()
    def begin(self) -> None:
        """Begin with waiting documents and one worker."""
        self._declare(SHAPES[0])
        self._register_worker()
        self._submit("abcd", "march", "f1", 0)

    @rule(verb=st.sampled_from(VERBS), data=st.data())
    def next(self, verb: str, data: st.DataObject) -> None:
        """Run the next verb on every store."""
        getattr(self, f"_next_{verb}")(data.draw)

    def _next_declare(self, draw: Draw) -> None:
        self.clock.advance(timedelta(seconds=1))
        self._declare(draw(st.sampled_from(SHAPES)))

    def _next_check(self, draw: Draw) -> None:
        shape = draw(st.sampled_from(SHAPES))
        self.compare(lambda _, store: store.check(shape))

    def _declare(self, shape: Shape) -> None:
        plans = self.compare(lambda _, store: store.declare(shape))
        if isinstance(plans[0], Plan):
            for known, plan in zip(self.plans, plans, strict=True):
                known.append(plan)

    def _next_submit(self, draw: Draw) -> None:
        keys, mark = draw(st.lists(KEYS, min_size=1, max_size=3)), draw(MARKS)
        self._submit(keys, draw(BATCHES), mark, draw(st.integers(0, 1)))

    def _submit(self, keys: Sequence[str], batch: str, mark: str, priority: int) -> None:
        self.submissions += 1
        documents = [NewDocument(key, {"key": key}, mark, priority) for key in keys]
        self.compare(
            lambda n, store: store.submit(self.plans[n][-1], batch, documents, submission=self.submissions, part=0)
        )

    def _next_rename(self, draw: Draw) -> None:
        names, batch, mark = draw(st.dictionaries(KEYS, KEYS, max_size=3)), draw(BATCHES), draw(MARKS)
        documents = {old: NewDocument(new, {"key": new, "was": old}, mark) for old, new in names.items()}
        self.compare(lambda _, store: store.rename("papers", batch, documents, who="cat", reason="moved"))

    def _next_seal(self, draw: Draw) -> None:
        if draw(st.integers(0, 5)) == 5:
            expect = draw(st.sampled_from([None, 0, 1, 2]))
            self.compare(lambda _, store: store.seal("papers", "april", who="cat", expect=expect))

    def _next_set_deadline(self, draw: Draw) -> None:
        at = draw(st.none() | st.sampled_from([self.clock() + timedelta(seconds=seconds) for seconds in (5, 60)]))
        action = draw(st.sampled_from([*AT_DEADLINE]))
        self.compare(lambda _, store: store.set_deadline("papers", "april", at=at, action=action, who="cat"))

    def _next_expire_batch(self, draw: Draw) -> None:
        limit = draw(st.integers(1, 3))

        def expire(n: int, store: Store) -> Any:
            expired = store.expire_batch(self.plans[n][-1], who="bob", limit=limit)
            return expired and (expired.batch, expired.action, expired.documents, expired.is_over)

        self.compare(expire)

    def _next_close(self, draw: Draw) -> None:
        batch, tolerate = draw(BATCHES), draw(st.sampled_from([0.0, 0.5, 1.0]))
        if draw(st.integers(0, 3)) == 3:
            self.compare(lambda _, store: store.seal("papers", batch, who="cat"))
        self.compare(
            lambda n, store: store.close_batch(self.plans[n][-1], batch, who="cat", reason="why", tolerate=tolerate)
        )

    def _next_cleanup(self, draw: Draw) -> None:
        batch, older = draw(BATCHES), timedelta(seconds=draw(st.sampled_from([-1, 60, 3600])))
        how: dict[str, Any] = {"who": "cat", "limit": 1000}
        retention: dict[str, Any] = {"older": older, "with_errors": draw(st.booleans())}
        self.compare(lambda _, store: store.count_closed("papers", batch))
        self.compare(lambda _, store: store.count_finished("papers", batch, **retention))
        self.compare(lambda _, store: cleanup_counts(store.cleanup_finished("papers", batch, **how, **retention)))
        for _ in range(2):  # the first call deletes the manifest, the second the documents
            self.compare(lambda _, store: store.cleanup_closed("papers", batch, **how).documents >= 0)
        self.compare(lambda _, store: store.count_workers(older=older))
        self.compare(lambda _, store: store.cleanup_workers(older=older))

    def _next_register_worker(self, _draw: Draw) -> None:
        self._register_worker()

    def _register_worker(self) -> None:
        name = f"w{len(self.workers)}"
        self.workers.append(
            self.compare(lambda _, store: store.register_worker(name=name, host="h", pid=1, born="", lease=LEASE))
        )

    def _worker(self, draw: Draw) -> list[WorkerRecord]:
        """Draw a worker; mostly one that has not retired."""
        registered = [worker for worker, _, _ in self.stores[0].workers()]
        present = [worker for worker in self.workers if worker[0] in registered]
        if not present:
            self._register_worker()
            present = self.workers[-1:]
        worker: list[WorkerRecord] = draw(st.sampled_from(present * 3 + self.workers))
        return worker

    def _next_heartbeat(self, draw: Draw) -> None:
        worker = self._worker(draw)
        self.compare(lambda n, store: store.heartbeat(worker[n]))

    def _next_retire_worker(self, draw: Draw) -> None:
        worker = self._worker(draw)
        self.compare(lambda n, store: store.retire_worker(worker[n]))

    def _next_release_unknown(self, draw: Draw) -> None:
        worker, kept = self._worker(draw), self.held[-draw(st.integers(1, 3)) :]
        self.compare(
            lambda n, store: store.release_unknown(worker[n], keeping=[one.claims[n].document_id for one in kept])
        )

    def _next_claim(self, draw: Draw) -> None:
        worker, age = self._worker(draw), draw(st.sampled_from([1, 1, 1, len(self.plans[0])]))
        options = {"limit": draw(st.integers(1, 4)), "batch": draw(SOME_BATCH), "timeouts": self._timeouts(draw, age)}
        options["paused"] = draw(st.sampled_from([(), (), (), ("file",)]))
        claimed = self.compare(lambda n, store: store.claim(self.plans[n][-age], worker[n], **options))
        self.held += [ComparedClaim(claims) for claims in zip(*claimed, strict=True)]

    def _next_claim_suspect(self, draw: Draw) -> None:
        worker = self._worker(draw)
        claimed = self.compare(lambda n, store: store.claim(self.plans[n][-1], worker[n], limit=1, which="suspect"))
        self.held += [ComparedClaim(claims) for claims in zip(*claimed, strict=True)]

    def _timeouts(self, draw: Draw, age: int) -> dict[str, timedelta]:
        names = list(self.plans[0][-age].step_ids)
        return {name: draw(SECONDS) for name in draw(st.lists(st.sampled_from(names), max_size=1))}

    def _claims(self, draw: Draw, *, most: int) -> list[ComparedClaim]:
        """Draw claims of different documents, mostly recent ones, at a step that the plan has."""
        lately = self.held[-5:] * 3 + self.held
        known = [one for one in lately if one.step in self.plans[0][-1].step_ids]
        if not known:
            return []
        chosen: list[ComparedClaim] = draw(
            st.lists(st.sampled_from(known), min_size=1, max_size=most, unique_by=_document)
        )
        return chosen

    def _next_commit(self, draw: Draw) -> None:
        group = self._claims(draw, most=3)
        how = [(draw(WAYS), draw(VALUES), draw(ASIDES), draw(st.none() | SECONDS)) for _ in group]
        moves = [
            [self._move(n, one.claims[n], *way) for one, way in zip(group, how, strict=True)]
            for n in range(len(self.stores))
        ]
        answers = self.compare(lambda n, store: store.commit(self.plans[n][-1], moves[n]))
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
        asides = [FailedItem(at.moves % 2, at.moves + 1, Failure("E", "torn"))] if aside == "aside" else []
        mended = [at.moves % 2] if aside == "mend" else []
        effect = _failing_effect if way == "broken" else None
        effects: list[dict[str, int | None] | None] = [{at.step: at.generation}, None, {at.step: None}]
        extents = [{at.step: at.moves}, None, {**(claim.extents or {}), at.step: -1}]
        more: Any = {"effect": effect, "timeout": timeout, "effects": effects[at.moves % 3]}
        more |= {"extents": extents[at.moves % 3]}
        if way == "within":
            to = Checkpoint(at.generation, at.step, {"page": at.moves}, at.moves + 1)
            return Move(claim, at, to, "running", items, asides, mended, **more)
        later = names[names.index(at.step) + 1 :]
        to = Checkpoint(at.generation, later[0] if later else None, None, at.moves + 1)
        gate = to.step in GATES
        state: Any = "paused" if gate else "running" if later else "done"
        reason = f"gate {to.step}" if gate else ""
        return Move(claim, at, to, state, items, asides, mended, reason=reason, **more)

    def _next_release(self, draw: Draw) -> None:
        state, costs = draw(st.sampled_from(["waiting", "waiting", "dead", "paused"])), draw(COSTS)
        failure, delay = draw(st.none() | st.just(Failure("E", "torn"))), draw(SECONDS)
        until = self.clock() + delay if state == "paused" and failure else None
        group = self._claims(draw, most=2)
        self.compare(
            lambda n, store: store.release(
                [Release(one.claims[n], "ann", state, "fail", delay, until, costs, failure, "why") for one in group]
            )
        )

    def _next_rewind(self, draw: Draw) -> None:
        for one in self._claims(draw, most=1):
            names = list(self.plans[0][-1].step_ids)
            to = draw(st.sampled_from(names[: names.index(one.step) + 1] * 3 + names))
            if self._rewinds(one, to)[0] is True:
                one.claims = [rewound(claim, to=to, steps=names) for claim in one.claims]

    def _rewinds(self, one: ComparedClaim, to: str) -> list[Any]:
        return self.compare(
            lambda n, store: store.rewind(self.plans[n][-1], one.claims[n], to=to, who="ann", reason="why")
        )

    def _next_admit(self, draw: Draw) -> None:
        group, limit = self._claims(draw, most=3), draw(st.integers(0, 2))
        self.compare(
            lambda n, store: store.admit(self.plans[n][-1], "file", [one.claims[n] for one in group], limit=limit)
        )

    def _next_reclaim(self, draw: Draw) -> None:
        gone, delay = draw(st.lists(st.sampled_from(self.workers), max_size=1)), draw(SECONDS)
        state: State = draw(st.sampled_from(["waiting", "waiting", "dead"]))
        code = draw(st.sampled_from(["", LOST_TOO_OFTEN]))
        death = draw(st.sampled_from([UNKNOWN_DEATH, SEGFAULT, WorkerDeath("exit", "os._exit(1)", frozenset([1, 2]))]))

        def decide(counts: OrphanCounts) -> OrphanVerdict:
            is_bad = counts.crashes > 1 or counts.losses > 1
            return OrphanVerdict(state, delay, code) if is_bad else OrphanVerdict("waiting", delay)

        self.compare(
            lambda n, store: store.reclaim(
                self.plans[n][-1],
                who="bob",
                decide=decide,
                gone=[worker[n].id for worker in gone],
                deaths={worker[n].id: death for worker in gone},
            )
        )

    def _next_scan(self, draw: Draw) -> None:
        grace, strategy = draw(SECONDS), draw(st.sampled_from([*STRATEGIES]))
        gone = draw(st.lists(st.sampled_from(self.workers), max_size=1))
        self.scans.append(
            self.compare(lambda n, store: store.orphans("papers", grace=grace, gone=[worker[n].id for worker in gone]))
        )
        scan = draw(st.sampled_from(self.scans[-3:]))  # mostly of now; at times an old one, on purpose
        self.compare(lambda n, store: store.resolve_orphans(scan[n], strategy=strategy, who="cat", reason="why"))

    def _next_add_step_times(self, draw: Draw) -> None:
        spent = {step: (draw(st.integers(0, 9)), 0.5) for step in self.plans[0][-1].step_ids}
        self.compare(lambda n, store: store.add_step_times(self.plans[n][-1], spent))

    def _next_circuit(self, draw: Draw) -> None:
        """Open a circuit, close it, or try a document."""
        step, wait = draw(st.sampled_from([*self.plans[0][-1].step_ids])), draw(SECONDS)
        getattr(self, f"_{draw(st.sampled_from(CIRCUIT_VERBS))}")(draw, step, wait)

    def _open_circuit(self, draw: Draw, step: str, wait: timedelta) -> None:
        failure, back = Failure("E", "away", category="unreachable"), self._claims(draw, most=2)

        def open_(n: int, store: Store) -> bool:
            give_back = [(one.claims[n], 1) for one in back]
            return store.open_circuit(
                self.plans[n][-1], step, failure, failures=3, wait=wait, who="ann", give_back=give_back
            )

        self.compare(open_)

    def _claim_probe(self, draw: Draw, step: str, wait: timedelta) -> None:
        worker, longest = self._worker(draw), timedelta(minutes=1)

        def probe(n: int, store: Store) -> list[Claim]:
            claim = store.claim_probe(self.plans[n][-1], worker[n], step, wait=wait, longest=longest)
            return [] if claim is None else [claim]

        self.held += [ComparedClaim(claims) for claims in zip(*self.compare(probe), strict=True)]

    def _end_probe(self, draw: Draw, step: str, wait: timedelta) -> None:
        failure = draw(st.sampled_from([None, Failure("F", "denied", category="authentication")]))
        ending = {"wait": wait, "failure": failure}
        for one in self._claims(draw, most=1):
            claims = one.claims
            self.compare(lambda n, store: store.end_probe(self.plans[n][-1], step, claims[n], **ending))  # noqa: B023

    def _close_circuit(self, _draw: Draw, step: str, _wait: timedelta) -> None:
        self.compare(lambda _, store: store.close_circuit("papers", step, who="ann", reason="why"))

    def _hasten_probes(self, _draw: Draw, _step: str, _wait: timedelta) -> None:
        self.compare(lambda n, store: store.hasten_probes(self.plans[n][-1]))

    def _works_for_others(self, draw: Draw, step: str, _wait: timedelta) -> None:
        for one in self._claims(draw, most=1):
            ids = [claim.document_id for claim in one.claims]
            self.compare(lambda n, store: store.works_for_others(self.plans[n][-1], step, ids[n]))  # noqa: B023

    def _next_begin_scan(self, draw: Draw) -> None:
        every = draw(SECONDS)
        self.compare(lambda n, store: store.begin_scan(self.plans[n][-1], every=every))

    def _next_wake(self, _draw: Draw) -> None:
        self.compare(lambda n, store: store.wake(self.plans[n][-1], who="bob"))

    def _next_clock(self, draw: Draw) -> None:
        """Set the clock forward or back, and put times right that are in the future."""
        self.clock.advance(timedelta(hours=draw(st.sampled_from([0, 1, 2, -1, -2]))))
        timeouts, limit = self._timeouts(draw, 1), draw(st.integers(1, 3))
        options: dict[str, Any] = {"who": "bob", "timeouts": timeouts, "limit": limit}
        self.compare(lambda n, store: store.reset_future_times(self.plans[n][-1], **options))

    def _next_set_gate_deadline(self, draw: Draw) -> None:
        gate, within = draw(st.sampled_from(sorted(self.plans[0][-1].gates))), draw(SECONDS)
        self.compare(lambda n, store: store.set_gate_deadline(self.plans[n][-1], gate, within=within))

    def _next_decide(self, draw: Draw) -> None:
        status = draw(st.sampled_from(self.stores[0].documents("papers")))
        verb = draw(st.sampled_from([DECISIONS.get(status.state, "reject")] * 8 + [*VERBS_OF_PEOPLE]))
        options = self._decision_options(draw, verb)

        def decide(n: int, store: Store) -> Any:
            document_id = store.document("papers", status.batch, status.key).id
            ids = {document_id: 0, 10**9: 1}  # a known document and an unknown one
            if verb == "withdraw":
                return self._withdraw(n, store, ids)
            if verb in ("resume", "rewind_to"):
                decided = getattr(store, verb)(self.plans[n][-1], [*ids], who="cat", reason="why", **options)
            else:
                decided = getattr(store, verb)([*ids], who="cat", reason="why", **options)
            return [ids[document_id] for document_id in decided]

        self.compare(decide)

    def _withdraw(self, n: int, store: Store, ids: dict[int, int]) -> Any:
        """Withdraw documents. Return which were withdrawn, and what the undo got."""
        seen: list[Any] = []

        def undo(_tx: Tx, written: Sequence[WrittenRows]) -> None:
            seen[:] = [(one.document, one.effects, one.reuses) for one in written]

        decided = store.withdraw(self.plans[n][-1], [*ids], undo=undo, who="cat", reason="why")
        return [ids[document_id] for document_id in decided], seen

    def _decision_options(self, draw: Draw, verb: str) -> dict[str, Any]:
        """Draw the arguments of a decision besides who and why."""
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
            then = draw(st.sampled_from(["wait", "wait", "park", "keep_hold"]))
            return {"to": to, "then": then, "code": draw(st.sampled_from(["", WORK_GONE]))}
        if verb in ("cancel", "reject"):
            return {"code": draw(st.sampled_from(["", "file_deleted"]))}
        return {}

    def _next_time_passes(self, draw: Draw) -> None:
        self.clock.advance(timedelta(seconds=draw(st.sampled_from([1, 10, 31, 45, 3600, -20]))))

    @invariant()
    def all_stores_have_the_same_content(self) -> None:
        if self.workers:
            self.compare(
                lambda n, store: read_everything(store, self.plans[n][-1], [one.claims[n] for one in self.held])
            )


def _document(held: ComparedClaim) -> int:
    return held.claims[0].document_id


def _failing_effect(_tx: Tx) -> None:
    raise RuntimeError("the effect fails on purpose")


def lockstep(
    open_stores: Callable[[ManualClock], Sequence[Store]], *, examples: int = 25, steps: int = 40
) -> type[TestCase]:
    """Return a test case that runs the same random verbs on several stores and compares them.

    Args:
        open_stores: Is called with the clock of each example. It returns the stores, the reference first. Their
            databases must be empty.
        examples: How many examples hypothesis runs.
        steps: How many verbs an example has at most.

    Returns:
        A test class for unittest or pytest.

    Example:
        TestMyStore = lockstep(lambda clock: [MemoryStore(clock=clock), MyStore(new_url(), clock=clock)])
    """
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
