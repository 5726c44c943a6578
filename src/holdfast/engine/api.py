"""What most people call: open a store, submit documents, drain or work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from holdfast.core.codec import checked_json
from holdfast.core.errors import HoldfastError
from holdfast.core.model import NewDocument, Receipt
from holdfast.core.pipeline import Pipeline
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.engine.events import Listener
from holdfast.engine.report import Report
from holdfast.engine.settings import How, Settings
from holdfast.stores import open_store
from holdfast.stores.protocol import Store, Which

if TYPE_CHECKING:
    from holdfast.engine.findings import Verification
    from holdfast.engine.worker import Worker

SLICE = 1000
"""How many documents are submitted in one transaction."""

Submittable = NewDocument | str | os.PathLike[str] | tuple[str, Any]


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """Opens the store that a URL names, and closes it at the end of the block."""
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def submit(
    pipeline: Pipeline, store: Store, *, batch: str, documents: Iterable[Submittable], priority: int = 0
) -> Receipt:
    """Submits documents to a batch: paths, (key, payload) pairs or NewDocuments, as many as there are.

    Known documents whose content did not change are left alone; changed ones begin anew. Only a slice is held in
    memory. What was submitted before an error stays submitted, and submitting all again is safe.
    """
    if isinstance(documents, (str, bytes)):
        raise HoldfastError(f"documents= takes many documents, not one: write documents=[{documents!r}]")
    plan = store.declare(pipeline.shape())
    stream = (_new(document, priority) for document in documents)
    submission = int.from_bytes(os.urandom(8)) >> 2
    receipt = Receipt()
    part = 0
    while some := list(islice(stream, SLICE)):
        receipt += store.submit(plan, batch, some, submission=submission, part=part)
        part += 1
    return receipt


def drain(
    pipeline: Pipeline,
    store: Store,
    *,
    budget: Budget | timedelta | None = None,
    listeners: Sequence[Listener] = (),
    **how: Unpack[How],
) -> Report:
    """Works until no document of the pipeline waits or runs any more. Ctrl-C and SIGTERM stop it at the next item.

    The keywords are those of `work`.
    """
    return _worked(lambda worker: worker.drain(), pipeline, store, budget=budget, listeners=listeners, **how)


def work(
    pipeline: Pipeline,
    store: Store,
    *,
    budget: Budget | timedelta | None = None,
    listeners: Sequence[Listener] = (),
    **how: Unpack[How],
) -> Report:
    """Works for ever, or until the budget is over. Ctrl-C and SIGTERM stop it at the next item.

    batch        only the documents of this batch
    threads      how many plain bodies run at once, in each process (8)
    processes    how many processes work, for bodies that compute in Python: the others are copies of this one (1)
    concurrency  how many documents are held at once, at most (1000)
    lease        how long the worker may be silent before others take its documents (30 s)
    grace        how long a body may go on when the worker is stopped (10 s)
    name         what the worker is called in the journal
    listeners    functions that are called with every event of the engine
    """
    return _worked(lambda worker: worker.work(), pipeline, store, budget=budget, listeners=listeners, **how)


def verify(
    pipeline: Pipeline,
    store: Store,
    *,
    batch: str | None = None,
    key: str | None = None,
    sample: float | None = None,
    seed: int | None = None,
    who: str = "verify",
    threads: int = 8,
) -> Verification:
    """Asks, for documents that no worker holds, the verify of every step behind them, and has redone what is gone.

    batch    only the documents of this batch
    key      only the document of this key, or all that are like it, with * and ?
    sample   only so many documents (an int), or this share of them (a float up to 1.0), drawn at random
    seed     draws the same sample again
    who      who asks; kept in the journal
    threads  how many verifies run at once

    A document whose work is gone is rewound to that step. If it was already done anew for that reason, and nobody
    decided since, it is parked at the step. Accepted dead letters, and what was cleaned up, are left as they are.
    """
    from holdfast.engine.verification import verify_documents  # with its pool of threads, which workers do not need

    which: Which = {"batch": batch, "key": key}
    return verify_documents(pipeline, store, which, sample=sample, seed=seed, who=who, threads=threads)


def _worked(
    do: Callable[[Worker], Report],
    pipeline: Pipeline,
    store: Store,
    *,
    budget: Budget | timedelta | None,
    listeners: Sequence[Listener],
    **how: Unpack[How],
) -> Report:
    """Works. Whoever only submits, or looks, does without all that this needs."""
    from holdfast.engine.worker import Worker

    limits, settings = _limits(budget), Settings(**how)
    worker = Worker(pipeline, store, settings=settings, budget=limits, listeners=listeners)

    def work_in_a_copy(number: int, tell: Listener) -> None:
        named = replace(settings, name=f"{settings.name}-{number}")
        do(Worker(pipeline, store, settings=named, budget=limits, listeners=[tell]))

    with ExitStack() as around:
        around.enter_context(stopping_on_signals(limits))
        if others := settings.processes - 1:
            if store.url == "memory://":
                raise HoldfastError("a store in memory belongs to one process: processes= needs a database")
            from holdfast.engine.crew import beside

            store.rest()  # no connection goes along
            around.enter_context(
                beside(work_in_a_copy, others=others, hear=worker.hear, budget=limits, grace=settings.grace)
            )
        do(worker)
    return worker.report()


def _limits(budget: Budget | timedelta | None) -> Budget:
    return budget if isinstance(budget, Budget) else Budget(budget)


def _new(document: Submittable, priority: int) -> NewDocument:
    if isinstance(document, NewDocument):
        mark = document.fingerprint or _mark(checked_json(document.payload, f"the payload of {document.key!r}"))
        return NewDocument(document.key, document.payload, mark, priority or document.priority)
    if isinstance(document, tuple):
        key, payload = document
        text = checked_json(payload, f"the payload of {key!r}")
        return NewDocument(str(key), payload, _mark(text), priority)
    path = os.fspath(document)
    return NewDocument(path, {"path": path}, file_mark(path), priority)


def _mark(text: str) -> str:
    from hashlib import blake2b

    return blake2b(text.encode(), digest_size=16).hexdigest()


def file_mark(path: str) -> str:
    """Gives a mark that changes when a file does: its size and its time of change. Empty when there is no file."""
    try:
        seen = Path(path).stat()
    except OSError:
        return ""
    return f"{seen.st_size}:{seen.st_mtime_ns}"
