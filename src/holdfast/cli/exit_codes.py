"""The exit codes of the command line, as `holdfast --help` lists them."""

from __future__ import annotations

OK = 0
DEAD_LETTERS = 1
"""Some documents are dead letters, or one document failed."""
CHECK_FAILED = 1
"""A check found something wrong: documents are missing, a batch cannot be closed, a pipeline does not fit its store."""
USAGE_ERROR = 2
STORE_ERROR = 3
SOURCE_UNREACHABLE = 4
"""A source cannot be reached, or a step is paused because its service is away."""
SYSTEM_ERROR = 5
"""The system refused something: memory, open files or threads, or stdout cannot be written."""
NOT_FINISHED = 6
"""One named document is not finished: another worker holds it, or it waits. Ask again later."""
HUNG_UP = 129
"""Stopped by SIGHUP: the terminal was closed."""
INTERRUPTED = 130
OUTPUT_CLOSED = 141
"""The reader of stdout has ended, as with `| head`: 128 and the number of SIGPIPE, as for other programs."""
TERMINATED = 143

BY_SIGNAL = {"SIGHUP": HUNG_UP, "SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}
"""The exit code of a command that a signal stopped, by the name of the signal."""
