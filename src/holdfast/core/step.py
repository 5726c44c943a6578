"""Steps: a body, and optionally an effect and a verify."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import Struct

from holdfast.core.codec import Codec
from holdfast.core.document import Document
from holdfast.core.errors import DefinitionError
from holdfast.core.moves import Tx
from holdfast.core.plan import StepKind, StepShape
from holdfast.core.retry import Retry

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

SLACK = timedelta(hours=1)
"""A document may wait in its worker's hand before a step begins. The worker itself sees to its timeouts."""
NOTHING: Any = type("Nothing", (), {"__repr__": lambda _: "NOTHING"})()


class At(Generic[T]):
    """Yielded by a stream that has its own cursor: `yield At(cursor, value)`, or `yield At(cursor)` to only move on."""

    __slots__ = ("cursor", "value")

    def __init__(self, cursor: Any, value: T = NOTHING) -> None:
        self.cursor = cursor
        self.value = value


class Last:
    """What `last` marks."""

    __slots__ = ("yielded",)

    def __init__(self, yielded: Any) -> None:
        self.yielded = yielded


def last(item: V) -> V:
    """Marks the last thing that a stream yields: `yield last(page)`. It is committed together with the step's end.

    Nobody has to know it, but a stream of one item that says so costs one commit, not two. One that yields more after
    all loses nothing: it only commits later.
    """
    return cast("V", Last(item))


class Options(Struct, frozen=True, kw_only=True):
    """What a step was declared with. See `Pipeline.step`, where each is explained."""

    over: str | None = None
    size: int | None = None
    parallel: int = 1
    failure_rate: float = 0.1
    commit_every: int | timedelta | None = None
    cursor_expires: timedelta | None = None
    when_expired: Literal["restart", "fail"] = "restart"
    keep: bool = True
    version: int = 1
    settings: Any = None
    retry: Retry = Retry()
    timeout: timedelta | None = None
    limit: int | None = None
    runs_in: Literal["thread", "process"] = "thread"
    memory: int | None = None
    within: timedelta | None = None
    otherwise: Literal["approve", "reject"] | None = None


class Step(Generic[P, R, K, T]):
    """One named unit of work. Calling it calls its body, so its unit test is a call."""

    def __init__(self, name: str, body: Callable[P, R], *, kind: StepKind, options: Options) -> None:
        self.name = name
        self.body = body
        self.kind: StepKind = kind
        self.options = options
        self.is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
        self.effect_body: Callable[[Tx, Document, Any], object] | None = None
        self.verify_body: Callable[[Document], object] | None = None
        kept, item = _kept_types(body, kind, options)
        self.codec_of_whole = Codec(kept)
        self.codec_of_item = Codec(item)
        self.gives_a_list = kind in ("stream", "over") or get_origin(kept) in (list, Sequence, Iterable)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.body(*args, **kwargs)

    def effect(self, body: Callable[[Tx, Document, V], object]) -> Callable[[Tx, Document, V], object]:
        """Declares what to write, through the given transaction, when this step's work is committed."""
        if self.effect_body is not None:
            raise DefinitionError(f"step {self.name!r} has an effect already; write both into one function")
        _needs_plain_def(body, f"the effect of step {self.name!r} runs inside the transaction")
        needs_parameters(body, ("tx", "doc", "value"), f"the effect of step {self.name!r}")
        self.effect_body = body
        return body

    def verify(self, body: Callable[[Document], object]) -> Callable[[Document], object]:
        """Declares how to ask whether this step's earlier work is still there. Answers True or False."""
        if self.verify_body is not None:
            raise DefinitionError(f"step {self.name!r} has a verify already; write both into one function")
        _needs_plain_def(
            body, f"the verify of step {self.name!r} is asked on a thread, and its answer is True or False"
        )
        needs_parameters(body, ("doc",), f"the verify of step {self.name!r}")
        self.verify_body = body
        return body

    @property
    def deadline(self) -> timedelta | None:
        """When others take a document from a worker that lives but is stuck. The worker itself gives up long before."""
        return None if self.options.timeout is None else 2 * self.options.timeout + SLACK

    def shape(self) -> StepShape:
        """Gives what stores remember of this step."""
        options = self.options
        return StepShape(self.name, self.kind, options.version, options.over, options.keep, options.settings)

    def __repr__(self) -> str:
        return f"<step {self.name} ({self.kind})>"


AnyStep = Step[Any, Any, Any, Any]


def _kept_types(body: Callable[..., Any], kind: StepKind, options: Options) -> tuple[Any, Any]:
    """Answers the types of the whole output and of one item, as annotated; Any where nothing is said."""
    try:
        answer = get_type_hints(body).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any, Any  # annotations that only a checker can read
    if answer is None or answer is type(None):
        return Any, Any
    arguments = get_args(answer)
    if kind == "stream":
        item = arguments[0] if arguments else Any
        inner = get_args(item)[0] if get_origin(item) is At and get_args(item) else item
        item = Any if inner is At or isinstance(inner, TypeVar) else inner
        return _list_of(item), item
    if get_origin(answer) in (list, Sequence):
        return answer, arguments[0] if arguments else Any
    if kind == "over" and options.size is None:
        return _list_of(answer), answer
    return answer, Any if answer is list else answer


def _list_of(kind: Any) -> Any:
    return list.__class_getitem__(kind)


def needs_parameters(body: Callable[..., Any], names: Sequence[str], what: str) -> None:
    """Refuses a function that cannot be called with these positional arguments."""
    try:
        inspect.signature(body).bind(*names)
    except TypeError as error:
        raise DefinitionError(f"{what} is called with ({', '.join(names)}): {error}") from error


def _needs_plain_def(body: Callable[..., Any], because: str) -> None:
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise DefinitionError(f"{because}: write it as a plain def that returns")
