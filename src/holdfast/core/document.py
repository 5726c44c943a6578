"""What a body sees of the document it works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from msgspec import Struct

from holdfast.core.codec import Kept
from holdfast.core.errors import BodyError
from holdfast.core.model import WHOLE, Decision

if TYPE_CHECKING:
    from holdfast.core.step import Step

T = TypeVar("T")
K = TypeVar("K")

PAGE = 1000
"""How many items are read at once: enough to be quick, few enough to be held."""


class Reader(Protocol):
    """Where a document's kept items are read from."""

    def extent(self, step: str) -> int:
        """Answers one past the last position that the step kept; 0 when it kept no items."""

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        """Gives the items with start <= position < stop, in order; the value that is not a list is at -1."""

    def decision(self, step: str) -> Decision | None:
        """Gives what was decided at a gate, or about what a step asked."""


class Document(Struct, kw_only=True, eq=False):
    """One document at work: who it is, what it carries, and what earlier steps kept for it."""

    pipeline: str
    batch: str
    key: str
    reader: Reader
    payload: Any = None
    fingerprint: str = ""
    generation: int = 0
    step: str = ""

    def output(self, step: Step[Any, Any, K, Any]) -> K:
        """Gives what an earlier step kept: the value it returned, or the list of what it yielded."""
        _refuse_unkept(step)
        kept = self.reader.read(step.name, WHOLE, WHOLE + 1)
        if kept:
            whole: K = step.codec_of_whole.decode(kept[0][1])
            return whole
        output: Any = list(self.each(step)) or ([] if step.gives_a_list else None)
        return cast("K", output)

    def each(self, step: Step[Any, Any, Any, T], *, start: int = 0) -> Iterator[T]:
        """Walks the items of an earlier step without holding them all."""
        _refuse_unkept(step)
        decode = step.codec_of_item.decode
        for first in range(start, self.reader.extent(step.name), PAGE):
            for _, kept in self.reader.read(step.name, first, first + PAGE):
                yield decode(kept)

    def decision(self, step: Step[Any, Any, Any, Any] | None = None) -> Decision | None:
        """Gives what somebody decided at a gate, or, without one, about what this step asked by raising Pause.

        None while nobody has. It is read from the journal when it is asked for; a document that begins anew with other
        content is decided anew, and one that was rewound to a later step keeps its decisions.
        """
        return self.reader.decision(self.step if step is None else step.name)

    def idempotency_key(self, item: int | str | None = None) -> str:
        """Gives a key for calls to the outside that is the same on every attempt at this step (and item)."""
        parts = (
            self.pipeline,
            self.batch,
            self.key,
            str(self.generation),
            self.step,
            "" if item is None else str(item),
        )
        return blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return f"<Document {self.key!r} of {self.pipeline}/{self.batch} at {self.step or 'rest'}>"


def _refuse_unkept(step: Step[Any, Any, Any, Any]) -> None:
    if not step.options.keep:
        raise BodyError(f"step {step.name!r} keeps nothing (keep=False), so it has no output to read")
