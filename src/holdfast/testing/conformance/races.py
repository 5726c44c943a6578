"""Many at once: threads on two stores of one database, many rounds."""

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
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk, waits

T = TypeVar("T")
ROUNDS = 15


@contextmanager
def at_once_in_threads(count: int) -> Iterator[Callable[[Callable[[int], T]], list[T]]]:
    """Gives a function that calls another in so many threads, all starting at the same moment."""
    barrier = threading.Barrier(count)

    def started(call: Callable[[int], T], number: int) -> T:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        yield lambda call: [future.result() for future in [pool.submit(started, call, n) for n in range(count)]]


class RaceConformance(Conformance):
    """What holds when many do the same at once."""

    def test_two_workers_never_claim_the_same_document(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other, desk.store, other]
        workers = [desk.enlist(f"w{number}") for number in range(4)]
        with at_once_in_threads(4) as at_once:
            for turn in range(ROUNDS):
                desk.submit(*(f"doc-{turn}-{number}" for number in range(10)))
                claimed = at_once(lambda n: stores[n].claim(desk.plan, workers[n], limit=4))
                keys = Counter(claim.key for claims in claimed for claim in claims)
                assert set(keys.values()) == {1}
                assert len(keys) == 10

    def test_workers_that_pin_documents_at_once_agree_on_the_plan(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other, desk.store, other]
        workers = [desk.enlist(f"w{number}") for number in range(4)]
        desk.submit(*(f"doc-{number}" for number in range(8)))
        for claim in desk.claim():
            desk.advance(claim)
        desk.store.retire(desk.worker)
        with at_once_in_threads(4) as at_once:
            for version in (2, 3, 4):
                desk.clock.advance(SECOND)
                steps = [replace(step, version=version) for step in desk.shape.steps]
                plan = desk.store.declare(replace(desk.shape, steps=tuple(steps)))
                at_once(lambda n: stores[n].claim(plan, workers[n], limit=2))  # noqa: B023
                pins = {one.plan_id for one in desk.store.standings("papers") if one.state == "running"}
                assert len(pins) == 1
                assert pins != {plan.plan_id}
                for worker in workers:
                    desk.store.surrender(worker, keeping=[])
        assert len([one for one in desk.store.plans("papers") if one.declared_at is None]) == 3

    def test_of_two_that_commit_the_same_move_one_is_accepted(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other]
        desk.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in desk.claim():
                move = desk.forward(claim, items=[Item("extract", 0, "1")])
                answers = at_once(lambda n: stores[n].commit(desk.plan, [move])[0])  # noqa: B023
                assert sorted(type(answer).__name__ for answer in answers) == ["Accepted", "Lost"]
                assert desk.items(claim) == [("extract", 0, "1")]

    def test_of_commit_and_reclaim_one_wins(self, desk: Desk, other: Store) -> None:
        def commit(claim: Claim) -> str:
            return "moved" if desk.commit(desk.forward(claim)) == [ACCEPTED] else "lost"

        def reclaim(worker_id: int) -> str:
            return "reclaimed" if other.reclaim(desk.plan, who="bob", verdict=waits, gone=[worker_id]) else "nothing"

        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                worker = desk.enlist(f"w{turn}")
                desk.submit(f"doc-{turn}", priority=turn)
                claim = desk.claim_one(worker=worker)
                outcome = at_once(lambda n: commit(claim) if n == 0 else reclaim(worker.id))  # noqa: B023
                here = desk.standing(f"doc-{turn}")
                # A row that is being written may be passed over: reclaiming is repeated, and finds it then.
                assert outcome[1] == "reclaimed" or reclaim(worker.id) == "reclaimed"
                assert here.checkpoint.moves == (1 if outcome[0] == "moved" else 0)
                assert desk.commit(desk.forward(claim)) == [LOST]

    def test_of_cancel_and_commit_the_cancel_holds(self, desk: Desk, other: Store) -> None:
        def either(number: int, claim: Claim) -> None:
            if number == 0:
                other.cancel([claim.document_id], who="cat", reason="no")
            else:
                desk.commit(desk.forward(claim))

        desk.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in desk.claim():
                at_once(lambda n: either(n, claim))  # noqa: B023
                assert desk.standing(claim.key).state == "cancelled"

    def test_an_orphan_is_reclaimed_by_one(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other, desk.store, other]
        with at_once_in_threads(4) as at_once:
            for turn in range(ROUNDS):
                worker = desk.enlist(f"w{turn}")
                desk.submit(f"doc-{turn}", priority=turn)
                claim = desk.claim_one(worker=worker)
                found = at_once(
                    lambda n: len(stores[n].reclaim(desk.plan, who=f"r{n}", verdict=waits, gone=[worker.id]))  # noqa: B023
                )
                assert sorted(found) == [0, 0, 0, 1]
                assert desk.standing(claim.key).crashes == 1

    def test_of_two_scans_each_orphan_is_resolved_by_one(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other]

        def scan(number: int) -> list[str]:
            found = stores[number].orphans("papers", grace=LEASE)
            taken = stores[number].resolve_orphans(found, strategy="review", who=f"s{number}", reason="why")
            return [here.key for here in taken]

        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                desk.submit(*(f"doc-{turn}-{number}" for number in range(5)))
                desk.claim(worker=desk.enlist(f"w{turn}"))
                desk.clock.advance(LEASE * 2)
                taken = at_once(scan)
                keys = [f"doc-{turn}-{number}" for number in range(5)]
                assert sorted(taken[0] + taken[1]) == keys
                for here in map(desk.standing, keys):
                    assert here.state == "paused"
                    assert [entry.verb for entry in desk.store.journal(here.id)] == ["reclaim"]

    def test_of_commit_and_a_scan_one_wins(self, desk: Desk, other: Store) -> None:
        desk.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        claims = desk.claim()
        desk.clock.advance(LEASE)  # its worker lives; nothing has moved
        orphans = {orphan.standing.key: orphan for orphan in other.orphans("papers", grace=LEASE / 2)}

        def either(number: int, claim: Claim) -> bool:
            if number == 0:
                return desk.commit(desk.forward(claim)) == [ACCEPTED]
            return bool(other.resolve_orphans([orphans[claim.key]], strategy="fail", who="cat", reason="why"))

        with at_once_in_threads(2) as at_once:
            for claim in claims:
                moved, resolved = at_once(lambda n: either(n, claim))  # noqa: B023
                assert moved != resolved
                here = desk.standing(claim.key)
                assert (here.state, here.checkpoint.moves) == (("running", 1) if moved else ("dead", 0))

    def test_a_gate_is_passed_once(self, gated: Desk, other: Store) -> None:
        stores = [gated.store, other]
        gated.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in gated.claim():
                gated.park(claim, at="review")
                passed = at_once(
                    lambda n: stores[n].resume(gated.plan, [claim.document_id], who="cat", reason="ok")  # noqa: B023
                )
                assert sorted(passed) == [[], [claim.document_id]]
                assert gated.standing(claim.key).checkpoint.step == "file"

    def test_of_two_reviewers_one_decides(self, gated: Desk, other: Store) -> None:
        def review(number: int, seen: dict[int, int]) -> list[int]:
            if number == 0:
                return gated.store.resume(gated.plan, [*seen], who="cat", reason="fine", at=seen)
            return other.reject([*seen], who="dan", reason="off topic", at=seen)

        gated.submit(*(f"doc-{turn}" for turn in range(ROUNDS)))
        with at_once_in_threads(2) as at_once:
            for claim in gated.claim():
                gated.park(claim, at="review")
                seen = {claim.document_id: gated.standing(claim.key).checkpoint.moves}
                decided = at_once(lambda n: review(n, seen))  # noqa: B023
                assert sorted(decided) == [[], [claim.document_id]]
                (verb,) = gated.verbs(claim)
                assert gated.standing(claim.key).state == ("waiting" if verb == "resume" else "dead")

    def test_a_rewind_of_many_beside_their_commits_takes_each_document_back_once(
        self, desk: Desk, other: Store
    ) -> None:
        def either(number: int, claims: list[Claim]) -> int:
            ids = [claim.document_id for claim in reversed(claims)]
            if number == 0:
                return len(other.rewind_to(desk.plan, ids, to="extract", who="cat", reason="why"))
            moves = [desk.forward(claim, items=[Item("extract", 0, "1")]) for claim in claims]
            return desk.store.commit(desk.plan, moves).count(ACCEPTED)

        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                desk.submit(*(f"doc-{turn}-{number}" for number in range(20)), priority=turn)
                claims = desk.claim(limit=20)
                rewound, _ = at_once(lambda n: either(n, claims))  # noqa: B023
                assert rewound == 20
                for claim in claims:
                    here = desk.standing(claim.key)
                    assert (here.state, here.checkpoint.generation, here.checkpoint.step) == ("waiting", 1, "extract")
                    assert desk.verbs(claim) == ["rewind"]
                assert desk.commit(*[desk.forward(claim) for claim in claims]) == [LOST] * 20

    def test_the_same_redrive_from_two_places_is_made_once(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                desk.submit(*(f"doc-{turn}-{number}" for number in range(5)), priority=turn)
                for claim in desk.claim(limit=5):
                    desk.bury(claim)
                ids = desk.store.select("papers", key=f"doc-{turn}-*")
                done = at_once(lambda n: stores[n].redrive(ids, who=f"w{n}", reason="why"))  # noqa: B023
                assert sorted(done) == [[], ids]

    def test_a_limit_holds_over_many_workers(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other, desk.store, other]
        with at_once_in_threads(4) as at_once:
            for turn in range(ROUNDS):
                desk.submit(*(f"doc-{turn}-{number}" for number in range(4)))
                claims = desk.claim()
                admitted = at_once(lambda n: stores[n].admit(desk.plan, "extract", [claims[n]], limit=2)[0])  # noqa: B023
                assert sum(admitted) == 2
                for claim in claims:
                    desk.finish(claim)

    def test_the_same_submit_from_two_places_takes_documents_in_once(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(ROUNDS):
                batch = f"batch-{turn}"
                documents = _documents(turn)
                receipts = at_once(
                    lambda n: stores[n].submit(desk.plan, batch, documents, submission=1000 + n, part=0)  # noqa: B023
                )
                assert sorted(receipt.new for receipt in receipts) == [0, 20]
                assert desk.balance(batch).expected == 20

    def test_many_threads_count_together(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other, desk.store, other]
        desk.sql("create table counter (n integer)", "insert into counter values (0)")
        desk.submit(*(f"doc-{number}" for number in range(40)))
        claims = desk.claim()

        def count(tx: Tx) -> None:
            tx.execute("update counter set n = n + 1")

        def work(number: int) -> list[object]:
            mine = claims[number * 10 : number * 10 + 10]
            return [stores[number].commit(desk.plan, [desk.forward(claim, effect=count)])[0] for claim in mine]

        with at_once_in_threads(4) as at_once:
            answers = at_once(work)
        assert answers == [[ACCEPTED] * 10] * 4
        assert desk.sql("select n from counter") == [(40,)]

    def test_the_balance_holds_at_every_moment(self, desk: Desk, other: Store) -> None:
        desk.submit(*(f"doc-{number}" for number in range(30)))
        finished = threading.Event()

        def work() -> None:
            while claims := desk.claim(limit=3):
                for claim in claims:
                    desk.finish(claim)
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
        assert desk.balance().done == 30


def _documents(turn: int) -> list[NewDocument]:
    return [NewDocument(f"doc-{turn}-{number}") for number in range(20)]
