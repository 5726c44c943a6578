"""Pipelines: a name and an ordered list of steps. A wrong definition raises an error where it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from holdfast.core.batches import CLOSING
from holdfast.core.circuit import DEFAULT_CIRCUIT, Circuit
from holdfast.core.document import Document
from holdfast.core.errors import DefinitionError
from holdfast.core.orphans import Strategy
from holdfast.core.plan import Shape
from holdfast.core.retry import Retry
from holdfast.core.step import (
    AnyStep,
    At,
    CommitEvery,
    ItemStep,
    OverItemsDecorator,
    OverWindowsDecorator,
    PlainDecorator,
    Step,
    StepOptions,
)
from holdfast.core.validation import (
    kind_of,
    plain_settings,
    refuse_bad_gate,
    refuse_bad_name,
    refuse_bad_options,
    refuse_bad_strategy,
    refuse_unknown_options,
    refuse_unused_options,
)

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class Pipeline:
    """A name and an ordered list of steps. The steps run in the order in which they are written.

    A pipeline is only a definition: making one opens nothing and starts nothing.

    Args:
        name: A letter, then letters, digits, `_`, `-` or `.`; at most 63 characters.
        renamed: Old names of steps and the names under which their documents go on, such as `{"chunk": "split"}`.
        orphans: What workers do with documents of a dead worker, or with documents whose step is overdue: `"requeue"`
            tries them again as often as `Retry(crashes=)` allows, `"fail"` makes them dead letters at once,
            `"review"` pauses them for a person.
        tolerates: The share of a batch that may be dead letters when the batch is closed, without a person accepting
            them. 0.05 is five in a hundred.

    Raises:
        DefinitionError: A name or a value is wrong.

    Example:
        papers = holdfast.Pipeline("papers")


        @papers.step
        def extract(doc, cursor=0):
            for number in range(cursor, doc.payload["pages"]):
                yield {"number": number}
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
        if name.endswith(CLOSING) and not isinstance(self, ClosingSteps):
            raise DefinitionError(
                f"pipeline {name!r}: a name that ends in {CLOSING!r} is that of closing steps; add them with "
                "@papers.closing to the pipeline papers"
            )
        refuse_bad_strategy(name, orphans)
        if not isinstance(tolerates, (int, float)) or not 0 <= tolerates <= 1:
            raise DefinitionError(
                f"pipeline {name!r}: tolerates={tolerates!r} must be between 0 and 1; 0.05 is five in a hundred"
            )
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
        over: Step[Any, Any, Any, S],
        size: int,
        parallel: int = 1,
        failure_rate: float = 0.1,
        name: str | None = None,
        keep: bool = True,
        version: int = 1,
        settings: Any = None,
        retry: Retry | None = None,
        circuit: Circuit | None = DEFAULT_CIRCUIT,
        timeout: timedelta | None = None,
        limit: int | None = None,
        runs_in: Literal["thread", "process"] = "thread",
        memory: int | None = None,
    ) -> OverWindowsDecorator[S]: ...
    @overload
    def step(
        self,
        *,
        over: Step[Any, Any, Any, S],
        parallel: int = 1,
        failure_rate: float = 0.1,
        name: str | None = None,
        keep: bool = True,
        version: int = 1,
        settings: Any = None,
        retry: Retry | None = None,
        circuit: Circuit | None = DEFAULT_CIRCUIT,
        timeout: timedelta | None = None,
        limit: int | None = None,
        runs_in: Literal["thread", "process"] = "thread",
        memory: int | None = None,
    ) -> OverItemsDecorator[S]: ...
    @overload
    def step(
        self,
        *,
        name: str | None = None,
        commit_every: CommitEvery | None = None,
        cursor_expires: timedelta | None = None,
        when_expired: Literal["restart", "fail"] = "restart",
        keep: bool = True,
        version: int = 1,
        settings: Any = None,
        retry: Retry | None = None,
        circuit: Circuit | None = DEFAULT_CIRCUIT,
        timeout: timedelta | None = None,
        limit: int | None = None,
        runs_in: Literal["thread", "process"] = "thread",
        memory: int | None = None,
    ) -> PlainDecorator: ...
    def step(self, *given: Any, **options: Any) -> Any:
        """Add a step. Use it as a decorator, with or without options.

        A body that returns is a value: one commit. A body that yields is a stream: it has a parameter `cursor`, items
        are committed as they come, and a resumed call goes on after the last one. With `over=` the body gets the items
        of an earlier step. `def` and `async def` both work.

        Args:
            *given: The body, if the decorator has no options.
            **options: The options below.
            name: Its name in stores and on pages. The name of the function by default.
            over: Process the items that this earlier step kept.
            size: With `over`: call the body with a list of up to this many items; it returns a list with one result
                for each. Without `size` the body gets one item and returns one result.
            parallel: With `over`: how many calls run at the same time for one document.
            failure_rate: With `over`: the share of items that may fail. More stop the step with TooManyFailures.
            commit_every: For streams: commit after this many items; after this long, also if no further item comes;
                or whichever comes first: `(500, timedelta(minutes=5))`. By default items that come within about five
                milliseconds are committed together.
            cursor_expires: For streams: how long after its last commit a cursor can still be used.
            when_expired: For streams: `"restart"` the step as a new generation, or `"fail"`.
            keep: False if only the effect matters. Then later steps cannot read what this one returned.
            version: Raise it when the body would now return something else. See `holdfast plan`.
            settings: Any JSON that decides what the body returns, such as a size or the name of a model.
            retry: How often to try, and how long to wait between attempts.
            circuit: When the step is paused for all documents, because a service is away. By default after five
                failures in a row that no document is to blame for. None: never.
            timeout: How long one call of the body may take.
            limit: How many documents may be in this step at the same time, over all workers.
            runs_in: `"thread"`, or `"process"` for a child process: a crash of the body then hurts only its document.
            memory: With `runs_in="process"`: how many bytes of memory the body may use.

        Returns:
            The Step. With options: a decorator that returns it.

        Raises:
            DefinitionError: The name is taken, an option is unknown, wrong or does nothing on such a step, or the
                function cannot be the body of a step.

        Example:
            @papers.step(over=chunk, size=64, parallel=3, retry=holdfast.Retry(attempts=5))
            async def embed(doc, chunks):
                return await model.embed(chunks)
        """
        if given:
            return self._add(given[0], {})
        decorator = (
            PlainDecorator
            if "over" not in options
            else OverWindowsDecorator
            if options.get("size")
            else OverItemsDecorator
        )
        return decorator(lambda body: self._add(body, options))

    @property
    def closing(self) -> ClosingSteps:
        """The closing steps: `@papers.closing` adds one, with or without the options of `step`.

        They run once when a batch is closed. They are a pipeline of their own with one document for each closed batch.
        The key of that document is the name of the batch. Its payload is the summary of the batch report.
        """
        if self._closing is None:
            self._closing = ClosingSteps(self.name + CLOSING)
        return self._closing

    @overload
    def gate(self, name: str) -> AnyStep: ...
    @overload
    def gate(self, name: str, *, within: timedelta, otherwise: Literal["approve", "reject"]) -> AnyStep: ...
    def gate(self, name: str, **late: Any) -> AnyStep:
        """Add a gate: a step without a body at which every document is paused until a person decides.

        Args:
            name: Its name.
            **late: The options below. Give both or none.
            within: How long people have to decide. Without it documents wait without a time limit.
            otherwise: What is decided after that for documents that nobody decided about: `"approve"` or `"reject"`.

        Returns:
            The gate. Later steps read the decision with `doc.decision(gate)`.

        Raises:
            DefinitionError: The name is taken, or an option is wrong.

        Example:
            approval = offers.gate("approval", within=timedelta(days=3), otherwise="reject")
        """
        refuse_bad_gate(name, late)
        return self._append(Step(name, _gate, kind="gate", options=StepOptions(keep=False, **late)))

    def _add(self, body: Callable[..., Any], given: dict[str, Any]) -> AnyStep:
        name = given.pop("name", None) or getattr(body, "__name__", "")
        options = self._options(name, given)
        kind = kind_of(name, body, options)
        refuse_unused_options(name, kind, given)
        made = ItemStep if kind == "over" and options.size is None else Step
        return self._append(made(name, body, kind=kind, options=options))

    def _append(self, step: AnyStep) -> AnyStep:
        refuse_bad_name(step.name, "a step's name")
        if step.name in self._places:
            raise DefinitionError(
                f"{self.name!r} already has a step {step.name!r}; pass name= to give this one another name"
            )
        self._places[step.name] = len(self.steps)
        self.steps.append(step)
        return step

    def _options(self, name: str, given: dict[str, Any]) -> StepOptions:
        refuse_unknown_options(f"step {name!r}", given, ("name", *StepOptions.__struct_fields__))
        if given.get("retry") is None:
            given.pop("retry", None)
        if "over" in given:
            given["over"] = self._source(name, given["over"])
        options = StepOptions(**given)
        refuse_bad_options(name, options)
        return replace(options, settings=plain_settings(name, options.settings))

    def _source(self, name: str, over: object) -> str:
        if not isinstance(over, Step):
            raise DefinitionError(f"step {name!r}: over= must be a step, such as over=chunk, not {over!r}")
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
        """The first step. Raises DefinitionError if there is none."""
        if not self.steps:
            raise DefinitionError(f"pipeline {self.name!r} has no steps; add one with @{self.name}.step")
        return self.steps[0]

    def after(self, name: str) -> AnyStep | None:
        """Return the next step.

        Args:
            name: The name of a step.

        Returns:
            The step after it, or None after the last.

        Raises:
            KeyError: There is no such step.
        """
        place = self._places[name] + 1
        return self.steps[place] if place < len(self.steps) else None

    def behind(self, name: str) -> Sequence[AnyStep]:
        """Return the earlier steps.

        Args:
            name: The name of a step.

        Returns:
            The steps before it, in order.

        Raises:
            KeyError: There is no such step.
        """
        return self.steps[: self._places[name]]

    def shape(self) -> Shape:
        """Return the part of this definition that stores keep. Documents are pinned to it.

        Returns:
            The name, the shapes of the steps, and `renamed`.

        Raises:
            DefinitionError: There are no steps, two steps have rows of one table, or `renamed` names a step that is
                not there or an old name that is.
        """
        _ = self.first
        self._refuse_shared_tables()
        for old, new in self._renamed.items():
            if new not in self._places:
                raise DefinitionError(f"{self.name!r}: renamed={{{old!r}: {new!r}}}, but there is no step {new!r}")
            if old in self._places:
                raise DefinitionError(f"pipeline {self.name!r}: renamed= contains {old!r}, which is still a step")
        return Shape(self.name, tuple(step.shape() for step in self.steps), self._renamed)

    def _refuse_shared_tables(self) -> None:
        """Raise DefinitionError if two steps have rows of one table: each would delete the rows of the other."""
        owners: dict[str, str] = {}
        for step in self.steps:
            for table in step.tables:
                owner = owners.setdefault(table.identity, step.name)
                if owner != step.name:
                    raise DefinitionError(
                        f"steps {owner!r} and {step.name!r} of pipeline {self.name!r} both have rows of "
                        f"table {table.table!r}: give each its own table, or write one in an effect with an undo"
                    )

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {' → '.join(step.name for step in self.steps)}>"


class ClosingSteps(Pipeline):
    """The closing steps of a pipeline. Call it to add a step."""

    __call__ = Pipeline.step


def _gate(doc: Document) -> None:
    """Do nothing: a gate has no body."""
