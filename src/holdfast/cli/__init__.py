"""The command line. `main` is what the `holdfast` script calls."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line and ends the process with its exit code, also by a Ctrl-C while it is being imported."""
    try:
        from holdfast.cli.app import app
        from holdfast.cli.asked import StoppedAtOnce

        try:
            app(prog_name="holdfast")
        except StoppedAtOnce as stopped:
            raise KeyboardInterrupt from stopped
    except KeyboardInterrupt:  # bodies may still run in threads, and nobody wants to wait for them any more
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
