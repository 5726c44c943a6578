"""How a document leaves its worker: given back, let go of, or taken away, for a reason that is there and is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from holdfast.testing.simulation.books import Books, Seen
from holdfast.testing.simulation.doubts import Doubts
from holdfast.testing.simulation.machine import Machine, Process
from holdfast.testing.simulation.shapes import ATTEMPTS, CRASHES
from holdfast.testing.simulation.stores import LEASE, Call, ending_of
from holdfast.testing.simulation.waits import waits_wrongly


class Leaving:
    """Remembers how often each document failed and was lost since it last got on."""

    def __init__(
        self,
        machine: Machine,
        books: Books,
        *,
        doubts: Doubts,
        holder_of: Callable[[Seen], Process | None],
        is_incurable: Callable[[Seen], bool],
    ) -> None:
        self._machine = machine
        self._books = books
        self._doubts = doubts
        self._holder_of = holder_of
        self._is_incurable = is_incurable
        self._failures: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()

    def got_on(self, seen: Seen) -> None:
        """Learns that a document moved, or was forgiven: what was tried before counts no more."""
        self._failures[seen.id] = self._losses[seen.id] = 0

    def look(self, call: Call, was: Seen, now: Seen) -> Iterator[str]:
        """Says what is wrong with the way a document left its worker, if anything is."""
        if call.verb == "give_back":
            yield from self._given_back(call, was, now)
        elif call.verb == "reclaim":
            yield from self._taken_away(call, was, now)
        elif call.verb == "surrender" and was.id in call.options["keeping"]:
            yield f"{call.process} has {was.key} in hand, and it was let go of"
        if now.state == "waiting" and not self._doubts.clocks:
            yield waits_wrongly(call, was, now, self._doubts)
        if now.state == "dead":
            yield from self._died(call, was, now)

    def _given_back(self, call: Call, was: Seen, now: Seen) -> Iterator[str]:
        ending = ending_of(call, was.id, was.fence)
        if ending is None:
            yield f"{call.process} gave {was.key} back, which {self._holder_of(was)} holds"
        elif self._books.journal(was.id)[-1:] != [ending.verb]:
            yield f"{was.key} was given back as {now.state}, and its journal does not tell of a {ending.verb}"
        if now.attempts == was.attempts and now.state in ("waiting", "dead"):
            self._failures[was.id] += 1
        if self._failures[was.id] > ATTEMPTS:
            yield f"{was.key} failed {self._failures[was.id]} times at {was.step}, where {ATTEMPTS} are allowed"

    def _taken_away(self, call: Call, was: Seen, now: Seen) -> Iterator[str]:
        """A worker that lives, and is heard, is not robbed, nor is one that stopped as it was asked to to blame."""
        holder, beat = self._holder_of(was), self._books.beat_at(was.worker_id or 0)
        if now.crashes > was.crashes:
            self._losses[was.id] += 1
            if holder is not None and holder.has_stopped and not self._doubts.hands:
                yield f"{holder} stopped as it was asked to, and it counts as a crash of {was.key}"
        tried_enough = now.attempts >= ATTEMPTS or now.crashes >= CRASHES
        if now.state != "dead" and tried_enough and was.step in call.arguments[0].step_ids:
            yield f"{was.key} is {now.state} after {now.attempts} attempts and {now.crashes} crashes at {was.step}"
        overdue = was.deadline_at is not None and was.deadline_at < call.at
        if holder is not None and self._machine.is_running(holder) and call.at <= beat + LEASE and not overdue:
            yield f"{was.key} was taken from {holder}, which was heard {call.at - beat} ago"

    def _died(self, call: Call, was: Seen, now: Seen) -> Iterator[str]:
        tried, lost = self._failures[was.id], self._losses[was.id]
        if tried < ATTEMPTS and lost < CRASHES and now.attempts < ATTEMPTS and not self._is_incurable(now):
            yield f"{call.verb} made {was.key} a dead letter after {tried} failures and {lost} crashes at {was.step}"
