"""The wording of the log: all of it. Attach with `log_events`, or leave the engine silent."""

from __future__ import annotations

import logging

from holdfast.core.model import Claim
from holdfast.core.moves import Ending
from holdfast.engine.events import (
    Claimed,
    Committed,
    Decided,
    Enlisted,
    Event,
    GaveBack,
    LostClaim,
    Reclaimed,
    Retired,
    Rewound,
    Stopping,
)

log = logging.getLogger("holdfast")


def log_events(event: Event) -> None:  # noqa: C901 - one case for each event
    """Words an event for the log `holdfast`."""
    match event:
        case Enlisted(worker, pipeline):
            log.info("worker %s works on %s", worker.name, pipeline)
        case Claimed(claims):
            log.debug("claimed %d documents", len(claims))
        case Committed(moves, seconds):
            log.debug("committed %d moves in %.1f ms", len(moves), seconds * 1000)
        case GaveBack(endings):
            for ending in endings:
                _log_ending(ending)
        case LostClaim(claim):
            log.warning("%s of %s: another worker holds it now; nothing of ours was written", *_who(claim))
        case Reclaimed(standings):
            for here in standings:
                log.warning("%s of %s: reclaimed (%s), now %s", here.key, here.batch, here.reason, here.state)
        case Decided(gate, verdict, documents):
            log.warning("gate %s: nobody decided in time about %d documents: %s", gate, len(documents), verdict)
        case Rewound(claim, to, reason):
            log.warning("%s of %s: rewound to %s: %s", *_who(claim), to, reason)
        case Stopping(reason):
            log.info("stopping: %s", reason)
        case Retired(worker):
            log.info("worker %s is finished", worker.name)


def _log_ending(ending: Ending) -> None:
    level = {"dead": logging.ERROR, "waiting": logging.WARNING}.get(ending.state, logging.INFO)
    if ending.verb == "release":
        level = logging.DEBUG
    said = ending.failure or ending.reason
    log.log(level, "%s of %s: %s, now %s: %s", *_who(ending.claim), ending.verb, ending.state, said)


def _who(claim: Claim) -> tuple[str, str]:
    return claim.key, claim.batch
