"""Steps: a body, and optionally an effect with its undo, rows of tables, and a verify function.

The decorators at the end are the types of `@pipeline.step(...)` for type checkers: which body has which output.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from msgspec import Struct

from holdfast.core.circuit import DEFAULT_CIRCUIT, Circuit
from holdfast.core.codec import Codec
from holdfast.core.document import Document
from holdfast.core.errors import DefinitionError
from holdfast.core.model import StepKind
from holdfast.core.moves import Tx
from holdfast.core.plan import StepShape
from holdfast.core.retry import Retry
from holdfast.core.row_tables import RowTable, refuse_bad_table

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")
S = TypeVar("S")
RowOf = TypeVar("RowOf", bound=Mapping[str, Any])

CommitEvery = int | timedelta | tuple[int, timedelta]
"""When a stream is committed: after a number of items, after a time, or at whichever comes first."""

SLACK = timedelta(hours=1)
"""Added to the deadline of a step: a claimed document may wait in its worker. The worker checks `timeout` itself."""
NOTHING: Any = type("Nothing", (), {"__repr__": lambda _: "NOTHING"})()


class At(Generic[T]):
    """A cursor, and a value to keep. Yield it from a stream that has its own kind of cursor.

    - `yield At(cursor)` without a value only moves the cursor.
    - `yield At(None, value)` and `yield At(None)` end the stream. The value is committed together with the end of the
      step. The body is closed there, as by `return`, and is not called again.

    Args:
        cursor: Where the stream goes on after this value: any JSON. The next call of the body gets it as `cursor`.
            None if nothing comes after it.
        value: The item to keep.

    Example:
        @harvest.step
        def fetch(doc, cursor=None):
            while True:
                page = service.page(after=cursor)
                cursor = page.next_token
                yield holdfast.At(cursor, page.records)
    """

    __slots__ = ("cursor", "value")

    def __init__(self, cursor: Any, value: T = NOTHING) -> None:
        self.cursor = cursor
        self.value = value


class Last:
    """An item that `last` marked."""

    __slots__ = ("yielded",)

    def __init__(self, yielded: Any) -> None:
        self.yielded = yielded


def last(item: V) -> V:
    """Mark the last item of a stream, so that it is committed together with the end of the step.

    It is never needed. It saves one commit: a stream of one item costs one commit instead of two. A stream that yields
    more items after it loses nothing.

    Args:
        item: What the stream yields: a value, or an At.

    Returns:
        The marked item. Yield it.

    Example:
        @papers.step
        def extract(doc, cursor=0):
            for number in range(cursor, 10):
                page = read(doc.key, number)
                yield holdfast.last(page) if number == 9 else page
    """
    return cast("V", Last(item))


class Total:
    """How many items a stream will yield in all, as `total` marked it."""

    __slots__ = ("items",)

    def __init__(self, items: int) -> None:
        self.items = items


def total(items: int) -> Any:
    """Mark how many items a stream will yield in all, with those of earlier runs, so that people see how far it is.

    It is not an item: nothing is kept, and the cursor stays. It is stored with the next items. `holdfast show` then
    says "item 6 of 120". A stream may yield it again, also after it was resumed: the newest counts.

    It decides nothing. If the stream yields more items than it said, or ends with fewer, there is a warning in the log,
    and `holdfast show` and `holdfast explain` show both numbers.

    Args:
        items: The number of items.

    Returns:
        The mark. Yield it.

    Example:
        @papers.step
        def extract(doc, cursor=0):
            pages = open_pages(doc.key)
            yield holdfast.total(len(pages))
            for number in range(cursor, len(pages)):
                yield pages[number].text
    """
    return Total(items)


class StepOptions(Struct, frozen=True, kw_only=True):
    """The options of a step. `Pipeline.step` and `Pipeline.gate` explain each."""

    over: str | None = None
    size: int | None = None
    parallel: int = 1
    failure_rate: float = 0.1
    commit_every: CommitEvery | None = None
    cursor_expires: timedelta | None = None
    when_expired: Literal["restart", "fail"] = "restart"
    keep: bool = True
    version: int = 1
    settings: Any = None
    retry: Retry = Retry()
    circuit: Circuit | None = DEFAULT_CIRCUIT
    timeout: timedelta | None = None
    limit: int | None = None
    runs_in: Literal["thread", "process"] = "thread"
    memory: int | None = None
    within: timedelta | None = None
    otherwise: Literal["approve", "reject"] | None = None


class Step(Generic[P, R, K, T]):
    """A named unit of work. `@pipeline.step` and `pipeline.gate` return it.

    Calling a step calls its body, so a unit test is a plain call.

    Args:
        name: Its name.
        body: The function that does the work.
        kind: `"value"`, `"stream"`, `"over"` or `"gate"`.
        options: What `Pipeline.step` was called with.
    """

    def __init__(self, name: str, body: Callable[P, R], *, kind: StepKind, options: StepOptions) -> None:
        self.name = name
        self.body = body
        self.kind: StepKind = kind
        self.options = options
        self.is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
        self.effect_body: Callable[[Tx, Document, Any], object] | None = None
        """All that is written with a move of this step: its effect, and its rows of tables."""
        self.undo_body: Callable[[Tx, Document], object] | None = None
        self.tables: list[RowTable] = []
        self._own_effect = False
        self.verify_body: Callable[[Document], object] | None = None
        kept, item = _kept_types(body, kind, options)
        self.codec_of_whole = Codec(kept, advice=_advice(kept))
        self.codec_of_item = Codec(item, advice=_advice(item))
        self.gives_a_list = kind in ("stream", "over") or get_origin(kept) in (list, Sequence, Iterable)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.body(*args, **kwargs)

    def effect(self, body: Callable[[Tx, Document, K], object]) -> Callable[[Tx, Document, K], object]:
        """Declare the effect of this step. Use it as a decorator.

        The effect writes rows of your own. It runs inside the transaction that moves the checkpoint: both are
        committed, or neither is. It must be a plain `def`, be quick, and not commit or roll back: an effect that ends
        the transaction fails its document with TransactionEnded.

        Args:
            body: A function of `(tx, doc, value)`. `tx` is a `holdfast.Tx`. `value` is what is committed: the value,
                the list of a stream's new items, or the results of one window.

        Returns:
            The function itself.

        Raises:
            DefinitionError: The step already has an effect, or the function cannot be called like this.

        Example:
            @embed.effect
            def store_vectors(tx, doc, vectors):
                tx.executemany("insert into vector values (?, ?)", [(doc.key, str(one)) for one in vectors])
        """
        if self._own_effect:
            raise DefinitionError(f"step {self.name!r} already has an effect; write both into one function")
        _needs_plain_def(body, f"the effect of step {self.name!r} runs inside the transaction")
        needs_parameters(body, ("tx", "doc", "value"), f"the effect of step {self.name!r}")
        self._own_effect = True
        self._add_writer(body)
        return body

    def undo(self, body: Callable[[Tx, Document], object]) -> Callable[[Tx, Document], object]:
        """Declare how the rows of this step's effect are removed. Use it as a decorator.

        A document that changed, or that was rewound, does the step again, as a new generation. Its undo runs once,
        right before the first effect of that generation, in the same transaction. If the step ends without an effect
        this time, the undo runs with the end of the step. `holdfast.withdraw` runs it too.

        It must be a plain `def`, be quick, and not commit or roll back. Rows of `Step.rows` need no undo.

        Args:
            body: A function of `(tx, doc)`. `doc.generation` is the generation that wrote the rows. `doc.payload` and
                `doc.fingerprint` are those of the document now. The output of steps cannot be read.

        Returns:
            The function itself.

        Raises:
            DefinitionError: The step already has an undo, or the function cannot be called like this.

        Example:
            @embed.undo
            def remove_vectors(tx, doc):
                tx.execute("delete from vector where key = ?", (doc.key,))
        """
        if self.undo_body is not None:
            raise DefinitionError(f"step {self.name!r} already has an undo; write both into one function")
        _needs_plain_def(body, f"the undo of step {self.name!r} runs inside the transaction")
        needs_parameters(body, ("tx", "doc"), f"the undo of step {self.name!r}")
        self.undo_body = body
        return body

    def rows(
        self, table: str
    ) -> Callable[[Callable[[Document, K], Iterable[RowOf]]], Callable[[Document, K], Iterable[RowOf]]]:
        """Declare rows that this step writes into a table of yours. Use it as a decorator, once for each table.

        The rows are committed with the checkpoint, like those of an effect. The column `document_id` of the table says
        which document a row belongs to; holdfast fills it in. When the document changes or is rewound, its old rows go
        in the transaction that brings the first new ones, or that ends the step without any. So readers see the old
        rows or the new ones, never both, and no undo is needed.

        Create the table yourself, with `document_id` and an index on it. Names are taken as they are written.

        Args:
            table: The table: `"page"`, or `"archive.page"` with its schema. No other step of the pipeline uses it.

        Returns:
            A decorator for a function of `(doc, value)`. `value` is what is committed, as for an effect. The function
            returns mappings of columns to values, all with the same columns. It must be a plain `def`.

        Raises:
            DefinitionError: The name is wrong or taken, or the function cannot be called like this.

        Example:
            @embed.rows("vector")
            def vectors(doc, vectors):
                return [{"size": len(vector)} for vector in vectors]
        """
        refuse_bad_table(self.name, table)
        if table in [known.table for known in self.tables]:
            raise DefinitionError(f"step {self.name!r} already has rows of table {table!r}; return all in one function")

        def add(body: Callable[[Document, K], Iterable[RowOf]]) -> Callable[[Document, K], Iterable[RowOf]]:
            what = f"the rows of step {self.name!r} for table {table!r}"
            _needs_plain_def(body, f"{what} are made inside the transaction")
            needs_parameters(body, ("doc", "value"), what)
            self.tables.append(RowTable(table, body))
            self._add_writer(self.tables[-1].write)
            return body

        return add

    def _add_writer(self, body: Callable[[Tx, Document, Any], object]) -> None:
        before = self.effect_body
        self.effect_body = body if before is None else partial(_write_both, before, body)

    @property
    def can_undo(self) -> bool:
        """True if the step says how its rows are removed: it has an undo, or all its rows are rows of tables."""
        return self.undo_body is not None or (bool(self.tables) and not self._own_effect)

    def remove_rows(self, tx: Tx, doc: Document) -> None:
        """Remove what an earlier generation of a document wrote in this step.

        Args:
            tx: The transaction.
            doc: The document. Its generation is the one that wrote the rows.
        """
        if self.undo_body is not None:
            self.undo_body(tx, doc)
        for table in reversed(self.tables):
            table.delete(tx, doc)

    def verify(self, body: Callable[[Document], object]) -> Callable[[Document], object]:
        """Declare how to check whether the work of this step is still there. Use it as a decorator.

        It is called for every step behind a document that a worker takes up again, and by `holdfast.verify`. If it
        returns False, the document goes back to this step.

        Args:
            body: A function of `(doc)` that returns True or False.

        Returns:
            The function itself.

        Raises:
            DefinitionError: The step already has a verify function, or the function cannot be called like this.

        Example:
            @upload.verify
            def is_there(doc):
                return bucket.exists(doc.output(upload))
        """
        if self.verify_body is not None:
            raise DefinitionError(f"step {self.name!r} already has a verify function; write both into one")
        _needs_plain_def(body, f"the verify function of step {self.name!r} runs in a thread and returns True or False")
        needs_parameters(body, ("doc",), f"the verify of step {self.name!r}")
        self.verify_body = body
        return body

    @property
    def deadline(self) -> timedelta | None:
        """How long a document may be in this step before other workers take it over; None without `timeout`."""
        return None if self.options.timeout is None else 2 * self.options.timeout + SLACK

    def shape(self) -> StepShape:
        """Return the part of this definition that stores keep.

        Returns:
            Its name, kind, version, source step, `keep` and settings.
        """
        options = self.options
        return StepShape(self.name, self.kind, options.version, options.over, options.keep, options.settings)

    def __repr__(self) -> str:
        return f"<step {self.name} ({self.kind})>"


class ItemStep(Step[P, R, list[T], T]):
    """A step over items without `size=`. Its output is a list, and its effect gets one result."""

    if TYPE_CHECKING:  # these differ from those of a step only in the type of the value

        def effect(  # type: ignore[override]
            self, body: Callable[[Tx, Document, T], object]
        ) -> Callable[[Tx, Document, T], object]: ...

        def rows(  # type: ignore[override]
            self, table: str
        ) -> Callable[[Callable[[Document, T], Iterable[RowOf]]], Callable[[Document, T], Iterable[RowOf]]]: ...


AnyStep = Step[Any, Any, Any, Any]


def _kept_types(body: Callable[..., Any], kind: StepKind, options: StepOptions) -> tuple[Any, Any]:
    """Return the types of the whole output and of one item, as annotated; Any without an annotation."""
    try:
        answer = get_type_hints(body).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any, Any  # annotations that only a type checker can resolve
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


def _advice(kept: Any) -> str:
    """Return what to do about a value that a body returned or yielded, and that is not of the annotated type."""
    rule = "the return annotation of the body decides how a value is stored"
    if kept in (Any, list[Any]):
        return f"{rule}: annotate it with the dataclass, the TypedDict or the msgspec.Struct that it returns or yields"
    return f"{rule}, and here it says {inspect.formatannotation(kept)}"


def _write_both(
    first: Callable[[Tx, Document, Any], object],
    second: Callable[[Tx, Document, Any], object],
    tx: Tx,
    doc: Document,
    value: Any,
) -> None:
    first(tx, doc, value)
    second(tx, doc, value)


def _list_of(kind: Any) -> Any:
    return list.__class_getitem__(kind)


def needs_parameters(body: Callable[..., Any], names: Sequence[str], what: str) -> None:
    """Raise DefinitionError if a function cannot be called with these positional arguments."""
    try:
        inspect.signature(body).bind(*names)
    except TypeError as error:
        raise DefinitionError(f"{what} is called with ({', '.join(names)}): {error}") from error


def _needs_plain_def(body: Callable[..., Any], because: str) -> None:
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise DefinitionError(f"{because}: write it as a plain def that returns")


class PlainDecorator:
    """The decorator for bodies that return a value or yield a stream."""

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


class OverWindowsDecorator(Generic[S]):
    """The decorator for bodies that get a list of items and return a list with one result for each."""

    def __init__(self, add: Callable[[Callable[..., Any]], Any]) -> None:
        self._add = add

    @overload
    def __call__(
        self, body: Callable[Concatenate[Document, list[S], P], Awaitable[list[T]]]
    ) -> Step[Concatenate[Document, list[S], P], Awaitable[list[T]], list[T], T]: ...
    @overload
    def __call__(
        self, body: Callable[Concatenate[Document, list[S], P], list[T]]
    ) -> Step[Concatenate[Document, list[S], P], list[T], list[T], T]: ...
    @overload
    def __call__(
        self, body: Callable[Concatenate[Document, list[S], P], Awaitable[None]]
    ) -> Step[Concatenate[Document, list[S], P], Awaitable[None], None, None]: ...
    @overload
    def __call__(
        self, body: Callable[Concatenate[Document, list[S], P], None]
    ) -> Step[Concatenate[Document, list[S], P], None, None, None]: ...
    def __call__(self, body: Callable[..., Any]) -> Any:
        return self._add(body)


class OverItemsDecorator(Generic[S]):
    """The decorator for bodies that get one item and return one result."""

    def __init__(self, add: Callable[[Callable[..., Any]], Any]) -> None:
        self._add = add

    @overload
    def __call__(
        self, body: Callable[Concatenate[Document, S, P], Awaitable[T]]
    ) -> ItemStep[Concatenate[Document, S, P], Awaitable[T], T]: ...
    @overload
    def __call__(
        self, body: Callable[Concatenate[Document, S, P], T]
    ) -> ItemStep[Concatenate[Document, S, P], T, T]: ...
    def __call__(self, body: Callable[..., Any]) -> Any:
        return self._add(body)
