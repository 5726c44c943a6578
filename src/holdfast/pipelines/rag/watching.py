"""Keeping an eye on a source by looking again and again: this works on network disks as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from holdfast.core.errors import Signal
from holdfast.pipelines.rag.sources.listing import listing, log_missed
from holdfast.pipelines.rag.sources.source import Missed, Seen, Source, SourceRefused

Looks = dict[str, Seen]


class Stop(Protocol):
    """What ends watching: a threading.Event is one."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Waits, and answers whether to stop."""


class Glance(Struct, frozen=True):
    """A source at one moment: the files that are still, and what cannot be judged yet. Both are for `compare`."""

    seen: tuple[Seen, ...]
    missed: tuple[Missed, ...]


def watch(
    source: Source,
    every: timedelta,
    stop: Stop,
    *,
    look: Callable[..., Iterable[Seen]] = listing,
    report: Callable[[Missed], None] = log_missed,
) -> Iterator[Glance]:
    """Gives the source whenever it differs from what was given last, until told to stop.

    Nothing is believed until it was so for one round: a file whose size or time still changes is not given, nor is one
    called gone that is missing for the first time, as when an editor replaces it. What is given first, even if it is
    nothing, is what two looks agree on. A file that is written to without end is never given. `look` lists the source,
    as `listing` does; when it cannot, that is reported, and nothing is taken as gone.
    """
    before: Looks | None = None
    given: Looks | None = None
    troubles: tuple[Missed, ...] = ()
    while True:
        missed: list[Missed] = []
        try:
            now = {one.key: one for one in look(source, report=missed.append)}
        except (SourceRefused, Signal, OSError) as error:
            now = None
            missed = [Missed("", source.word, str(error))]
        troubles = _tell_new(troubles, missed, report)
        if now is not None and before is not None:
            glance, settled = _settled(before, now, given or {}, missed)
            if settled != given:
                given = settled
                yield glance
        before = before if now is None else now
        if stop.wait(every.total_seconds()):
            return


def _tell_new(told: tuple[Missed, ...], missed: list[Missed], report: Callable[[Missed], None]) -> tuple[Missed, ...]:
    """Reports what was not already so the last time: one line for a folder that is closed, not one a round."""
    for one in missed:
        if one not in told:
            report(one)
    return tuple(missed)


def _settled(before: Looks, now: Looks, given: Looks, missed: list[Missed]) -> tuple[Glance, Looks]:
    still = {key: one for key, one in now.items() if before.get(key) == one}
    either = {**before, **now}
    moving = [Missed(key, either[key].location, "it is just changing") for key in either if key not in still]
    settled = still | {one.key: given[one.key] for one in moving if one.key in given}
    return Glance(tuple(still.values()), (*missed, *moving)), settled
