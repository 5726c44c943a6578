"""Capsules: one document with everything that is known about it, as one JSON file for another machine.

A capsule may come from a stranger. So it is decoded into strict types, its size is limited, and nothing in it is run,
imported or used as a file name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from holdfast.core.codec import Kept, decode_json, unkept
from holdfast.core.errors import CapsuleError, DefinitionError
from holdfast.core.model import WHOLE, FailedItem, Failure, Item, JournalEntry, State
from holdfast.core.plan import Shape
from holdfast.core.text_limits import MAX_NAME, shorten, too_long
from holdfast.core.validation import refuse_bad_name

FORMAT: Literal[1] = 1
LARGEST = 256 << 20
"""The largest capsule, in bytes. Larger ones are not written and not read: they could use up the memory."""

Number = Annotated[int, Meta(ge=0, le=2**62)]
Signed = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Moment = Annotated[datetime, Meta(tz=True)]


class PackedDocument(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The document itself: its names, payload and checkpoint."""

    pipeline: str
    batch: str
    key: str
    payload: Any
    fingerprint: str
    priority: Signed
    state: State
    generation: Number
    step: str | None
    cursor: Any
    moves: Number
    attempts: Number
    crashes: Number
    losses: Number = 0
    deferrals: Number = 0
    interruptions: Number = 0
    reason: str
    code: str = ""
    error: str
    accepted_by: str
    reuses: dict[str, Number]
    submitted_at: Moment
    moved_at: Moment
    due_at: Moment | None
    claimed_at: Moment | None
    cleaned_at: Moment | None


class PackedOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """When a step kept its first and its last item."""

    step: str
    first_at: Moment
    last_at: Moment


class PackedItem(Struct, frozen=True, forbid_unknown_fields=True):
    """One value that a step kept: JSON, or bytes as base64."""

    step: str
    position: Annotated[int, Meta(ge=WHOLE, le=2**62)]
    value: Raw | UnsetType = UNSET
    data: bytes | UnsetType = UNSET

    @property
    def kept(self) -> Kept:
        """The value as stores keep it: JSON text or bytes."""
        if not isinstance(self.data, UnsetType):
            return self.data
        assert not isinstance(self.value, UnsetType)
        return bytes(self.value).decode()


class PackedAside(Struct, frozen=True, forbid_unknown_fields=True):
    """One item that failed and was set aside."""

    step: str
    position: Number
    tries: Annotated[int, Meta(ge=1, lt=2**31)]
    error: Failure


class PackedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the journal."""

    at: Moment
    verb: str
    who: str
    generation: Number
    step: str | None
    cursor: Any
    detail: Any
    code: str = ""
    times: Annotated[int, Meta(ge=1, lt=2**31)] = 1
    last_at: Moment | None = None


class Capsule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything about one document. `items` is the last field, so that items can be written one by one."""

    format: Literal[1] = FORMAT
    holdfast: str
    packed_at: Moment
    plan: Shape
    document: PackedDocument
    outputs: Sequence[PackedOutput]
    asides: Sequence[PackedAside]
    journal: Sequence[PackedEntry]
    items: Sequence[PackedItem] = ()

    def items_of(self, step: str) -> list[Item]:
        """Return the items that one step kept."""
        return [Item(step, item.position, item.kept) for item in self.items if item.step == step]

    def asides_of(self, step: str) -> list[FailedItem]:
        """Return the items that one step set aside."""
        return [FailedItem(one.position, one.tries, one.error) for one in self.asides if one.step == step]

    @property
    def steps(self) -> list[str]:
        """The names of all steps in the capsule: those of the plan in their order, then any others."""
        named = [*self.plan.names, *self.document.reuses, *(item.step for item in self.items)]
        named += [one.step for one in self.asides]
        named += [] if self.document.step is None else [self.document.step]
        return list(dict.fromkeys(named))

    def generation_of(self, step: str) -> int:
        """Return the generation of a step's items: the current one, or an earlier one that is reused."""
        return self.document.reuses.get(step, self.document.generation)


def packed_item(step: str, position: int, kept: Kept) -> PackedItem:
    """Convert a kept value for a capsule."""
    if isinstance(kept, bytes):
        return PackedItem(step, position, data=kept)
    return PackedItem(step, position, Raw(kept.encode()))


