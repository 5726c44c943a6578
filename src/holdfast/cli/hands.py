"""The workers of a store, as `holdfast status` tells of them: who lives, what each holds, and what it has ended."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.cli.saying import say
from holdfast.cli.words import ago, count, moment, table
from holdfast.core.model import Worker
from holdfast.engine.hosts import is_gone
from holdfast.stores.protocol import Store

LATELY = timedelta(hours=1)
"""So long are workers that are gone still counted, in sum."""


class Hand(Struct, frozen=True):
    """A worker that did not leave: when it was heard last, what it holds, and what it ended, in all pipelines."""

    worker: Worker
    beat_at: datetime
    stale: bool
    holds: int
    done: int
    dead: int

    def row(self, now: datetime) -> list[str]:
        """Gives it as a row of a table."""
        since = f"since {moment(self.worker.enlisted_at)}" if self.worker.enlisted_at else ""
        holds = f"holds {count(self.holds, 'document')}"
        return [self.worker.name, f"pid {self.worker.pid}", since, holds, _ended(self.done, self.dead), self._life(now)]

    def _life(self, now: datetime) -> str:
        heard = f"heard {ago(min(self.beat_at, now), now)}"
        if is_gone(self.worker):
            return f"gone, last {heard}; the next worker takes its documents"
        return f"silent, last {heard}; its documents can be taken" if self.stale else f"alive, {heard}"

    def as_json(self) -> dict[str, Any]:
        """Gives it for programs."""
        return {
            "name": self.worker.name,
            "host": self.worker.host,
            "pid": self.worker.pid,
            "enlisted_at": self.worker.enlisted_at,
            "beat_at": self.beat_at,
            "alive": not (self.stale or is_gone(self.worker)),
            "holds": self.holds,
            "done": self.done,
            "dead": self.dead,
        }


class Workers:
    """All that did not leave, and in sum those that are gone since an hour ago and ended something."""

    def __init__(self, store: Store) -> None:
        held = Counter[int]()
        for pipeline in store.pipelines():
            held.update({holder.worker.id: documents for holder, documents in store.holders(pipeline)})
        ended = store.by_worker(since=store.now() - LATELY)
        counts = {one.worker.id: (one.done, one.dead) for one in ended}
        self.hands = [
            Hand(worker, beat_at, stale, held[worker.id], *counts.get(worker.id, (0, 0)))
            for worker, beat_at, stale in store.workers()
        ]
        self.gone = [one for one in ended if one.gone]

    def tell(self, now: datetime) -> None:
        """Tells it to a person."""
        say("workers:" if self.hands else "workers: none")
        for line in table([one.row(now) for one in self.hands], indent="  "):
            say(line)
        if self.gone:
            ended = _ended(sum(one.done for one in self.gone), sum(one.dead for one in self.gone))
            say(f"  gone in the last hour: {count(len(self.gone), 'worker')}, {ended}")

    def as_json(self) -> dict[str, Any]:
        """Gives it for programs."""
        return {
            "workers": [one.as_json() for one in self.hands],
            "gone_in_the_last_hour": {
                "workers": len(self.gone),
                "done": sum(one.done for one in self.gone),
                "dead": sum(one.dead for one in self.gone),
            },
        }


def _ended(done: int, dead: int) -> str:
    return f"{done:,} done, {dead:,} dead"
