"""What the commands of document search have in common: the option that names a collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.pipelines.rag.model import DEFAULT

Command = TypeVar("Command", bound=Callable[..., Any])
MADE_BY = "ingest"
"""The command that makes what the commands of document search look at."""


def in_collection(command: Command) -> Command:
    """Adds the option that names a collection."""
    option = click.option(
        "--collection", "-c", default=DEFAULT, show_default=True, envvar="HOLDFAST_COLLECTION", help="Which collection."
    )
    return option(command)
