"""A worker's heart beats on, whatever the database says."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

from holdfast.core.model import Worker
from holdfast.engine.heartbeat import Heartbeat
from holdfast.stores.protocol import Work

ME = Worker(1, "me", "here", 1, "", timedelta(milliseconds=3))


class Troubled:
    """Answers the first beats with an error of its own, and then that the worker was given up."""

    def __init__(self) -> None:
        self.beats = 0
        self.answered = threading.Event()

    def beat(self, _worker: Worker) -> bool:
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
