"""Share files between workers that process them with their own code: claim, complete, fail."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.document import Document
from holdfast.core.errors import LeaseLost, Reject
from holdfast.core.model import WHOLE, Checkpoint, Claim, Failure, Item, NewDocument, WorkerRecord
from holdfast.core.moves import Accepted, Move, Release, Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.retry import Retry
from holdfast.pipelines.files import tables
from holdfast.pipelines.files.values import RecordBlock
from holdfast.process_identity import born, host_name, this_host
from holdfast.sources import canonical_key, is_url
from holdfast.stores.protocol import OrphanCounts, OrphanVerdict, Store

CHECKPOINTS = "file_checkpoints"
STEP = "process"


class ProcessingStats(Struct, frozen=True):
    """Counts of the records of a file.

    Attributes:
        total: Records that were read.
        filtered: Records that were left out.
        persisted: Records that were written.
        milliseconds: How long it took.
    """

    total: int = 0
    filtered: int = 0
    persisted: int = 0
    milliseconds: int = 0


class CheckpointManager:
    """Give each file to one worker at a time, over any store.

    A file that failed can be claimed again, up to `retries` times. A file whose worker is gone, or silent for longer
    than the lease, can be claimed by another one. What the first one then completes is refused.

    Args:
        store: The store. `memory://` is a store too; it is never used instead of another one.
        worker_id: The name of this worker. It is unique by default.
        lease: How long this worker may be silent. Each call, and `heartbeat`, shows that it is alive.
        retries: How often a file is tried again.

    Example:
        with files.CheckpointManager(store) as manager:
            for url in urls:
                if manager.claim(url, "csv"):
                    manager.complete(url, files.ProcessingStats(total=process(url)))
    """

    def __init__(
        self,
        store: Store,
        worker_id: str = "",
        *,
        lease: timedelta = timedelta(minutes=5),
        retries: int = 3,
    ) -> None:
        self._store = store
        self._retries = retries
        self.worker_id = worker_id or f"{host_name()}-{os.getpid()}-{os.urandom(4).hex()}"
        self._lease = lease
        self._claims: dict[str, tuple[Claim, str, str | None]] = {}
        self._pipeline = _pipeline(retries)
        self._plan = store.declare(self._pipeline.shape())
        self._has_tables = not store.url.startswith("memory:")
        if self._has_tables:
            tables.create_statistics(store)
        self._worker = self._registered()

    def claim(self, file_url: str, file_type: str, file_timestamp: datetime | None = None) -> bool:
        """Claim a file, if no other worker has it and it is not done.

        Args:
            file_url: Its path or URL. All ways of writing it mean the same file.
            file_type: Its type, for people.
            file_timestamp: The time of its version. With another one, a file that was done can be claimed again.

        Returns:
            True if this worker has the file now.

        Raises:
            StoreError: The store cannot be reached or used.
        """
        key = canonical_key(file_url)
        self.heartbeat()
        self._store.reclaim(self._plan, who=self.worker_id, decide=self._decide)
        at = None if file_timestamp is None else file_timestamp.astimezone(UTC).isoformat()
        payload = {"url" if is_url(file_url) else "path": key, "file_type": file_type, "file_timestamp": at}
        submission = int.from_bytes(os.urandom(8)) >> 2
        self._store.submit(
            self._plan, CHECKPOINTS, [NewDocument(key, payload, at or "unknown")], submission=submission, part=0
        )
        (document,) = self._store.documents_by_key(CHECKPOINTS, CHECKPOINTS, [key])
        if document.state != "waiting":
            return False
        claims = self._store.claim(self._plan, self._worker, limit=1, which=document.id)
        for found in claims:
            self._claims[key] = found, file_type, at
        return bool(claims)

    def complete(self, file_url: str, stats: ProcessingStats) -> None:
        """Record that a file is done.

        Args:
            file_url: The file.
            stats: The counts of its records.

        Raises:
            LeaseLost: This worker does not have the file any more, or never had it.
            StoreError: The store cannot be reached or used.
        """
        claim, file_type, at = self._take(file_url)
        before = claim.checkpoint
        after = Checkpoint(before.generation, None, None, before.moves + 1)
        kept = Item(STEP, WHOLE, encode_json(stats))
        block = RecordBlock(total=stats.total, filtered=stats.filtered)
        block.milliseconds, block.is_last = stats.milliseconds, True

        def count(tx: Tx) -> None:
            tables.count_file(tx, claim, stats.persisted, block, file_type=file_type, file_timestamp=at)

        move = Move(claim, before, after, "done", (kept,), effect=count if self._has_tables else None)
        (result,) = self._store.commit(self._plan, [move])
        if not isinstance(result, Accepted):
            raise _lost(file_url)

    def fail(self, file_url: str, message: str) -> None:
        """Record that a file failed. It can be claimed again, until its retries are used up.

        Args:
            file_url: The file.
            message: Why.

        Raises:
            LeaseLost: This worker does not have the file any more, or never had it.
            StoreError: The store cannot be reached or used.
        """
        claim, _, _ = self._take(file_url)
        state: Literal["dead", "waiting"] = "dead" if claim.attempts > self._retries else "waiting"
        failure = Failure("Failed", message)
        release = Release(claim, self.worker_id, state, "fail", costs="attempt", failure=failure, step=STEP)
        if not all(self._store.release([release])):
            raise _lost(file_url)

    def is_processed(self, file_url: str) -> bool:
        """Return True if a file is done.

        Args:
            file_url: The file.
        """
        found = self._store.documents_by_key(CHECKPOINTS, CHECKPOINTS, [canonical_key(file_url)])
        return any(document.state == "done" for document in found)

    def heartbeat(self) -> None:
        """Show that this worker is alive. Call it while a file takes longer than the lease."""
        if not self._store.heartbeat(self._worker):
            self._claims.clear()
            self._worker = self._registered()

    def close(self) -> None:
        """Give all files back that this worker has. That costs no retry."""
        self._claims.clear()
        self._store.retire_worker(self._worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _registered(self) -> WorkerRecord:
        pid = os.getpid()
        return self._store.register_worker(
            name=self.worker_id, host=this_host(), pid=pid, born=born(pid), lease=self._lease
        )

    def _take(self, file_url: str) -> tuple[Claim, str, str | None]:
        self.heartbeat()
        found = self._claims.pop(canonical_key(file_url), None)
        if found is None:
            raise _lost(file_url)
        return found

    def _decide(self, counts: OrphanCounts) -> OrphanVerdict:
        return OrphanVerdict("dead" if counts.attempts > self._retries else "waiting")


def _pipeline(retries: int) -> Pipeline:
    pipeline = Pipeline(CHECKPOINTS)

    @pipeline.step(name=STEP, retry=Retry(attempts=retries + 1))
    def process(doc: Document) -> None:
        raise Reject(f"{doc.key} is processed by programs that use a CheckpointManager, not by workers of holdfast")

    return pipeline


def _lost(file_url: str) -> LeaseLost:
    return LeaseLost(f"this worker does not have {file_url}: it never claimed it, or another worker has taken it over")
