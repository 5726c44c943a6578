"""`holdfast files`: load record files into tables, and look after what was not loaded."""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.interrupt import resumable
from holdfast.cli.observe_options import observe_options
from holdfast.cli.options import common_options, current_user, processes_option, worker_options
from holdfast.cli.output import print_json, print_line
from holdfast.cli.param_types import DurationType
from holdfast.cli.pipeline_loader import LoadedPipeline
from holdfast.cli.run_loop import add_resume_hint, format_submit_result, print_summary_and_exit, run_worker
from holdfast.cli.store_access import open_existing_store, open_persistent_store
from holdfast.cli.ui.progress import show_progress
from holdfast.cli.ui.progress_counts import ProgressCounts
from holdfast.cli.ui.summary import RunSummary
from holdfast.core.formatting import format_count
from holdfast.engine import api
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.observe.report import Report
from holdfast.pipelines.files.intake import MIN_AGE
from holdfast.pipelines.files.loader import DryRun, Loader, file_loads, set_aside, totals
from holdfast.pipelines.files.pipeline import After, Ceiling
from holdfast.pipelines.files.transform import Transform, load_transform
from holdfast.pipelines.files.values import KINDS, FileOptions, SetAside
from holdfast.stores.protocol import Store

WATCH = timedelta(seconds=10)
"""How often sources are listed with --watch."""


@click.group(cls=CommandGroup)
@common_options
def files() -> None:
    """Load record files into tables, each record once.

    Files are CSV, TSV, JSON Lines or Parquet, compressed or not.
    """


_into = click.option(
    "--into",
    metavar="URL",
    help="The database of the table: sqlite:///events.db or postgresql://... It is the store, too. [default: --store]",
)
_table = click.option("--table", metavar="NAME", required=True, help="The table. It is created if there is none.")
_encoding = click.option("--encoding", metavar="NAME", default="utf-8", show_default=True, help="Encoding of texts.")
_delimiter = click.option("--delimiter", metavar="CHAR", default="", help="Delimiter of CSV files, if not recognised.")


@files.command()
@click.argument("sources", nargs=-1)
@_into
@_table
@_encoding
@_delimiter
@click.option("--type", "types", metavar="COLUMN=TYPE", multiple=True, help=f"Type of a column: {', '.join(KINDS)}.")
@click.option(
    "--commit-every",
    type=click.IntRange(1),
    metavar="N",
    help="Records of one commit. [default: 1,000 at first, then for about a quarter of a second]",
)
@click.option("--max-failed", metavar="N|N%", default="10%", show_default=True, help="Bad records that stop a file.")
@click.option(
    "--after",
    metavar="WHAT",
    default="leave",
    show_default=True,
    help="What happens to a loaded file: leave, delete, or move:FOLDER. It comes after the commit of its rows.",
)
@click.option(
    "--min-age", type=DurationType(), metavar="TIME", help="Leave out files that changed later. [default: 2s]"
)
@click.option("--dry-run", is_flag=True, help="Show columns, first rows and counts. Nothing is written.")
@click.option("--watch", is_flag=True, help="Go on, and load new files and new versions.")
@click.option("--retry", is_flag=True, help="Try files again that failed, from where they stopped.")
@click.option("--allow-private", is_flag=True, help="Also ask servers in private networks.")
@processes_option
@worker_options()
@observe_options
@common_options
@click.pass_obj
@resumable
def load(
    cli: CliContext,
    /,
    *,
    sources: tuple[str, ...],
    into: str | None,
    table: str,
    dry_run: bool,
    watch: bool,
    retry: bool,
    min_age: timedelta | None,
    budget: timedelta | None,
    **options: Any,
) -> None:
    """Load the records of files into a table. Run it again to continue, and to load new files.

    SOURCES are files, folders, globs and URLs (https:, s3:, file:). If the first one is a Python file, its function
    makes rows of records: transform.py, or transform.py:name. It takes one record, and returns one, None, or a list.

    A file is loaded once. If it changes, its new rows replace the old ones in one step. Bad records are set aside.
    Several such commands at once share the files. Without SOURCES, it continues with the files in the store.
    """
    transform, sources = _split(sources)
    _use_store(cli, into)
    limit, age = Budget(budget), MIN_AGE if min_age is None else min_age
    with open_persistent_store(cli) as store, add_resume_hint(cli, "files", "load"):
        loader = _loader(store, table, transform, options)
        if dry_run:
            _print_dry_run(cli, loader.dry_run(sources))
            return
        loader.prepare(sources)
        counts = ProgressCounts(loader.pipeline, store, batch=table, threads=options["threads"])
        report = Report()
        with show_progress(cli, counts, limit) as progress:
            if watch:
                progress.display.show_message("Watching for new files; stop with Ctrl-C.")
            if retry:
                count = loader.retry_failed(who=current_user(), reason="--retry")
                progress.display.show_message(f"{format_count(count, 'file')} to try again")
            while True:
                submitted = loader.submit(sources, min_age=age)
                if submitted.new or submitted.changed:
                    progress.display.show_message(format_submit_result(submitted))
                for key in loader.young:
                    progress.display.show_message(f"{key} is still being written: it was not taken")
                counts.recount()
                pipeline = LoadedPipeline(loader.pipeline, "files")
                worker = options | {"batch": table}
                report += run_worker(cli, api.drain, pipeline, store, progress=progress, budget=limit, options=worker)
                if not watch or limit.is_over():
                    break
                _wait(limit)
        summary = RunSummary(
            store,
            loader.pipeline.name,
            table,
            report=report,
            stopped_by=limit.reason,
            resume_command=cli.same_command("files", "load"),
            retry_command=cli.same_command("files", "load", option="--retry"),
            empty_hint="name some files",
        )
        if not cli.json:
            _print_totals(store, table)
        print_summary_and_exit(cli, summary, progress, submitted)


