"""Targets: what takes input from outside, and what may be expected of it whatever the input is."""

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
"""What may be raised: each of them says in a sentence what is wrong."""


class Target(Struct, frozen=True, kw_only=True):
    """Something that takes input, and the sentence that holds for any.

    `attempt` gives a value or raises one of `refusals`. `seeds` are whole inputs, of bytes, that are changed at will;
    other targets have `inputs`, which makes values. A sealed one opens no file, connects to nothing and runs nothing.
    """

    name: str
    expects: str
    attempt: Callable[[Any], object]
    inputs: SearchStrategy[Any]
    seeds: tuple[bytes, ...] = ()
    refusals: tuple[type[BaseException], ...] = OURS
    sealed: bool = False
    moment: int = 60
    """How many inputs the tests feed it."""


_known: dict[str, Target] = {}


def takes(
    inputs: SearchStrategy[Any], expects: str, *, refusals: Sequence[type[BaseException]] = (), **more: Any
) -> Callable[[Attempt], Attempt]:
    """Makes a target of a function that takes values."""

    def register(attempt: Attempt) -> Attempt:
        return _register(attempt, expects=expects, inputs=inputs, refusals=(*OURS, *refusals), **more)

    return register


def takes_bytes(
    seeds: Sequence[bytes], expects: str, *, refusals: Sequence[type[BaseException]] = (), sealed: bool = False
) -> Callable[[Attempt], Attempt]:
    """Makes a target of a function that takes bytes."""

    def register(attempt: Attempt) -> Attempt:
        inputs = mutated(seeds)
        more: dict[str, Any] = {"seeds": tuple(seeds), "refusals": (*OURS, *refusals), "sealed": sealed}
        return _register(attempt, expects=expects, inputs=inputs, **more)

    return register


def every_target() -> dict[str, Target]:
    """Gives all targets by their names, but for families whose libraries are not there."""
    for module in iter_modules(targets.__path__):
        with suppress(pytest.skip.Exception):
            import_module(f"{targets.__name__}.{module.name}")
    return {name: _known[name] for name in sorted(_known)}


def target_named(name: str) -> Target:
    """Gives one target. Only its own module is imported: what others need may not be there."""
    import_module(f"{targets.__name__}.{name.partition('.')[0]}")
    return _known[name]


def _register(attempt: Attempt, **what: Any) -> Attempt:
    name = f"{attempt.__module__.rpartition('.')[2]}.{attempt.__name__}"
    _known[name] = Target(name=name, attempt=attempt, **what)
    return attempt


def mutated(seeds: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Gives inputs that are nearly one of the seeds: with places cut, doubled, replaced, or numbers made extreme."""
    return st.builds(_edited, st.sampled_from(list(seeds)), st.lists(_EDIT, max_size=6))


_EXTREME = (b"\x00", b"\xff", b"\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff" * 8, b"\x80", b"<", b'"', b"{")
_EDIT = st.tuples(
    st.sampled_from(("cut", "put", "over", "twice", "end")),
    st.integers(0, 1 << 16),
    st.integers(1, 64),
    st.one_of(st.sampled_from(_EXTREME), st.binary(max_size=16)),
)


def _edited(seed: bytes, edits: Sequence[tuple[str, int, int, bytes]]) -> bytes:
    for kind, place, length, some in edits:
        at = place % (len(seed) + 1)
        match kind:
            case "cut":
                seed = seed[:at] + seed[at + length :]
            case "put":
                seed = seed[:at] + some + seed[at:]
            case "over":
                seed = seed[:at] + some + seed[at + len(some) :]
            case "twice":
                seed = seed[:at] + seed[at : at + length] * 3 + seed[at + length :]
            case "end":
                seed = seed[:at]
    return seed
