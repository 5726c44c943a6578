"""Verification on demand: is the work that steps did for documents still there?

Workers ask it of documents that they take up in the middle. Documents that are done, wait, are paused or dead are asked
about here, slice by slice, and what is gone is done anew. A kill leaves whole slices; verifying again is safe.
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

from msgspec import Struct

from holdfast.core.document import Document
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.model import ON_HOLD, Claim, Plan, Standing
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.bodies import StoreReader
from holdfast.engine.findings import Finding, Verification, What
from holdfast.engine.verdicts import failure_of, place_not_passed, was_redone, work_is_gone
from holdfast.stores.protocol import Store, Which

SLICE = 500
DECIDE = "a person has to decide"
DEAD = "the document is a dead letter: redrive it, and a worker does it anew"
TOLD = 1000
"""How many findings a verification keeps; all are counted."""


def verify_documents(
    pipeline: Pipeline,
    store: Store,
    which: Which,
    *,
    sample: float | None,
    seed: int | None,
    who: str,
    threads: int,
) -> Verification:
    """Asks about these documents, or a sample of them, and has done anew what is gone."""
    if sample is not None and not (sample >= 1 if isinstance(sample, int) else 0 < sample <= 1):
        raise HoldfastError(f"sample={sample!r}: write how many documents, such as 100, or which share, such as 0.05")
    if sample is not None and seed is None:
        seed = int.from_bytes(os.urandom(4))
    began = monotonic()
    asking = _Asking(pipeline, store, store.declare(pipeline.shape()), who)
    ids = _slices(store, pipeline.name, which)
    with ThreadPoolExecutor(threads, thread_name_prefix="holdfast-verify") as pool:
        for some in _sampled(ids, sample, seed or 0):
            asking.ask(some, pool)
    return asking.report(seed=seed, seconds=monotonic() - began)


def _slices(store: Store, pipeline: str, which: Which) -> Iterator[list[int]]:
    after = 0
    while some := store.select(pipeline, after=after, limit=SLICE, **which):
        yield some
        after = some[-1]


def _sampled(slices: Iterator[list[int]], sample: float | None, seed: int) -> Iterator[list[int]]:
    """Draws by a number made of the seed and the document's own: the same again, whatever else is there."""
    if sample is None:
        yield from slices
    elif isinstance(sample, int):
        ids = (document_id for some in slices for document_id in some)
        drawn = sorted(heapq.nsmallest(sample, ids, key=partial(_lot, seed)))
        yield from (drawn[start : start + SLICE] for start in range(0, len(drawn), SLICE))
    else:
        for some in slices:
            yield [document_id for document_id in some if _lot(seed, document_id) < sample * 2**64]


def _lot(seed: int, document_id: int) -> int:
    return int.from_bytes(blake2b(b"%d:%d" % (seed, document_id), digest_size=8).digest())


class Answer(Struct, frozen=True):
    """What the verifies of one document said: how many were asked, and the first that did not say yes.

    When all said yes, `redone` names the steps whose work had been gone and was done anew.
    """

    here: Standing
    checks: int
    redone: tuple[str, ...] = ()
    gone: AnyStep | None = None
    raised: tuple[AnyStep, Exception] | None = None


