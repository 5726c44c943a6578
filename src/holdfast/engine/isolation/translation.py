"""Translation: calls into messages, and messages into what `Desk.run` would have answered."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.errors import BodyCrashed
from holdfast.core.model import WHOLE, Item
from holdfast.core.step import AnyStep
from holdfast.engine.bodies import Desk
from holdfast.engine.calls import Call, Produced, Pulled, RunWindow
from holdfast.engine.isolation.stories import retold, tell
from holdfast.engine.isolation.talk import (
    Answer,
    AskDecision,
    AskExtent,
    Card,
    Decided,
    Failed,
    Found,
    Gave,
    Measured,
    Message,
    Question,
    Rows,
    Task,
    Verified,
    Yielded,
)

_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode


def task_of(desk: Desk, call: Call, step: AnyStep) -> Task:
    """Gives a call as it is sent to a child. A window's items go along: asking for them would be one more way."""
    document = desk.document
    card = Card(
        document.batch, document.key, document.payload, document.fingerprint, document.generation, document.step
    )
    given: Rows = []
    if isinstance(call, RunWindow):
        given = list(document.reader.read(step.options.over or "", *call.span))
    return Task(type(call).__name__, _json(call), _json(card), given)


def reply_to(desk: Desk, question: Question) -> Message:
    """Reads for the child. An error of the store is raised in the body, as it would be here."""
    reader = desk.document.reader
    try:
        if isinstance(question, AskExtent):
            return Measured(reader.extent(question.step))
        if isinstance(question, AskDecision):
            decision = reader.decision(question.step)
            return Decided(None if decision is None else _json(decision))
        return Found(list(reader.read(question.step, question.start, question.stop)))
    except Exception as error:  # noqa: BLE001 - it belongs to the body, which asked
        return Failed(tell(error))


def result_of(step: AnyStep, answer: Answer) -> Any:
    """Gives what `desk.run` would have given, or raises what it would have raised."""
    try:
        if isinstance(answer, (Gave, Yielded)):
            _refuse_what_is_not_kept(answer.rows)
        return _result_of(step, answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BodyCrashed(f"step {step.name!r}: its process gave what cannot be read: {error}") from error


def _refuse_what_is_not_kept(rows: Rows) -> None:
    """Says what no type can: text and bytes are one to msgspec's unions."""
    for _, kept in rows:
        if not isinstance(kept, (str, bytes)):
            raise msgspec.ValidationError(f"a value is {type(kept).__name__}, neither text nor bytes")


def _result_of(step: AnyStep, answer: Answer) -> Any:
    known = step.options.retry.permanent
    match answer:
        case Gave(rows):
            return Produced(_items(step, rows), _value(step, rows))
        case Yielded(rows, cursor, position, exhausted, told):
            error = None if told is None else retold(told, known=known)
            values = _values(step, rows) if step.effect_body is not None else []
            return Pulled(_items(step, rows), values, _from_json(cursor), position, exhausted, error)
        case Verified(said):
            return said
        case Failed(told):
            raise retold(told, known=known)


def _items(step: AnyStep, rows: Rows) -> list[Item]:
    return [Item(step.name, place, kept) for place, kept in rows] if step.options.keep else []


def _values(step: AnyStep, rows: Rows) -> list[Any]:
    decode = step.codec_of_item.decode
    return [decode(kept) for _, kept in rows]


def _value(step: AnyStep, rows: Rows) -> Any:
    """Gives the value for the effect, as it is kept. Without an effect nobody asks for it."""
    if step.effect_body is None or not rows:
        return None
    if rows[0][0] == WHOLE:
        return step.codec_of_whole.decode(rows[0][1])
    values = _values(step, rows)
    return values[0] if step.kind == "over" and not step.options.size else values
