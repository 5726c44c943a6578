"""Names and values as they are typed: NAME=VALUE."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.asked import Trouble
from holdfast.core.codec import read_scalar


def pairs_of(given: Sequence[str], option: str) -> dict[str, str | int | float | bool | None]:
    """Gives values by their names: numbers, true, false and null as such, all else as text."""
    for pair in given:
        if not pair.partition("=")[0] or "=" not in pair:
            raise Trouble(f"{option} takes NAME=VALUE, not {pair!r}")
    return {name: read_scalar(value) for name, _, value in (pair.partition("=") for pair in given)}
