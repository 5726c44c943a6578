"""The heartbeat goes on after any error of the database."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

from holdfast.core.model import WorkerRecord
from holdfast.engine.heartbeat import Heartbeat
from holdfast.stores.protocol import Work

ME = WorkerRecord(1, "me", "here", 1, "", timedelta(milliseconds=3))


class Troubled:
    """A store whose first heartbeats raise an error; then it returns that the worker was taken for dead."""

    def __init__(self) -> None:
        self.beats = 0
        self.answered = threading.Event()

    def heartbeat(self, _worker: WorkerRecord) -> bool:
        self.beats += 1
        if self.beats < 3:
            raise RuntimeError("canceling statement due to statement timeout")
        self.answered.set()
        return False


def test_an_error_that_nobody_foresaw_does_not_stop_it() -> None:
    store = Troubled()
    heartbeat = Heartbeat(cast("Work", cast("Any", store)), ME)
    assert store.answered.wait(10)
    heartbeat.stop()
    assert heartbeat.given_up
