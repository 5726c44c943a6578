"""Jobs: an ingest that has an id. A job that is completed is answered from the store and does nothing again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.codec import encode_json, unkept
from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.core.text_limits import MAX_NAME, shorten, too_long
from holdfast.engine.settings import WorkerOptions
from holdfast.ops.redrive import redrive_dead_letters
from holdfast.pipelines.rag.collections.status import ENDS, IngestPhase, count_states, ingest_phase
from holdfast.pipelines.rag.ingest.intake import DEFAULT_SCAN, ScanOptions
from holdfast.pipelines.rag.ingest.removal import WITHDRAWN
from holdfast.pipelines.rag.sql_statements import load_statements
from holdfast.sources import SourceRefused, find_root, parse_source

if TYPE_CHECKING:
    from holdfast.pipelines.rag.collections.library import Library

SQL = load_statements(Path(__file__).parent / "queries")
JobStatus = Literal["RUNNING", "PAUSED", "FAILED", "COMPLETED"]
WHO, RETRIED = "job", "the job was run again"
"""Who tries failed documents again, and why, for the journal."""
MAX_ERRORS = 20
"""How many failed documents a result names."""


class IngestResult(Struct, frozen=True, kw_only=True):
    """The result of a job.

    Attributes:
        job_id: The id of the job.
        source: The folder, file, glob root or URL that it ingests.
        status: COMPLETED if all documents of the source are done. FAILED if all have ended, and some failed. PAUSED if
            only a person can let the rest go on. Otherwise RUNNING: there is work left, for this process or for others.
        documents: The number of documents. Those whose files are gone are not counted.
        states: The number of documents in each state of ingestion.
        errors: The reasons of failed documents, by key. At most 20.
        failed_phases: The phases in which these documents failed, by key.
    """

    job_id: str
    source: str
    status: JobStatus
    documents: int
    states: dict[str, int]
    errors: dict[str, str] = {}
    failed_phases: dict[str, IngestPhase] = {}


class JobRefused(HoldfastError, ValueError):
    """A job with this id exists for another source, or the id cannot be used."""


class UnknownJob(HoldfastError):
    """The collection has no job with this id."""


_result = msgspec.json.Decoder(IngestResult)


def run_job(
    library: Library, job_id: str, source: str, scan: ScanOptions = DEFAULT_SCAN, **options: Unpack[WorkerOptions]
) -> IngestResult:
    """Ingest a source as a job, and return its result.

    A completed job does nothing: its result is read from the store, and the source is not looked at, even if it has
    changed. Any other job continues where it stopped, also after a kill. Documents that failed in an earlier run of the
    job are tried again and keep their progress.

    Args:
        library: The collection.
        job_id: The id of the job: any text. Choose another id to ingest the source again.
        source: A folder, file, glob or URL.
        scan: How the source is scanned, and the metadata of its documents.
        **options: Options of the workers, as for `holdfast.drain`.

    Returns:
        The result.

    Raises:
        JobRefused: The job was started for another source.
        SourceRefused: The source does not exist or cannot be read.
        MissingExtra: The packages of document search are not installed.
        NoSuchCollection: Somebody deleted the collection.

    Example:
        result = rag.run_job(library, "upload-17", "uploads/contract.pdf")
        print(result.status, result.errors)
    """
    _require_usable(job_id)
    known = _read(library, job_id)
    job = known or _begin(library, job_id, parse_source(source).root)
    _require_same_source(job, source)
    if job.result is not None:
        return job.result
    library.prepare(processes=options.get("processes", 1))
    library.submit_changes(source, scan)
    job = _mark_scanned(library, job)
    if known is not None:
        redrive_dead_letters(library.store, library.collection.name, batch=job.source, who=WHO, reason=RETRIED)
    library.drain(**options)
    return _save_if_completed(library, _count(library, job))


def find_job(library: Library, job_id: str) -> IngestResult:
    """Return how far a job is, without working on it.

    Args:
        library: The collection.
        job_id: The id of the job.

    Returns:
        The result if the job is completed, else what its documents have reached so far.

    Raises:
        UnknownJob: There is no such job.
    """
    _require_usable(job_id)
    job = _read(library, job_id)
    if job is None:
        raise UnknownJob(f"the collection {library.collection.name!r} has no job {job_id!r}")
    return job.result or _count(library, job)


def create_table(tx: Tx) -> None:
    """Create the table of jobs if it is missing."""
    SQL.run(tx, "create_job_table")


def delete_jobs(tx: Tx, collection: str, *, source: str | None = None) -> None:
    """Delete the jobs of one source, or of all sources of a collection. If one is run again, it is a new job."""
    SQL.run(tx, "delete_jobs", collection=collection, source=source)


class _Job(Struct, frozen=True):
    id: str
    source: str
    scanned: bool = False
    result: IngestResult | None = None


def _require_usable(job_id: str) -> None:
    if why := unkept(job_id) or too_long(job_id):
        raise JobRefused(f"{shorten(job_id, MAX_NAME)!r} cannot be the id of a job: it {why}")


def _read(library: Library, job_id: str) -> _Job | None:
    with library.store.reading() as tx:
        row = SQL.run(tx, "job", collection=library.collection.name, id=job_id).fetchone()
    if row is None:
        return None
    source, scanned, result = row
    return _Job(job_id, source, bool(scanned), None if result is None else _result.decode(result))


def _begin(library: Library, job_id: str, source: str) -> _Job:
    """Save a job before its source is scanned. Return it as another process may have saved it at the same time."""
    with library.store.transaction() as tx:
        SQL.run(tx, "begin_job", collection=library.collection.name, id=job_id, source=source)
    return _read(library, job_id) or _Job(job_id, source)


def _mark_scanned(library: Library, job: _Job) -> _Job:
    with library.store.transaction() as tx:
        SQL.run(tx, "mark_scanned", collection=library.collection.name, id=job.id)
    return replace(job, scanned=True)


def _require_same_source(job: _Job, source: str) -> None:
    """Raise JobRefused if a job ingests another source. The source may not exist any more."""
    try:
        find_root(source, [job.source])
    except SourceRefused as error:
        raise JobRefused(f"the job {job.id!r} ingests {job.source}; use another id for {source}") from error


def _count(library: Library, job: _Job) -> IngestResult:
    """Return how far the documents of a job are."""
    store, collection = library.store, library.collection.name
    states: Counter[str] = Counter()
    for batch in store.batch_counts(collection, job.source):
        states += count_states(batch)
    for code in WITHDRAWN:
        states["CANCELLED"] -= store.count(collection, batch=job.source, state="cancelled", code=code)
    states = +states
    dead = store.documents(collection, batch=job.source, state="dead", limit=MAX_ERRORS) if states["FAILED"] else []
    return IngestResult(
        job_id=job.id,
        source=job.source,
        status=_status(states) if job.scanned else "RUNNING",
        documents=states.total(),
        states=dict(states),
        errors={document.key: document.reason for document in dead},
        failed_phases={document.key: ingest_phase(document.checkpoint.step) for document in dead},
    )


def _status(states: Counter[str]) -> JobStatus:
    if states.keys() - ENDS.values():
        return "RUNNING"
    return "PAUSED" if states["PAUSED"] else "FAILED" if states["FAILED"] else "COMPLETED"


def _save_if_completed(library: Library, result: IngestResult) -> IngestResult:
    """Save a completed result. A job whose source was forgotten meanwhile is not saved again."""
    if result.status == "COMPLETED":
        params = {"collection": library.collection.name, "id": result.job_id, "result": encode_json(result)}
        with library.store.transaction() as tx:
            SQL.run(tx, "complete_job", **params)
    return result
