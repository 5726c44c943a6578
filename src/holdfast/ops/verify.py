"""Check on demand whether the work that steps did for documents is still there.

Workers check documents that they resume in the middle. Here documents that are done, waiting, paused or dead are
checked, in slices, and work that is gone is redone. It is safe to kill it, and to verify again.
"""

from __future__ import annotations

import heapq
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from time import monotonic
from typing import Literal

from msgspec import Struct

from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError, ItemDamaged, StoreError
from holdfast.core.model import Claim, DocumentStatus, Plan
from holdfast.core.pipeline import Pipeline
from holdfast.core.reasons import ON_HOLD, WORK_GONE, WORK_GONE_AGAIN, sentence
from holdfast.core.step import AnyStep
from holdfast.engine.failure_policy import failure_of, place_not_passed, was_redone
from holdfast.engine.settings import DEFAULT_THREADS
from holdfast.engine.stored_items import StoreReader
from holdfast.stores.protocol import DocumentFilter, RewindThen, Store

SLICE_SIZE = 500
"""How many documents are checked before the results are written."""
MAX_FINDINGS = 1000
"""How many findings a Verification lists. All are counted."""

Outcome = Literal["rewound", "parked", "left alone", "error"]


class Finding(Struct, frozen=True):
    """A document whose work is gone, or could not be checked.

    Attributes:
        batch: Its batch.
        key: Its key.
        step: The step whose verify function returned False or raised an error.
        what: `"rewound"`, `"parked"`, `"left alone"` or `"error"`: what was done with the document.
        why: Why.
    """

    batch: str
    key: str
    step: str
    what: Outcome
    why: str


class Verification(Struct, frozen=True):
    """What `holdfast.verify` found. All numbers but `checks` count documents.

    Attributes:
        documents: They were checked.
        checks: How often a verify function was called.
        fine: All their work is there.
        rewound: Their work was gone. They go back to the step that did it; paused ones stay paused.
        parked: Their work was gone again after it was redone. A person must decide.
        left_alone: Their work was gone, but nothing was done: they are dead letters, were cleaned up, belong to a
            closed batch, or moved while they were checked.
        errors: A verify function raised an error. Nothing was changed.
        held: A worker holds them. It calls the verify functions itself when it takes a document up.
        seed: What the sample was chosen with. The same seed chooses it again.
        seconds: How long it took.
        findings: The first thousand documents that are not fine.
    """

    documents: int = 0
    checks: int = 0
    fine: int = 0
    rewound: int = 0
    parked: int = 0
    left_alone: int = 0
    errors: int = 0
    held: int = 0
    seed: int | None = None
    seconds: float = 0.0
    findings: Sequence[Finding] = ()

    @property
    def gone(self) -> int:
        """How many documents had lost work."""
        return self.rewound + self.parked + self.left_alone


def verify(
    pipeline: Pipeline,
    store: Store,
    *,
    batch: str | None = None,
    key: str | None = None,
    sample: float | None = None,
    seed: int | None = None,
    who: str = "verify",
    threads: int = DEFAULT_THREADS,
) -> Verification:
    """Check whether finished work is still there. Redo what is gone.

    Calls the verify function of every step that a document has passed. A document whose work is gone is rewound to
    that step. If it was already redone for that reason, and no person decided since, it is parked at the step.
    Documents that a worker holds, accepted dead letters and cleaned-up documents are left as they are.

    Args:
        pipeline: The pipeline whose documents are checked.
        store: The store that holds them.
        batch: Check only the documents of this batch.
        key: Check only the document with this key, or all keys that match it, with `*` and `?`.
        sample: Check only this many documents (an int), or this share of them (a float up to 1.0), chosen at random.
        seed: Choose the same sample again.
        who: The name that is written to the journal.
        threads: How many verify functions run at the same time.

    Returns:
        Counts and the first thousand findings.

    Raises:
        HoldfastError: `sample` is neither a positive number of documents nor a share of them.
        DefinitionError: The pipeline has no steps, or its `renamed` is wrong.
        PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
        StoreError: The store cannot be reached or used.

    Example:
        found = holdfast.verify(papers, store, batch="march", sample=0.05)
        print(found.documents, "checked,", found.gone, "with lost work")
    """
    if sample is not None and not (sample >= 1 if isinstance(sample, int) else 0 < sample <= 1):
        raise HoldfastError(f"sample={sample!r}: write how many documents, such as 100, or which share, such as 0.05")
    if sample is not None and seed is None:
        seed = int.from_bytes(os.urandom(4))
    which: DocumentFilter = {"batch": batch, "key": key}
    began = monotonic()
    verifier = _Verifier(pipeline, store, store.declare(pipeline.shape()), who)
    slices = _slices(store, pipeline.name, which)
    with ThreadPoolExecutor(threads, thread_name_prefix="holdfast-verify") as pool:
        for document_ids in _sampled(slices, sample, seed or 0):
            verifier.verify(document_ids, pool)
    return verifier.report(seed=seed, seconds=monotonic() - began)


