"""The pipeline of record files: load the records of a file, then publish them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from holdfast.core.document import Document
from holdfast.core.errors import Reject
from holdfast.core.fingerprints import parse_file_fingerprint
from holdfast.core.moves import Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.core.step import At
from holdfast.pipelines.files import tables
from holdfast.pipelines.files.reading import file_type, read_blocks
from holdfast.pipelines.files.tables import TargetTable
from holdfast.pipelines.files.text_blocks import Pace
from holdfast.pipelines.files.transform import Transform
from holdfast.pipelines.files.values import (
    FileChanged,
    FileOptions,
    FilePosition,
    FileRefused,
    RecordBlock,
    TooManySetAside,
)
from holdfast.sources.fetch import local_file
from holdfast.stores.protocol import Store

PIPELINE = "files"
ATTEMPTS = 4
"""One try and three retries."""
After = Literal["leave", "delete"] | Path
"""What happens to a file after its load: it stays, is deleted, or is moved to a folder."""


class Ceiling(Struct, frozen=True):
    """How many records of a file may be set aside.

    Attributes:
        count: At most this many. None: the share decides.
        share: At most this share of the records so far, looked at from the hundredth on and at the end.
    """

    count: int | None = None
    share: float = 0.1

    FIRST = 100

    def is_exceeded(self, at: FilePosition, *, ended: bool) -> bool:
        """Return True if a file has to stop."""
        if self.count is not None:
            return at.aside > self.count
        return (ended or at.total >= self.FIRST) and at.aside > self.share * at.total


class LoadParts(Struct, frozen=True, kw_only=True):
    """The parts that the pipeline is built from.

    Attributes:
        table: Where the rows go.
        transform: A function of the user from one record to one, none or several.
        options: How files are read.
        commit_every: How many records are committed together. None: 1,000 at first, then for about a quarter of a
            second.
        ceiling: How many records of a file may be set aside.
        after: What happens to a file after its load.
        allow_private: Allow addresses in private networks.
    """

    table: TargetTable
    transform: Transform | None = None
    options: FileOptions = field(default_factory=FileOptions)
    commit_every: int | None = None
    ceiling: Ceiling = Ceiling()
    after: After = "leave"
    allow_private: bool = False


def build_pipeline(store: Store, parts: LoadParts, *, name: str = PIPELINE) -> Pipeline:
    """Build the pipeline of a load.

    Args:
        store: The store, in whose database the target is.
        parts: The parts.
        name: The name of the pipeline.
    """
    pipeline = Pipeline(name)
    _load(pipeline, store, parts)
    _publish(pipeline, store, parts)
    if parts.after != "leave":
        _clear(pipeline, parts)
    return pipeline


class _LoadBlock(Struct):
    """A block on its way to the effect, with what the effect has to know."""

    block: RecordBlock
    staged: bool
    file_type: str
    file_timestamp: str | None


def _load(pipeline: Pipeline, store: Store, parts: LoadParts) -> None:
    table = parts.table

    @pipeline.step(keep=False, commit_every=1, retry=Retry(attempts=ATTEMPTS))
    def load(doc: Document, cursor: Any = None) -> Iterator[At[Any]]:
        with store.reading() as tx:
            staged = tables.published_generation(tx, doc.id) is not None
            as_tables = tx.dialect == "postgresql"
        at = FilePosition() if cursor is None else msgspec.convert(cursor, FilePosition)
        pace = Pace(parts.commit_every)
        with _open(doc, parts) as (path, check):
            kind = file_type(path, doc.key)
            timestamp = _timestamp(doc, path)
            began = perf_counter()
            blocks = read_blocks(
                path,
                table.columns,
                options=parts.options,
                at=at,
                pace=pace,
                transform=parts.transform,
                as_tables=as_tables,
                name=doc.key,
            )
            for after, block in blocks:
                check()
                block.milliseconds = (perf_counter() - began) * 1000
                yield At(msgspec.to_builtins(after), _LoadBlock(block, staged, kind, timestamp))
                pace.committed()
                began = perf_counter()
                at = after
                _refuse_too_many(doc, parts.ceiling, at, ended=False)
            check()
        _refuse_too_many(doc, parts.ceiling, at, ended=True)
        end = RecordBlock()
        end.is_last = True
        yield At(None, _LoadBlock(end, staged, kind, timestamp))

    @load.effect
    def save(tx: Tx, doc: Document, loaded: Sequence[_LoadBlock]) -> None:
        for one in loaded:
            table.write(tx, doc, one.block, staged=one.staged)
            tables.keep_aside(tx, doc, one.block.aside)
            tables.count_up(
                tx,
                doc,
                one.block,
                file_type=one.file_type,
                file_timestamp=one.file_timestamp,
                target=table.name,
                now=datetime.now(UTC).isoformat(),
            )

    @load.undo
    def forget(tx: Tx, doc: Document) -> None:
        """Delete the rows that readers see only if they were never complete: a new version replaces the others."""
        table.delete(tx, doc, staged=tables.published_generation(tx, doc.id) is not None)
        tables.forget_aside(tx, doc)


def _publish(pipeline: Pipeline, store: Store, parts: LoadParts) -> None:
    table = parts.table

    @pipeline.step
    def publish(doc: Document) -> int:
        with store.reading() as tx:
            is_loaded = tables.loaded_generation(tx, doc.id) == doc.generation
        if not is_loaded:
            raise Reject(f"{doc.key} has no rows of generation {doc.generation}: rewind it to the step load instead")
        return doc.generation

    @publish.effect
    def show(tx: Tx, doc: Document, generation: int) -> None:
        if tables.published_generation(tx, doc.id) is not None:
            table.publish(tx, doc)
        tables.set_published(tx, doc.id, generation)

    @publish.undo
    def hide(tx: Tx, doc: Document) -> None:
        """Delete the rows that readers see: in the transaction that brings the new ones, or at a withdrawal."""
        table.delete(tx, doc, staged=False)


def _clear(pipeline: Pipeline, parts: LoadParts) -> None:
    after = parts.after

    @pipeline.step(keep=False, retry=Retry(attempts=ATTEMPTS))
    def clear(doc: Document) -> None:
        """Delete or move the file. It comes after the commit of its rows, so that no kill can lose both."""
        path = _own_path(doc)
        if after == "delete":
            path.unlink(missing_ok=True)
            return
        assert isinstance(after, Path)
        after.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(_free_name(after / path.name))


def _free_name(path: Path) -> Path:
    """Return a path that is not taken."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}_{number}{path.suffix}")
    return free


