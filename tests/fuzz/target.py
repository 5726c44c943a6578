"""Fuzz targets: functions that take input, and what is expected of each for any input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Struct

from holdfast.core.errors import HoldfastError, Signal
from tests.fuzz import targets

Attempt = TypeVar("Attempt", bound=Callable[[Any], object])

OURS = (HoldfastError, Signal)
"""The errors that every target may raise. Each has a message that says what is wrong."""


class Target(Struct, frozen=True, kw_only=True):
    """A function that takes input, and what is expected of it for any input.

    Args:
        name: The module and the name of the function.
        expects: One sentence that is true for any input.
        attempt: The function. It returns a value or raises one of `refusals`.
        inputs: The strategy that makes inputs.
        seeds: Valid inputs as bytes, which are mutated. Empty for targets that do not take bytes.
        refusals: The errors that the function may raise.
        sealed: True if the function must not open files, connect or run programs.
        inputs_in_tests: How many inputs the tests feed.
    """

    name: str
    expects: str
    attempt: Callable[[Any], object]
    inputs: SearchStrategy[Any]
    seeds: tuple[bytes, ...] = ()
    refusals: tuple[type[BaseException], ...] = OURS
    sealed: bool = False
    inputs_in_tests: int = 60


_known: dict[str, Target] = {}


def takes(
    inputs: SearchStrategy[Any], expects: str, *, refusals: Sequence[type[BaseException]] = (), **more: Any
) -> Callable[[Attempt], Attempt]:
    """Register a function that takes values as a target."""

    def register(attempt: Attempt) -> Attempt:
        return _register(attempt, expects=expects, inputs=inputs, refusals=(*OURS, *refusals), **more)

    return register


def takes_bytes(
    seeds: Sequence[bytes], expects: str, *, refusals: Sequence[type[BaseException]] = (), sealed: bool = False
) -> Callable[[Attempt], Attempt]:
    """Register a function that takes bytes as a target."""

    def register(attempt: Attempt) -> Attempt:
        inputs = mutated(seeds)
        more: dict[str, Any] = {"seeds": tuple(seeds), "refusals": (*OURS, *refusals), "sealed": sealed}
        return _register(attempt, expects=expects, inputs=inputs, **more)

    return register


def every_target() -> dict[str, Target]:
    """Return all targets by name, except those whose libraries are not installed."""
    for module in iter_modules(targets.__path__):
        with suppress(pytest.skip.Exception):
            import_module(f"{targets.__name__}.{module.name}")
    return {name: _known[name] for name in sorted(_known)}


def target_named(name: str) -> Target:
    """Return one target. Only its own module is imported, because others may need libraries that are missing."""
    import_module(f"{targets.__name__}.{name.partition('.')[0]}")
    return _known[name]


def _register(attempt: Attempt, **fields: Any) -> Attempt:
    name = f"{attempt.__module__.rpartition('.')[2]}.{attempt.__name__}"
    _known[name] = Target(name=name, attempt=attempt, **fields)
    return attempt


def mutated(seeds: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Return a strategy for mutated seeds: parts are deleted, repeated, inserted or overwritten."""
    return st.builds(_edited, st.sampled_from(list(seeds)), st.lists(_EDIT, max_size=6))


_EXTREME = (b"\x00", b"\xff", b"\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff" * 8, b"\x80", b"<", b'"', b"{")
_EDIT = st.tuples(
    st.sampled_from(("cut", "put", "over", "twice", "end")),
    st.integers(0, 1 << 16),
    st.integers(1, 64),
    st.one_of(st.sampled_from(_EXTREME), st.binary(max_size=16)),
)


def _edited(seed: bytes, edits: Sequence[tuple[str, int, int, bytes]]) -> bytes:
    for kind, place, length, data in edits:
        at = place % (len(seed) + 1)
        match kind:
            case "cut":
                seed = seed[:at] + seed[at + length :]
            case "put":
                seed = seed[:at] + data + seed[at:]
            case "over":
                seed = seed[:at] + data + seed[at + len(data) :]
            case "twice":
                seed = seed[:at] + seed[at : at + length] * 3 + seed[at + length :]
            case "end":
                seed = seed[:at]
    return seed
