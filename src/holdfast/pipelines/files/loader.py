"""Load record files into a table of the store's database, look at what was loaded, and try again what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.core.model import DocumentStatus, SubmitResult
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.pipelines.files import tables
from holdfast.pipelines.files.intake import MIN_AGE, Listing, list_documents, wait_until_stable
from holdfast.pipelines.files.pipeline import PIPELINE, After, Ceiling, LoadParts, build_pipeline
from holdfast.pipelines.files.reading import RecordForm, read_blocks, read_record, record_form, target_columns
from holdfast.pipelines.files.tables import TargetTable
from holdfast.pipelines.files.text_blocks import Pace
from holdfast.pipelines.files.transform import Transform
from holdfast.pipelines.files.values import Column, FileOptions, FilePosition, FilesError, Refusal, SetAside
from holdfast.sources import SourceFile, list_files, parse_source
from holdfast.sources.fetch import local_copy
from holdfast.stores.protocol import Store


class FileLoad(Struct, frozen=True):
    """One file of a load.

    Attributes:
        url: Its canonical path or URL.
        state: The state of its document: waiting, running, done, dead, paused or cancelled.
        reason: Why it is dead, paused or waits.
        file_type: Its format and compression.
        total: Records that were read.
        filtered: Records for which the transform returned None.
        persisted: Rows that were written.
        failed: Records that were set aside.
        milliseconds: How long it was read and converted.
        worker: The worker that had it last.
    """

    url: str
    state: str
    reason: str
    file_type: str
    total: int
    filtered: int
    persisted: int
    failed: int
    milliseconds: int
    worker: str


class DryRun(Struct, frozen=True):
    """What a load would do, as far as its first file shows.

    Attributes:
        columns: The columns of the target.
        rows: The first rows.
        aside: The first records that would be set aside.
        counts: Records read, filtered and set aside, and rows, in the part that was read.
        files: How many files there are.
        bytes: How many bytes they have, as they are stored.
        seconds: How long reading all files would take here, without writing rows. None: nothing was read.
    """

    columns: Sequence[Column]
    rows: Sequence[tuple[Any, ...]]
    aside: Sequence[SetAside]
    counts: Mapping[str, int]
    files: int
    bytes: int
    seconds: float | None


class Loader:
    """Loads files into one table.

    Args:
        store: The store. The table is in its database.
        table: The table. It is created if there is none.
        transform: A function from one record to one, none or several; or a Transform. None: records are rows.
        options: How files are read.
        commit_every: How many records are committed together. None: 1,000 at first, then for about a quarter of a
            second.
        ceiling: How many records of a file may be set aside before it stops.
        after: What happens to a file after its load: `"leave"`, `"delete"`, or a folder that it is moved to.
        allow_private: Allow addresses in private networks.

    Example:
        with holdfast.open("sqlite:///events.db") as store:
            loader = files.Loader(store, "event")
            loader.submit(["logs/*.csv"])
            print(loader.drain().done, "files")
    """

    def __init__(
        self,
        store: Store,
        table: str,
        *,
        transform: Transform | Callable[[Any], Any] | None = None,
        options: FileOptions | None = None,
        commit_every: int | None = None,
        ceiling: Ceiling | None = None,
        after: After = "leave",
        allow_private: bool = False,
    ) -> None:
        if store.url.startswith("memory:"):
            raise FilesError("a load needs a database for its rows: sqlite:///... or postgresql://...")
        self.store = store
        self.batch = table
        self.transform = transform if isinstance(transform, Transform) or transform is None else Transform(transform)
        self.options = options or FileOptions()
        self.young: list[str] = []
        self._parts = LoadParts(
            table=TargetTable(table),
            transform=self.transform,
            options=self.options,
            commit_every=commit_every,
            ceiling=ceiling or Ceiling(),
            after=after,
            allow_private=allow_private,
        )

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline of the load. The table has to exist."""
        return build_pipeline(self.store, self._parts)

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the table, once it is prepared."""
        return self._parts.table.columns

    def prepare(self, sources: Sequence[str] = ()) -> None:
        """Create the table and the tables of statistics, if they do not exist.

        Args:
            sources: The sources. The first file that has records decides about the columns of a new table.

        Raises:
            FilesError: The columns are not known: there is no table and no file with records.
            SourceRefused: A source does not exist.
        """
        table = self._parts.table
        table.columns = table.read_columns(self.store) or self._infer(sources)
        table.create(self.store)
        tables.create_statistics(self.store)

    def submit(self, sources: Sequence[str], *, min_age: timedelta = MIN_AGE, wait: bool = True) -> SubmitResult:
        """Submit files. A file that is there already, in the same version, is left as it is.

        Args:
            sources: Files, folders, globs and URLs.
            min_age: Files that were changed more recently may still be being written.
            wait: Wait this long for such files, and take those that did not change meanwhile.

        Returns:
            How many files were new, changed and unchanged. `young` has the keys of those that were not taken.

        Raises:
            SourceRefused: A source does not exist, or cannot be used.
            FilesError: The columns of the table are not known.
        """
        self.prepare(sources)
        listing = Listing()
        private = self._parts.allow_private
        documents = list_documents(sources, listing, min_age=min_age, allow_private=private)
        result = api.submit(self.pipeline, self.store, batch=self.batch, documents=documents)
        if listing.young and wait:
            stable = wait_until_stable(listing, min_age=min_age)
            more = list_documents(stable, Listing(), min_age=timedelta(0))
            result += api.submit(self.pipeline, self.store, batch=self.batch, documents=more)
            self.young = sorted(set(listing.young) - set(stable))
        else:
            self.young = listing.young
        return result

    def drain(self, **how: Any) -> Any:
        """Load until no submitted file is left.

        Args:
            **how: The keywords of `holdfast.drain`.

        Returns:
            The report of `holdfast.drain`.
        """
        self.prepare()
        return api.drain(self.pipeline, self.store, batch=self.batch, **how)

    def dry_run(self, sources: Sequence[str], *, records: int = 1000) -> DryRun:
        """Read the start of the first file. Nothing is written.

        Args:
            sources: The sources.
            records: How many records are read.

        Raises:
            SourceRefused: A source does not exist.
            FilesError: There is no file with records.
        """
        seen = list(self._files(sources))
        columns = self._parts.table.read_columns(self.store) or self._infer(sources)
        for file in seen:
            with local_copy(file, allow_private=self._parts.allow_private) as path:
                began = datetime.now(UTC)
                start = FilePosition()
                pace = Pace(records)
                found = read_blocks(
                    path, columns, options=self.options, at=start, pace=pace, transform=self.transform, name=file.key
                )
                at, block = next(found, (start, None))
                took = (datetime.now(UTC) - began).total_seconds()
            if block is None:
                continue
            counts = {
                "records": block.total,
                "filtered": block.filtered,
                "rows": block.count,
                "set_aside": len(block.aside),
            }
            size = sum(max(one.size, 0) for one in seen)
            seconds = took * size / at.offset if at.offset > 1000 else None
            return DryRun(columns, block.rows[:10], block.aside[:10], counts, len(seen), size, seconds)
        return DryRun(columns, (), (), {}, len(seen), 0, None)

    def retry_failed(self, *, who: str, reason: str) -> int:
        """Try files again that are dead letters, from where they stopped. Return how many.

        Args:
            who: Who decided.
            reason: Why.
        """
        ids = [document.id for document in _documents(self.store, batch=self.batch, state="dead")]
        return len(self.store.redrive(ids, who=who, reason=reason))

    def load_set_aside(self, mended: Mapping[int, bytes] | None = None) -> tuple[int, list[SetAside]]:
        """Load records that were set aside: once each, and only if their file still has this version.

        Args:
            mended: Records in place of the stored ones, by number. Without it, all are tried as they are, for example
                with another transform.

        Returns:
            How many were loaded, and those that still cannot be, each with its reason now.
        """
        self.prepare()
        loaded, failed = 0, list[SetAside]()
        forms: dict[str, RecordForm] = {}
        for record in list(set_aside(self.store, batch=self.batch)):
            if mended is not None and record.number not in mended:
                continue
            raw = record.raw if mended is None else mended[record.number]
            try:
                form = forms.get(record.url) or forms.setdefault(record.url, self._form(record.url))
                rows = read_record(raw, form, self.columns, self.options, self.transform)
            except (Refusal, Reject, OSError) as refusal:
                failed.append(SetAside(record.line, record.offset, str(refusal), raw, record.number, record.url))
                continue
            with self.store.transaction() as tx:
                loaded += tables.load_mended(tx, self._parts.table, record.number, rows)
        return loaded, failed

    def _form(self, url: str) -> RecordForm:
        with local_copy(SourceFile(url, url, -1, 0), allow_private=self._parts.allow_private) as path:
            return record_form(path, self.options, url)

    def _files(self, sources: Iterable[str]) -> Iterator[SourceFile]:
        for source in sources:
            yield from list_files(parse_source(source), allow_private=self._parts.allow_private)

    def _infer(self, sources: Sequence[str]) -> list[Column]:
        why = "there is no table and no file with records, so the columns are not known"
        if self.transform is not None and self.transform.columns is not None:
            return self.transform.columns
        for number, file in enumerate(self._files(sources)):
            if number == 100:
                break
            with local_copy(file, allow_private=self._parts.allow_private) as path:
                try:
                    return target_columns(path, self.options, self.transform)
                except (FilesError, Reject) as error:
                    why = str(error)
        raise FilesError(why)


def file_loads(store: Store, *, batch: str | None = None, state: str | None = None) -> Iterator[FileLoad]:
    """Yield the files of loads, with their statistics.

    Args:
        store: The store.
        batch: Only those of this table.
        state: Only those whose documents are in this state.
    """
    counts = tables.read_statistics(store)
    for document in _documents(store, batch=batch, state=state):
        kind, *numbers = counts.get(document.id, ("", 0, 0, 0, 0, 0))
        total, filtered, persisted, failed, milliseconds = map(int, numbers)
        yield FileLoad(
            document.key,
            document.state,
            document.reason,
            str(kind),
            total,
            filtered,
            persisted,
            failed,
            milliseconds,
            document.worked_by or "",
        )


def set_aside(store: Store, *, batch: str | None = None) -> Iterator[SetAside]:
    """Yield the records that are set aside, file by file.

    Args:
        store: The store.
        batch: Only those of this table.
    """
    for document in _documents(store, batch=batch):
        for line, offset, reason, raw, number in tables.read_aside(store, document.id):
            yield SetAside(line, offset, reason, bytes(raw), number, document.key)


def totals(loads: Iterable[FileLoad]) -> Counter[str]:
    """Return the sums of files by state, and of records."""
    found: Counter[str] = Counter()
    for one in loads:
        found[one.state] += 1
        found["records"] += one.total
        found["filtered"] += one.filtered
        found["rows"] += one.persisted
        found["set_aside"] += one.failed
    return found


def _documents(store: Store, *, batch: str | None, state: str | None = None) -> Iterator[DocumentStatus]:
    if PIPELINE not in store.pipelines():
        return
    choice: dict[str, Any] = {} if state is None else {"state": state}
    after = 0
    while ids := store.select(PIPELINE, after=after, batch=batch, **choice):
        yield from store.documents_by_id(ids)
        after = ids[-1]
