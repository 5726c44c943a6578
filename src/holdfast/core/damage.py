"""What is said of a damaged document when it is parked, and read again by whoever advises what to do about it."""

from __future__ import annotations

import re

_PARKED = re.compile(r"its checkpoint is damaged: .*look at it, then rewind it to ([\w.-]+)", re.DOTALL)


def parked_because(what: str, *, to: str) -> str:
    """Gives the reason with which a damaged document is parked: what is wrong, and the step it can be set back to."""
    return f"its checkpoint is damaged: {what}. Nothing was guessed: look at it, then rewind it to {to}"


def leads_out_to(reason: str) -> str | None:
    """Gives the step that a damaged document can be set back to; None for what is parked for another reason."""
    found = _PARKED.match(reason)
    return found[1] if found else None
