"""A document that this worker has claimed: its claim, its executor, and the calls that run for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from holdfast.core.document import Document
from holdfast.core.integrity import KeptState
from holdfast.core.model import Claim, Plan
from holdfast.core.moves import rewound
from holdfast.core.pipeline import Pipeline
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.executor import Run, advance
from holdfast.engine.executor_requests import Call, Event, PullStream
from holdfast.engine.stored_items import PlansOfDocuments, StoreReader
from holdfast.stores.protocol import Store


class ClaimedDocument(Struct, eq=False, kw_only=True):
    """One claimed document.

    Only a thread that has the scheduler lock reads or writes these fields. The exceptions are `bodies`, which the
    thread that runs a call uses (see BodyCaller), and `reader`, whose `read` any body may call.
    """

    claim: Claim
    reader: StoreReader
    bodies: BodyCaller
    executor: Run
    calls: dict[int, Call] = field(default_factory=dict)
    """Calls that are queued or running, by identity."""
    events: tuple[Event, ...] = ()
    """Results that arrived during a commit. The executor gets them when the commit is answered."""
    committing: bool = False
    moved: bool = False
    """True if the document moved since it was claimed."""
    held_back: str = ""
    """Why the document is given back as soon as no call of it runs: its step is paused. Empty if it is not."""
    body_began: float = 0.0
    """When the last body began whose result was collected."""
    permit: str = ""
    """The step with a limit that this document may be in."""

    @property
    def awaits_results(self) -> bool:
        """True if calls are queued or running, or if the executor has not seen all their results."""
        return bool(self.calls or self.events)

    def remove_call(self, call: Call) -> bool:
        """Remove a pending call. Return True if it was already removed."""
        return self.calls.pop(id(call), None) is None

    def abandon_call(self, call: Call) -> bool:
        """Remove a call that takes too long, so that its result is ignored. Return True if it was pending."""
        if self.remove_call(call):
            return False
        if isinstance(call, PullStream):
            self.bodies.stream = None
        return True

    def rewind(self, to: str, pipeline: Pipeline) -> None:
        """Continue with the claim that a rewind to this step gives."""
        gates = [step.name for step in pipeline.steps if step.kind == "gate"]
        self.claim = rewound(self.claim, to=to, steps=[step.name for step in pipeline.steps], gates=gates)
        self.reader.rewound(self.claim)
        self.permit = ""


class ClaimedDocumentFactory:
    """Create ClaimedDocuments for claims."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan, *, stopping: Callable[[], bool]) -> None:
        self._pipeline = pipeline
        self._store = store
        self._plan = plan
        self._stopping = stopping
        self._plans = PlansOfDocuments(pipeline, store, plan)

    def create(self, claims: Sequence[Claim], *, who: str) -> list[ClaimedDocument]:
        """Create the documents of these claims. What earlier work kept is read for all of them together."""
        kept = self._kept_states([claim for claim in claims if claim.checkpoint.moves])
        return [self._create(claim, kept.get(claim.document_id), who) for claim in claims]

    def _kept_states(self, claims: Sequence[Claim]) -> dict[int, KeptState]:
        if not claims:
            return {}
        found = self._store.kept_state(self._plan, claims)
        return {claim.document_id: kept for claim, kept in zip(claims, found, strict=True)}

    def _create(self, claim: Claim, kept: KeptState | None, who: str) -> ClaimedDocument:
        pipeline = self._pipeline
        reader = StoreReader(self._store, self._plan, claim)
        document = Document(
            pipeline=pipeline.name,
            batch=claim.batch,
            key=claim.key,
            payload=claim.payload,
            fingerprint=claim.fingerprint,
            generation=claim.checkpoint.generation,
            id=claim.document_id,
            reader=reader,
        )
        executor = advance(pipeline, claim, document, who=who, kept=kept, done_under=self._plans.of(kept))
        return ClaimedDocument(
            claim=claim, reader=reader, bodies=BodyCaller(pipeline, document, self._stopping), executor=executor
        )
