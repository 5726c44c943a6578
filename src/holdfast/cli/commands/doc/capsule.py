"""`holdfast doc pack` and `load`: pack one document into a file, and load it into another store."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import batch_option, common_options, pipeline_option, who_and_optional_reason
from holdfast.cli.output import print_json, print_line
from holdfast.cli.selection import find_document
from holdfast.cli.shown_keys import shown_key
from holdfast.cli.store_access import open_existing_store, open_persistent_store
from holdfast.core.capsule import LARGEST, Capsule, read_capsule
from holdfast.core.errors import CapsuleError
from holdfast.core.formatting import format_count, printable
from holdfast.core.suggested_commands import command_args, format_command
from holdfast.stores.protocol import Store


@click.command()
@click.argument("key")
@pipeline_option
@batch_option
@click.option("-o", "--output", metavar="FILE", help="The file to write; - for stdout. [default: KEY.capsule.json]")
@common_options
@click.pass_obj
def pack(cli: CliContext, *, key: str, pipeline: str | None, batch: str | None, output: str | None) -> None:
    """Pack everything about the document KEY into one file, a capsule.

    It contains the plan of the pipeline, the payload, the checkpoint, the kept items, the items that were set aside,
    and the journal with tracebacks. It is JSON. The payload and the items are not encrypted, so protect the file as you
    protect the document. The store is not changed. A file that exists is not overwritten.

    `holdfast doc load` loads it into an empty store on any machine.
    """
    from holdfast.ops.capsule_export import file_name

    with open_existing_store(cli) as store:
        document = find_document(cli, store, key, pipeline=pipeline, batch=batch)
        if output == "-":
            _pack_to_stdout(store, document.id)
            return
        file = Path(output or file_name(document.key))
        packed = _pack_to_file(store, document.id, file)
    _print_packed(cli, packed, file)


def _pack_to_stdout(store: Store, document_id: int) -> None:
    from holdfast.ops.capsule_export import pack as pack_into

    with tempfile.TemporaryFile() as whole:
        pack_into(store, document_id, whole)
        whole.seek(0)
        shutil.copyfileobj(whole, sys.stdout.buffer)


def _pack_to_file(store: Store, document_id: int, file: Path) -> Capsule:
    """Write a temporary file and rename it, so that the file is always complete. Only its owner can read it."""
    from holdfast.ops.capsule_export import pack as pack_into

    if not file.parent.is_dir():
        raise CliError(f"there is no folder {file.parent}; create it first")
    if file.exists():
        raise CliError(f"{file} exists already; choose another file with -o, or remove it")
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w+b") as whole:
            packed = pack_into(store, document_id, whole)
        Path(temporary).replace(file)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return packed


def _print_packed(cli: CliContext, packed: Capsule, file: Path) -> None:
    size = file.stat().st_size
    if cli.json:
        document = {"pipeline": packed.document.pipeline, "key": packed.document.key}
        print_json({"file": str(file), "bytes": size, **document})
        return
    name = printable(shown_key(packed.document.key))
    print_line(f"packed {name} ({packed.document.state}) into {printable(str(file))}, {size:,} bytes")
    load = format_command(command_args(("doc", "load"), str(file)), store=("--store", "sqlite:///capsule.db"))
    print_line(f"load it on any machine: {load}")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--redrive", is_flag=True, help="Try a dead letter again, from its checkpoint.")
@who_and_optional_reason("to look into it")
@common_options
@click.pass_obj
def load(cli: CliContext, *, file: Path, redrive: bool, who: str, reason: str) -> None:
    """Load the capsule FILE into an empty SQLite store, in one transaction. - reads it from stdin.

    The document can be shown, run and debugged there as in its own store. A dead letter stays dead without --redrive.
    A document that was running is waiting.
    """
    from holdfast.stores.sqlite import SqliteStore

    loaded = _read(file)
    with open_persistent_store(cli) as store:
        if not isinstance(store, SqliteStore):
            raise CapsuleError("a capsule can only be loaded into a new SQLite file: add --store sqlite:///capsule.db")
        document_id = store.load(loaded, who=who)
        if redrive:
            store.redrive([document_id], who=who, reason=reason)
        (document,) = store.documents_by_id([document_id])
    if cli.json:
        print_json(_as_json(cli, loaded, document.state))
        return
    name, items = printable(shown_key(document.key)), format_count(len(loaded.items), "item")
    print_line(f"loaded {name} of pipeline {document.pipeline}, {document.state}, with {items}")
    print_line(f"show it: {cli.command(*command_args(('show',), document.key))}")


def _read(file: Path) -> Capsule:
    if str(file) == "-":
        return read_capsule(sys.stdin.buffer.read(LARGEST + 1))
    with file.open("rb") as content:
        return read_capsule(content.read(LARGEST + 1))


def _as_json(cli: CliContext, loaded: Capsule, state: str) -> dict[str, Any]:
    document = loaded.document
    place = {"store": cli.shown_store, "pipeline": document.pipeline, "batch": document.batch, "key": document.key}
    return place | {"was": document.state, "state": state, "items": len(loaded.items), "packed_at": loaded.packed_at}
