"""The reference is generated from the code, and everything public is described in it."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import holdfast
from holdfast.cli.app import every_command
from holdfast.stores.protocol import Store
from tests.docs.pages import ROOT


def _generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generate()
REFERENCE = ROOT / "docs" / "reference"
MADE = generate.pages()


@pytest.mark.parametrize("name", MADE)
def test_the_reference_is_up_to_date(name: str) -> None:
    kept = (REFERENCE / name).read_text(encoding="utf-8") if (REFERENCE / name).exists() else ""
    assert kept == MADE[name], f"docs/reference/{name} is out of date: run `make docs`"


def test_the_reference_has_no_page_that_nothing_writes() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(MADE)


def test_the_guarantees_say_what_the_runs_wrote() -> None:
    assert generate.GUARANTEES.read_text() == generate.guarantees(), (
        "docs/guarantees.md is out of date: run `make docs`"
    )


def test_every_run_that_left_evidence_says_how_to_repeat_it() -> None:
    for run in generate.runs():
        assert {"title", "command", "date", "figures", "table"} <= run.keys()


@pytest.mark.parametrize("name", sorted(holdfast.__all__))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    found = f"holdfast.{name}" in MADE["api.md"] or f"holdfast.{name}" in MADE["errors.md"]
    assert found, f"holdfast.{name} is public and not in the reference"


def test_a_name_without_a_docstring_is_refused() -> None:
    def silent() -> None: ...

    with pytest.raises(generate.Undocumented, match="no docstring"):
        generate._text("silent", silent)


def test_an_option_without_a_description_is_refused() -> None:
    with pytest.raises(generate.Undocumented, match="not described"):
        generate._described_in({}, "colour", "Pipeline.step")


def _public() -> Iterator[tuple[str, Any]]:
    """Yield every public function and class, and every public method of these classes."""
    for name in sorted(holdfast.__all__):
        thing = getattr(holdfast, name)
        yield name, thing
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and inspect.isfunction(value):
                yield f"{name}.{member}", value


PUBLIC = dict(_public())


def _methods(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class, and those that it inherits from other classes of ours."""
    for cls in thing.__mro__ if inspect.isclass(thing) else ():
        for name, value in vars(cls).items() if cls.__module__.startswith("holdfast.") else ():
            method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not name.startswith("_") and inspect.isfunction(method):
                yield name, method


def _described() -> Iterator[tuple[str, Any]]:
    """Yield what has to be described besides `holdfast`: document search, tools for tests, the verbs of a store."""
    for module in ("holdfast.pipelines.rag", "holdfast.testing", "holdfast.testing.crash"):
        for name in importlib.import_module(module).__all__:
            thing = getattr(importlib.import_module(module), name)
            yield f"{module}.{name}", thing
            yield from ((f"{module}.{name}.{method}", value) for method, value in _methods(thing))
    yield from ((f"Store.{verb}", value) for verb, value in _methods(Store))


DESCRIBED = {f"holdfast.{name}": thing for name, thing in PUBLIC.items()} | dict(_described())


def test_the_walk_finds_the_methods_of_public_classes() -> None:
    assert {"holdfast.Pipeline.step", "holdfast.pipelines.rag.Library.ingest", "Store.claim"} <= DESCRIBED.keys()
    assert {"holdfast.pipelines.rag.Chunk.from_text", "holdfast.testing.ManualClock.advance"} <= DESCRIBED.keys()


def _parameters(thing: Any) -> set[str]:
    if hasattr(thing, "__struct_fields__"):
        return set(thing.__struct_fields__)
    if inspect.isclass(thing) and (getattr(thing, "_is_protocol", False) or "__init__" not in vars(thing)):
        return set()
    signature = inspect.signature(vars(thing)["__init__"] if inspect.isclass(thing) else thing)
    return set(signature.parameters) - {"self", "cls"}


def _sections(thing: Any) -> dict[str, str]:
    found: dict[str, str] = generate.sections(inspect.cleandoc(thing.__doc__ or ""))[1]
    return found


