"""Pipeline definitions with unusual names, orders and options, and in files with errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

from click import ClickException
from hypothesis import strategies as st

import holdfast
from holdfast.cli.pipeline_loader import load_pipeline
from holdfast.core.errors import HoldfastError
from holdfast.stores import open_store
from tests.fuzz.inputs import anything, json, numbers, scalars, scratch_folder, texts
from tests.fuzz.target import takes

GOOD = st.sampled_from(("a", "b", "c", "d-1", "e.f", "g", "h", "A" * 63))
NAMES = st.one_of(*[GOOD] * 30, texts)
SPANS = st.floats(-10, 1e6).map(lambda seconds: ("span", seconds))
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("size", "parallel", "version", "limit", "memory"), numbers | scalars),
    **dict.fromkeys(
        ("failure_rate", "keep", "when_expired", "runs_in", "within", "otherwise", "unknown_option"), scalars
    ),
    **dict.fromkeys(("cursor_expires", "timeout"), SPANS | numbers | scalars),
    "commit_every": SPANS | numbers | scalars | st.tuples(numbers | scalars, SPANS | scalars),
    "settings": anything,
    "over": st.integers(-1, 4),
    "retry": scalars,
}
FINE: dict[str, st.SearchStrategy[Any]] = {"version": st.integers(1, 3), "keep": st.booleans(), "settings": json}
KIND = st.sampled_from(("value", "value", "stream", "over", "gate", "none"))
STEP = st.tuples(
    NAMES, KIND, st.just({}) | st.fixed_dictionaries({}, optional=FINE) | st.fixed_dictionaries({}, optional=OPTIONS)
)
RENAMED = st.just({}) | st.dictionaries(NAMES, NAMES, max_size=2)
PIPELINE = st.tuples(
    NAMES,
    st.lists(STEP, max_size=4),
    RENAMED,
    st.one_of(*[st.none()] * 9, scalars),
    st.one_of(*[st.none()] * 9, scalars),
)


@takes(
    st.lists(PIPELINE, min_size=1, max_size=2),
    "A pipeline is valid or DefinitionError says why not; a valid one is declared or PlanRefused says why not.",
)
def pipelines(given: list[Any]) -> None:
    with closing(open_store("memory://")) as store:
        refused: HoldfastError | None = None
        for name, steps, renamed, orphans, tolerates in given:
            try:
                pipeline = _built(given[0][0], steps, renamed, orphans or "requeue", tolerates or 0.0)
                holdfast.submit(pipeline, store, batch=name, documents=[(f"{name}-1", None)])
                repr(pipeline)
            except HoldfastError as error:
                refused = error
        if refused is not None:
            raise refused


def _built(name: str, steps: list[Any], renamed: dict[str, str], orphans: Any, tolerates: Any) -> holdfast.Pipeline:
    pipeline = holdfast.Pipeline(name, renamed=renamed, orphans=orphans, tolerates=tolerates)
    for step_name, kind, options in steps:
        read = {key: _read(key, value, pipeline) for key, value in options.items()}
        if kind == "gate":
            pipeline.gate(step_name, **{key: read[key] for key in ("within", "otherwise") if key in read})
        else:
            pipeline.step(name=step_name, **read)(BODIES[kind])
    return pipeline


def _read(option: str, value: Any, pipeline: holdfast.Pipeline) -> Any:
    if isinstance(value, tuple) and value[:1] == ("span",):
        return timedelta(seconds=value[1])
    if isinstance(value, tuple):
        return tuple(_read("", one, pipeline) for one in value)
    if option == "over" and isinstance(value, int) and 0 <= value < len(pipeline.steps):
        return pipeline.steps[value]
    return value


def _value(doc: Any) -> None: ...


def _stream(doc: Any, cursor: int = 0) -> Iterator[int]:
    yield cursor


def _over(doc: Any, items: Any) -> Any:
    return items


def _nobody() -> None: ...


BODIES: dict[str, Callable[..., Any]] = {"value": _value, "stream": _stream, "over": _over, "none": _nobody}

LINES = (
    *("import holdfast", "a = holdfast.Pipeline('a')", "b = holdfast.Pipeline('b')", "c = a", "a = 1", "x = ("),
    *("@a.step\ndef s(doc): return 1", "@a.step\ndef s(): pass", "@a.step\ndef t(doc, cursor=0): yield 1", "1 / 0"),
    *("import nothing_of_that_name", "raise SystemExit(3)", "raise ValueError('\\ud800')", "\tx = 1", "def f(): f()"),
    *("f()", "documents = 3", "def prepare(tx): raise ValueError", "from holdfast import *", "# coding: punycode"),
    *(
        "class E(Exception):\n    def __str__(self): raise E\nraise E",
        "del holdfast",
        "__file__ = None",
        "\0",
        "\ud800",
    ),
    *(
        "raise BaseException('odd')",
        "assert False",
        "raise Exception",
        "a.step(lambda doc: 1)",
        "import sys; sys.exit()",
    ),
)


@takes(
    st.tuples(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(("", ":", ":a", ":b", ":\0", "::"))),
    "A pipeline file is loaded, or refused with the lines of its author.",
    refusals=[ClickException],
)
def files(given: tuple[list[str], str]) -> None:
    lines, name = given
    path = scratch_folder() / "pipeline_of_a_user.py"
    beginning = [] if "\0" in name else ["import holdfast", "a = holdfast.Pipeline('a')"]
    path.write_bytes("\n".join([*beginning, *lines]).encode(errors="surrogatepass"))
    _loaded(f"{path}{name}")


@takes(
    st.lists(
        st.sampled_from((".", "..", "a", "b.py", ":", "/", "x", "holdfast", "\0", "\ud800", "~", "é", " ")), max_size=4
    ),
    "Any text is the name of a pipeline, or a message says how to name one.",
    refusals=[ClickException],
)
def specs(parts: list[str]) -> None:
    _loaded("".join(parts))


def _loaded(spec: str) -> None:
    path, modules = list(sys.path), set(sys.modules)
    try:
        load_pipeline(spec)
    except (ClickException, HoldfastError):
        raise
    except BaseException as error:
        if type(error) is BaseException:  # a file may raise a BaseException, and that ends the program
            raise HoldfastError("it raised BaseException itself") from error
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if "pipeline_of_a_user" in name:
                del sys.modules[name]


@takes(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("attempts", "crashes", "factor", "jitter"), scalars),
            **dict.fromkeys(("base", "ceiling"), st.floats(-1, 1e9)),
        },
    ),
    "A retry is valid or DefinitionError says why not; each wait is between zero and the ceiling.",
    refusals=[TypeError],
    sealed=True,
)
def retries(given: dict[str, Any]) -> None:
    given = {name: value for name, value in given.items() if value is not None}
    spans = {name: timedelta(seconds=given[name]) for name in ("base", "ceiling") if name in given}
    retry = holdfast.Retry(**given | spans)
    for tries in (0, 1, 2, 1000, 10**6):
        assert timedelta(0) <= retry.wait(tries) <= retry.ceiling


@takes(json, "Settings of a step are JSON, or DefinitionError says that they are not.")
def settings(given: Any) -> None:
    pipeline = holdfast.Pipeline("fuzz")
    pipeline.step(name="a", settings=given)(_value)
    assert pipeline.shape().digest() == pipeline.shape().digest()
    with closing(open_store("memory://")) as store:
        store.declare(pipeline.shape())
