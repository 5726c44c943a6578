"""Taking sources in from the command line: how they are looked through, and what is said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.cli.asked import Asked
from holdfast.cli.counts import Counts
from holdfast.cli.progress import Display, Progress
from holdfast.cli.words import count, one_line
from holdfast.core.errors import RetryLater
from holdfast.pipelines.rag.ingest import KINDS, Intake, Looking
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.sources import SourceRefused, Unreachable, source_of

NOUNS = {"extract": "page", "chunk": "chunk", "embed": "vector"}
NEWS = ("new", "changed", "back", "moved", "deleted")
SHOWN = 5
BEGINS = "nothing was found that could be taken in"


def counts_of(library: Library, *, hands: int) -> Counts:
    """Gives the numbers that are shown of a collection."""
    counts = Counts(library.pipeline, library.store, batch=None, hands=hands, nouns=NOUNS, withdrawn=library.withdrawn)
    counts.items = library.tally
    return counts


def same_look(looking: Looking) -> tuple[str, ...]:
    """Gives the options with which sources are looked through in the same way. What was said of them stays anyway."""
    ignore = [word for pattern in looking.ignore for word in ("--ignore", pattern)]
    flat = () if looking.recursive else ("--flat",)
    return (*ignore, *flat, *(("--allow-private",) if looking.allow_private else ()))


AWAY = (Unreachable, RetryLater)
"""What is raised over a source that does not answer, or not now. Nothing is known of its files then."""


def take_in(asked: Asked, library: Library, source: str, looking: Looking, progress: Progress) -> bool:
    """Takes a source in, and says what became of its files. Answers whether it could be reached."""
    counts = progress.counts
    counts.submitting = True
    try:
        with _told_the_way_out(asked, library, source):
            intake = library.take_in(source, looking, tell=lambda _: _counted(counts))
    except AWAY as error:
        progress.display.say(told_away(source, error) + _way_out(asked, library, source))
        return False
    finally:
        counts.submitting = False
    progress.display.say(f"{source}: {told_of(intake)}")
    tell_left_out(_left_out(intake), progress.display)
    return True


def refuse_what_is_not_there(asked: Asked, library: Library, sources: Sequence[str]) -> None:
    """Raises SourceRefused for the first that is no source, before anything is taken in."""
    for source in sources:
        with _told_the_way_out(asked, library, source):
            source_of(source)


@contextmanager
def _told_the_way_out(asked: Asked, library: Library, source: str) -> Iterator[None]:
    try:
        yield
    except SourceRefused as error:
        raise SourceRefused(f"{error}{_way_out(asked, library, source)}") from error


def told_away(source: str, error: Exception) -> str:
    """Gives in a line that a source could not be reached, and why."""
    return one_line(f"{source}: could not be reached, and what it had stays as it is: {error}", 300)


def _way_out(asked: Asked, library: Library, source: str) -> str:
    """Gives how documents leave the index whose source is gone for good, if there are any."""
    try:
        root = library.root_of(source)
    except SourceRefused:
        return ""
    forget = asked.command("collection", "forget", library.collection.name, root)
    return f". If it is gone for good, take what it had out of the index: {forget}"


def told_of(intake: Intake, kinds: Sequence[str] = KINDS) -> str:
    """Gives what became of a source, in a few words."""
    described = f"; other metadata for {count(intake.described, 'document')}" if intake.described else ""
    return told(intake.counts, kinds) + described


def told(counts: Counter[str], kinds: Sequence[str] = KINDS) -> str:
    """Gives what became of files, in a few words."""
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds if counts[kind]) or "nothing there"


def tell_left_out(left_out: Sequence[tuple[str, str]], display: Display) -> None:
    """Tells of the first few files that could not be taken in, and why."""
    for key, why in left_out[:SHOWN]:
        display.say(f"  left out: {key}: {why}")
    if len(left_out) > SHOWN:
        display.say(f"  and {len(left_out) - SHOWN:,} more were left out")


def _left_out(intake: Intake) -> Sequence[tuple[str, str]]:
    missed = [(one.key, one.why) for one in intake.missed]
    return [*missed, *((one.key, one.why) for one in intake.unreadable)]


def _counted(counts: Counts) -> None:
    counts.submitted += 1
