"""The heartbeat: one row per worker, not one per document."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.core.model import WorkerRecord
from holdfast.stores.protocol import Work


class Heartbeat:
    """Record in the background that a worker lives.

    Its thread sets `given_up` when other workers took this one for dead. Any thread may read it.
    """

    def __init__(self, store: Work, worker: WorkerRecord, *, on_beat: Callable[[], object] = bool) -> None:
        self._store = store
        self._worker = worker
        self._on_beat = on_beat
        self._end = threading.Event()
        self.given_up = False
        self._thread = threading.Thread(target=self._beat, name="holdfast-heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._end.wait(self._worker.lease.total_seconds() / 3):
            try:
                if not self._store.heartbeat(self._worker):
                    self.given_up = True
                    return
                self._on_beat()
            except Exception:  # noqa: BLE001, S112 - any error: without further heartbeats others take the documents
                continue  # the worker's own calls fail with the same error; the next heartbeat replaces this one

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        self._thread.join(timeout=1)
