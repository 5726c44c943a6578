"""Encode values for the store: as JSON text, or as bytes.

One rule: a value can be stored if decoding returns an equal value. So sets, NaN, int keys and objects of unknown
classes are refused. Dataclasses, Structs, TypedDicts and dates are allowed if the body's annotation names them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec

from holdfast.core.errors import CannotKeep, DefinitionError

Kept = str | bytes
"""A value as stores keep it: JSON text or bytes."""

_encode = msgspec.json.Encoder().encode
_PLAIN = (str, int, float, bool, type(None))


def encode_json(value: Any) -> str:
    """Encode a value of our own as JSON: a payload, a cursor, a journal detail."""
    return _encode(value).decode()


decode_json = msgspec.json.Decoder().decode


def read_scalar(text: str) -> str | int | float | bool | None:
    """Convert what a person typed: JSON if it is a number, true, false, null or a quoted text; else plain text."""
    try:
        value = decode_json(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # lone surrogates, as in undecodable file names
        return text
    return value if isinstance(value, _PLAIN) else text


def checked_json(value: Any, what: str) -> str:
    """Encode a value of a user as JSON. Raise CannotKeep with the place that is not JSON."""
    text = ANYTHING.encode(value, lambda: what)
    if isinstance(text, bytes):
        raise CannotKeep(
            f"{what} cannot be kept: it is bytes, and only JSON is allowed here; decode it, or pass the path of a file"
        )
    return text


def unkept(text: str) -> str | None:
    """Return why a text cannot be stored as a name, or None. No database stores NUL and lone surrogates."""
    if "\x00" in text:
        return "has a NUL character"
    return "has lone surrogates; decode it with errors='replace'" if _surrogates(text, "") else None


class Codec:
    """Encode and decode the values of one type.

    Args:
        kind: The type. Any JSON by default.
        advice: What to do about a value that is not of this type. It ends the message of CannotKeep.
    """

    __slots__ = ("_advice", "_decode", "_takes_text")

    def __init__(self, kind: Any = Any, *, advice: str = "") -> None:
        self._advice = f"; {advice}" if advice else ""
        try:
            self._decode = msgspec.json.Decoder(kind).decode
            self._takes_text = kind in (Any, str)
        except TypeError as error:
            raise DefinitionError(
                f"values of type {kind!r} cannot be kept: {error}. Annotate the body with JSON types, "
                "a dataclass, a TypedDict or a msgspec.Struct; or return bytes"
            ) from error

    def encode(self, value: Any, what: Callable[[], str] = lambda: "the value") -> Kept:
        """Encode a value. Raise CannotKeep with the place that cannot be stored."""
        if type(value) is bytes:
            return value
        try:
            text = _encode(value)
            if (
                (type(value) is str and self._takes_text)
                or self._decode(text) == value
                or _same(self._decode(text), value)
            ):
                return text.decode()
        except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
            raise CannotKeep(f"{what()} cannot be kept: {self._cause(value, str(error))}") from error
        raise CannotKeep(f"{what()} cannot be kept: {self._cause(value, 'it cannot be read back as an equal value')}")

    def _cause(self, value: Any, error: str) -> str:
        return _blamed(value, self._advice) or error + self._advice

    def decode(self, kept: Kept) -> Any:
        """Decode a stored value."""
        return kept if isinstance(kept, bytes) else self._decode(kept)


def _same(back: Any, value: Any) -> bool:
    """Compare values; tuples equal lists, because they are decoded as lists."""
    if isinstance(value, (list, tuple)):
        return isinstance(back, (list, tuple)) and len(back) == len(value) and all(map(_same, back, value))
    if isinstance(value, dict):
        return isinstance(back, dict) and back.keys() == value.keys() and all(_same(back[k], value[k]) for k in value)
    return bool(back == value)


def _blamed(value: Any, advice: str) -> str | None:
    try:
        return _culprit(value, advice)
    except RecursionError:
        return "it contains itself, or is nested too deeply"


def _culprit(value: Any, advice: str, path: str = "") -> str | None:
    """Return the first place that is not JSON, and what to do about it: the advice, if it is of an unknown class."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                return f"{path or 'it'} has the key {key!r}, but JSON keys are text; use str(...)"
            if found := _culprit(inner, advice, f"{path}[{key!r}]"):
                return found
        return None
    if isinstance(value, (list, tuple)):
        return next(
            (found for i, inner in enumerate(value) if (found := _culprit(inner, advice, f"{path}[{i}]"))), None
        )
    if isinstance(value, float) and not isfinite(value):
        return f"{path or 'it'} is {value!r}, which JSON cannot express; use None or text"
    if isinstance(value, str) and not value.isprintable():
        return _surrogates(value, path)
    if isinstance(value, _PLAIN):
        return None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{path or 'it'} is {type(value).__name__}; bytes can be stored only as the whole value, not inside JSON"
    return (
        f"{path or 'it'} is a {type(value).__module__}.{type(value).__qualname__}, which is neither JSON (dict, list, "
        f"str, int, float, bool, None) nor bytes{advice}"
    )


def _surrogates(text: str, path: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{path or 'it'} has lone surrogates; decode the text with errors='replace'"
    return None


ANYTHING = Codec()
