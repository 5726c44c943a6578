"""Which collection a command is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.asked import Trouble
from holdfast.cli.pipelines import Loaded
from holdfast.pipelines.rag.collections import DEFAULT
from holdfast.pipelines.rag.library import Library
from holdfast.stores.protocol import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def in_collection(command: Command) -> Command:
    """Adds the option that names a collection."""
    option = click.option(
        "--collection", "-c", default=DEFAULT, show_default=True, envvar="HOLDFAST_COLLECTION", help="Which collection."
    )
    return option(command)


def library_of(store: Store, collection: str, *, allow_private: bool = False) -> Library:
    """Opens a collection, and makes it if it is not there."""
    try:
        return Library(store, collection, allow_private=allow_private)
    except ImportError as error:
        raise Trouble(f"document search needs more than holdfast itself: pip install 'holdfast[rag]' ({error})") from error


def loaded_from(library: Library) -> Loaded:
    """Gives a library's pipeline as commands work on one."""
    return Loaded(library.pipeline, library.collection.name, None, None, None)
