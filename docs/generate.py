"""Generate docs/reference/ from the code.

    python docs/generate.py          # or: make docs

tests/docs fails when a page is out of date, or when a public name, option, setting or table is not described.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
from msgspec import NODEFAULT
from msgspec.structs import fields

import holdfast
from holdfast.cli.app import app, every_command
from holdfast.core import errors
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import StepOptions
from holdfast.engine import api
from holdfast.engine.settings import WorkerSettings
from holdfast.stores import protocol

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
EVIDENCE = ROOT / "docs" / "evidence"
GUARANTEES = ROOT / "docs" / "guarantees.md"
TRIED = "<!-- Written by docs/generate.py from docs/evidence. -->"
TRIED_END = "<!-- The end of what was tried. -->"
MIGRATIONS = ROOT / "src" / "holdfast" / "stores" / "sqlite" / "migrations"
MADE = "<!-- Written by docs/generate.py from the code. Change the code, then run `make docs`. -->\n\n"

SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example")
"""The sections of a docstring, in their order (Google style)."""

HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
HELP_WIDTH = 100
"""Columns of the help of commands."""
ENTRY = re.compile(r"^(\S[^:]*): ", re.MULTILINE)

ROLES = (
    *(protocol.Intake, protocol.Work, protocol.OverviewReads, protocol.DocumentReads, protocol.WaitCauses),
    *(protocol.Maintenance, protocol.Cleanup, protocol.Decisions, protocol.Batches),
)


class Undocumented(Exception):
    """Something public has no description."""


def pages() -> dict[str, str]:
    """Return every page of the reference by its file name."""
    made = {
        "api.md": api_page(),
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        "evidence.md": evidence_page(),
        "schema.md": schema_page(),
        "settings.md": settings_page(),
        "stores.md": stores_page(),
    }
    return {name: MADE + _with_single_blank_lines(text).rstrip() + "\n" for name, text in made.items() if text}


def _with_single_blank_lines(text: str) -> str:
    """Join blank lines, but not those inside code blocks."""
    parts = text.split("```")
    parts[::2] = [re.sub(r"\n{3,}", "\n\n", part) for part in parts[::2]]
    return "```".join(parts)


# the API


def api_page() -> str:
    """Return the page about every public name of holdfast."""
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
        yield f"## {name}\n\n```text\n{name}{_signature(thing)}\n```\n\n{_text(name, thing)}\n"
        return
    yield f"## {name}\n\n```text\n{name}{_signature(thing, made=True)}\n```\n\n{_text(name, thing)}\n"
    yield from _members(name, thing)


def _members(owner: str, thing: Any) -> Iterator[str]:
    """Yield the public members of a class: first a list of the simple ones, then those with sections."""
    members = {
        name: value
        for name, value in vars(thing).items()
        if not name.startswith("_") and (isinstance(value, property) or inspect.isfunction(value))
    }
    long = [name for name, value in members.items() if _has_sections(value)]
    for name, value in members.items():
        if name not in long:
            yield from _listed(owner, name, value)
    yield ""
    for name in long:
        yield f"### {owner.removeprefix('holdfast.')}.{name}\n\n```text\n.{name}{_signature(members[name])}\n```\n"
        yield f"{_text(f'{owner}.{name}', members[name])}\n"


def _listed(owner: str, name: str, value: Any) -> Iterator[str]:
    signature = "" if isinstance(value, property) else _signature(value)
    first, _, rest = _text(f"{owner}.{name}", value).partition("\n\n")
    yield f"- `.{name}{signature}`: {first}"
    if rest:
        yield f"\n{_indented(rest)}\n"


def _signature(thing: Any, *, made: bool = False) -> str:
    """Return a signature as it is written in the code, the same in every version of Python."""
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
        return ""  # holdfast passes it to effects; nobody constructs it
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


def _docstring(name: str, thing: Any) -> str:
    text = inspect.getdoc(thing) if not inspect.isclass(thing) else thing.__doc__ and inspect.cleandoc(thing.__doc__)
    if not text or text.startswith(("Initialize self", "str(object")):
        raise Undocumented(f"{name} has no docstring; its first line says what it does, with the verb first")
    return text


def _text(name: str, thing: Any) -> str:
    """Return a docstring as Markdown."""
    head, found = sections(_docstring(name, thing))
    parts = [head]
    for section, body in found.items():
        if section == "Example":
            parts.append(f"**Example**\n\n```python\n{body}\n```")
        elif section == "Returns":
            parts.append(f"**Returns**: {body}")
        else:
            rows = [f"- `{entry}`: {meaning}" for entry, meaning in entries(body).items()]
            parts.append(f"**{section}**\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def sections(docstring: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into what comes before its sections, and the sections without their indentation."""
    head, *rest = HEADING.split(docstring)
    bodies = [dedent(body).strip() for body in rest[1::2]]
    return head.strip(), dict(zip(rest[::2], bodies, strict=True))