class _Asking:
    """Slices of documents, asked about and decided one after the other."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan, who: str) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._who = who
        self._counts = dict.fromkeys(Verification.__struct_fields__[:8], 0)
        self._findings: list[Finding] = []
        self._done_under: dict[int, frozenset[str]] = {}

    def ask(self, document_ids: Sequence[int], pool: ThreadPoolExecutor) -> None:
        """Asks about a slice, and has done anew what is gone."""
        reuses = self._store.reuses(document_ids)
        here = [one for one in self._store.look(document_ids) if self._may_be_asked(one)]
        answers = [*pool.map(self._answer, here, [reuses.get(one.id) for one in here])]
        gone = [answer for answer in answers if self._count(answer)]
        self._vouch(answers)
        self._redo(gone)

    def report(self, *, seed: int | None, seconds: float) -> Verification:
        """Gives what was found."""
        return Verification(**self._counts, seed=seed, seconds=seconds, findings=self._findings)

    # asking

    def _may_be_asked(self, here: Standing) -> bool:
        if here.state == "running":
            self._counts["held"] += 1
        settled = here.state in ("running", "cancelled") or here.accepted_by or here.cleaned_at
        return not settled and bool(self._behind(here))

    def _behind(self, here: Standing) -> list[AnyStep]:
        """The steps behind a document that can be asked: those that its plan had, for it never did the others."""
        at = here.checkpoint.step
        if at is not None and at not in self._pipeline:
            return []
        behind = self._pipeline.steps if at is None else self._pipeline.behind(at)
        did = self._did(here.plan_id)
        return [step for step in behind if step.verify_body is not None and step.name in did]

    def _did(self, plan_id: int) -> frozenset[str]:
        if plan_id not in self._done_under:
            shape = self._store.shape_of(plan_id)
            self._done_under[plan_id] = frozenset(shape.names if shape else ())
        return self._done_under[plan_id]

    def _answer(self, here: Standing, reuses: dict[str, int] | None) -> Answer:
        """Asks the verifies of one document, in the order of their steps, until one says no. In a thread."""
        document = self._document(here, reuses)
        for checks, step in enumerate(self._behind(here), start=1):
            assert step.verify_body is not None
            document.step = step.name
            try:
                if not step.verify_body(document):
                    return Answer(here, checks, gone=step)
            except StoreError:  # the database's trouble is not the document's
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and nothing is changed
                return Answer(here, checks, raised=(step, error))
        return Answer(here, len(self._behind(here)), self._redone(here))

    def _redone(self, here: Standing) -> tuple[str, ...]:
        """Names the steps whose work was gone, as far as nobody knows yet that it is there again."""
        if not here.checkpoint.generation:  # as most: it never went back
            return ()
        journal = self._store.journal(here.id)
        return tuple(step.name for step in self._behind(here) if was_redone(self._pipeline, step, journal))

    def _document(self, here: Standing, reuses: dict[str, int] | None) -> Document:
        seen = Claim(
            here.id,
            0,
            here.batch,
            here.key,
            here.payload,
            here.fingerprint,
            here.checkpoint,
            here.attempts,
            here.crashes,
            timedelta(0),
            reuses,
        )
        return Document(
            pipeline=here.pipeline,
            batch=here.batch,
            key=here.key,
            payload=here.payload,
            fingerprint=here.fingerprint,
            generation=here.checkpoint.generation,
            reader=StoreReader(self._store, self._plan, seen),
        )

    def _count(self, answer: Answer) -> bool:
        """Counts an answer. Says whether there is work to be done anew."""
        self._counts["documents"] += 1
        self._counts["checks"] += answer.checks
        if answer.raised is not None:
            step, error = answer.raised
            self._find(answer.here, step, "error", str(failure_of(error)))
        self._counts["fine"] += answer.gone is None and answer.raised is None
        return answer.gone is not None

    # deciding

    def _vouch(self, answers: Sequence[Answer]) -> None:
        """Writes down that work which was done anew is there: gone later, it is not gone twice in a row."""
        groups: dict[tuple[str, ...], dict[int, int]] = defaultdict(dict)
        for answer in answers:
            if answer.redone:
                groups[answer.redone][answer.here.id] = answer.here.checkpoint.moves
        for steps, seen in groups.items():
            self._store.vouch(seen, steps=steps, who=self._who)

    def _redo(self, gone: Sequence[Answer]) -> None:
        """Rewinds what is gone, and parks what is gone again: one decision for all that go the same way.

        What somebody holds is rewound and stays held; a dead letter is only told of: neither is revived by asking.
        """
        groups: dict[tuple[str, str, str], list[Answer]] = defaultdict(list)
        for answer in gone:
            here, step = answer.here, answer.gone
            assert step is not None
            if here.state == "dead":
                self._find(here, step, "left alone", f"{work_is_gone(step)}, but {DEAD}")
            elif hold := self._hold_of(here):
                groups[step.name, hold, work_is_gone(step)].append(answer)
            else:
                again = self._why_park(here, step)
                groups[step.name, again, again or work_is_gone(step)].append(answer)
        for (to, parked, reason), alike in groups.items():
            self._rewind(alike, self._pipeline[to], parked, reason)

    def _rewind(self, alike: Sequence[Answer], step: AnyStep, parked: str, reason: str) -> None:
        seen = {answer.here.id: answer.here.checkpoint.moves for answer in alike}
        again = parked == reason
        told = f"{reason}; it stays paused: {parked}" if parked and not again else reason
        done = self._store.rewind_to(
            self._plan, [*seen], to=step.name, who=self._who, reason=reason, parked=parked, at=seen
        )
        for answer in alike:
            if answer.here.id not in done:
                why = f"{work_is_gone(step)}, but the document moved meanwhile, or its batch is closed"
                self._find(answer.here, step, "left alone", why)
            else:
                self._find(answer.here, step, "parked" if again else "rewound", told)

    def _hold_of(self, here: Standing) -> str:
        """Says why a document is paused that stays so; nothing for one at a gate, which it will come to again."""
        at = here.checkpoint.step
        asked_by_gate = at is not None and self._pipeline[at].kind == "gate" and here.error != ON_HOLD
        return "" if here.state != "paused" or asked_by_gate else here.reason or "on hold"

    def _why_park(self, here: Standing, step: AnyStep) -> str:
        """Says why a person has to look at a document whose work is gone; nothing when doing it anew may help."""
        journal, again = self._store.journal(here.id), f"{work_is_gone(step)} again"
        if here.checkpoint.step is None:
            return f"{again}, after it was done anew: {DECIDE}" if was_redone(self._pipeline, step, journal) else ""
        place = place_not_passed(self._pipeline, step, here.checkpoint, journal)
        return f"{again}, before the document got past {place}: {DECIDE}" if place else ""

    def _find(self, here: Standing, step: AnyStep, what: What, why: str) -> None:
        self._counts["errors" if what == "error" else what.replace(" ", "_")] += 1
        if len(self._findings) < TOLD:
            self._findings.append(Finding(here.batch, here.key, step.name, what, why))
