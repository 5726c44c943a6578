"""Load a pipeline from a Python file or module."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from msgspec import Struct

import holdfast
from holdfast.cli.context import CliError
from holdfast.core.errors import DefinitionError
from holdfast.core.pipeline import Pipeline

PACKAGE = str(Path(holdfast.__file__).parent)
NOT_USER_CODE = ("<frozen", PACKAGE, str(Path(os.__file__).parent))


class LoadedPipeline(Struct, frozen=True):
    """A pipeline, and the functions `documents()` and `prepare(tx)` of its file, if there are any."""

    pipeline: Pipeline
    spec: str
    file: Path | None = None
    documents: Callable[[], Iterable[Any]] | None = None
    prepare: Callable[[Any], object] | None = None


class PipelineNotFound(CliError):
    """There is no such file or module. Commands that also accept other names add them to the message."""


def load_pipeline(spec: str) -> LoadedPipeline:
    """Load a pipeline: `file.py`, `file.py:name`, `module` or `module:name`."""
    source, _, name = spec.partition(":")
    with user_code_errors(f"{source} cannot be imported", "correct it and run the command again"):
        module = _from_file(Path(source)) if _is_file(source) else _from_module(source)
    file = Path(module.__file__).absolute() if module.__file__ else None
    pipeline = _choose(module, source, name)
    _ = pipeline.first  # a pipeline without steps is refused here, not in the middle of a submit
    return LoadedPipeline(pipeline, spec, file, _function(module, "documents"), _function(module, "prepare"))


def _function(module: ModuleType, name: str) -> Any:
    function = getattr(module, name, None)
    return function if callable(function) else None


def _is_file(source: str) -> bool:
    return source.endswith(".py") or "/" in source or "\\" in source or is_file(source)


def _from_file(path: Path) -> ModuleType:
    if is_folder(path):
        _refuse_folder(path)
    if not is_file(path):
        raise PipelineNotFound(
            f"there is no file {path}; name the Python file (or module) with your pipeline{_nearby(path)}"
        )
    sys.path.insert(0, str(path.parent.absolute()))  # as with `python file.py`: it can import files beside it
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names or not path.stem.isidentifier()
    name = f"holdfast_pipeline_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CliError(f"{path} is not a Python file; its name should end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _refuse_folder(path: Path) -> NoReturn:
    raise CliError(
        f"{path} is a folder; the first argument must be the Python file with the pipeline: "
        f"holdfast run pipeline.py {path}{_nearby(path)}"
    )


def _nearby(path: Path) -> str:
    folder = path.parent if is_folder(path.parent) else Path()
    scripts = sorted(str(file) for file in folder.glob("*.py"))
    return f"; Python files there: {', '.join(scripts[:10])}" if scripts else ""


def _from_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    if is_folder(name) and not is_file(Path(name, "__init__.py")):
        _refuse_folder(Path(name))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise PipelineNotFound(
                f"there is no file and no module {name}; name the Python file with your pipeline{_nearby(Path(name))}"
            ) from error
        raise


def _choose(module: ModuleType, source: str, name: str) -> Pipeline:
    found: dict[str, Pipeline] = {}
    for attribute, value in vars(module).items():
        if isinstance(value, Pipeline) and all(value is not other for other in found.values()):
            found[attribute] = value
    by_name = found | {pipeline.name: pipeline for pipeline in found.values()} | _aliases(module)
    listed = ", ".join(f"{source}:{attribute}" for attribute in found)
    if name:
        if name in by_name:
            return by_name[name]
        raise CliError(f"{source} has no pipeline {name!r}" + (f"; it has: {listed}" if found else _how_to(source)))
    if not found:
        raise CliError(f"{source} has no pipeline{_how_to(source)}")
    if len(found) > 1:
        raise CliError(f"{source} has {len(found)} pipelines; say which: {listed}")
    return next(iter(found.values()))


def _aliases(module: ModuleType) -> dict[str, Pipeline]:
    return {attribute: value for attribute, value in vars(module).items() if isinstance(value, Pipeline)}


def _how_to(source: str) -> str:
    name = Path(source).stem.rpartition(".")[2]
    name = name if name.isidentifier() else "papers"
    return f'; write {name} = holdfast.Pipeline("{name}") at its top level and add steps with @{name}.step'


class user_code_errors:  # noqa: N801 - used like a function, in a with statement
    """Turn an error of the user's code into a CliError that shows only the user's frames, and what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        self._what = what
        self._remedy = remedy

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or isinstance(error, (CliError, KeyboardInterrupt, GeneratorExit)):
            return
        if isinstance(error, SystemExit):
            raise CliError(f'{self._what}: it called sys.exit; put that under `if __name__ == "__main__":`') from error
        if not isinstance(error, Exception):
            return
        text = "".join(traceback.format_list(user_frames(trace))) + _error_line(error)
        raise CliError(f"{self._what}; {self._remedy}:\n{text.rstrip()}") from error


def _error_line(error: Exception) -> str:
    if isinstance(error, DefinitionError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception_only(error))


def user_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """Return the frames of the user's code, without those of holdfast and of installed packages."""
    frames = traceback.extract_tb(trace)
    users = [
        frame for frame in frames if not frame.filename.startswith(NOT_USER_CODE) and "-packages" not in frame.filename
    ]
    return users or [frame for frame in frames if not frame.filename.startswith(("<frozen", PACKAGE))]


def is_folder(path: str | Path) -> bool:
    """Return True if the folder exists. Unlike pathlib, never raise: a name that is too long is no folder."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: str | Path) -> bool:
    """Return True if the file exists. Never raise."""
    return os.path.isfile(path)  # noqa: PTH113
