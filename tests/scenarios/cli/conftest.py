"""The fixtures of the command line's tests."""

from __future__ import annotations

from tests.cli.conftest import folder, holdfast, start

__all__ = ["folder", "holdfast", "start"]
