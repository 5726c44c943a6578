"""The command line. `main` is what the `holdfast` script calls."""

from __future__ import annotations

import os
import sys

from holdfast.cli.app import app
from holdfast.cli.asked import INTERRUPTED, StoppedAtOnce


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        app(prog_name="holdfast")
    except (
        StoppedAtOnce,
        KeyboardInterrupt,
    ):  # bodies may still run in threads, and nobody wants to wait for them any more
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)


__all__ = ["app", "main"]
