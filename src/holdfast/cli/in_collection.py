"""The option that names a collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.pipelines.rag.model import DEFAULT

Command = TypeVar("Command", bound=Callable[..., Any])


def in_collection(command: Command) -> Command:
    """Adds the option that names a collection."""
    option = click.option(
        "--collection", "-c", default=DEFAULT, show_default=True, envvar="HOLDFAST_COLLECTION", help="Which collection."
    )
    return option(command)