@files.command()
@click.option("--table", metavar="NAME", help="Only files of this table.")
@common_options
@click.pass_obj
def status(cli: CliContext, *, table: str | None) -> None:
    """Show each file with its state and its counts of records."""
    with open_existing_store(cli, created_by="files load") as store:
        found = list(file_loads(store, batch=table))
    if cli.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    for one in found:
        counts = f"{one.total:,} read, {one.filtered:,} filtered, {one.persisted:,} rows, {one.failed:,} set aside"
        print_line(f"{one.state:9} {one.url}  {counts}, {one.milliseconds:,} ms")
    if not found:
        print_line("No files were loaded yet.")


@files.command()
@click.option("--table", metavar="NAME", help="Only files of this table.")
@click.option("--export", type=click.Path(path_type=Path), metavar="FILE", help="Write all records to this file.")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Records that are shown.")
@common_options
@click.pass_obj
def failed(cli: CliContext, *, table: str | None, export: Path | None, limit: int) -> None:
    """Show files that failed, and records that were set aside, each with its reason.

    --export writes the records as JSON Lines. Correct the field `raw`, and load them with `holdfast files retry`.
    """
    with open_existing_store(cli, created_by="files load") as store:
        dead = list(file_loads(store, batch=table, state="dead"))
        records = list(set_aside(store, batch=table))
    if export is not None:
        with export.open("x", encoding="utf-8") as out:
            out.writelines(msgspec.json.encode(_exported(record)).decode() + "\n" for record in records)
    if cli.json:
        print_json({"files": [msgspec.to_builtins(one) for one in dead], "records": [*map(_exported, records)]})
        return
    for one in dead:
        print_line(f"{one.url}: {one.reason}")
    for record in records[:limit]:
        print_line(f"{record.url}, line {record.line}: {record.reason}")
    if len(records) > limit:
        print_line(f"and {len(records) - limit:,} more; --export FILE writes all")
    if export is not None:
        print_line(f"{format_count(len(records), 'record')} written to {export}")
    elif not dead and not records:
        print_line("No file failed, and no record is set aside.")


@files.command()
@click.argument("transform", required=False)
@_into
@_table
@_encoding
@_delimiter
@click.option("--mended", type=click.Path(path_type=Path, exists=True), metavar="FILE", help="An export, corrected.")
@common_options
@click.pass_obj
def retry(
    cli: CliContext, /, *, transform: str | None, into: str | None, table: str, mended: Path | None, **options: Any
) -> None:
    """Try failed files again, and load records that were set aside.

    Files go on where they stopped, with the next `holdfast files load`. Records are loaded now: those of --mended as
    they are in that file, otherwise all as they are in the store, for example with another TRANSFORM.
    """
    _use_store(cli, into)
    with open_existing_store(cli, created_by="files load") as store:
        loader = _loader(store, table, _transform(transform) if transform else None, options)
        count = loader.retry_failed(who=current_user(), reason="holdfast files retry")
        loaded, left = loader.load_set_aside(None if mended is None else _mended(mended))
    if cli.json:
        print_json({"files": count, "records": loaded, "failed": [*map(_exported, left)]})
        return
    print_line(f"{format_count(count, 'file')} to try again; {format_count(loaded, 'record')} loaded.")
    for record in left:
        print_line(f"{record.url}, line {record.line}: {record.reason}")