def _raises(thing: Any) -> bool:
    """Check whether the code of a function, or of the constructor of a class, raises an error itself."""
    if inspect.isclass(thing):
        thing = next((vars(thing)[name] for name in ("__init__", "__post_init__") if name in vars(thing)), None)
    if thing is None or getattr(thing, "__module__", "") == "typing":
        return False
    tree = ast.parse(dedent(inspect.getsource(thing)))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_public_docstring_describes_every_parameter(name: str) -> None:
    found = _sections(DESCRIBED[name])
    described = generate.entries("\n".join([found.get("Args", ""), found.get("Attributes", "")]))
    optional = {"refusal"} if name == "holdfast.CloseRefused" else set()
    assert _parameters(DESCRIBED[name]) - optional <= set(described), f"{name} does not describe all parameters"


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_public_docstring_says_what_is_returned_and_raised(name: str) -> None:
    thing, found = DESCRIBED[name], _sections(DESCRIBED[name])
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in ("None", None):
        assert "Returns" in found, f"{name} does not say what it returns"
    if _raises(thing):
        assert "Raises" in found, f"{name} does not say what it raises"


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_sections_of_a_docstring_have_their_order(name: str) -> None:
    found = [*_sections(DESCRIBED[name])]
    assert found == sorted(found, key=generate.SECTIONS.index)


@pytest.mark.parametrize("name", ["close", "drain", "explain", "explain_batch", "last", "open", "submit", "work"])
def test_a_public_function_has_an_example(name: str) -> None:
    assert "Example" in _sections(PUBLIC[name])


def _names_of_examples() -> dict[str, Any]:
    """Return what the examples in docstrings take for granted."""
    pages = [SimpleNamespace(token="p1", records=["a"])]
    papers = holdfast.Pipeline("papers")
    chunk = papers.step(name="chunk")(lambda doc: ["a"])
    vectors = papers.step(over=chunk, name="vectors")(lambda doc, item: [0.0])
    harvest, offers, uploads = (holdfast.Pipeline(name) for name in ("harvest", "offers", "uploads"))
    store = importlib.import_module("holdfast.stores").open_store("memory://")
    holdfast.submit(papers, store, batch="march", documents=[("a.pdf", {"pages": 1})])
    with store.transaction() as tx:
        tx.execute("create table vector (document text)")
    return {
        "holdfast": holdfast,
        "timedelta": timedelta,
        "threading": SimpleNamespace(Timer=lambda *_: SimpleNamespace(start=bool)),
        "papers": papers,
        "extract": chunk,
        "chunk": chunk,
        "embed": vectors,
        "harvest": harvest,
        "offers": offers,
        "upload": uploads.step(name="upload")(lambda doc: "key"),
        "store": store,
        "service": SimpleNamespace(pages=lambda after: pages),
        "bucket": {},
        "model": None,
        "sha256_of": str.upper,
        "read": str,
    }


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if "Example" in _sections(thing)])
def test_the_example_of_a_docstring_runs(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = _names_of_examples()
    if name == "work":  # it works until it is stopped
        budget = holdfast.Budget(timedelta(seconds=0.2))
        names["holdfast"] = SimpleNamespace(work=partial(holdfast.work, budget=budget))
    code = compile(_sections(PUBLIC[name])["Example"], f"<example of {name}>", "exec")
    try:
        exec(code, names)
    except holdfast.CloseRefused:
        assert name == "close"  # nobody sealed the batch
    except (holdfast.RetryLater, holdfast.Reject, holdfast.Pause):
        assert name in ("RetryLater", "Reject", "Pause")


def test_every_command_is_in_the_reference() -> None:
    text = MADE.get("cli.md", "")
    missing = [name for name in every_command() if f"holdfast {name}" not in text]
    missing += [
        f"{name} {option}"
        for name, command in every_command().items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and not getattr(parameter, "hidden", False) and option not in text
    ]
    assert not missing


def test_every_table_is_in_the_reference() -> None:
    made = [
        table
        for path in (ROOT / "src/holdfast/stores").rglob("migrations/*.sql")
        for table in re.findall(r"^create (?:table|view) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert made
    assert [table for table in made if f"## {table}\n" not in MADE["schema.md"]] == []


def test_the_reference_has_every_command_and_every_option() -> None:
    text = MADE["cli.md"]
    for name, command in every_command().items():
        assert f"## holdfast {name}\n" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert getattr(parameter, "hidden", False) or option in text or option in name or option.isidentifier()
