"""Pipelines: a name and an ordered list of steps. Pure definitions; wrong ones are refused when written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from holdfast.core.batches import CLOSING
from holdfast.core.decorators import OverItems, OverWindows, Plain
from holdfast.core.definition import (
    kind_of,
    plain_settings,
    refuse_bad_gate,
    refuse_bad_name,
    refuse_bad_options,
    refuse_bad_strategy,
)
from holdfast.core.document import Document
from holdfast.core.errors import DefinitionError
from holdfast.core.orphans import Strategy
from holdfast.core.plan import Shape
from holdfast.core.retry import Retry
from holdfast.core.step import AnyStep, At, Options, Step

P = ParamSpec("P")
T = TypeVar("T")


class Pipeline:
    """A name and an ordered list of steps. The order is the order in which they are written.

    renamed    which steps of earlier versions go on under which names
    orphans    what workers do with documents of a worker that is gone, or whose step is overdue: "requeue" them to be
               tried again as often as their step allows, "fail" them as dead letters at once, or keep them for "review"
    tolerates  the share of a batch's documents that may be dead letters, accepted by nobody, when it is closed
    """

    def __init__(
        self,
        name: str,
        *,
        renamed: Mapping[str, str] | None = None,
        orphans: Strategy = "requeue",
        tolerates: float = 0.0,
    ) -> None:
        refuse_bad_name(name, "a pipeline's name")
        refuse_bad_strategy(name, orphans)
        if not isinstance(tolerates, (int, float)) or not 0 <= tolerates <= 1:
            raise DefinitionError(f"pipeline {name!r}: tolerates={tolerates!r} is no share; 0.05 is five in a hundred")
        self.name = name
        self.orphans: Strategy = orphans
        self.tolerates = tolerates
        self._closing: ClosingSteps | None = None
        self.steps: list[AnyStep] = []
        self._renamed = dict(renamed or {})
        self._places: dict[str, int] = {}

    @overload
    def step(self, body: Callable[P, AsyncIterator[At[T]]], /) -> Step[P, AsyncIterator[At[T]], list[T], T]: ...
    @overload
    def step(self, body: Callable[P, Iterator[At[T]]], /) -> Step[P, Iterator[At[T]], list[T], T]: ...
    @overload
    def step(self, body: Callable[P, AsyncIterator[T]], /) -> Step[P, AsyncIterator[T], list[T], T]: ...
    @overload
    def step(self, body: Callable[P, Iterator[T]], /) -> Step[P, Iterator[T], list[T], T]: ...
    @overload
    def step(self, body: Callable[P, Awaitable[list[T]]], /) -> Step[P, Awaitable[list[T]], list[T], T]: ...
    @overload
    def step(self, body: Callable[P, list[T]], /) -> Step[P, list[T], list[T], T]: ...
    @overload
    def step(self, body: Callable[P, Awaitable[T]], /) -> Step[P, Awaitable[T], T, T]: ...
    @overload
    def step(self, body: Callable[P, T], /) -> Step[P, T, T, T]: ...
    @overload
    def step(
        self,
        *,
        over: AnyStep,
        size: int,
        parallel: int = 1,
        failure_rate: float = 0.1,
        name: str | None = None,
        keep: bool = True,
        version: int = 1,
        settings: Any = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        limit: int | None = None,
        runs_in: Literal["thread", "process"] = "thread",
        memory: int | None = None,
    ) -> OverWindows: ...
    @overload
    def step(
        self,
        *,
        over: AnyStep,
        parallel: int = 1,
        failure_rate: float = 0.1,
        name: str | None = None,
        keep: bool = True,
        version: int = 1,
        settings: Any = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        limit: int | None = None,
        runs_in: Literal["thread", "process"] = "thread",
        memory: int | None = None,
    ) -> OverItems: ...
    @overload
    def step(
        self,
        *,
        name: str | None = None,
        commit_every: int | timedelta | None = None,
        cursor_expires: timedelta | None = None,
        when_expired: Literal["restart", "fail"] = "restart",
        keep: bool = True,
        version: int = 1,
        settings: Any = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        limit: int | None = None,
        runs_in: Literal["thread", "process"] = "thread",
        memory: int | None = None,
    ) -> Plain: ...
    def step(self, *given: Any, **options: Any) -> Any:
        """Adds a step; used as a decorator, with or without options.

        name          what it is called in stores and pages; the function's name otherwise
        over          walk the items that an earlier step kept
        size          with over: give the body windows of so many items, and it answers a list of results
        parallel      with over: so many windows at once
        failure_rate  with over: the share of items that may be set aside before the step stops
        commit_every  streams: after so many items, or after so long; as they come otherwise
        cursor_expires  streams: how long a cursor may be gone on from
        when_expired  streams: "restart" the step as a new generation, or "fail"
        keep          False when only the effect matters and nothing is read later
        version       raise it when the body would now answer differently
        settings      any JSON that decides what the body answers: a size, the name of a model
        retry         how often, and how long between
        timeout       how long one call of the body may take
        limit         how many documents may be in this step at once, over all workers
        runs_in       "process": in a child of its own, so that a crash is this document's alone
        memory        with runs_in="process": how many bytes the body may take
        """
        if given:
            return self._add(given[0], {})
        decorator = Plain if "over" not in options else OverWindows if options.get("size") else OverItems
        return decorator(lambda body: self._add(body, options))

    @property
    def closing(self) -> ClosingSteps:
        """Adds a closing step, as `step` does; `@papers.closing`, with or without options.

        Closing steps are a pipeline of their own, with one document for each batch that is closed: its key is the
        batch's name, its payload the summary of the batch's report.
        """
        if self._closing is None:
            self._closing = ClosingSteps(self.name + CLOSING)
        return self._closing

    @overload
    def gate(self, name: str) -> AnyStep: ...
    @overload
    def gate(self, name: str, *, within: timedelta, otherwise: Literal["approve", "reject"]) -> AnyStep: ...
    def gate(self, name: str, **late: Any) -> AnyStep:
        """Adds a gate: every document is parked here until a person decides.

        within     how long somebody has to decide
        otherwise  what is decided for everybody after that: "approve" or "reject"
        """
        refuse_bad_gate(name, late)
        return self._append(Step(name, _gate, kind="gate", options=Options(keep=False, **late)))

    def _add(self, body: Callable[..., Any], given: dict[str, Any]) -> AnyStep:
        name = given.pop("name", None) or getattr(body, "__name__", "")
        options = self._options(name, given)
        kind = kind_of(name, body, options)
        return self._append(Step(name, body, kind=kind, options=options))

    def _append(self, step: AnyStep) -> AnyStep:
        refuse_bad_name(step.name, "a step's name")
        if step.name in self._places:
            raise DefinitionError(f"{self.name!r} has a step {step.name!r} already; pass name= to tell them apart")
        self._places[step.name] = len(self.steps)
        self.steps.append(step)
        return step

    def _options(self, name: str, given: dict[str, Any]) -> Options:
        if given.get("retry") is None:
            given.pop("retry", None)
        if "over" in given:
            given["over"] = self._source(name, given["over"])
        try:
            options = Options(**given)
        except TypeError as error:
            raise DefinitionError(f"step {name!r}: {error}; the options are explained at Pipeline.step") from error
        refuse_bad_options(name, options, given)
        return replace(options, settings=plain_settings(name, options.settings))

    def _source(self, name: str, over: object) -> str:
        if not isinstance(over, Step):
            raise DefinitionError(f"step {name!r}: over= takes a step, such as over=chunk, not {over!r}")
        if over.name not in self._places or self.steps[self._places[over.name]] is not over:
            raise DefinitionError(f"step {name!r}: over={over.name} is not an earlier step of pipeline {self.name!r}")
        if not over.options.keep:
            raise DefinitionError(f"step {name!r}: over={over.name} keeps nothing (keep=False), so there are no items")
        return over.name

    def __getitem__(self, name: str) -> AnyStep:
        return self.steps[self._places[name]]

    def __contains__(self, name: str) -> bool:
        return name in self._places

    @property
    def first(self) -> AnyStep:
        """The step at which documents begin."""
        if not self.steps:
            raise DefinitionError(f"pipeline {self.name!r} has no steps; add one with @{self.name}.step")
        return self.steps[0]

    def after(self, name: str) -> AnyStep | None:
        """Gives the one successor of a step, or None after the last."""
        place = self._places[name] + 1
        return self.steps[place] if place < len(self.steps) else None

    def behind(self, name: str) -> Sequence[AnyStep]:
        """Gives the steps before this one."""
        return self.steps[: self._places[name]]

    def shape(self) -> Shape:
        """Gives what stores remember of this pipeline."""
        _ = self.first
        for old, new in self._renamed.items():
            if new not in self._places:
                raise DefinitionError(f"{self.name!r}: renamed={{{old!r}: {new!r}}}, but there is no step {new!r}")
            if old in self._places:
                raise DefinitionError(f"pipeline {self.name!r}: renamed names {old!r}, which is still a step")
        return Shape(self.name, tuple(step.shape() for step in self.steps), self._renamed)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {' → '.join(step.name for step in self.steps)}>"


class ClosingSteps(Pipeline):
    """What is done once when a batch is closed: a pipeline that is called to add a step."""

    __call__ = Pipeline.step


def _gate(doc: Document) -> None:
    """A gate has no work to do."""