def entries(section: str) -> dict[str, str]:
    """Return the entries `name: meaning` of a section, each on one line."""
    _, *rest = ENTRY.split(section)
    return {name.lstrip("*"): " ".join(text.split()) for name, text in zip(rest[::2], rest[1::2], strict=True)}


def _has_sections(thing: Any) -> bool:
    return HEADING.search(inspect.getdoc(thing) or "") is not None


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())


# the errors


def errors_page() -> str:
    """Return the page about errors: the tree, then each error."""
    tree = inspect.cleandoc(errors.__doc__ or "")
    head, _, drawn = tree.partition("\n\n")
    parts = [f"# Errors\n\n{head}\n\n```text\n{drawn}\n```\n"]
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, BaseException) and error.__module__ == errors.__name__:
            if name not in drawn:
                raise Undocumented(f"{name} is missing in the tree that the docstring of core/errors.py draws")
            where = f"`holdfast.{name}`" if name in holdfast.__all__ else f"`holdfast.core.errors.{name}`"
            parts.append(f"## {name}\n\n{where}. {_text(name, error)}\n")
    return "\n".join(parts)


# the command line


def cli_page() -> str:
    """Return the page about every command, with its help."""
    for name, command in (("holdfast", app), *every_command().items()):
        refuse_silence(name, command)
    head = (
        "# The command line\n\n"
        "Generated from the code by `docs/generate.py`, and checked by a test. Every command has `--help`.\n"
    )
    with click.Context(app, info_name="holdfast", terminal_width=HELP_WIDTH, **app.context_settings) as context:
        parts = [head, *_command_help("holdfast", app, context), *_subcommands("holdfast", app, context)]
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines())


