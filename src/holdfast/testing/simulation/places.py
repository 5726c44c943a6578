"""Reads checkpoints as the documentation says: which places of a step are done, set aside, or were done by a move."""

from __future__ import annotations

from holdfast.testing.simulation.books import Seen
from holdfast.testing.simulation.shapes import ORDER, places


def rank(step: str | None) -> int:
    """Gives a number by which earlier steps come before later ones, and the end after all."""
    return len(ORDER) if step is None else ORDER.index(step)


def done(seen: Seen) -> set[int]:
    """Gives the places that a checkpoint says are done, inside its step."""
    cursor = seen.cursor
    if not isinstance(cursor, dict):
        return set(range(cursor or 0))
    spans = [range(cursor["next"]), *(range(*span) for span in cursor.get("done", ()))]
    return {place for span in spans for place in span} - aside(seen).keys()


def aside(seen: Seen) -> dict[int, int]:
    """Gives the places that could not be done and were set aside, with how often each was tried."""
    return dict(seen.cursor.get("aside", ())) if isinstance(seen.cursor, dict) else {}


def covered(seen: Seen) -> set[int]:
    """Gives the places that a checkpoint leaves behind, done or not."""
    return done(seen) | aside(seen).keys()


def newly_done(was: Seen, now: Seen) -> list[tuple[str, int]]:
    """Gives the places of its step that a document did in one move."""
    if was.step is None or (was.step, was.cursor) == (now.step, now.cursor):
        return []
    every = {*places(was.step, was.pages)} - aside(was).keys()
    at = done(now) if now.step == was.step else every
    return [(was.step, place) for place in sorted(at - done(was))]
