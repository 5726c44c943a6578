"""Explain why a step is paused for all documents, and what a person can do."""

from __future__ import annotations

from datetime import datetime

from holdfast.core.circuit import CircuitStatus
from holdfast.core.formatting import format_ago, format_count, format_time, one_line
from holdfast.core.suggested_commands import REASON_ARGS, command_args
from holdfast.ops.explain.context import Command
from holdfast.stores.protocol import Store

ADVICE = {
    "authentication": "Check the key or the password. Workers that read it when they start must be started again",
    "permission": "Check what the key is allowed to do, and whether its quota is used up",
    "configuration": "Check the settings, the packages and the certificates of the workers",
    "rate_limit": "The service asks for fewer calls: use a smaller limit= of the step, or fewer workers",
    "unreachable": "Check whether the service can be reached from here",
    "timeout": "Check whether the service answers",
    "server_error": "Check whether the service works",
}
"""What a person can do, by the category of the error."""
MANY = 3
"""After this many documents were tried in vain, each one may have a problem of its own."""


def open_circuits(store: Store, pipeline: str) -> list[CircuitStatus]:
    """Return the circuits that are open at steps that the pipeline has."""
    shape = store.shape(pipeline)
    names = shape.names if shape else ()
    return [one for one in store.circuits(pipeline) if one.is_open and one.step in names]


def describe_circuit(circuit: CircuitStatus, now: datetime, command: Command) -> str:
    """Return sentences about an open circuit: since when, why, what happens next, and what to do."""
    opened, probe = circuit.opened_at or now, circuit.probe_at or now
    since = f"since {format_time(opened)}, {format_ago(min(opened, now), now)}"
    calls = format_count(circuit.failures, "call")
    tried = f"{format_count(circuit.probes, 'document')} tried in vain so far, the next one " if circuit.probes else ""
    when = "now" if probe <= now else format_ago(probe, now)
    close = f"`{command(*close_command(circuit))}`"
    own = "If each document calls a server of its own, write circuit=None. " if circuit.probes >= MANY else ""
    return (
        f"Step {circuit.step} is paused for all documents {since}: {calls} in a row failed, the last one with "
        f"{one_line(circuit.reason, 300)}. {ADVICE.get(circuit.category, 'Look at the error')}. The step goes on by "
        f"itself: one document is tried from time to time ({tried}{when}). {own}To let all go on now: {close}."
    )


def close_command(circuit: CircuitStatus) -> tuple[str, ...]:
    """Return the words of the command that closes a circuit."""
    return command_args(("circuit", "close"), circuit.pipeline, circuit.step, options=REASON_ARGS)
