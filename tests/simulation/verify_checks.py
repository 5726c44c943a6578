"""Check that results are verified and redone if they are gone, and that no document is rewound without end."""

from __future__ import annotations

from collections.abc import Container

from tests.simulation.cursor_reader import step_order
from tests.simulation.observed_state import ObservedDocument

VERIFIED = "pages"
"""The step whose result is verified."""


class VerifyChecks:
    """Remembers where each document was claimed, what verifying returned, and from where it was rewound."""

    def __init__(self) -> None:
        self._claimed_at: dict[int, ObservedDocument] = {}
        self._answers: dict[tuple[str, int], bool] = {}
        self._rewound_from: dict[int, ObservedDocument] = {}

    def on_claim(self, document: ObservedDocument) -> None:
        """Remember that a document was claimed."""
        self._claimed_at[document.id] = document

    def on_answer(self, held: tuple[str, int], *, is_there: bool) -> None:
        """Remember what verifying returned to the holder of a document."""
        self._answers[held] = is_there

    def forget(self, document: ObservedDocument) -> None:
        """Forget earlier rewinds, because a person decided or the content changed."""
        self._rewound_from.pop(document.id, None)

    def check_move(self, was: ObservedDocument) -> str:
        """Return what is wrong with a move: a worker that claims a document in the middle must verify first."""
        begun = self._claimed_at.get(was.id)
        if begun is None or (begun.fence, begun.generation) != (was.fence, was.generation):
            return ""
        if step_order(begun.step) <= step_order(VERIFIED) or self._answers.get((was.key, was.fence)):
            return ""
        return f"{was.key} moved from {was.step} before its {VERIFIED} were verified"

    def check_rewind(self, was: ObservedDocument, known: Container[str | None]) -> str:
        """Return what is wrong with a worker's rewind: without progress since the last one, a person has to look.

        A worker of another version may not know the step of the last rewind. It takes that step for removed.
        """
        before, self._rewound_from[was.id] = self._rewound_from.get(was.id), was
        if before is None or before.step not in known or step_order(was.step) > step_order(before.step):
            return ""
        if was.step == before.step and was.cursor != before.cursor:
            return ""
        return f"{was.key} makes no progress: it was rewound from {before.step}, and now again from {was.step}"
