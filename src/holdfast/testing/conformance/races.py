"""Races: the same verbs at the same time, in threads on two stores of one database, for many rounds."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from msgspec.structs import replace

from holdfast.core.model import Claim, Item, NewDocument
from holdfast.core.moves import ACCEPTED, LOST, Tx
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness, waits

T = TypeVar("T")
ROUNDS = 15


@contextmanager
def at_once_in_threads(count: int) -> Iterator[Callable[[Callable[[int], T]], list[T]]]:
    """Yield a function that calls another in `count` threads, which all start at the same moment."""
    barrier = threading.Barrier(count)

    def started(call: Callable[[int], T], number: int) -> T:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        yield lambda call: [future.result() for future in [pool.submit(started, call, n) for n in range(count)]]


class RaceConformance(Conformance):
    """Tests of claim, commit, reclaim, decisions and submit in several threads at once."""

    def test_two_workers_never_claim_the_same_document(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]
        workers = [harness.register_worker(f"w{number}") for number in range(4)]
        with at_once_in_threads(4) as at_once:
            for turn in range(ROUNDS):
                harness.submit(*(f"doc-{turn}-{number}" for number in range(10)))
                claimed = at_once(lambda n: stores[n].claim(harness.plan, workers[n], limit=4))
                keys = Counter(claim.key for claims in claimed for claim in claims)
                assert set(keys.values()) == {1}
                assert len(keys) == 10

    def test_workers_that_pin_documents_at_the_same_time_agree_on_the_plan(
        self, harness: StoreHarness, other: Store
    ) -> None:
        stores = [harness.store, other, harness.store, other]
        workers = [harness.register_worker(f"w{number}") for number in range(4)]
        harness.submit(*(f"doc-{number}" for number in range(8)))
        for claim in harness.claim():
            harness.advance(claim)
        harness.store.retire_worker(harness.worker)
        with at_once_in_threads(4) as at_once:
            for version in (2, 3, 4):
                harness.clock.advance(SECOND)
                steps = [replace(step, version=version) for step in harness.shape.steps]
                plan = harness.store.declare(replace(harness.shape, steps=tuple(steps)))
                at_once(lambda n: stores[n].claim(plan, workers[n], limit=2))  # noqa: B023
                pins = {one.plan_id for one in harness.store.documents("papers") if one.state == "running"}
                assert len(pins) == 1
                assert pins != {plan.plan_id}
                for worker in workers:
                    harness.store.release_unknown(worker, keeping=[])
        assert len([one for one in harness.store.plans("papers") if one.declared_at is None]) == 3

    def test_the_same_move_committed_twice_at_once_is_accepted_once(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other]
        harness.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in harness.claim():
                move = harness.forward(claim, items=[Item("extract", 0, "1")])
                answers = at_once(lambda n: stores[n].commit(harness.plan, [move])[0])  # noqa: B023
                assert sorted(type(answer).__name__ for answer in answers) == ["Accepted", "Lost"]
                assert harness.items(claim) == [("extract", 0, "1")]

    def test_of_a_commit_and_a_reclaim_at_once_one_wins(self, harness: StoreHarness, other: Store) -> None:
        def commit(claim: Claim) -> str:
            return "moved" if harness.commit(harness.forward(claim)) == [ACCEPTED] else "lost"

        def reclaim(worker_id: int) -> str:
            return "reclaimed" if other.reclaim(harness.plan, who="bob", decide=waits, gone=[worker_id]) else "nothing"

        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                worker = harness.register_worker(f"w{turn}")
                harness.submit(f"doc-{turn}", priority=turn)
                claim = harness.claim_one(worker=worker)
                outcome = at_once(lambda n: commit(claim) if n == 0 else reclaim(worker.id))  # noqa: B023
                status = harness.document(f"doc-{turn}")
                # A row that is being written may be passed over: reclaiming is repeated, and finds it then.
                assert outcome[1] == "reclaimed" or reclaim(worker.id) == "reclaimed"
                assert status.checkpoint.moves == (1 if outcome[0] == "moved" else 0)
                assert harness.commit(harness.forward(claim)) == [LOST]

    def test_of_a_cancel_and_a_commit_at_once_the_cancel_holds(self, harness: StoreHarness, other: Store) -> None:
        def either(number: int, claim: Claim) -> None:
            if number == 0:
                other.cancel([claim.document_id], who="cat", reason="no")
            else:
                harness.commit(harness.forward(claim))

        harness.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in harness.claim():
                at_once(lambda n: either(n, claim))  # noqa: B023
                assert harness.document(claim.key).state == "cancelled"

    def test_an_orphan_is_reclaimed_by_one_worker(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]
        with at_once_in_threads(4) as at_once:
            for turn in range(ROUNDS):
                worker = harness.register_worker(f"w{turn}")
                harness.submit(f"doc-{turn}", priority=turn)
                claim = harness.claim_one(worker=worker)
                found = at_once(
                    lambda n: len(stores[n].reclaim(harness.plan, who=f"r{n}", decide=waits, gone=[worker.id]))  # noqa: B023
                )
                assert sorted(found) == [0, 0, 0, 1]
                assert harness.document(claim.key).losses == 1

    def test_two_scans_at_once_resolve_each_orphan_once(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other]

        def scan(number: int) -> list[str]:
            found = stores[number].orphans("papers", grace=LEASE)
            taken = stores[number].resolve_orphans(found, strategy="review", who=f"s{number}", reason="why")
            return [status.key for status in taken]

        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                harness.submit(*(f"doc-{turn}-{number}" for number in range(5)))
                harness.claim(worker=harness.register_worker(f"w{turn}"))
                harness.clock.advance(LEASE * 2)
                taken = at_once(scan)
                keys = [f"doc-{turn}-{number}" for number in range(5)]
                assert sorted(taken[0] + taken[1]) == keys
                for status in map(harness.document, keys):
                    assert status.state == "paused"
                    assert [entry.verb for entry in harness.store.journal(status.id)] == ["reclaim"]

    def test_of_a_commit_and_a_scan_at_once_one_wins(self, harness: StoreHarness, other: Store) -> None:
        harness.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        claims = harness.claim()
        harness.clock.advance(LEASE)  # its worker lives; nothing has moved
        orphans = {orphan.document.key: orphan for orphan in other.orphans("papers", grace=LEASE / 2)}

        def either(number: int, claim: Claim) -> bool:
            if number == 0:
                return harness.commit(harness.forward(claim)) == [ACCEPTED]
            return bool(other.resolve_orphans([orphans[claim.key]], strategy="fail", who="cat", reason="why"))

        with at_once_in_threads(2) as at_once:
            for claim in claims:
                moved, resolved = at_once(lambda n: either(n, claim))  # noqa: B023
                assert moved != resolved
                status = harness.document(claim.key)
                assert (status.state, status.checkpoint.moves) == (("running", 1) if moved else ("dead", 0))

    def test_a_gate_is_passed_once(self, gated: StoreHarness, other: Store) -> None:
        stores = [gated.store, other]
        gated.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in gated.claim():
                gated.park(claim, at="review")
                passed = at_once(
                    lambda n: stores[n].resume(gated.plan, [claim.document_id], who="cat", reason="ok")  # noqa: B023
                )
                assert sorted(passed) == [[], [claim.document_id]]
                assert gated.document(claim.key).checkpoint.step == "file"

    def test_of_two_reviewers_at_once_one_decides(self, gated: StoreHarness, other: Store) -> None:
        def review(number: int, seen: dict[int, int]) -> list[int]:
            if number == 0:
                return gated.store.resume(gated.plan, [*seen], who="cat", reason="fine", at=seen)
            return other.reject([*seen], who="dan", reason="off topic", at=seen)

        gated.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in gated.claim():
                gated.park(claim, at="review")
                seen = {claim.document_id: gated.document(claim.key).checkpoint.moves}
                decided = at_once(lambda n: review(n, seen))  # noqa: B023
                assert sorted(decided) == [[], [claim.document_id]]
                (verb,) = gated.verbs(claim)
                assert gated.document(claim.key).state == ("waiting" if verb == "resume" else "dead")

    def test_a_rewind_of_many_beside_their_commits_takes_each_document_back_once(
        self, harness: StoreHarness, other: Store
    ) -> None:
        def either(number: int, claims: list[Claim]) -> int:
            ids = [claim.document_id for claim in reversed(claims)]
            if number == 0:
                return len(other.rewind_to(harness.plan, ids, to="extract", who="cat", reason="why"))
            moves = [harness.forward(claim, items=[Item("extract", 0, "1")]) for claim in claims]
            return harness.store.commit(harness.plan, moves).count(ACCEPTED)

        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                harness.submit(*(f"doc-{turn}-{number}" for number in range(20)), priority=turn)
                claims = harness.claim(limit=20)
                rewound, _ = at_once(lambda n: either(n, claims))  # noqa: B023
                assert rewound == 20
                for claim in claims:
                    status = harness.document(claim.key)
                    assert (status.state, status.checkpoint.generation, status.checkpoint.step) == (
                        "waiting",
                        1,
                        "extract",
                    )
                    assert harness.verbs(claim) == ["rewind"]
                assert harness.commit(*[harness.forward(claim) for claim in claims]) == [LOST] * 20

    def test_the_same_redrive_through_two_stores_is_made_once(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                harness.submit(*(f"doc-{turn}-{number}" for number in range(5)), priority=turn)
                for claim in harness.claim(limit=5):
                    harness.make_dead(claim)
                ids = harness.store.select("papers", key=f"doc-{turn}-*")
                done = at_once(lambda n: stores[n].redrive(ids, who=f"w{n}", reason="why"))  # noqa: B023
                assert sorted(done) == [[], ids]

    def test_a_limit_holds_over_many_workers(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]
        with at_once_in_threads(4) as at_once:
            for turn in range(ROUNDS):
                harness.submit(*(f"doc-{turn}-{number}" for number in range(4)))
                claims = harness.claim()
                admitted = at_once(lambda n: stores[n].admit(harness.plan, "extract", [claims[n]], limit=2)[0])  # noqa: B023
                assert sum(admitted) == 2
                for claim in claims:
                    harness.finish(claim)

    def test_the_same_submit_through_two_stores_submits_documents_once(
        self, harness: StoreHarness, other: Store
    ) -> None:
        stores = [harness.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                batch = f"batch-{turn}"
                documents = _documents(turn)
                receipts = at_once(
                    lambda n: stores[n].submit(harness.plan, batch, documents, submission=1000 + n, part=0)  # noqa: B023
                )
                assert sorted(receipt.new for receipt in receipts) == [0, 20]
                assert harness.balance(batch).expected == 20

    def test_counters_of_many_threads_add_up(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]
        harness.sql("create table counter (n integer)", "insert into counter values (0)")
        harness.submit(*(f"doc-{number}" for number in range(40)))
        claims = harness.claim()

        def count(tx: Tx) -> None:
            tx.execute("update counter set n = n + 1")

        def work(number: int) -> list[object]:
            mine = claims[number * 10 : number * 10 + 10]
            return [stores[number].commit(harness.plan, [harness.forward(claim, effect=count)])[0] for claim in mine]

        with at_once_in_threads(4) as at_once:
            answers = at_once(work)
        assert answers == [[ACCEPTED] * 10] * 4
        assert harness.sql("select n from counter") == [(40,)]

    def test_the_balance_holds_at_every_moment(self, harness: StoreHarness, other: Store) -> None:
        harness.submit(*(f"doc-{number}" for number in range(30)))
        finished = threading.Event()

        def work() -> None:
            while claims := harness.claim(limit=3):
                for claim in claims:
                    harness.finish(claim)
            finished.set()

        def watch() -> bool:
            balanced = True
            while not finished.is_set():
                balance = other.balance("papers", "march")
                balanced = balanced and balance.balances and balance.expected == 30
            return balanced

        def either(number: int) -> bool:
            if number == 0:
                return watch()
            try:
                work()
            finally:
                finished.set()
            return True

        with at_once_in_threads(2) as at_once:
            assert at_once(either) == [True, True]
        assert harness.balance().done == 30


def _documents(turn: int) -> list[NewDocument]:
    return [NewDocument(f"doc-{turn}-{number}") for number in range(20)]
