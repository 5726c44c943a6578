"""Convert calls to messages for a child, and its messages to what `BodyCaller.run` would have returned."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.errors import BodyCrashed
from holdfast.core.model import WHOLE, Item
from holdfast.core.step import AnyStep
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.executor_requests import Call, Produced, Pulled, PullStream, RunWindow
from holdfast.engine.processes.messages import (
    AskDecision,
    AskExtent,
    CallResult,
    ChildDocument,
    DecisionReply,
    ErrorResult,
    ExtentReply,
    ItemsReply,
    Message,
    Question,
    Rows,
    RunCall,
    StreamPart,
    StreamResult,
    ValueResult,
    VerifyResult,
)
from holdfast.engine.processes.remote_errors import decode_error, encode_error

_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode


def encode_call(bodies: BodyCaller, call: Call, step: AnyStep, *, in_parts: bool = False) -> RunCall:
    """Return a call as a message. The items of a window are included, so that the child need not ask for them."""
    document = bodies.document
    is_begun = isinstance(call, PullStream) and call.cursor is not None  # its child may have been needed for others
    info = ChildDocument(
        document.batch,
        document.key,
        document.payload,
        document.fingerprint,
        document.generation,
        document.step,
        document.id,
        document.attempt,
        document.resumed or is_begun,
    )
    items: Rows = []
    if isinstance(call, RunWindow):
        items = list(document.reader.read(step.options.over or "", *call.span))
    return RunCall(type(call).__name__, _json(call), _json(info), items, in_parts)


def reply_to(bodies: BodyCaller, question: Question) -> Message:
    """Read from the store for the child. The child raises an error of the store in the body, as happens here."""
    reader = bodies.document.reader
    try:
        if isinstance(question, AskExtent):
            return ExtentReply(reader.next_position(question.step))
        if isinstance(question, AskDecision):
            decision = reader.decision(question.step)
            return DecisionReply(None if decision is None else _json(decision))
        return ItemsReply(list(reader.read(question.step, question.start, question.stop)))
    except Exception as error:  # noqa: BLE001 - the body that asked gets any error of the store
        return ErrorResult(encode_error(error))


def decode_part(step: AnyStep, part: StreamPart) -> Pulled:
    """Return what a stream has yielded so far."""
    result = StreamResult(
        part.rows,
        part.cursor,
        part.position,
        exhausted=False,
        error=None,
        last=False,
        own_cursor=part.own_cursor,
        total=part.total,
    )
    pulled: Pulled = decode_result(step, result)
    return pulled


def decode_result(step: AnyStep, result: CallResult) -> Any:
    """Return what `bodies.run` would have returned, or raise what it would have raised."""
    try:
        if isinstance(result, (ValueResult, StreamResult)):
            _check_values(result.rows)
        return _decode_result(step, result)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BodyCrashed(f"step {step.name!r}: its process sent a result that cannot be read: {error}") from error


def _check_values(rows: Rows) -> None:
    """Raise ValidationError for a value that is neither text nor bytes. msgspec cannot check a union of these two."""
    for _, kept in rows:
        if not isinstance(kept, (str, bytes)):
            raise msgspec.ValidationError(f"a value is {type(kept).__name__}, neither text nor bytes")


def _decode_result(step: AnyStep, result: CallResult) -> Any:
    circuit = step.options.circuit
    known = (*step.options.retry.permanent, *step.options.retry.transient, *(circuit.errors if circuit else ()))
    match result:
        case ValueResult(rows):
            return Produced(_items(step, rows), _value(step, rows))
        case StreamResult(rows, cursor, position, exhausted, remote, own_cursor=own_cursor, total=total):
            error = None if remote is None else decode_error(remote, known=known)
            values = _values(step, rows) if step.effect_body is not None else []
            return Pulled(_items(step, rows), values, _from_json(cursor), position, exhausted, error, own_cursor, total)
        case VerifyResult(is_there):
            return is_there
        case ErrorResult(remote):
            raise decode_error(remote, known=known)


def _items(step: AnyStep, rows: Rows) -> list[Item]:
    return [Item(step.name, position, kept) for position, kept in rows] if step.options.keep else []


def _values(step: AnyStep, rows: Rows) -> list[Any]:
    decode = step.codec_of_item.decode
    return [decode(kept) for _, kept in rows]


def _value(step: AnyStep, rows: Rows) -> Any:
    """Return the value for the effect, decoded from what is kept. Without an effect it is not needed."""
    if step.effect_body is None or not rows:
        return None
    if rows[0][0] == WHOLE:
        return step.codec_of_whole.decode(rows[0][1])
    values = _values(step, rows)
    return values[0] if step.kind == "over" and not step.options.size else values
