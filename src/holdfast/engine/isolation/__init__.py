"""Isolation: bodies that run in a process of their own, so that a crash is one document's and nobody else's.

    worker ──────────── talk (a socket for each child) ─────────── child, child, child ...
       └── control (one socket) ── cradle ── forks, ends and buries them

nursery      the worker's side: which child does which call
translation  calls into messages, and answers into results
cradle       the process that forks, as the worker sees it
tending      the same from inside: one thread, the pipeline loaded, no user code run, so a fork is quick and safe
child        the child's side: runs bodies, asks the worker for what earlier steps kept
talk         the messages, in frames of msgpack; values travel in the form in which they are kept. Never pickle
stories      how an error is told in the child and raised again in the worker
limits       what a child may take, and what it must not keep of its parent
"""

from __future__ import annotations

from holdfast.engine.isolation.nursery import Nursery
from holdfast.engine.isolation.stories import BodyFailed

__all__ = ["BodyFailed", "Nursery"]
