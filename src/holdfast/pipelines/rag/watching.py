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


class Watcher:
    """Looks at a source, one round after another, and gives it when it differs from what was given last.

    Nothing is believed until it was so for one round: a file whose size or time still changes is not given, nor is one
    called gone that is missing for the first time, as when an editor replaces it. What is given first, even if it is
    nothing, is what two looks agree on. A file that is written to without end is never given. `look` lists the source,
    as `listing` does; when it cannot, that is reported, and nothing is taken as gone; once it can, it is given again.
    """

    def __init__(
        self,
        source: Source,
        *,
        look: Callable[..., Iterable[Seen]] = listing,
        report: Callable[[Missed], None] = log_missed,
    ) -> None:
        self.source = source
        self._list = look
        self._report = report
        self._before: Looks | None = None
        self._given: Looks | None = None
        self._was_away = False
        self._troubles: tuple[Missed, ...] = ()

    def look(self) -> Glance | None:
        """Looks once, and gives the source if it came to rest otherwise than it was given last."""
        missed: list[Missed] = []
        try:
            now = {one.key: one for one in self._list(self.source, report=missed.append)}
        except (SourceRefused, Signal, OSError) as error:
            self._troubles = _tell_new(self._troubles, [Missed("", self.source.word, str(error))], self._report)
            self._was_away = True
            return None
        self._troubles = _tell_new(self._troubles, missed, self._report)
        before, self._before = self._before, now
        if before is None:
            return None
        glance, settled = _settled(before, now, self._given or {}, missed)
        is_back = self._was_away and len(glance.seen) == len(settled)  # what was to be read meanwhile was not there
        if settled == self._given and not is_back:
            return None
        self._given, self._was_away = settled, False
        return glance

    def doubt(self, keys: Iterable[str]) -> None:
        """Has files given once more, though they look the same: what was given of them could not be used."""
        for key in keys:
            if self._given is not None:
                self._given.pop(key, None)


def watch(
    source: Source,
    every: timedelta,
    stop: Stop,
    *,
    look: Callable[..., Iterable[Seen]] = listing,
    report: Callable[[Missed], None] = log_missed,
) -> Iterator[Glance]:
    """Gives the source whenever it differs from what was given last, as a `Watcher` does, until told to stop."""
    watcher = Watcher(source, look=look, report=report)
    while True:
        if glance := watcher.look():
            yield glance
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
