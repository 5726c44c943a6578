"""Bodies with `runs_in="process"`: they run in child processes, so that a crash hurts only its own document.

    worker ──────────── messages (one socket for each child) ─────── child, child, child ...
       └── control (one socket) ── fork server ── forks, kills and reaps the children

pool                the worker's side: which child runs which call
call_codec          converts calls to messages, and messages to results
fork_server_client  the fork server as the worker sees it
fork_server         the process that forks: one thread, the pipeline loaded, no user code, so a fork is quick and safe
child               the child's side: runs bodies, and asks the worker for what earlier steps kept
messages            the messages, as frames of msgpack: values are sent as they are kept, and never pickled
remote_errors       sends an error of a child to the worker, which raises it again
resource_limits     limits of a child, and what it must not share with its parent
"""

from __future__ import annotations

from holdfast.engine.processes.pool import ProcessPool
from holdfast.engine.processes.remote_errors import BodyFailed

__all__ = ["BodyFailed", "ProcessPool"]
