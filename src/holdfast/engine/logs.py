"""The wording of the log: all of it. Attach with `log_events`, or leave the engine silent.

Every record has a sentence for people and, for programs, fields of stable names: `event` says what happened, the rest
to what. `JsonFormatter` writes both as one line.

event        one of enlisted, claimed, committed, done, parked, fail, defer, release, pause, lost, reclaimed, decided,
             rewound, paced, stopping, retired, closed
pipeline     the pipeline's name
worker       the name of the worker that speaks
batch, key   the document
generation   the document's generation
step         the step at which the document stands
cursor       where it stands inside that step
attempt      which try this was
state        what the document is now
reason       why, in words
error        the class of the error
traceback    where the error came from
delay        seconds until the next try
documents    how many documents
moves        how many moves
items        how many items were kept
seconds      how long it took
holder       who held the document before
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.core.model import Checkpoint, Claim, Standing
from holdfast.core.moves import Ending, Move
from holdfast.core.words import harmless, spelled
from holdfast.engine.events import (
    BatchClosed,
    Claimed,
    Committed,
    Decided,
    Enlisted,
    Event,
    GaveBack,
    LostClaim,
    Paced,
    Reclaimed,
    Retired,
    Rewound,
    Stopping,
)

log = logging.getLogger("holdfast")

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
FIELDS = "holdfast"
"""The attribute of a log record that has its fields."""


def log_events(event: Event) -> None:
    """Words an event for the log `holdfast`."""
    match event:
        case Enlisted(worker, pipeline):
            _say(INFO, "enlisted", f"worker {worker.name} works on {pipeline}", pipeline=pipeline, worker=worker.name)
        case Retired(worker):
            _say(INFO, "retired", f"worker {worker.name} is finished", worker=worker.name)
        case _ if log.isEnabledFor(DEBUG):
            _log_everything(event, _by(event))
        case _:
            _log_what_matters(event, _by(event))


def _by(event: Event) -> dict[str, Any]:
    return {"pipeline": getattr(event, "pipeline", ""), "worker": getattr(event, "worker", "")}


def _log_everything(event: Event, by: dict[str, Any]) -> None:
    match event:
        case Claimed(claims):
            _say(DEBUG, "claimed", f"claimed {len(claims)} documents", documents=len(claims), **by)
        case Committed(moves, seconds):
            items = sum(len(move.items) for move in moves)
            said = f"committed {len(moves)} moves in {seconds * 1000:.1f} ms"
            _say(DEBUG, "committed", said, moves=len(moves), items=items, seconds=seconds, **by)
            for move in moves:
                _log_move(move, by)
        case Paced(spent):
            for step, (documents, seconds) in spent.items():
                said = f"{step}: {documents} documents got past it, and its bodies took {seconds:.3f} s"
                _say(DEBUG, "paced", said, step=step, documents=documents, seconds=seconds, **by)
        case _:
            _log_what_matters(event, by)


def _log_what_matters(event: Event, by: dict[str, Any]) -> None:
    match event:
        case GaveBack(endings):
            for ending in endings:
                _log_ending(ending, by)
        case LostClaim(claim):
            said = "it is no longer ours: taken over, or decided about; nothing of ours was written"
            _say(WARNING, "lost", f"{_name(claim)}: {said}", **by, **_claimed(claim))
        case Reclaimed(standings):
            for here in standings:
                _log_reclaimed(here, by)
        case Decided(gate, verdict, documents):
            said = f"gate {gate}: nobody decided in time about {len(documents)} documents: {verdict}"
            _say(WARNING, "decided", said, step=gate, documents=len(documents), reason=verdict, **by)
        case Rewound(claim, to, reason):
            said = f"{_name(claim)}: rewound to {to}: {reason}"
            _say(WARNING, "rewound", said, **by, **_claimed(claim) | {"step": to, "cursor": None, "reason": reason})
        case Stopping(reason):
            _say(INFO, "stopping", f"stopping: {reason}", reason=reason, **by)
        case BatchClosed(pipeline, batch, report):
            counts = f"{report.in_all.done} done, {report.in_all.dead} dead, {report.in_all.cancelled} cancelled"
            said = f"batch {batch} of {pipeline} is closed: {counts} of {report.expected}"
            _say(INFO, "closed", said, pipeline=pipeline, batch=batch, documents=report.expected)
        case _:
            pass


def _log_move(move: Move, by: dict[str, Any]) -> None:
    """Progress inside the steps is in the commit's own line."""
    if move.state == "running":
        return
    event, words = ("done", "done") if move.state == "done" else ("parked", f"parked: {move.reason}")
    place = _claimed(move.claim) | _place(move.after)
    _say(DEBUG, event, f"{_name(move.claim)}: {words}", **by, **place, state=move.state, reason=move.reason)


def _log_ending(ending: Ending, by: dict[str, Any]) -> None:
    level = {"dead": ERROR, "waiting": WARNING}.get(ending.state, INFO)
    if ending.verb == "release":
        level = DEBUG
    failure, place = ending.failure, _claimed(ending.claim)
    fields = {
        "step": ending.step or place["step"],
        "state": ending.state,
        "reason": ending.reason or (failure.message if failure else ""),
        "error": failure.kind if failure else "",
        "traceback": failure.traceback if failure else "",
        "delay": ending.delay.total_seconds(),
    }
    said = f"{_name(ending.claim)}: {ending.verb}, now {ending.state}: {failure or ending.reason}"
    _say(level, ending.verb, said, **by, **place | fields)


def _log_reclaimed(here: Standing, by: dict[str, Any]) -> None:
    fields = {"state": here.state, "reason": here.reason, "error": here.error, "attempt": here.attempts}
    said = f"{here.key} of {here.batch}: reclaimed ({here.reason}), now {here.state}"
    place = {"batch": here.batch, "key": here.key, **_place(here.checkpoint)}
    _say(WARNING, "reclaimed", said, **by, **place, **fields)


def _name(claim: Claim) -> str:
    return f"{claim.key} of {claim.batch}"


def _claimed(claim: Claim) -> dict[str, Any]:
    return {"batch": claim.batch, "key": claim.key, **_place(claim.checkpoint), "attempt": claim.attempts}


def _place(at: Checkpoint) -> dict[str, Any]:
    return {"generation": at.generation, "step": at.step, "cursor": at.cursor}


def _say(level: int, event: str, said: str, **fields: Any) -> None:
    """Writes one record. What has nothing to say is left out."""
    told = {"event": event} | {name: value for name, value in fields.items() if value not in ("", None)}
    log.log(level, "%s", harmless(said), extra={FIELDS: told})


class TextFormatter(logging.Formatter):
    """Writes a record as lines in which a terminal finds nothing to obey, whatever bodies say."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(harmless(line) for line in super().format(record).split("\n"))


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON: time, level and message, and the fields of the events of the engine.

    Records of others are written too: with `logger`, and with `error` and `traceback` where they have an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        fields = getattr(record, FIELDS, None)
        if isinstance(fields, Mapping):
            said |= fields
        else:
            said |= {"event": "log", "logger": record.name} | _exception(self, record)
        return _one_line(said | {"message": record.getMessage()})


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    return {"error": record.exc_info[0].__name__, "traceback": formatter.formatException(record.exc_info)}


def _one_line(said: dict[str, Any]) -> str:
    try:
        return spelled(msgspec.json.encode(said, enc_hook=str).decode())
    except (UnicodeEncodeError, TypeError, ValueError):  # a lone surrogate, as in the name of a file
        import json

        return json.dumps(said, default=str)
