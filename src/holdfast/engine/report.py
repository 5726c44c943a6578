"""The report: what a worker did, counted from its events."""

from __future__ import annotations

from collections import Counter
from time import monotonic

from msgspec import Struct

from holdfast.engine.events import Claimed, Committed, Event, GaveBack, LostClaim, Reclaimed, Stopping


class Report(Struct, frozen=True):
    """What a worker did, from its start to its end."""

    done: int = 0
    dead: int = 0
    paused: int = 0
    tried_again: int = 0
    released: int = 0
    lost: int = 0
    reclaimed: int = 0
    claimed: int = 0
    moves: int = 0
    commits: int = 0
    items: int = 0
    seconds: float = 0.0
    stopped_by: str = ""

    def __add__(self, later: Report) -> Report:
        """Adds what was done later."""
        counted = [name for name in self.__struct_fields__ if name != "stopped_by"]
        both = {name: getattr(self, name) + getattr(later, name) for name in counted}
        return Report(**both, stopped_by=later.stopped_by)

    def __str__(self) -> str:
        said = [f"{self.done} done"]
        said += [f"{count} {word}" for word, count in self._more() if count]
        text = ", ".join(said) + f" in {self.seconds:.1f} s"
        return f"{text}; stopped: {self.stopped_by}" if self.stopped_by else text

    def _more(self) -> list[tuple[str, int]]:
        return [
            ("dead", self.dead),
            ("paused", self.paused),
            ("to be tried again", self.tried_again),
            ("given back", self.released),
            ("lost to others", self.lost),
        ]


class Tally:
    """Counts events into a report."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._counts = dict.fromkeys(Report.__struct_fields__[:11], 0)
        self._stopped_by = ""

    def __call__(self, event: Event) -> None:
        counts = self._counts
        match event:
            case Committed(moves):
                counts["commits"] += 1
                counts["moves"] += len(moves)
                counts["items"] += sum([len(move.items) for move in moves])
                for state, many in Counter([move.state for move in moves]).items():
                    if state != "running":
                        counts[state] += many
            case Claimed(claims):
                counts["claimed"] += len(claims)
            case GaveBack(endings):
                for ending in endings:
                    counts[_word(ending.verb, ending.state)] += 1
            case LostClaim():
                counts["lost"] += 1
            case Reclaimed(standings):
                counts["reclaimed"] += len(standings)
                counts["dead"] += sum(here.state == "dead" for here in standings)
                counts["paused"] += sum(here.state == "paused" for here in standings)
            case Stopping(reason):
                self._stopped_by = reason
            case _:
                pass

    def report(self) -> Report:
        """Gives the report so far."""
        return Report(**self._counts, seconds=monotonic() - self._began, stopped_by=self._stopped_by)


def _word(verb: str, state: str) -> str:
    if verb == "release":
        return "released"
    return state if state in ("dead", "paused") else "tried_again"
