"""The transform of a load: a function of the user, from one record to one, none or several."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.pipelines.files.columns import WORDS, convert_text
from holdfast.pipelines.files.values import Column, FilesError, Kind, Refusal

_KINDS: dict[Any, Kind] = {
    str: "text",
    int: "integer",
    float: "real",
    bool: "boolean",
    date: "date",
    datetime: "timestamptz",
    bytes: "bytes",
}
_PLAIN: dict[Kind, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "real": (float, int),
    "boolean": (bool,),
    "date": (date,),
    "timestamp": (datetime,),
    "timestamptz": (datetime,),
    "bytes": (bytes,),
}


class Transform:
    """A function of the user, with the types that its annotations name.

    Attributes:
        record: The type of its argument; None if it takes a dict.
        columns: The columns that its result has, if the annotation names a class with fields; otherwise None.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "transform")
        try:
            hints = get_type_hints(function)
        except NameError as error:
            raise FilesError(f"an annotation of {self.name} cannot be resolved: {error}") from error
        parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if len(parameters) != 1 or inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise FilesError(
                f"{self.name} must be a plain function of one record that returns a record, None or a list of records"
            )
        annotated = hints.get(parameters[0].name)
        self.record: Any = annotated if _fields(annotated) is not None else None
        self.columns = _columns(hints.get("return"))

    def rows(self, record: Mapping[str, Any], columns: Sequence[Column]) -> Sequence[tuple[Any, ...]]:
        """Return the rows that the function makes of a record.

        Args:
            record: The record.
            columns: The columns of the target.

        Raises:
            Refusal: The record is not of the annotated type, or the result does not fit the columns.
            Exception: What the function raises.
        """
        argument: Any = record
        if self.record is not None:
            try:
                given = {name: value for name, value in record.items() if value not in ("", None)}
                argument = msgspec.convert(given, self.record, strict=False)
            except msgspec.ValidationError as error:
                raise Refusal(f"it is not a {self.record.__name__}: {error}") from error
        return [_row(made, columns) for made in as_records(self.function(argument))]


def as_records(made: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the records in what a transform returned.

    Raises:
        Refusal: It is neither a record, None, nor a list of records.
    """
    if made is None:
        return
    results: Iterable[Any] = made if isinstance(made, (list, tuple)) and not hasattr(made, "_fields") else (made,)
    for result in results:
        if isinstance(result, Mapping):
            yield result
            continue
        fields = msgspec.to_builtins(result, builtin_types=(datetime, date, bytes)) if _is_record(result) else None
        if not isinstance(fields, dict):
            raise Refusal(f"the transform returned a {type(result).__name__}: it must return a record, None or a list")
        yield fields


def _is_record(value: Any) -> bool:
    return isinstance(value, msgspec.Struct) or hasattr(value, "__dataclass_fields__")


def _row(record: Mapping[str, Any], columns: Sequence[Column]) -> tuple[Any, ...]:
    names = {column.name for column in columns}
    if unknown := [name for name in record if name not in names]:
        raise Refusal(f"the transform returned {', '.join(map(repr, unknown))}, which the target does not have")
    return tuple(value_of(column, record.get(column.name)) for column in columns)


def value_of(column: Column, value: Any) -> Any:
    """Return a value as the target keeps it. Raise Refusal if it is not of the type of the column."""
    if value is None:
        return None
    if column.kind == "json":
        return msgspec.json.encode(value).decode()
    if column.kind == "text" and not isinstance(value, str):
        return msgspec.json.encode(value).decode() if isinstance(value, (dict, list)) else str(value)
    if isinstance(value, str) and column.kind != "text":
        return _value_of_text(column, value)
    if not isinstance(value, _PLAIN[column.kind]) or (isinstance(value, bool) and column.kind != "boolean"):
        raise Refusal(f"its {column.name!r} is {value!r:.60}, which is not {WORDS[column.kind]}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise Refusal(f"its {column.name!r} is {value}, which does not fit into 64 bits")
    if isinstance(value, float) and not float("-inf") < value < float("inf"):
        raise Refusal(f"its {column.name!r} is {value}, which is not a finite number")
    if isinstance(value, str) and "\0" in value:
        raise Refusal(f"its {column.name!r} has a NUL character, which no text in a database can have")
    return value.isoformat() if isinstance(value, (date, datetime)) else value


def _value_of_text(column: Column, value: str) -> Any:
    try:
        return convert_text(column.kind, value)
    except ValueError:
        raise Refusal(f"its {column.name!r} is {value!r:.60}, which is not {WORDS[column.kind]}") from None


def load_transform(path: Path, name: str = "") -> Transform:
    """Load the transform of a file.

    Args:
        path: The file.
        name: The function. Empty: `transform`, or the only function that the file defines.

    Raises:
        FilesError: There is no such file or function, or it cannot be imported.
    """
    if not path.is_file():
        raise FilesError(f"there is no file {path}; a transform is a Python file with one function")
    spec = spec_from_file_location(f"holdfast_transform_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # user code: importing a file may raise anything
        raise FilesError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == spec.name and not key.startswith("_")
    }
    wanted = name or ("transform" if "transform" in own else next(iter(own), "") if len(own) == 1 else "")
    if wanted not in own:
        found = f"it has: {', '.join(own)}" if own else "it has none"
        raise FilesError(
            f"{path} needs one function, or one with the name {name or 'transform'!r}; {found}. "
            f"Name another one as {path.name}:function"
        )
    return Transform(own[wanted])


def _columns(annotation: Any) -> list[Column] | None:
    """Return the columns of the class that a return annotation names: itself, in a list, or beside None."""
    for candidate in _alternatives(annotation):
        fields = _fields(candidate)
        if fields is not None:
            return [Column(name, kind_of_type(type_)) for name, type_ in fields.items()]
    return None


def _alternatives(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, UnionType):
        for part in get_args(annotation):
            yield from _alternatives(part)
    elif get_origin(annotation) in (list, Sequence, Iterable) and get_args(annotation):
        yield from _alternatives(get_args(annotation)[0])
    else:
        yield annotation


def _fields(annotation: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass, TypedDict or msgspec.Struct; None for anything else."""
    if not isinstance(annotation, type):
        return None
    if hasattr(annotation, "__dataclass_fields__") or issubclass(annotation, msgspec.Struct):
        return dict(get_type_hints(annotation))
    if issubclass(annotation, dict) and hasattr(annotation, "__required_keys__"):
        return dict(get_type_hints(annotation))
    return None


def kind_of_type(annotation: Any) -> Kind:
    """Return the type of the column for a Python type. Types without a column of their own are kept as JSON."""
    present = [part for part in _alternatives(annotation) if part not in (None, NoneType)]
    if get_origin(annotation) in (list, Sequence, Iterable):
        return "json"
    return _KINDS.get(present[0], "json") if len(present) == 1 else "json"
