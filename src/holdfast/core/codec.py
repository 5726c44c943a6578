"""How values are kept: JSON text or bytes, and nothing that would not come back equal.

A value may be kept when decoding it gives it back. That one rule refuses sets, NaN, int keys and objects of unknown
classes, and lets dataclasses, Structs, TypedDicts and dates through where the step's annotation names them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec

from holdfast.core.errors import CannotKeep, DefinitionError

Kept = str | bytes
"""A value as stores keep it: JSON text, or bytes as they are."""

_encode = msgspec.json.Encoder().encode
_PLAIN = (str, int, float, bool, type(None))


def encode_json(value: Any) -> str:
    """Gives JSON text for a value of our own making: payloads, cursors, journal details."""
    return _encode(value).decode()


decode_json = msgspec.json.Decoder().decode


def read_scalar(text: str) -> str | int | float | bool | None:
    """Reads what a person typed for a value: JSON where it is a number, true, false, null or in quotes, else text."""
    try:
        value = decode_json(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # half a character, as in names of undecodable files
        return text
    return value if isinstance(value, _PLAIN) else text


def checked_json(value: Any, what: str) -> str:
    """Gives JSON text for a value that a user handed in, or says where it is not JSON."""
    text = ANYTHING.encode(value, lambda: what)
    if isinstance(text, bytes):
        raise CannotKeep(f"{what} cannot be kept: it is bytes, and here only JSON can be; decode it, or name a file")
    return text


def unkept(text: str) -> str | None:
    """Says why text cannot be a name: no database keeps NUL and lone surrogates, as in names of undecodable files."""
    if "\x00" in text:
        return "has a NUL character"
    return "has lone surrogates; decode it with errors='replace'" if _surrogates(text, "") else None


class Codec:
    """Keeps and gives back the values of one type."""

    __slots__ = ("_decode", "_takes_text")

    def __init__(self, kind: Any = Any) -> None:
        try:
            self._decode = msgspec.json.Decoder(kind).decode
            self._takes_text = kind in (Any, str)
        except TypeError as error:
            raise DefinitionError(
                f"values of type {kind!r} cannot be kept: {error}. Annotate the body with JSON types, "
                "a dataclass, a TypedDict or a msgspec.Struct; or return bytes"
            ) from error

    def encode(self, value: Any, what: Callable[[], str] = lambda: "the value") -> Kept:
        """Gives the form that is kept, or raises CannotKeep naming the place that cannot be."""
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
            raise CannotKeep(f"{what()} cannot be kept: {_blamed(value) or error}") from error
        raise CannotKeep(f"{what()} cannot be kept: {_blamed(value) or 'it would not come back equal'}")

    def decode(self, kept: Kept) -> Any:
        """Gives back the value that was kept."""
        return kept if isinstance(kept, bytes) else self._decode(kept)


def _same(back: Any, value: Any) -> bool:
    """Equal but for tuples, which come back as lists."""
    if isinstance(value, (list, tuple)):
        return isinstance(back, (list, tuple)) and len(back) == len(value) and all(map(_same, back, value))
    if isinstance(value, dict):
        return isinstance(back, dict) and back.keys() == value.keys() and all(_same(back[k], value[k]) for k in value)
    return bool(back == value)


def _blamed(value: Any) -> str | None:
    try:
        return _culprit(value)
    except RecursionError:
        return "it holds itself, or is nested too deeply"


def _culprit(value: Any, path: str = "") -> str | None:
    """Finds the first place that is not JSON and says what to do about it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                return f"{path or 'it'} has the key {key!r}, and JSON keys are text; use str(...)"
            if found := _culprit(inner, f"{path}[{key!r}]"):
                return found
        return None
    if isinstance(value, (list, tuple)):
        return next((found for i, inner in enumerate(value) if (found := _culprit(inner, f"{path}[{i}]"))), None)
    if isinstance(value, float) and not isfinite(value):
        return f"{path or 'it'} is {value!r}, which JSON has no word for; use None or text"
    if isinstance(value, str) and not value.isprintable():
        return _surrogates(value, path)
    if isinstance(value, _PLAIN):
        return None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{path or 'it'} is {type(value).__name__}; bytes can be kept only by themselves, not inside JSON"
    return (
        f"{path or 'it'} is a {type(value).__module__}.{type(value).__qualname__}; return JSON (dict, list, str, "
        "int, float, bool, None), bytes, or annotate the body with the dataclass it returns"
    )


def _surrogates(text: str, path: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{path or 'it'} has lone surrogates; decode the text with errors='replace'"
    return None


ANYTHING = Codec()
