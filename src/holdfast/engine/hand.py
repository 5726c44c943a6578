"""A document in a worker's hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.core.document import Document
from holdfast.core.model import Claim
from holdfast.core.pipeline import Pipeline
from holdfast.engine.bodies import Desk, StoreReader
from holdfast.engine.calls import Call, Event, PullStream
from holdfast.engine.executor import Run, advance
from holdfast.stores.protocol import Timeouts

NEVER = float("inf")


class InHand(Desk):
    """One document that this worker holds: its executor, and the calls that are out for it."""

    def __init__(
        self, pipeline: Pipeline, claim: Claim, reader: StoreReader, *, who: str, stopping: Callable[[], bool]
    ) -> None:
        document = Document(
            pipeline=pipeline.name,
            batch=claim.batch,
            key=claim.key,
            payload=claim.payload,
            fingerprint=claim.fingerprint,
            generation=claim.checkpoint.generation,
            reader=reader,
        )
        super().__init__(pipeline, document, stopping=stopping)
        self.claim = claim
        self.reader = reader
        self.run_of: Run = advance(pipeline, claim, document, who=who)
        self.heard: list[Event] = []
        self.committing = False
        self.admitted = ""
        self.calls: dict[int, Call] = {}  # the calls that are out, by identity

    def forget(self, call: Call) -> bool:
        """Strikes a call off. Answers whether it was struck off before."""
        self.began.pop(id(call), None)
        return self.calls.pop(id(call), None) is None

    def give_up(self, call: Call) -> None:
        """Strikes a call off that takes too long: what it still brings is not heard any more."""
        self.forget(call)
        if isinstance(call, PullStream):
            self.stream = None

    def overdue(self, timeouts: Timeouts) -> Iterator[tuple[float, Call]]:
        """Gives the calls that have begun, with the moment at which they take too long."""
        for key, call in self.calls.items():
            began = self.began.get(key)
            if began is not None and call.step in timeouts:
                yield began + timeouts[call.step].total_seconds(), call