def _subcommands(title: str, group: click.Group, context: click.Context) -> Iterator[str]:
    """Yield the help of every command of a group, in the order of `holdfast --help`."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        with click.Context(command, info_name=name, parent=context, terminal_width=HELP_WIDTH) as inner:
            yield from _command_help(f"{title} {name}", command, inner)
            if isinstance(command, click.Group):
                yield from _subcommands(f"{title} {name}", command, inner)


def _command_help(title: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


def refuse_silence(name: str, command: Any) -> None:
    """Raise Undocumented for a command or an option without help."""
    if not command.help:
        raise Undocumented(f"the command {name} has no help")
    for parameter in command.params:
        if parameter.param_type_name == "option" and not (parameter.hidden or parameter.help):
            raise Undocumented(f"the option {parameter.opts[0]} of {name} has no help")


# the stores


def stores_page() -> str:
    """Return the page about the store protocol, by role."""
    parts = [f"# The store protocol\n\n{inspect.cleandoc(protocol.__doc__ or '')}\n"]
    for role in (*ROLES, protocol.Store):
        parts.append(f"## {role.__name__}\n\n{_text(role.__name__, role)}\n")
        parts += _members(role.__name__, role)
    return "\n".join(parts)


def schema_page() -> str:
    """Return the page about the tables, as the migrations create them, with their comments."""
    head = (
        "# Schema\n\nThe tables of a SQLite store. PostgreSQL has the same tables and columns, with its own types: "
        "times are `timestamptz`, JSON is `json`, bytes are `bytea`. Tables that only PostgreSQL has are at the end. "
        "[Stores](../stores.md) shows how to read them.\n"
    )
    parts, made = [head], set[str]()
    for path in sorted(MIGRATIONS.glob("*.sql")):
        if statements := _statements(path):
            made |= {name for name, _ in statements}
            parts += _migration(path, statements)
    for path in sorted((MIGRATIONS.parents[1] / "postgres" / "migrations").glob("*.sql")):
        if only_here := [(name, statement) for name, statement in _statements(path) if name and name not in made]:
            parts += _migration(path, only_here)
    return "\n".join(parts)


def _statements(path: Path) -> list[tuple[str, str]]:
    """Return the statements of a migration, each with the name of the table or view that it creates, or with none."""
    body = path.read_text(encoding="utf-8").partition("\n\n")[2]
    statements = [statement.strip() for statement in body.split(";\n") if statement.strip()]
    made = [re.search(r"^create (?:table|view) (\w+)", statement, re.MULTILINE) for statement in statements]
    return [(name[1] if name else "", statement) for name, statement in zip(made, statements, strict=True)]


def _migration(path: Path, statements: list[tuple[str, str]]) -> Iterator[str]:
    comment = path.read_text(encoding="utf-8").partition("\n\n")[0]
    yield "\n".join(line.removeprefix("--").strip() for line in comment.splitlines()) + "\n"
    for name, statement in statements:
        if name:
            yield f"## {name}\n"
        yield f"```sql\n{statement.removesuffix(';')};\n```\n"


# the settings


def settings_page() -> str:
    """Return the page about options with defaults: of steps, gates, retries and workers."""
    head = (
        "# Settings\n\nEvery option with its default. There is no file of settings. `holdfast.local_file` reads "
        "`HOLDFAST_PATH_MAP`. Other environment variables are read by the command line only: `HOLDFAST_STORE`, the URL "
        "of the store when `--store` is not given, and "
        "`HOLDFAST_COMMAND`, which `./hf` sets, so that suggested commands begin with `./hf`. With `--otel`, "
        "OpenTelemetry reads its own (`OTEL_...`).\n"
    )
    parts = [head]
    parts += ["## Options of a step\n", *_table(_step_options())]
    parts += ["\n## Options of a gate\n", *_table(_gate_options())]
    parts += ["\n## Retry\n", f"{sections(_docstring('Retry', Retry))[0]}\n", *_table(_retry_fields())]
    parts += ["\n## Keywords of `work` and `drain`\n", *_table(_worker_keywords())]
    return "\n".join(parts)


def _table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    yield "| option | default | meaning |\n|---|---|---|"
    for name, default, meaning in rows:
        yield f"| `{name}` | {default} | {meaning.replace('|', chr(92) + '|')} |"


def _step_options() -> list[tuple[str, str, str]]:
    described = described_args(Pipeline.step)
    defaults = dict(zip(StepOptions.__struct_fields__, StepOptions.__struct_defaults__, strict=True))
    rows = [("name", "the function's name", described["name"])]
    gates = described_args(Pipeline.gate)
    for name, default in defaults.items():
        if name in gates:
            continue
        rows.append((name, _default(default), _described_in(described, name, "Pipeline.step")))
    return rows


def _gate_options() -> list[tuple[str, str, str]]:
    described = described_args(Pipeline.gate)
    return [(name, "none", described[name]) for name in ("within", "otherwise")]


def _retry_fields() -> list[tuple[str, str, str]]:
    described = described_args(Retry)
    fields = dict(zip(Retry.__struct_fields__, Retry.__struct_defaults__, strict=True))
    return [(name, _default(default), _described_in(described, name, "Retry")) for name, default in fields.items()]


def _worker_keywords() -> list[tuple[str, str, str]]:
    described = described_args(api.work)
    defaults = {one.name: None if one.default is NODEFAULT else one.default for one in fields(WorkerSettings)}
    rows = []
    for name, default in ({"budget": None} | defaults | {"listeners": None}).items():
        meaning = re.sub(r" Default .*\.$", "", _described_in(described, name, "work"))
        rows.append((name, _default(default), meaning))
    return rows


def described_args(thing: Any) -> dict[str, str]:
    """Return the entries of the section Args of a docstring."""
    _, found = sections(inspect.cleandoc(thing.__doc__ or ""))
    return entries(found.get("Args", ""))


def _described_in(described: Mapping[str, str], name: str, where: str) -> str:
    if name not in described:
        raise Undocumented(f"the option {name} is not described in the docstring of {where}")
    return described[name]


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
    """Return the page about test runs that left evidence."""
    return "# Evidence\n\n" + "\n".join(part for run in runs() for part in _run(run))


def runs() -> list[dict[str, Any]]:
    """Return what each run wrote."""
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
    """Return docs/guarantees.md with the list of test runs filled in."""
    text = GUARANTEES.read_text(encoding="utf-8")
    lines = [f"- {run['title']}: {_figures(run)} (`{run['command']}`, {run['date']})." for run in runs()]
    before, _, rest = text.partition(TRIED)
    _, _, after = rest.partition(TRIED_END)
    return "\n".join([before + TRIED, *lines, TRIED_END + after])


def main() -> None:
    """Write the pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    GUARANTEES.write_text(guarantees(), encoding="utf-8")


if __name__ == "__main__":
    main()
