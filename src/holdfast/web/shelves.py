"""What is served, as far as this package needs to know it: whoever starts the server brings it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct


class Found(Protocol):
    """One answer, as far as a page shows it."""

    @property
    def key(self) -> str:
        """What the document is called."""

    @property
    def kind(self) -> str:
        """What type it is of."""

    @property
    def title(self) -> str:
        """What it calls itself."""

    @property
    def page(self) -> int:
        """The page, from 1."""

    @property
    def snippet(self) -> str:
        """A few words of it."""

    @property
    def marks(self) -> Sequence[tuple[int, int]]:
        """Where words that were asked for stand in the snippet."""


class Answer(Protocol):
    """A question, and what was found."""

    @property
    def found(self) -> Sequence[Found]:
        """The answers, the best first."""


class Shelves(Protocol):
    """Answers questions, from many threads. Trouble with the store is a StoreError."""

    @property
    def absent(self) -> tuple[type[Exception], ...]:
        """What is raised when something is asked for that is not there."""

    @property
    def shapes(self) -> tuple[type[Struct], ...]:
        """What is answered: Answer, Shown and Progress."""

    def names(self) -> Sequence[str]:
        """Gives the names of all collections. Cheap to ask."""

    def collections(self) -> Any:
        """Gives all collections."""

    def collection(self, name: str) -> Any:
        """Gives one collection."""

    def document(self, collection: str, source: str, key: str) -> Any:
        """Tells how far a document is."""

    def search(self, collection: str, question: str, **how: Any) -> Answer:
        """Answers a question."""