def _slices(store: Store, pipeline: str, which: DocumentFilter) -> Iterator[list[int]]:
    after = 0
    while document_ids := store.select(pipeline, after=after, limit=SLICE_SIZE, **which):
        yield document_ids
        after = document_ids[-1]


def _sampled(slices: Iterator[list[int]], sample: float | None, seed: int) -> Iterator[list[int]]:
    """Choose documents by a hash of the seed and their ids: the same seed chooses the same documents again."""
    if sample is None:
        yield from slices
    elif isinstance(sample, int):
        ids = (document_id for slice_ in slices for document_id in slice_)
        chosen = sorted(heapq.nsmallest(sample, ids, key=partial(_hash, seed)))
        yield from (chosen[start : start + SLICE_SIZE] for start in range(0, len(chosen), SLICE_SIZE))
    else:
        for slice_ in slices:
            yield [document_id for document_id in slice_ if _hash(seed, document_id) < sample * 2**64]


def _hash(seed: int, document_id: int) -> int:
    return int.from_bytes(blake2b(b"%d:%d" % (seed, document_id), digest_size=8).digest())


class _Checked(Struct, frozen=True):
    """The result of the verify functions of one document: how many were called, and the first that did not return True.

    If all returned True, `redone` names the steps whose work had been gone and was redone.
    """

    document: DocumentStatus
    calls: int
    redone: tuple[str, ...] = ()
    gone: AnyStep | None = None
    raised: tuple[AnyStep, Exception] | None = None


