"""The command line. The `holdfast` script calls `main`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and end the process with its exit code, also after Ctrl-C during the imports."""
    try:
        from holdfast.cli.output import final_exit_code, guard_output

        stdout = guard_output()
        sys.exit(final_exit_code(stdout, _run()))
    except KeyboardInterrupt:  # bodies may still run in threads; do not wait for them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)


def _run() -> int:
    from holdfast.cli.output import OutputLost

    try:
        from holdfast.cli.app import app
        from holdfast.cli.context import StoppedAtOnce

        try:
            app(prog_name="holdfast")
        except StoppedAtOnce as stopped:
            raise KeyboardInterrupt from stopped
    except OutputLost:
        return 0
    except (MemoryError, OSError, ImportError) as error:  # of an import: commands have their own messages
        from holdfast.cli.system_limits import refused_by_system

        refused = refused_by_system(error)
        if refused is None:
            raise
        sys.stderr.write(f"Error: {refused}\n")
        return 5
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0
