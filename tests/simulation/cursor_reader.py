"""Read checkpoints as the documentation describes them: which places of a step are done or set aside."""

from __future__ import annotations

from tests.simulation.observed_state import ObservedDocument
from tests.simulation.pipelines import ORDER, places


def step_order(step: str | None) -> int:
    """Return a number by which steps are ordered. The end comes last."""
    return len(ORDER) if step is None else ORDER.index(step)


def done_places(document: ObservedDocument) -> set[int]:
    """Return the places of the present step that are done."""
    cursor = document.cursor
    if not isinstance(cursor, dict):
        return set(range(cursor or 0))
    spans = [range(cursor["next"]), *(range(*span) for span in cursor.get("done", ()))]
    return {place for span in spans for place in span} - failed_places(document).keys()


def failed_places(document: ObservedDocument) -> dict[int, int]:
    """Return the places of the present step that were set aside, with the number of tries."""
    return dict(document.cursor.get("aside", ())) if isinstance(document.cursor, dict) else {}


def covered_places(document: ObservedDocument) -> set[int]:
    """Return the places that the checkpoint has passed, done or set aside."""
    return done_places(document) | failed_places(document).keys()


def newly_done(was: ObservedDocument, now: ObservedDocument) -> list[tuple[str, int]]:
    """Return the places of its step that a document finished in one move."""
    if was.step is None or (was.step, was.cursor) == (now.step, now.cursor):
        return []
    every = {*places(was.step, was.pages)} - failed_places(was).keys()
    at = done_places(now) if now.step == was.step else every
    return [(was.step, place) for place in sorted(at - done_places(was))]
