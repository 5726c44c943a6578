"""The types of `@pipeline.step(...)`: which body gives which output. Only a checker reads them closely."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, ParamSpec, TypeVar, overload

from holdfast.core.step import At, Step

P = ParamSpec("P")
T = TypeVar("T")


class Plain:
    """The decorator that `pipeline.step(...)` answers for value and stream bodies."""

    def __init__(self, add: Callable[[Callable[..., Any]], Any]) -> None:
        self._add = add

    @overload
    def __call__(self, body: Callable[P, AsyncIterator[At[T]]]) -> Step[P, AsyncIterator[At[T]], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, Iterator[At[T]]]) -> Step[P, Iterator[At[T]], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, AsyncIterator[T]]) -> Step[P, AsyncIterator[T], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, Iterator[T]]) -> Step[P, Iterator[T], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, Awaitable[list[T]]]) -> Step[P, Awaitable[list[T]], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, list[T]]) -> Step[P, list[T], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, Awaitable[T]]) -> Step[P, Awaitable[T], T, T]: ...
    @overload
    def __call__(self, body: Callable[P, T]) -> Step[P, T, T, T]: ...
    def __call__(self, body: Callable[..., Any]) -> Any:
        return self._add(body)


class OverWindows:
    """The decorator for bodies that get a window of items and answer a list, one result for each."""

    def __init__(self, add: Callable[[Callable[..., Any]], Any]) -> None:
        self._add = add

    @overload
    def __call__(self, body: Callable[P, Awaitable[list[T]]]) -> Step[P, Awaitable[list[T]], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, list[T]]) -> Step[P, list[T], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, Awaitable[None]]) -> Step[P, Awaitable[None], None, None]: ...
    @overload
    def __call__(self, body: Callable[P, None]) -> Step[P, None, None, None]: ...
    def __call__(self, body: Callable[..., Any]) -> Any:
        return self._add(body)


class OverItems:
    """The decorator for bodies that get one item and answer one result."""

    def __init__(self, add: Callable[[Callable[..., Any]], Any]) -> None:
        self._add = add

    @overload
    def __call__(self, body: Callable[P, Awaitable[T]]) -> Step[P, Awaitable[T], list[T], T]: ...
    @overload
    def __call__(self, body: Callable[P, T]) -> Step[P, T, list[T], T]: ...
    def __call__(self, body: Callable[..., Any]) -> Any:
        return self._add(body)
