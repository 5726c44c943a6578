"""A document in a worker's hand."""

from __future__ import annotations

from collections.abc import Callable, Container

from msgspec import field

from holdfast.core.document import Document
from holdfast.core.integrity import Traces
from holdfast.core.model import Claim
from holdfast.core.pipeline import Pipeline
from holdfast.engine.bodies import Desk, StoreReader
from holdfast.engine.calls import Call, Event, PullStream
from holdfast.engine.executor import Run, advance


class InHand(Desk, eq=False, kw_only=True):
    """One document that this worker holds: its executor, and the calls that are out for it."""

    claim: Claim
    reader: StoreReader
    run_of: Run
    heard: tuple[Event, ...] = ()
    committing: bool = False
    admitted: str = ""
    calls: dict[int, Call] = field(default_factory=dict)  # those that are out, by identity

    def forget(self, call: Call) -> bool:
        """Strikes a call off. Answers whether it was struck off before."""
        return self.calls.pop(id(call), None) is None

    def give_up(self, call: Call) -> bool:
        """Strikes a call off that takes too long: what it still brings is not heard. Answers whether it was out."""
        if self.forget(call):
            return False
        if isinstance(call, PullStream):
            self.stream = None
        return True


def take(
    pipeline: Pipeline,
    claim: Claim,
    reader: StoreReader,
    *,
    who: str,
    stopping: Callable[[], bool],
    traces: Traces | None,
    did: Container[str] | None = None,
) -> InHand:
    """Takes a claimed document in hand."""
    document = Document(
        pipeline=pipeline.name,
        batch=claim.batch,
        key=claim.key,
        payload=claim.payload,
        fingerprint=claim.fingerprint,
        generation=claim.checkpoint.generation,
        reader=reader,
    )
    run_of = advance(pipeline, claim, document, who=who, traces=traces, did=did)
    return InHand(pipeline, document, stopping, claim=claim, reader=reader, run_of=run_of)
