"""The exit codes of the command line, as `holdfast help exit-codes` lists them."""

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

EXIT_CODES = {
    "0": "Success.",
    "1": "There is something to look at: dead letters (run, ingest, watch, work --drain, pipeline debug), a batch that "
    "cannot be closed yet (batch close), missing documents (batch reconcile), an unexpected number of documents "
    "(batch seal --expect), rows that could not be removed (doc cancel --undo), a pipeline that does not fit its "
    "store (pipeline check), results that are gone (pipeline verify), a kill that changed the result (pipeline "
    "crashtest), a step that is not paused (pipeline circuit close).",
    "2": "Wrong usage, or an error in the pipeline's file.",
    "3": "The store cannot be used.",
    "4": "A source could not be reached (ingest, plan), or a step is paused because its service is away. The rest was "
    "done. Run the command again.",
    "5": "The system refused memory, open files or threads, or stdout could not be written. All work is saved.",
    "6": "The document is not finished: another worker holds it, or it waits (work --key). Run the command again "
    "later.",
    "129": "Stopped by SIGHUP: the terminal was closed. All work is saved.",
    "130": "Stopped by Ctrl-C. All work is saved. Run the command again to continue.",
    "141": "The reader of stdout has ended, as with | head. A command that works has finished its work.",
    "143": "Stopped by SIGTERM. All work is saved.",
}
"""What each exit code means."""
