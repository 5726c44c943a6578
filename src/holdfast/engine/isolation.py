"""Isolation: bodies that run in a process of their own."""

from __future__ import annotations

from typing import Any

from holdfast.engine.bodies import Desk
from holdfast.engine.calls import Call


class Nursery:
    """placeholder"""

    def __init__(self, pipeline: object) -> None: ...

    def run(self, desk: Desk, call: Call) -> Any:
        raise NotImplementedError

    def end(self, desk: Desk) -> bool:
        return False

    def close(self) -> None: ...
