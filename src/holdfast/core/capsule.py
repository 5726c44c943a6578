"""Capsules: one document with all that is known of it, as one JSON file that can be carried to another machine.

A capsule comes from somebody else, so it is read like a letter from a stranger: into strict values, with a limit of
size, and nothing in it is ever run, imported, or used as the name of a file.
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
from holdfast.core.definition import refuse_bad_name
from holdfast.core.errors import CapsuleError, DefinitionError
from holdfast.core.model import WHOLE, Aside, Entry, Failure, Item, State
from holdfast.core.plan import Shape

FORMAT: Literal[1] = 1
LARGEST = 256 << 20
"""Bytes of a capsule: larger ones are neither written nor read, so that a file cannot eat the memory."""

Number = Annotated[int, Meta(ge=0, le=2**62)]
Signed = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Moment = Annotated[datetime, Meta(tz=True)]


class PackedDocument(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The document itself: who it is, what it carries, and its checkpoint."""

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
    reason: str
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
    """One value that a step kept: JSON as it is, or bytes, which JSON carries as base64."""

    step: str
    position: Annotated[int, Meta(ge=WHOLE, le=2**62)]
    value: Raw | UnsetType = UNSET
    data: bytes | UnsetType = UNSET

    @property
    def kept(self) -> Kept:
        """The value as stores keep it."""
        if not isinstance(self.data, UnsetType):
            return self.data
        assert not isinstance(self.value, UnsetType)
        return bytes(self.value).decode()


class PackedAside(Struct, frozen=True, forbid_unknown_fields=True):
    """One item that a step could not do."""

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


class Capsule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything about one document. `items` comes last, so that it can be written as it is read."""

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
        """Gives what one step kept."""
        return [Item(step, item.position, item.kept) for item in self.items if item.step == step]

    def asides_of(self, step: str) -> list[Aside]:
        """Gives what one step set aside."""
        return [Aside(one.position, one.tries, one.error) for one in self.asides if one.step == step]

    @property
    def steps(self) -> list[str]:
        """The names of all steps that it speaks of: those of the plan in their order, then any others."""
        named = [*self.plan.names, *self.document.reuses, *(item.step for item in self.items)]
        named += [one.step for one in self.asides]
        named += [] if self.document.step is None else [self.document.step]
        return list(dict.fromkeys(named))

    def generation_of(self, step: str) -> int:
        """Answers which generation's items serve a step: the present one, or an earlier one that is reused."""
        return self.document.reuses.get(step, self.document.generation)


def packed_item(step: str, position: int, kept: Kept) -> PackedItem:
    """Gives a kept value as a capsule carries it."""
    if isinstance(kept, bytes):
        return PackedItem(step, position, data=kept)
    return PackedItem(step, position, Raw(kept.encode()))


def packed_entry(entry: Entry) -> PackedEntry:
    """Gives a line of the journal as a capsule carries it."""
    return PackedEntry(entry.at, entry.verb, entry.who, entry.generation, entry.step, entry.cursor, entry.detail)


def written(head: Capsule, items: Iterable[PackedItem]) -> Iterator[bytes]:
    """Gives a capsule as JSON, piece by piece, one item at a time. Raises CapsuleError when it grows too big."""
    size = 0
    for piece in _pieces(head, items):
        size += len(piece)
        if size > LARGEST:
            raise CapsuleError(
                f"the document {head.document.key!r} does not go into a capsule: it is larger than {_mib(LARGEST)}. "
                "Look at it where it is, with `holdfast show`"
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


def read(data: bytes) -> Capsule:
    """Reads a capsule. Raises CapsuleError, which says what is wrong, for anything that is not a sound one."""
    if len(data) > LARGEST:
        raise CapsuleError(f"this is no capsule: it is larger than {_mib(LARGEST)}")
    try:
        _refuse_other_formats(data)
        capsule = msgspec.json.decode(data, type=Capsule)
        _refuse_contradictions(capsule)
    except (msgspec.MsgspecError, DefinitionError, UnicodeError, RecursionError, ValueError) as error:
        raise CapsuleError(f"this is no capsule, or a damaged one: {error or 'it is nested too deeply'}") from error
    return capsule


def refuse_damaged(head: Capsule) -> None:
    """Raises CapsuleError for a document that no store would take in: better where it can be mended than elsewhere."""
    try:
        read(b"".join(written(head, ())))
    except CapsuleError as error:
        key = quote(head.document.key)
        raise CapsuleError(
            f"the document {head.document.key!r} does not go into a capsule, which nobody could load: "
            f"{error.__cause__ or error}. Its row is damaged: look at it with `holdfast show {key}`, then set it back "
            f"with `holdfast rewind {key} --to {head.plan.names[0]}`, or submit it again if its payload is gone"
        ) from error


class _AnyFormat(Struct):
    format: int


def _refuse_other_formats(data: bytes) -> None:
    found = msgspec.json.decode(data, type=_AnyFormat).format
    if found != FORMAT:
        raise CapsuleError(
            f"this capsule has format {found}, and this holdfast reads format {FORMAT}: upgrade holdfast"
        )


def _refuse_contradictions(capsule: Capsule) -> None:
    """Refuses what no store could have written, so that loading it cannot make a store that is wrong."""
    document = capsule.document
    _require(bool(capsule.plan.steps), "its plan has no steps")
    for name, what in [(document.pipeline, "a pipeline's name"), *((step, "a step's name") for step in capsule.steps)]:
        refuse_bad_name(name, what)
    for text in (document.key, document.batch, document.fingerprint):
        _require(unkept(text) is None, f"the text {text!r} {unkept(text)}")
    _require(capsule.plan.pipeline == document.pipeline, "its plan is of another pipeline")
    _require(len(set(capsule.plan.names)) == len(capsule.plan.names), "its plan names a step twice")
    _require((document.state == "done") == (document.step is None), "a document is done when it has no next step")
    _require(document.state != "waiting" or document.due_at is not None, "a document that waits is due some time")
    _require(document.state == "dead" or not document.accepted_by, "only dead letters are accepted")
    _require(all(made < document.generation for made in document.reuses.values()), "it reuses a later generation")
    for item in capsule.items:
        _require((item.value is UNSET) != (item.data is UNSET), "an item has one value, JSON or bytes")
        decode_json(item.kept) if isinstance(item.kept, str) else None
    places = Counter((item.step, item.position) for item in capsule.items)
    _require(max(places.values(), default=1) == 1, "it has two items in one place")
    aside = Counter((one.step, one.position) for one in capsule.asides)
    _require(max(aside.values(), default=1) == 1, "it sets one item aside twice")


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ValueError(otherwise)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
