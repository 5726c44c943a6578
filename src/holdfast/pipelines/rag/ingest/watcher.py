"""Watch a source by listing it again and again. This works on network disks as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from holdfast.core.errors import Signal
from holdfast.sources.listing import list_files, log_skipped
from holdfast.sources.source import SkippedPath, Source, SourceFile, SourceRefused

Listing = dict[str, SourceFile]


class StopSignal(Protocol):
    """Ends watching. A threading.Event is one."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait, and return True to stop."""


class SourceSnapshot(Struct, frozen=True):
    """A source at one time: the settled files, and the paths whose state is unknown. Both are for `compare_files`."""

    seen: tuple[SourceFile, ...]
    skipped: tuple[SkippedPath, ...]


class Watcher:
    """Lists a source in rounds, and returns a snapshot when it differs from the last one.

    A file counts only if two rounds agree on it. A file whose size or time still changes is left out. A file that is
    missing for the first time is not yet deleted: an editor may be replacing it. A file that is written without end is
    never returned. The first snapshot comes after two rounds, even if it is empty.

    If the source cannot be listed, this is reported and nothing is taken as deleted. When it can be listed again, it is
    returned again.
    """

    def __init__(
        self,
        source: Source,
        *,
        look: Callable[..., Iterable[SourceFile]] = list_files,
        report: Callable[[SkippedPath], None] = log_skipped,
    ) -> None:
        self.source = source
        self._list = look
        self._report = report
        self._before: Listing | None = None
        self._returned: Listing | None = None
        self._was_unavailable = False
        self._problems: tuple[SkippedPath, ...] = ()

    def poll(self) -> SourceSnapshot | None:
        """List the source once. Return a snapshot if its settled files differ from the last one, otherwise None."""
        skipped: list[SkippedPath] = []
        try:
            now = {file.key: file for file in self._list(self.source, report=skipped.append)}
        except (SourceRefused, Signal, OSError) as error:
            self._problems = _report_new(self._problems, [SkippedPath("", self.source.spec, str(error))], self._report)
            self._was_unavailable = True
            return None
        self._problems = _report_new(self._problems, skipped, self._report)
        before, self._before = self._before, now
        if before is None:
            return None
        snapshot, settled = _settle(before, now, self._returned or {}, skipped)
        is_back = self._was_unavailable and len(snapshot.seen) == len(settled)  # reads may have failed in between
        if settled == self._returned and not is_back:
            return None
        self._returned, self._was_unavailable = settled, False
        return snapshot

    def report_again(self, keys: Iterable[str]) -> None:
        """Return files once more although they did not change, because they could not be used the last time."""
        for key in keys:
            if self._returned is not None:
                self._returned.pop(key, None)


def watch(
    source: Source,
    every: timedelta,
    stop: StopSignal,
    *,
    look: Callable[..., Iterable[SourceFile]] = list_files,
    report: Callable[[SkippedPath], None] = log_skipped,
) -> Iterator[SourceSnapshot]:
    """Yield a snapshot whenever the source has changed, as a `Watcher` does, until the stop signal.

    Args:
        source: The source.
        every: The time between two rounds.
        stop: Ends watching.
        look: Lists the source.
        report: Called with each path that could not be read, once.
    """
    watcher = Watcher(source, look=look, report=report)
    while True:
        if snapshot := watcher.poll():
            yield snapshot
        if stop.wait(every.total_seconds()):
            return


def _report_new(
    reported: tuple[SkippedPath, ...], skipped: list[SkippedPath], report: Callable[[SkippedPath], None]
) -> tuple[SkippedPath, ...]:
    """Report the paths that were not reported in the last round. So each problem is one line, not one per round."""
    for path in skipped:
        if path not in reported:
            report(path)
    return tuple(skipped)


def _settle(
    before: Listing, now: Listing, returned: Listing, skipped: list[SkippedPath]
) -> tuple[SourceSnapshot, Listing]:
    """Return the files that two rounds agree on. Files that still change count as they were returned before."""
    stable = {key: file for key, file in now.items() if before.get(key) == file}
    either = {**before, **now}
    changing = [SkippedPath(key, either[key].location, "it is just changing") for key in either if key not in stable]
    settled = stable | {path.key: returned[path.key] for path in changing if path.key in returned}
    return SourceSnapshot(tuple(stable.values()), (*skipped, *changing)), settled
