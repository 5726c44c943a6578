"""End a copy of this process that user code forked and that returned from it.

A body or an effect may call os.fork(). The child is a copy of the whole worker, with its claims and its connections. If
it returned into the worker's code, it would commit and claim in the name of the worker.
"""

from __future__ import annotations

import os
from typing import NoReturn

count = 0
"""How many forks there are between the first process and this one. It is another number in every forked copy."""


def _count_fork() -> None:
    global count  # noqa: PLW0603 - the number belongs to the process
    count += 1


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(after_in_child=_count_fork)


def end_forked_copy(what: str, error: BaseException | None = None) -> NoReturn:
    """End this process at once, without any clean-up: everything in it belongs to its parent.

    Args:
        what: The user code that forked, such as "the body of step 'embed'".
        error: What that code raised in the child, if it raised something. SystemExit is a wanted end, and is silent.
    """
    if isinstance(error, SystemExit):
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    sentence = (
        f"holdfast: {what} called os.fork(), and the child process returned from it. The child was ended; the document "
        "goes on in the parent. End such a child with os._exit(), or use subprocess or multiprocessing.\n"
    )
    try:
        os.write(2, sentence.encode(errors="replace"))
    finally:  # also if nobody reads stderr
        os._exit(1)