def packed_entry(entry: JournalEntry) -> PackedEntry:
    """Convert a journal entry for a capsule."""
    place = (entry.generation, entry.step, entry.cursor)
    counted = (entry.times, entry.last_at)
    return PackedEntry(entry.at, entry.verb, entry.who, *place, entry.detail, entry.code, *counted)


def written(head: Capsule, items: Iterable[PackedItem]) -> Iterator[bytes]:
    """Yield a capsule as JSON, one item at a time. Raise CapsuleError if it becomes too large."""
    size = 0
    for piece in _pieces(head, items):
        size += len(piece)
        if size > LARGEST:
            raise CapsuleError(
                f"the document {head.document.key!r} is too large for a capsule: more than {_mib(LARGEST)}. "
                "Use `holdfast show` where the store is"
            )
        yield piece


def _pieces(head: Capsule, items: Iterable[PackedItem]) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    yield encode(msgspec.structs.replace(head, items=())).removesuffix(b"]}")
    between = b"\n"
    for item in items:
        yield between + encode(item)
        between = b",\n"
    yield b"]}\n"


def read_capsule(data: bytes) -> Capsule:
    """Decode a capsule. Raise CapsuleError, with the reason, if it is not valid."""
    if len(data) > LARGEST:
        raise CapsuleError(f"this is not a capsule: it is larger than {_mib(LARGEST)}")
    try:
        _refuse_other_formats(data)
        capsule = msgspec.json.decode(data, type=Capsule)
        _refuse_contradictions(capsule)
    except (msgspec.MsgspecError, DefinitionError, UnicodeError, RecursionError, ValueError) as error:
        raise CapsuleError(f"this is not a valid capsule: {error or 'it is nested too deeply'}") from error
    return capsule


def refuse_damaged(head: Capsule) -> None:
    """Raise CapsuleError if no store could load this capsule: the document can be repaired only where it is."""
    try:
        read_capsule(b"".join(written(head, ())))
    except CapsuleError as error:
        key = quote(head.document.key)
        raise CapsuleError(
            f"the document {head.document.key!r} cannot be packed, because nobody could load the capsule: "
            f"{error.__cause__ or error}. Its row is damaged: see `holdfast show {key}`, then rewind it with "
            f"`holdfast doc rewind {key} --to {head.plan.names[0]}`, or submit it again if its payload is lost"
        ) from error


class _AnyFormat(Struct):
    format: int


def _refuse_other_formats(data: bytes) -> None:
    found = msgspec.json.decode(data, type=_AnyFormat).format
    if found != FORMAT:
        raise CapsuleError(
            f"this capsule has format {found}, but this holdfast reads format {FORMAT}: upgrade holdfast"
        )


def _refuse_contradictions(capsule: Capsule) -> None:
    """Raise ValueError for contents that no store writes, so that loading them cannot make a wrong store."""
    document = capsule.document
    _require(bool(capsule.plan.steps), "its plan has no steps")
    for name, what in [(document.pipeline, "a pipeline's name"), *((step, "a step's name") for step in capsule.steps)]:
        refuse_bad_name(name, what)
    for text in (document.key, document.batch, document.fingerprint):
        why = unkept(text) or too_long(text)
        _require(why is None, f"the text {shorten(text, MAX_NAME)!r} {why}")
    _require(capsule.plan.pipeline == document.pipeline, "its plan belongs to another pipeline")
    _require(len(set(capsule.plan.names)) == len(capsule.plan.names), "its plan names a step twice")
    _require((document.state == "done") == (document.step is None), "a document is done when it has no next step")
    _require(document.state != "waiting" or document.due_at is not None, "a waiting document needs a due time")
    _require(document.state == "dead" or not document.accepted_by, "only dead letters can be accepted")
    _require(all(made < document.generation for made in document.reuses.values()), "it reuses a later generation")
    for item in capsule.items:
        _require((item.value is UNSET) != (item.data is UNSET), "an item must have one value, JSON or bytes")
        decode_json(item.kept) if isinstance(item.kept, str) else None
    places = Counter((item.step, item.position) for item in capsule.items)
    _require(max(places.values(), default=1) == 1, "it has two items at one position")
    aside = Counter((one.step, one.position) for one in capsule.asides)
    _require(max(aside.values(), default=1) == 1, "it sets one item aside twice")


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ValueError(otherwise)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