class _Verifier:
    """Check slices of documents, one after the other, and redo what is gone."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan, who: str) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._who = who
        self._counts = dict.fromkeys(Verification.__struct_fields__[:8], 0)
        self._findings: list[Finding] = []
        self._plan_steps: dict[int, frozenset[str]] = {}

    def verify(self, document_ids: Sequence[int], pool: ThreadPoolExecutor) -> None:
        """Check a slice of documents, and redo the work that is gone."""
        reuses = self._store.reuses(document_ids)
        documents = [one for one in self._store.documents_by_id(document_ids) if self._is_checked(one)]
        results = [*pool.map(self._check, documents, [reuses.get(one.id) for one in documents])]
        gone = [result for result in results if self._count(result)]
        self._record_verified(results)
        self._redo(gone)

    def report(self, *, seed: int | None, seconds: float) -> Verification:
        """Return what was found."""
        return Verification(**self._counts, seed=seed, seconds=seconds, findings=self._findings)

    # check

    def _is_checked(self, document: DocumentStatus) -> bool:
        if document.state == "running":
            self._counts["held"] += 1
        settled = document.state in ("running", "cancelled") or document.accepted_by or document.cleaned_at
        return not settled and bool(self._steps_behind(document))

    def _steps_behind(self, document: DocumentStatus) -> list[AnyStep]:
        """Return the steps with a verify function that a document has passed. It did only steps of its own plan."""
        at = document.checkpoint.step
        if at is not None and at not in self._pipeline:
            return []
        behind = self._pipeline.steps if at is None else self._pipeline.behind(at)
        names = self._steps_of_plan(document.plan_id)
        return [step for step in behind if step.verify_body is not None and step.name in names]

    def _steps_of_plan(self, plan_id: int) -> frozenset[str]:
        if plan_id not in self._plan_steps:
            shape = self._store.shape_of(plan_id)
            self._plan_steps[plan_id] = frozenset(shape.names if shape else ())
        return self._plan_steps[plan_id]

    def _check(self, document: DocumentStatus, reuses: dict[str, int] | None) -> _Checked:
        """Call the verify functions of one document in a thread, in the order of their steps, until one fails."""
        argument = self._argument(document, reuses)
        steps = self._steps_behind(document)
        for calls, step in enumerate(steps, start=1):
            assert step.verify_body is not None
            argument.step = step.name
            try:
                if not step.verify_body(argument):
                    return _Checked(document, calls, gone=step)
            except ItemDamaged as error:
                return _Checked(document, calls, raised=(step, error))
            except StoreError:  # a fault of the database is not a fault of the document
                raise
            except Exception as error:  # noqa: BLE001 - user code: any error is reported, and nothing is changed
                return _Checked(document, calls, raised=(step, error))
        return _Checked(document, len(steps), self._redone_steps(document, steps))

    def _redone_steps(self, document: DocumentStatus, steps: Sequence[AnyStep]) -> tuple[str, ...]:
        """Return the steps that were redone because their work was gone, and that were not verified since."""
        if not document.checkpoint.generation:  # most documents were never rewound
            return ()
        journal = self._store.journal(document.id)
        return tuple(step.name for step in steps if was_redone(self._pipeline, step, journal))

    def _argument(self, document: DocumentStatus, reuses: dict[str, int] | None) -> Document:
        """Return the argument of verify functions. Its reader needs a claim, but this one gives no right to write."""
        claim = Claim(
            document.id,
            0,
            document.batch,
            document.key,
            document.payload,
            document.fingerprint,
            document.checkpoint,
            document.attempts,
            document.crashes,
            timedelta(0),
            reuses,
        )
        return Document(
            pipeline=document.pipeline,
            batch=document.batch,
            key=document.key,
            payload=document.payload,
            fingerprint=document.fingerprint,
            generation=document.checkpoint.generation,
            id=document.id,
            reader=StoreReader(self._store, self._plan, claim),
        )

    def _count(self, result: _Checked) -> bool:
        """Count a result. Return True if work is gone."""
        self._counts["documents"] += 1
        self._counts["checks"] += result.calls
        if result.raised is not None:
            step, error = result.raised
            self._add_finding(result.document, step, "error", str(failure_of(error)))
        self._counts["fine"] += result.gone is None and result.raised is None
        return result.gone is not None

    # decide

    def _record_verified(self, results: Sequence[_Checked]) -> None:
        """Record that redone work is there. If it is gone later, it counts as gone for the first time."""
        groups: dict[tuple[str, ...], dict[int, int]] = defaultdict(dict)
        for result in results:
            if result.redone:
                groups[result.redone][result.document.id] = result.document.checkpoint.moves
        for steps, seen in groups.items():
            self._store.record_verified(seen, steps=steps, who=self._who)

    def _redo(self, gone: Sequence[_Checked]) -> None:
        """Rewind documents whose work is gone, and park those whose work is gone again, in one decision per group.

        A paused document is rewound and stays paused. A dead letter is only reported: verifying revives neither.
        """
        groups: dict[tuple[str, RewindThen, str], list[DocumentStatus]] = defaultdict(list)
        for result in gone:
            document, step = result.document, result.gone
            assert step is not None
            reason = sentence(WORK_GONE, step=step.name)
            if document.state == "dead":
                why_left = f"{reason}, but the document is a dead letter: redrive it, and a worker does the work again"
                self._add_finding(document, step, "left alone", why_left)
            elif self._stays_paused(document):
                groups[step.name, "keep_hold", reason].append(document)
            elif since := self._redone_in_vain_since(document, step):
                groups[step.name, "park", sentence(WORK_GONE_AGAIN, step=step.name, since=since)].append(document)
            else:
                groups[step.name, "wait", reason].append(document)
        for (to, then, reason), documents in groups.items():
            self._rewind(documents, self._pipeline[to], then, reason)

    def _rewind(self, documents: Sequence[DocumentStatus], step: AnyStep, then: RewindThen, reason: str) -> None:
        seen = {document.id: document.checkpoint.moves for document in documents}
        why = {"who": self._who, "reason": reason, "code": WORK_GONE_AGAIN if then == "park" else WORK_GONE}
        rewound = self._store.rewind_to(self._plan, [*seen], to=step.name, then=then, at=seen, **why)
        for document in documents:
            if document.id not in rewound:
                gone = sentence(WORK_GONE, step=step.name)
                why_left = f"{gone}, but the document moved meanwhile, or its batch is closed"
                self._add_finding(document, step, "left alone", why_left)
            elif then == "park":
                self._add_finding(document, step, "parked", reason)
            else:
                hold = f"; it stays paused: {document.reason or 'on hold'}" if then == "keep_hold" else ""
                self._add_finding(document, step, "rewound", reason + hold)

    def _stays_paused(self, document: DocumentStatus) -> bool:
        """Return True for a paused document, except one that waits at a gate: it will come to the gate again."""
        at = document.checkpoint.step
        waits_at_gate = at is not None and self._pipeline[at].kind == "gate" and document.code != ON_HOLD
        return document.state == "paused" and not waits_at_gate

    def _redone_in_vain_since(self, document: DocumentStatus, step: AnyStep) -> str:
        """Return since when redoing a step did not help, in words. Return "" if redoing it may help."""
        journal = self._store.journal(document.id)
        if document.checkpoint.step is None:
            return "after it was redone" if was_redone(self._pipeline, step, journal) else ""
        place = place_not_passed(self._pipeline, step, document.checkpoint, journal)
        return f"before the document passed {place}" if place else ""

    def _add_finding(self, document: DocumentStatus, step: AnyStep, what: Outcome, why: str) -> None:
        self._counts["errors" if what == "error" else what.replace(" ", "_")] += 1
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(Finding(document.batch, document.key, step.name, what, why))
