"""Writes docs/reference/ from the code, so that it cannot say anything else.

    python docs/generate.py          # or: make docs

tests/docs fails when a page is out of date, or when a public name, option, setting or table has no words of its own.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MemberDescriptorType
from typing import Any

from msgspec import NODEFAULT
from msgspec.structs import fields

import holdfast
from holdfast.core import errors
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import Options
from holdfast.engine import api
from holdfast.engine.settings import Settings
from holdfast.stores import protocol

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
EVIDENCE = ROOT / "docs" / "evidence"
GUARANTEES = ROOT / "docs" / "guarantees.md"
TRIED = "<!-- Written by docs/generate.py from docs/evidence. -->"
TRIED_END = "<!-- The end of what was tried. -->"
MIGRATIONS = ROOT / "src" / "holdfast" / "stores" / "sqlite" / "migrations"
MADE = "<!-- Written by docs/generate.py from the code. Change the code, then run `make docs`. -->\n\n"

OPTION = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")

ROLES = (
    *(protocol.Intake, protocol.Work, protocol.Ledger, protocol.Stories, protocol.Causes),
    *(protocol.Upkeep, protocol.Cleanup, protocol.Decisions, protocol.Batches),
)


class Undocumented(Exception):
    """Something public has no words of its own."""


def pages() -> dict[str, str]:
    """Gives every page of the reference by the name of its file."""
    made = {
        "api.md": api_page(),
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        "evidence.md": evidence_page(),
        "schema.md": schema_page(),
        "settings.md": settings_page(),
        "stores.md": stores_page(),
    }
    return {name: MADE + re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n" for name, text in made.items() if text}


# the API


def api_page() -> str:
    """Every public name of holdfast."""
    names = sorted(holdfast.__all__, key=lambda name: (not name[0].islower(), name.lower()))
    parts = ["# API\n\nEverything in `holdfast.__all__`. Errors have [a page of their own](errors.md).\n"]
    for name in names:
        thing = getattr(holdfast, name)
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            continue
        parts.append("\n".join(_described(f"holdfast.{name}", thing)))
    return "\n".join(parts)


def _described(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"## {name}\n\n```text\n{name}{_signature(thing)}\n```\n\n{_words(name, thing)}\n"
        return
    yield f"## {name}\n\n```text\n{name}{_signature(thing, made=True)}\n```\n\n{_words(name, thing)}\n"
    for member, value in vars(thing).items():
        if not member.startswith("_") and not isinstance(value, MemberDescriptorType):
            yield from _member(name, member, value)
    yield ""


def _member(owner: str, name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        yield f"- `.{name}`: {_words(f'{owner}.{name}', value)}"
    elif inspect.isfunction(value):
        first, _, rest = _words(f"{owner}.{name}", value).partition("\n\n")
        yield f"- `.{name}{_signature(value)}`: {first}"
        if rest:
            yield f"\n{_indented(rest)}\n"


def _signature(thing: Any, *, made: bool = False) -> str:
    """Words a signature as it is written in the code, the same under every version of Python."""
    if inspect.isclass(thing) and hasattr(thing, "__struct_fields__"):
        hints = thing.__annotations__
        defaults = thing.__struct_defaults__
        plain = len(thing.__struct_fields__) - len(defaults)
        fields = enumerate(thing.__struct_fields__)
        all_named = all(one.kind is one.KEYWORD_ONLY for one in inspect.signature(thing).parameters.values())
        words = [
            f"{name}: {hints[name]}" + (f" = {_code(defaults[n - plain])}" if n >= plain else "") for n, name in fields
        ]
        return f"({', '.join([*['*'] * all_named, *words])})".replace("'", '"')
    if made and getattr(thing, "_is_protocol", False):
        return ""  # given to effects, never made
    signature = inspect.signature(thing.__init__ if made else thing)
    answer = "" if made else f" -> {signature.return_annotation}"
    return f"({', '.join(_parameters(signature))}){answer}".replace("'", '"')


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    before: Any = None
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            yield "*"
        if before is one.POSITIONAL_ONLY and one.kind is not before:
            yield "/"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f" = {_code(one.default)}"
        yield f"{stars}{one.name}: {one.annotation}{default}"
        before = one.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _code(value: Any) -> str:
    if callable(value):
        return str(value.__name__)
    if hasattr(value, "total_seconds"):
        return f"timedelta(seconds={value.total_seconds():g})"
    if isinstance(value, Mapping):
        return repr(dict(value))
    return "nothing" if repr(value) == "NOTHING" else repr(value)


def _words(name: str, thing: Any) -> str:
    words = inspect.getdoc(thing) if not inspect.isclass(thing) else thing.__doc__ and inspect.cleandoc(thing.__doc__)
    if not words or words.startswith(("Initialize self", "str(object")):
        raise Undocumented(f"{name} has no docstring; its first line is a promise in the present tense")
    return "\n\n".join(_fenced(part) for part in words.split("\n\n"))


def _fenced(part: str) -> str:
    """A list of options keeps its columns."""
    return f"```text\n{part}\n```" if all(OPTION.fullmatch(line) for line in part.splitlines()) else part


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())


# the errors


def errors_page() -> str:
    """The tree of errors, and a line on each."""
    tree = inspect.cleandoc(errors.__doc__ or "")
    head, _, drawn = tree.partition("\n\n")
    parts = [f"# Errors\n\n{head}\n\n```text\n{drawn}\n```\n"]
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, BaseException) and error.__module__ == errors.__name__:
            if name not in drawn:
                raise Undocumented(f"{name} is missing in the tree that the docstring of core/errors.py draws")
            where = f"`holdfast.{name}`" if name in holdfast.__all__ else f"`holdfast.core.errors.{name}`"
            parts.append(f"## {name}\n\n{where}. {_words(name, error)}\n")
    return "\n".join(parts)


# the command line


def cli_page() -> str:
    """Every command with its help, as the command line tells it."""
    from holdfast.cli import reference
    from holdfast.cli.app import app, every_command

    for name, command in (("holdfast", app), *every_command().items()):
        refuse_silence(name, command)
    return "\n".join(line.rstrip() for line in reference.markdown().splitlines())


def refuse_silence(name: str, command: Any) -> None:
    """Raises Undocumented for a command or an option without help."""
    if not command.help:
        raise Undocumented(f"the command {name} has no help")
    for parameter in command.params:
        if parameter.param_type_name == "option" and not (parameter.hidden or parameter.help):
            raise Undocumented(f"the option {parameter.opts[0]} of {name} has no help")


# the stores


def stores_page() -> str:
    """The verbs of the protocol, by role."""
    parts = [f"# The store protocol\n\n{inspect.cleandoc(protocol.__doc__ or '')}\n"]
    for role in (*ROLES, protocol.Store):
        parts.append(f"## {role.__name__}\n\n{_words(role.__name__, role)}\n")
        parts += [
            line for name, value in vars(role).items() if name[0] != "_" for line in _member(role.__name__, name, value)
        ]
        parts.append("")
    return "\n".join(parts)


def schema_page() -> str:
    """The tables, as the migrations make them, with their comments."""
    head = (
        "# Schema\n\nThe tables of a SQLite store. PostgreSQL has the same tables and columns, with its own types: "
        "times are `timestamptz`, JSON is `json`, bytes are `bytea`. [Stores](../stores.md) shows how to read them.\n"
    )
    parts = [head]
    for path in sorted(MIGRATIONS.glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        comment, _, body = text.partition("\n\n")
        said = "\n".join(line.removeprefix("--").strip() for line in comment.splitlines())
        parts.append(f"{said}\n")
        for statement in body.split(";\n"):
            if made := re.search(r"^create (?:table|view) (\w+)", statement, re.MULTILINE):
                parts.append(f"## {made[1]}\n")
            if statement.strip():
                parts.append(f"```sql\n{statement.strip()};\n```\n")
    return "\n".join(parts)


# the settings


def settings_page() -> str:
    """Every option that has a default: of steps, of retries, of workers."""
    head = (
        "# Settings\n\nEvery option with its default. There is no file of settings. One environment variable is read, "
        "by the command line only: `HOLDFAST_STORE`, the URL of the store when `--store` is not given. With `--otel`, "
        "OpenTelemetry reads its own (`OTEL_...`).\n"
    )
    parts = [head]
    parts += ["## Options of a step\n", *_table(_step_options())]
    parts += ["\n## Options of a gate\n", *_table(_gate_options())]
    parts += ["\n## Retry\n", f"{_words('Retry', Retry)}\n", *_table(_retry_fields())]
    parts += ["\n## Keywords of `work` and `drain`\n", *_table(_worker_keywords())]
    return "\n".join(parts)


def _table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    yield "| option | default | meaning |\n|---|---|---|"
    for name, default, meaning in rows:
        yield f"| `{name}` | {default} | {meaning.replace('|', chr(92) + '|')} |"


def _step_options() -> list[tuple[str, str, str]]:
    told = options_told(Pipeline.step)
    defaults = dict(zip(Options.__struct_fields__, Options.__struct_defaults__, strict=True))
    rows = [("name", "the function's name", told["name"])]
    gates = options_told(Pipeline.gate)
    for name, default in defaults.items():
        if name in gates:
            continue
        rows.append((name, _default(default), _told(told, name, "Pipeline.step")))
    return rows


def _gate_options() -> list[tuple[str, str, str]]:
    return [(name, "none", meaning) for name, meaning in options_told(Pipeline.gate).items()]


def _retry_fields() -> list[tuple[str, str, str]]:
    meanings = {
        "attempts": "how often a step is tried without moving, the first try included",
        "crashes": "how often the process may die on a document before it is a dead letter",
        "base": "the wait after the first failed attempt",
        "factor": "how much longer each next wait is",
        "ceiling": "the longest wait",
        "jitter": "the share of the wait that is random",
        "permanent": "errors that are not worth a second try",
    }
    fields = dict(zip(Retry.__struct_fields__, Retry.__struct_defaults__, strict=True))
    return [(name, _default(default), _told(meanings, name, "Retry")) for name, default in fields.items()]


def _worker_keywords() -> list[tuple[str, str, str]]:
    told = options_told(api.work)
    defaults = {one.name: None if one.default is NODEFAULT else one.default for one in fields(Settings)}
    rows = [("budget", "none", "how long to work: a timedelta, or a Budget that you can stop")]
    for name, default in (defaults | {"listeners": None}).items():
        meaning = re.sub(r" \([^()]*\)$", "", _told(told, name, "work"))
        rows.append((name, _default(default), meaning))
    return rows


def options_told(thing: Any) -> dict[str, str]:
    """Reads the lines `name   meaning` of a docstring."""
    told: dict[str, str] = {}
    for line in inspect.cleandoc(thing.__doc__ or "").splitlines():
        if found := OPTION.fullmatch(line):
            told |= dict.fromkeys(found[1].split(", "), found[2])
    return told


def _told(told: dict[str, str], name: str, where: str) -> str:
    if name not in told:
        raise Undocumented(f"the option {name} is not explained at {where}")
    return told[name]


def _default(value: Any) -> str:
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, Retry):
        return "`Retry()`"
    if hasattr(value, "total_seconds"):
        return f"{value.total_seconds():g} s"
    return f"`{value!r}`".replace("'", '"')


# the evidence


def evidence_page() -> str:
    """What was tried, as the runs themselves wrote it down."""
    return "# Evidence\n\n" + "\n".join(part for run in runs() for part in _run(run))


def runs() -> list[dict[str, Any]]:
    """Gives what each run wrote."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(EVIDENCE.glob("*.json"))]


def _run(run: dict[str, Any]) -> Iterator[str]:
    yield f"## {run['title']}\n\n`{run['command']}`, {run['date']}: {_figures(run)}.\n"
    columns, rows = run["table"]["columns"], run["table"]["rows"]
    yield f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(_cell(one) for one in row)} |"
    yield ""


def _figures(run: dict[str, Any]) -> str:
    return ", ".join(f"{_cell(value)} {label}" for label, value in run["figures"].items())


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value).replace("|", "\\|").replace("\n", " ")


def guarantees() -> str:
    """Gives docs/guarantees.md with what was tried, and how often, as the runs wrote it down."""
    text = GUARANTEES.read_text(encoding="utf-8")
    lines = [f"- {run['title']}: {_figures(run)} (`{run['command']}`, {run['date']})." for run in runs()]
    before, _, rest = text.partition(TRIED)
    _, _, after = rest.partition(TRIED_END)
    return "\n".join([before + TRIED, *lines, TRIED_END + after])


def main() -> None:
    """Writes the pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    GUARANTEES.write_text(guarantees(), encoding="utf-8")


if __name__ == "__main__":
    main()