def _own_path(doc: Document) -> Path:
    if "path" not in doc.payload:
        raise FileRefused(
            f"{doc.key} is a URL: only files of this machine can be moved or deleted. Its rows are loaded"
        )
    with local_file(doc) as path:
        return path


def _refuse_too_many(doc: Document, ceiling: Ceiling, at: FilePosition, *, ended: bool) -> None:
    if ceiling.is_exceeded(at, ended=ended):
        allowed = f"{ceiling.count:,}" if ceiling.count is not None else f"{ceiling.share:.0%} of the records"
        raise TooManySetAside(
            f"{at.aside:,} of {at.total:,} records of {doc.key} were set aside, more than {allowed}. Look at "
            "them with `holdfast files failed`. To go on from here: `holdfast files load --retry` with a higher "
            "--max-failed"
        )


@contextmanager
def _open(doc: Document, parts: LoadParts) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the path of a file, and a function that checks whether it is still the version that was submitted."""
    with local_file(doc, allow_private=parts.allow_private) as path:
        wanted = parse_file_fingerprint(doc.fingerprint) if "path" in doc.payload else None
        if wanted is None:
            yield path, lambda: None
            return

        def check() -> None:
            try:
                found = os.stat(path)  # noqa: PTH116 - it is called for each commit
            except OSError as error:
                raise FileChanged(
                    f"{doc.key} was deleted while it was read; its rows so far are in the table"
                ) from error
            if (found.st_size, found.st_mtime_ns) != (wanted.size, wanted.mtime_ns):
                raise FileChanged(
                    f"{doc.key} was changed after it was submitted: it had {wanted.size:,} bytes and has "
                    f"{found.st_size:,}. Run `holdfast files load` again: the new version replaces the rows of this one"
                )

        check()
        yield path, check


def _timestamp(doc: Document, path: Path) -> str | None:
    wanted = parse_file_fingerprint(doc.fingerprint)
    if wanted is not None and wanted.mtime_ns:
        return datetime.fromtimestamp(wanted.mtime_ns / 1e9, UTC).isoformat()
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat() if "path" in doc.payload else None
