"""The document as a body sees it, and the decisions about it in its journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from msgspec import DecodeError, Struct, ValidationError

from holdfast.core.codec import Kept
from holdfast.core.errors import BodyError, ItemDamaged
from holdfast.core.model import WHOLE, Decision, JournalEntry
from holdfast.core.reasons import QUESTION

if TYPE_CHECKING:
    from holdfast.core.step import Step

T = TypeVar("T")
K = TypeVar("K")

PAGE = 1000
"""How many items are read from the store in one query."""


class OutputReader(Protocol):
    """Read what earlier steps kept for a document, and what was decided about it."""

    def next_position(self, step: str) -> int:
        """Return one more than the last position that the step kept; 0 if it kept no items."""

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        """Return the items with start <= position < stop, in order. A value that is not a list is at -1."""

    def decision(self, step: str) -> Decision | None:
        """Return the decision at a gate, or the answer to a step that raised Pause; None if there is none."""


class NoOutput:
    """The reader of a document in an undo, which runs inside the transaction and is about an earlier generation."""

    def next_position(self, step: str) -> int:
        """Raise BodyError."""
        raise self._refusal(step)

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:  # noqa: ARG002 - as OutputReader
        """Raise BodyError."""
        raise self._refusal(step)

    def decision(self, step: str) -> Decision | None:
        """Raise BodyError."""
        raise self._refusal(step)

    def _refusal(self, step: str) -> BodyError:
        return BodyError(f"an undo cannot read the output of step {step!r}: read your own rows, with tx.execute")


class Document(Struct, kw_only=True, eq=False):
    """A document while a step works on it. Bodies, effects, undo and verify functions get it as `doc`.

    Attributes:
        pipeline: The name of its pipeline.
        batch: The name of its batch.
        key: Its name within the batch.
        reader: Where `output`, `each` and `decision` read. holdfast fills it in.
        payload: The JSON that it was submitted with.
        fingerprint: A text that changes when its content changes.
        generation: 0 at first. A changed fingerprint or a rewind starts the next one.
        step: The name of the step that runs.
        id: Its id in the store: `id` of the view `hf_documents`. No other document of the store ever has it.
        attempt: 1 on the first try of this step, and 1 more after each error since the document last moved: the number
            that `Retry(attempts=)` limits. What is no error does not count: a crash, a lost worker, RetryLater, Pause,
            a stopped worker.
        resumed: True if this step was begun before: something of it is committed, or a worker had the document at this
            step and gave it back or was lost. So False means that no body of this step was ever called for this
            generation of the document.

    Example:
        @papers.step
        def count_pages(doc: holdfast.Document) -> int:
            return len(doc.output(extract))
    """

    pipeline: str
    batch: str
    key: str
    reader: OutputReader
    payload: Any = None
    fingerprint: str = ""
    generation: int = 0
    step: str = ""
    id: int = 0
    attempt: int = 1
    resumed: bool = False

    def output(self, step: Step[Any, Any, K, Any]) -> K:
        """Return what an earlier step kept.

        Args:
            step: The step, as returned by `@pipeline.step`.

        Returns:
            The value that its body returned; for a stream or a step over items, the list of its items.

        Raises:
            BodyError: The step keeps nothing (`keep=False`), or what was given is not a step.
            StoreError: The store cannot be reached.
        """
        _refuse_unkept(step, "output")
        kept = self.reader.read(step.name, WHOLE, WHOLE + 1)
        if kept:
            try:
                whole: K = step.codec_of_whole.decode(kept[0][1])
            except ValidationError:
                raise
            except UNREADABLE as error:
                raise damaged_item(self, step.name, WHOLE, error) from error
            return whole
        output: Any = list(self.each(step)) or ([] if step.gives_a_list else None)
        return cast("K", output)

    def each(self, step: Step[Any, Any, Any, T], *, start: int = 0) -> Iterator[T]:
        """Iterate over the items of an earlier step without loading all of them into memory.

        Args:
            step: The step, as returned by `@pipeline.step`.
            start: The position of the first item.

        Returns:
            An iterator over the items, in order. Items that were set aside are left out.

        Raises:
            BodyError: The step keeps nothing (`keep=False`), or what was given is not a step.
            StoreError: The store cannot be reached.
        """
        _refuse_unkept(step, "each")
        decode = step.codec_of_item.decode
        for first in range(start, self.reader.next_position(step.name), PAGE):
            for position, kept in self.reader.read(step.name, first, first + PAGE):
                try:
                    item = decode(kept)
                except ValidationError:
                    raise
                except UNREADABLE as error:
                    raise damaged_item(self, step.name, position, error) from error
                yield item

    def decision(self, step: Step[Any, Any, Any, Any] | None = None) -> Decision | None:
        """Return what a person decided about this document.

        It is read from the journal at each call. A document whose content changed needs a new decision. One that was
        rewound to a step after its gate keeps its decision.

        Args:
            step: The gate. Without it: this step, which asked by raising Pause.

        Returns:
            The decision, or None if nobody has decided yet.

        Raises:
            BodyError: What was given is not a step.
            StoreError: The store cannot be reached.
        """
        if step is not None:
            _refuse_no_step(step, "decision")
        return self.reader.decision(self.step if step is None else step.name)

    def idempotency_key(self, item: int | str | None = None) -> str:
        """Return a key for calls to other services. It is the same on every attempt.

        It differs between documents, generations and steps.

        Args:
            item: A position or a name, for a key that differs between items too. The position 3 and the name "3" have
                different keys, and so have no item and the name "".

        Returns:
            32 hexadecimal digits.

        Raises:
            TypeError: The item is neither a text nor a whole number.
        """
        names = [self.pipeline, self.batch, self.key, str(self.generation), self.step]
        if item is not None:
            names += ("name", item) if isinstance(item, str) else ("position", str(index(item)))
        text = "".join(f"{len(name)}:{name}" for name in names)  # with lengths, so that no two lists give the same text
        return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return f"<Document {self.key!r} of {self.pipeline}/{self.batch} at {self.step or 'rest'}>"


UNREADABLE = (DecodeError, UnicodeDecodeError)
"""What decoding a stored value raises that is no JSON. A ValidationError is one of them and means something else: the
value is JSON, but not of the annotated type, because the annotation has changed."""


def damaged_item(document: Document, step: str, position: int, error: Exception) -> ItemDamaged:
    """Return the error for a stored value that is not JSON."""
    return ItemDamaged(f"cannot be read ({error})", position=position, step=step, document=document.key)


def _refuse_unkept(step: Step[Any, Any, Any, Any], call: str) -> None:
    _refuse_no_step(step, call)
    if not step.options.keep:
        raise BodyError(f"step {step.name!r} keeps nothing (keep=False), so it has no output to read")


def _refuse_no_step(step: object, call: str) -> None:
    """Raise BodyError for what is no step, such as the name of one. Nothing but a step has `options` and `shape`."""
    if hasattr(step, "options") and hasattr(step, "shape"):
        return
    name = step if isinstance(step, str) else getattr(step, "__name__", "")
    if isinstance(step, str) and name.isidentifier():
        hint = f"did you mean doc.{call}({name}), with the step itself?"
    elif name:
        hint = f"{name!r} is not a step of a pipeline: add it with @pipeline.step, and pass what that returns"
    else:
        hint = "pass what @pipeline.step returned"
    raise BodyError(f"doc.{call}() takes a step, not {step!r}; {hint}")


def decided_at_gate(journal: Sequence[JournalEntry], gate: str, generation: int) -> Decision | None:
    """Return the decision that let a document pass a gate, in one of its generations."""
    passed = [line for line in journal if (line.verb, line.step, line.generation) == ("resume", gate, generation)]
    return _decision(passed[-1]) if passed else None


def decided_at_step(journal: Sequence[JournalEntry], step: str, generation: int) -> Decision | None:
    """Return the last answer to a question that a step asked by raising Pause, in one of its generations.

    A document that was paused for another reason asked nothing, so resuming it answers nothing.
    """
    asked, decision = False, None
    for line in journal:
        if line.step != step or line.generation != generation:
            continue
        if line.verb == "pause":
            asked = line.code == QUESTION
        elif line.verb == "resume":
            decision = _decision(line) if asked else decision
            asked = False
    return decision


def _decision(line: JournalEntry) -> Decision:
    return Decision(line.who, line.detail["reason"], line.detail.get("answer"), line.at)