def _use_store(cli: CliContext, into: str | None) -> None:
    """Use the database of the table as the store, so that rows and offsets are in one transaction."""
    if into is None:
        return
    if cli.store_option and cli.store_option != into:
        raise CliError("--into and --store name two databases: leave out --store, so that rows and offsets are in one")
    cli.store_option = into


def _split(sources: tuple[str, ...]) -> tuple[Transform | None, tuple[str, ...]]:
    first = sources[0] if sources else ""
    if first.endswith(".py") or ".py:" in first:
        return _transform(first), sources[1:]
    return None, sources


def _transform(spec: str) -> Transform:
    path, _, name = spec.partition(":")
    return load_transform(Path(path), name)


def _loader(store: Store, table: str, transform: Transform | None, options: dict[str, Any]) -> Loader:
    """Return the loader of a command. Its own options are taken out of `options`."""
    types = dict(_type(one) for one in options.pop("types", ()))
    given = FileOptions(encoding=options.pop("encoding"), delimiter=options.pop("delimiter"), types=types)
    return Loader(
        store,
        table,
        transform=transform,
        options=given,
        commit_every=options.pop("commit_every", None),
        ceiling=_ceiling(options.pop("max_failed", "10%")),
        after=_after(options.pop("after", "leave")),
        allow_private=options.pop("allow_private", False),
    )


def _type(text: str) -> tuple[str, Any]:
    name, _, kind = text.partition("=")
    if kind not in KINDS:
        raise CliError(f"--type {text}: write it as COLUMN=TYPE, where TYPE is one of {', '.join(KINDS)}")
    return name, kind


def _ceiling(text: str) -> Ceiling:
    number = text.removesuffix("%")
    try:
        return Ceiling(share=float(number) / 100) if text.endswith("%") else Ceiling(count=int(number))
    except ValueError:
        raise CliError(f"--max-failed {text}: write a number of records, or a share such as 5%") from None


def _after(text: str) -> After:
    if text in ("leave", "delete"):
        return "leave" if text == "leave" else "delete"
    if text.startswith("move:") and len(text) > 5:
        return Path(text.removeprefix("move:")).absolute()
    raise CliError(f"--after {text}: write leave, delete, or move:FOLDER")


def _wait(limit: Budget) -> None:
    """Wait until the sources are listed again, or until the command is stopped."""
    stopped = threading.Event()
    limit.on_stop = stopped.set
    with stopping_on_signals(limit):
        stopped.wait(min(WATCH.total_seconds(), limit.remaining))


def _exported(record: SetAside) -> dict[str, Any]:
    fields: dict[str, Any] = {"number": record.number, "url": record.url, "line": record.line, "offset": record.offset}
    try:
        raw = {"raw": record.raw.decode()}
    except UnicodeDecodeError:
        raw = {"raw_base64": b64encode(record.raw).decode()}
    return fields | {"reason": record.reason} | raw


def _mended(path: Path) -> dict[int, bytes]:
    records: dict[int, bytes] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            record = msgspec.json.decode(line)
            raw = record["raw"].encode() if "raw" in record else b64decode(record["raw_base64"])
            records[int(record["number"])] = raw
        except (ValueError, KeyError, TypeError) as error:
            raise CliError(f"line {number} of {path} is no exported record: {error}") from error
    return records


def _print_totals(store: Store, table: str) -> None:
    found = totals(file_loads(store, batch=table))
    counts = [f"{found[name]:,} {words}" for name, words in _TOTALS.items()]
    print_line(f"Records in {table}: {', '.join(counts)}.")


_TOTALS = {"records": "read", "filtered": "filtered", "rows": "rows", "set_aside": "set aside"}


def _print_dry_run(cli: CliContext, found: DryRun) -> None:
    if cli.json:
        print_json(
            {
                "columns": {column.name: column.kind for column in found.columns},
                "rows": [[*map(str, row)] for row in found.rows],
                "counts": dict(found.counts),
                "files": found.files,
                "bytes": found.bytes,
                "seconds": found.seconds,
            }
        )
        return
    print_line("Columns: " + ", ".join(f"{column.name} {column.kind}" for column in found.columns))
    for row in found.rows:
        print_line("  " + ", ".join("" if value is None else str(value) for value in row))
    for record in found.aside:
        print_line(f"  line {record.line} would be set aside: {record.reason}")
    counts = ", ".join(f"{found.counts.get(name, 0):,} {words}" for name, words in _TOTALS.items())
    print_line(f"The start of the first file: {counts}.")
    time_ = "" if found.seconds is None else f"; reading all of them takes about {found.seconds:,.0f} s here"
    print_line(f"{format_count(found.files, 'file')} with {found.bytes:,} bytes{time_}. Nothing was written.")
