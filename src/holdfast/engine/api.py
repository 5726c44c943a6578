"""The main functions of the public API: open a store, submit documents, drain or work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, overload

from msgspec.structs import replace

from holdfast.core.batches import DEFAULT_DEADLINE_ACTION, DeadlineAction
from holdfast.core.errors import DefinitionError, HoldfastError
from holdfast.core.model import NewDocument, SubmitResult
from holdfast.core.pipeline import Pipeline
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.engine.settings import WorkerOptions, WorkerSettings
from holdfast.observe.events import Listener, Submitted
from holdfast.observe.report import DocumentResult, Report
from holdfast.stores import open_store
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.engine.file_documents import Submittable
    from holdfast.engine.worker import Worker

SUBMITTER = "submit"
"""The name in the journal of a batch for a deadline that a submit sets."""


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """Open the store at a URL. Close it at the end of the `with` block.

    An empty database gets its tables. A database with an older schema must be migrated first.

    Args:
        url: `sqlite:///papers.db`, `postgresql://user@host/name` or `memory://`.

    Returns:
        A context manager that yields the store.

    Raises:
        StoreError: The URL names no store, or the database cannot be reached.
        SchemaOutdated: The database was made by an older holdfast. Run `holdfast store migrate`.
        SchemaNewer: The database was made by a newer holdfast. Upgrade holdfast.

    Example:
        with holdfast.open("sqlite:///papers.db") as store:
            holdfast.drain(papers, store)
    """
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def submit(
    pipeline: Pipeline,
    store: Store,
    *,
    batch: str,
    documents: Iterable[Submittable],
    priority: int = 0,
    deadline: datetime | timedelta | None = None,
    at_deadline: DeadlineAction = DEFAULT_DEADLINE_ACTION,
    listeners: Sequence[Listener] = (),
    connection: Any = None,
) -> SubmitResult:
    """Submit documents to a batch.

    A document that the batch already has, with the same fingerprint, is left as it is. With another fingerprint it
    starts again from the first step, as a new generation. `documents` may be a generator: 1,000 documents are read and
    committed at a time. If an error occurs, the documents committed before it stay. It is safe to submit all again.

    Args:
        pipeline: The pipeline that the documents go through.
        store: The store that keeps them.
        batch: The name of the batch. A new name makes a new batch.
        documents: Paths, URLs, `(key, payload)` pairs or NewDocuments. The key of a file is its absolute path, without
            links to folders; its payload is `{"path": key}`. Its fingerprint has size, time and a hash: it changes
            only if the content changes. The payload of a URL is `{"url": ...}`. A text that names no file is a key.
            The fingerprint of a pair is a hash of its payload.
        priority: Documents with a higher number are claimed first. 0 keeps the priority of a NewDocument.
        deadline: When the batch must be finished: a time with a time zone, or a duration from now. It replaces an
            earlier deadline of the batch. When it has passed, the batch is sealed, and documents that are still open
            are ended.
        at_deadline: How they are ended: `"fail"` makes them dead letters, `"cancel"` cancels them.
        listeners: Functions that are called with the event `Submitted` for every 1,000 documents. It names documents
            that are done already.
        connection: Submit within your own transaction: a `psycopg.Connection`, a `sqlite3.Connection`, or a Session or
            a Connection of SQLAlchemy, to the database of the store. The documents are there if you commit, and not
            if you roll back. Without it, this function commits.

    Returns:
        How many documents were new, changed and unchanged.

    Raises:
        DuplicateKey: `documents` contains the same key twice.
        BatchSealed: The batch is sealed or closed, and a document is new or changed.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        CannotKeep: A payload is not JSON, or a key, fingerprint or priority cannot be stored.
        DefinitionError: The pipeline has no steps, or its `renamed` is wrong.
        HoldfastError: `documents` is one string instead of a list, `deadline` is a time without a time zone, or
            `connection` is to another database or has no transaction that you could commit.
        StoreError: The store cannot be reached or used.
        SourceRefused: A URL cannot be reached, or it has a password. It is a HoldfastError.

    Example:
        with holdfast.open("sqlite:///papers.db") as store:
            result = holdfast.submit(papers, store, batch="march", documents=["a.pdf", "b.pdf"])
            print(result.new, "new")
    """
    if isinstance(documents, (str, bytes)):
        raise HoldfastError(f"documents= takes a list of documents, not one text: write documents=[{documents!r}]")
    if isinstance(deadline, datetime) and deadline.tzinfo is None:
        raise HoldfastError("deadline= needs a time with a time zone, such as datetime.now(UTC) + timedelta(hours=2)")
    from holdfast.engine.file_documents import slices  # workers start faster without it

    parts = slices(documents, store, pipeline.name, batch, priority=priority)
    if connection is not None:
        if deadline is not None or listeners:
            raise HoldfastError(
                "connection= takes neither deadline= nor listeners=: the documents are submitted when you commit. Set "
                "the deadline afterwards, with store.set_deadline"
            )
        return store.submit_on_connection(connection, pipeline.shape(), batch, parts)
    plan = store.declare(pipeline.shape())
    submission = int.from_bytes(os.urandom(8)) >> 2
    result = SubmitResult()
    part = 0
    for slice_ in parts:
        part_result = store.submit(plan, batch, slice_, submission=submission, part=part)
        if listeners:
            done = _keys_done(store, pipeline.name, batch, slice_) if part_result.unchanged else []
            for listener in listeners:
                listener(Submitted(pipeline.name, batch, part_result, done))
        result += part_result
        part += 1
    if deadline is not None and part:
        at = deadline if isinstance(deadline, datetime) else store.now() + deadline
        store.set_deadline(pipeline.name, batch, at=at, action=at_deadline, who=SUBMITTER, reason="set at a submit")
    return result


def _keys_done(store: Store, pipeline: str, batch: str, documents: Sequence[NewDocument]) -> list[str]:
    """Return the keys of documents that are done."""
    found = store.documents_by_key(pipeline, batch, [document.key for document in documents])
    return [document.key for document in found if document.state == "done"]


@overload
def drain(
    pipeline: Pipeline,
    store: Store,
    *,
    key: None = None,
    budget: Budget | timedelta | None = None,
    listeners: Sequence[Listener] = (),
    **how: Unpack[WorkerOptions],
) -> Report: ...
@overload
def drain(
    pipeline: Pipeline,
    store: Store,
    *,
    key: str,
    budget: Budget | timedelta | None = None,
    listeners: Sequence[Listener] = (),
    **how: Unpack[WorkerOptions],
) -> DocumentResult: ...
def drain(
    pipeline: Pipeline,
    store: Store,
    *,
    key: str | None = None,
    budget: Budget | timedelta | None = None,
    listeners: Sequence[Listener] = (),
    **how: Unpack[WorkerOptions],
) -> Report | DocumentResult:
    """Work until no document of the pipeline waits or runs any more.

    Documents that wait for a retry are waited for. Paused documents and dead letters are not. Ctrl-C, SIGTERM, SIGHUP
    and the budget stop the work at the next item; what is finished is committed first.

    With `key=`, work on this one document until it is done, dead, paused or cancelled, and return a DocumentResult. It
    suits functions that are called once for each document, such as a consumer of a queue. A document that another
    worker holds raises HeldByAnother at once. If the document waits for longer than the budget lasts, or for a service
    that is away, the call returns at once: the result says until when.

    Args:
        pipeline: The pipeline whose documents are worked on.
        store: The store that keeps them.
        key: The key of the one document. `batch` may be left out if only one batch has the key.
        budget: When to stop: after this long, or a Budget that you can stop from your own code.
        listeners: Functions that are called with every event of the worker. See `holdfast.observe.events`.
        **how: The keywords below.
        batch: Work only on the documents of this batch. All batches by default.
        threads: How many bodies run at the same time in each process. Default 8.
        processes: How many processes work. More than 1 helps bodies that compute in Python. The others are forked from
            this one. Default 1.
        concurrency: How many documents one process holds at the same time, at most. Default 1000.
        lease: How long the worker may send no heartbeat before others take its documents. Default 30 seconds.
        grace: How long running bodies may go on after a stop was asked for. Default 10 seconds.
        name: The name of the worker in the journal. Host name, process id and a random suffix by default.
        maintenance: `holdfast.MaintenanceScan()` looks from time to time for batches, dead letters and documents that
            nobody takes care of. None by default.

    Returns:
        What this worker did: documents done, dead, paused and so on. With `key=`, a DocumentResult.

    Raises:
        HeldByAnother: Another worker holds the document with this key.
        UnknownDocument: There is no document with this key, or several batches have one and `batch` is missing.
        DefinitionError: The pipeline has no steps, or a keyword has a wrong value.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        HoldfastError: `processes` is more than 1 and the store is in memory.
        StoreError: The store cannot be reached or used.

    Example:
        report = holdfast.drain(papers, store, budget=timedelta(minutes=10))
        print(report.done, "done;", report.stopped_by or "nothing left to do")
    """
    if key is not None:
        return _drain_document(pipeline, store, key, budget=budget, listeners=listeners, **how)
    return _worked(lambda worker: worker.drain(), pipeline, store, budget=budget, listeners=listeners, **how)


def work(
    pipeline: Pipeline,
    store: Store,
    *,
    budget: Budget | timedelta | None = None,
    listeners: Sequence[Listener] = (),
    **how: Unpack[WorkerOptions],
) -> Report:
    """Work until the process is stopped, or until the budget is over.

    When nothing is due, the worker waits for new documents. Ctrl-C, SIGTERM, SIGHUP and the budget stop the work at
    the next item; what is finished is committed first.

    Args:
        pipeline: The pipeline whose documents are worked on.
        store: The store that keeps them.
        budget: When to stop: after this long, or a Budget that you can stop from your own code.
        listeners: Functions that are called with every event of the worker. See `holdfast.observe.events`.
        **how: The keywords below.
        batch: Work only on the documents of this batch. All batches by default.
        threads: How many bodies run at the same time in each process. Default 8.
        processes: How many processes work. More than 1 helps bodies that compute in Python. The others are forked from
            this one. Default 1.
        concurrency: How many documents one process holds at the same time, at most. Default 1000.
        lease: How long the worker may send no heartbeat before others take its documents. Default 30 seconds.
        grace: How long running bodies may go on after a stop was asked for. Default 10 seconds.
        name: The name of the worker in the journal. Host name, process id and a random suffix by default.
        maintenance: `holdfast.MaintenanceScan()` looks from time to time for batches, dead letters and documents that
            nobody takes care of. None by default.

    Returns:
        What this worker did: documents done, dead, paused and so on.

    Raises:
        DefinitionError: The pipeline has no steps, or a keyword has a wrong value.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        HoldfastError: `processes` is more than 1 and the store is in memory.
        StoreError: The store cannot be reached or used.

    Example:
        holdfast.work(papers, store, threads=16, lease=timedelta(minutes=1))
    """
    return _worked(lambda worker: worker.work(), pipeline, store, budget=budget, listeners=listeners, **how)


def _drain_document(
    pipeline: Pipeline,
    store: Store,
    key: str,
    *,
    budget: Budget | timedelta | None,
    listeners: Sequence[Listener],
    **how: Unpack[WorkerOptions],
) -> DocumentResult:
    """Work on one document. One that has ended needs no worker."""
    from holdfast.engine.named_document import find_document, result_of
    from holdfast.engine.worker import Worker

    limits, settings = _limits(budget), WorkerSettings(**how)
    if settings.processes > 1:
        raise DefinitionError("one document is worked on by one process: leave out processes= with key=")
    document = find_document(store, pipeline.name, key, batch=settings.batch)
    if document.state in ("done", "dead", "cancelled"):
        return result_of(store, document.id, Report())
    worker = Worker(pipeline, store, settings=settings, budget=limits, listeners=listeners, only=document.id)
    with stopping_on_signals(limits):
        worker.drain()
    return result_of(store, document.id, worker.report())


def _worked(
    do: Callable[[Worker], Report],
    pipeline: Pipeline,
    store: Store,
    *,
    budget: Budget | timedelta | None,
    listeners: Sequence[Listener],
    **how: Unpack[WorkerOptions],
) -> Report:
    """Run a worker, and fork further ones if asked to. The import is late: submitting does not need it."""
    from holdfast.engine.worker import Worker

    limits, settings = _limits(budget), WorkerSettings(**how)
    worker = Worker(pipeline, store, settings=settings, budget=limits, listeners=listeners)

    def work_in_a_copy(number: int, tell: Listener) -> None:
        named = replace(settings, name=f"{settings.name}-{number}")
        do(Worker(pipeline, store, settings=named, budget=limits, listeners=[tell]))

    with ExitStack() as stack:
        stack.enter_context(stopping_on_signals(limits))
        if others := settings.processes - 1:
            if store.url == "memory://":
                raise HoldfastError("a memory store belongs to one process: processes= needs SQLite or PostgreSQL")
            from holdfast.engine.crash_evidence import note_exit_of_child, notes_folder
            from holdfast.engine.worker_processes import forked_workers

            store.disconnect()  # a forked process must not share a connection
            stack.enter_context(
                forked_workers(
                    work_in_a_copy,
                    count=others,
                    relay=worker.relay,
                    budget=limits,
                    grace=settings.grace,
                    on_death=partial(note_exit_of_child, notes_folder(store)),
                )
            )
        do(worker)
    return worker.report()


def _limits(budget: Budget | timedelta | None) -> Budget:
    return budget if isinstance(budget, Budget) else Budget(budget)
