"""The heartbeat: one row per worker, not one per document."""

from __future__ import annotations

import threading

from holdfast.core.model import Worker
from holdfast.stores.protocol import Work


class Heartbeat:
    """Says in the background that a worker lives, and learns when it was given up."""

    def __init__(self, store: Work, worker: Worker) -> None:
        self._store = store
        self._worker = worker
        self._end = threading.Event()
        self.given_up = False
        self._thread = threading.Thread(target=self._beat, name="holdfast-heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._end.wait(self._worker.lease.total_seconds() / 3):
            try:
                if not self._store.beat(self._worker):
                    self.given_up = True
                    return
            except Exception:  # noqa: BLE001, S112 - a silent heart would make a zombie of its worker
                continue  # the worker itself meets the same trouble and tells it; a beat that was missed can be made up

    def stop(self) -> None:
        """Ends the heartbeat."""
        self._end.set()
        self._thread.join(timeout=1)
