"""`holdfast capsule`: one document as one file, to be looked into elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.chosen import the_one
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import store_that_exists, store_that_lasts
from holdfast.cli.who import signed
from holdfast.cli.words import count, harmless
from holdfast.core.capsule import LARGEST, Capsule, read
from holdfast.core.commands import about, pasteable
from holdfast.core.errors import CapsuleError
from holdfast.stores.protocol import Store


@click.group()
@common
def capsule() -> None:
    """Packs one document into a file, and loads it into an empty store elsewhere.

    A capsule has everything about one document: the pipeline's plan, payload, checkpoint, kept items, what was set
    aside, and its journal with tracebacks. It is JSON; the payload and the items are in it as they are, so treat the
    file as you treat the document.
    """


@capsule.command()
@click.argument("key")
@click.option("--pipeline", help="Only in this pipeline.")
@click.option("--batch", help="Only in this batch.")
@click.option("-o", "--output", metavar="FILE", help="The file to write; - for stdout. [default: KEY.capsule.json]")
@common
@click.pass_obj
def pack(asked: Asked, *, key: str, pipeline: str | None, batch: str | None, output: str | None) -> None:
    """Writes everything about the document KEY into one file.

    The store is only read. A file that is there already is not overwritten.
    """
    from holdfast.engine.capsules import file_name

    with store_that_exists(asked) as store:
        here = the_one(asked, store, key, pipeline=pipeline, batch=batch)
        if output == "-":
            _to_stdout(store, here.id)
            return
        file = Path(output or file_name(here.key))
        head = _to_file(store, here.id, file)
    _tell_packed(asked, head, file)


def _to_stdout(store: Store, document_id: int) -> None:
    from holdfast.engine.capsules import pack as pack_into

    with tempfile.TemporaryFile() as whole:
        pack_into(store, document_id, whole)
        whole.seek(0)
        shutil.copyfileobj(whole, sys.stdout.buffer)


def _to_file(store: Store, document_id: int, file: Path) -> Capsule:
    """Writes beside the file first, so that half a capsule never has its name, and lets only its owner read it."""
    from holdfast.engine.capsules import pack as pack_into

    if not file.parent.is_dir():
        raise Trouble(f"there is no folder {file.parent}; create it first")
    if file.exists():
        raise Trouble(f"{file} is there already; name another file with -o, or remove it")
    descriptor, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w+b") as whole:
            head = pack_into(store, document_id, whole)
        Path(beside).replace(file)
    finally:
        Path(beside).unlink(missing_ok=True)
    return head


def _tell_packed(asked: Asked, head: Capsule, file: Path) -> None:
    size = file.stat().st_size
    if asked.json:
        said = {"file": str(file), "bytes": size, "pipeline": head.document.pipeline, "key": head.document.key}
        tell(said)
        return
    say(f"packed {harmless(head.document.key)} ({head.document.state}) into {harmless(str(file))}, {size:,} bytes")
    elsewhere = pasteable(about(("capsule", "load"), str(file)), store=("--store", "sqlite:///capsule.db"))
    say(f"load it elsewhere: {elsewhere}")


@capsule.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--redrive", is_flag=True, help="Let a dead letter wait, to be tried again from its checkpoint.")
@signed(reason="to look into it")
@common
@click.pass_obj
def load(asked: Asked, *, file: Path, redrive: bool, who: str, reason: str) -> None:
    """Loads the capsule FILE into an empty SQLite store, in one transaction.

    There it can be looked at, run and debugged as where it came from. A dead letter stays one, unless --redrive. A
    document that was running waits.
    """
    from holdfast.stores.sqlite import SqliteStore

    loaded = _read(file)
    with store_that_lasts(asked) as store:
        if not isinstance(store, SqliteStore):
            raise CapsuleError("a capsule is loaded into a SQLite file: name a new one, --store sqlite:///capsule.db")
        document_id = store.load(loaded, who=who)
        if redrive:
            store.redrive([document_id], who=who, reason=reason)
        (here,) = store.look([document_id])
    if asked.json:
        tell(_facts(asked, loaded, here.state))
        return
    name, items = harmless(here.key), count(len(loaded.items), "item")
    say(f"loaded {name} of pipeline {here.pipeline}, {here.state}, with {items}")
    say(f"its story: {asked.command(*about(('show',), here.key))}")


def _read(file: Path) -> Capsule:
    if str(file) == "-":
        return read(sys.stdin.buffer.read(LARGEST + 1))
    with file.open("rb") as content:
        return read(content.read(LARGEST + 1))


def _facts(asked: Asked, loaded: Capsule, state: str) -> dict[str, Any]:
    one = loaded.document
    facts = {"store": asked.shown_store, "pipeline": one.pipeline, "batch": one.batch, "key": one.key}
    return facts | {"was": one.state, "state": state, "items": len(loaded.items), "packed_at": loaded.packed_at}
