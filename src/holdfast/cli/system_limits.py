"""Messages for what the system refuses: memory, open files and threads."""

from __future__ import annotations

import errno

_SAVED = "What was committed is safe; run the command again to continue"


def refused_by_system(error: BaseException) -> str | None:
    """Return a message for an error that a limit of the system caused, and what to do. None for any other error.

    Args:
        error: An error that no command handles.
    """
    if isinstance(error, MemoryError) or _errno(error) == errno.ENOMEM or _is_not_mapped(error):
        return f"there is not enough memory. {_SAVED}, with more memory or fewer --threads and --concurrency"
    if _errno(error) in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open. {_SAVED}, with a higher limit (ulimit -n) or fewer --threads"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):  # Python has no class for it
        return f"the system starts no more threads. {_SAVED}, with a higher limit (ulimit -u, -v) or fewer --threads"
    return None


def _is_not_mapped(error: BaseException) -> bool:
    """Return True if a library could not be loaded for lack of memory. The loader says it in words only."""
    return isinstance(error, ImportError) and ("map segment" in str(error) or "allocate memory" in str(error))


def _errno(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None
