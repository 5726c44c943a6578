"""Fixtures: pytest enables faulthandler itself, and a program that did so keeps it."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def without_faulthandler() -> Iterator[None]:
    """Disable the faulthandler of pytest during a test."""
    was_enabled = faulthandler.is_enabled()
    faulthandler.disable()
    yield
    if was_enabled:
        faulthandler.enable(sys.__stderr__)
