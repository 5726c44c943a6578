"""Open the store of a command, and check that pipelines and batches exist. Commands that only read create no store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from holdfast.cli.context import DEFAULT_STORE, CliContext, CliError
from holdfast.cli.exit_codes import STORE_ERROR
from holdfast.cli.output import print_line
from holdfast.engine.api import opened
from holdfast.stores import database_file, is_fresh
from holdfast.stores.protocol import Store


@contextmanager
def open_existing_store(cli: CliContext, *, created_by: str = "run") -> Iterator[Store]:
    """Open a store that must exist already. `created_by` is the command that creates one, for the error message."""
    require_store(cli, created_by=created_by)
    with open_persistent_store(cli) as store:
        yield store


@contextmanager
def open_persistent_store(cli: CliContext) -> Iterator[Store]:
    """Open a store that other processes can open too, and create it if needed. memory:// is refused."""
    if cli.store_url.startswith("memory:"):
        raise CliError(
            "memory:// is lost when the command ends, so only `holdfast run` can use it; "
            f"use a store that lasts, such as --store {DEFAULT_STORE}"
        )
    with opened(cli.store_url) as store:
        yield store


@contextmanager
def open_store_if_exists(cli: CliContext) -> Iterator[Store | None]:
    """Open the store, or return None if it does not exist yet. It is not created."""
    if not cli.store_url.startswith("memory:") and is_fresh(cli.store_url):
        yield None
        return
    with open_persistent_store(cli) as store:
        yield store


def require_store(cli: CliContext, *, created_by: str = "run") -> None:
    """Raise CliError if the store does not exist."""
    if cli.store_url.startswith("postgres") and is_fresh(cli.store_url):
        raise CliError(
            f"{cli.shown_store} has no holdfast tables yet; create them with `holdfast {created_by}` or "
            "`holdfast store migrate`",
            code=STORE_ERROR,
        )
    path = database_file(cli.store_url)
    if path is not None and not os.path.exists(path):  # noqa: PTH110 - does not raise if the name is too long
        raise CliError(
            f"there is no store at {cli.shown_store} (looked for {path.absolute()}); name yours with --store or "
            f"HOLDFAST_STORE, or create one with `holdfast {created_by}`",
            code=STORE_ERROR,
        )


def require_pipeline(store: Store, name: str) -> str:
    """Return the name of a pipeline in the store, given its name or its file. Raise CliError if there is none."""
    known = store.pipelines()
    if name in known:
        return name
    if name.endswith(".py") or ".py:" in name:
        from holdfast.cli.pipeline_loader import load_pipeline

        name = load_pipeline(name).pipeline.name
        if name in known:
            return name
    if not known:
        raise CliError(f"the store {store.url} has no pipelines yet; `holdfast run` or `holdfast submit` adds one")
    raise CliError(
        f"the store {store.url} has no pipeline {name!r}{_did_you_mean(name, known)}; it has: {', '.join(known)}"
    )


def require_batch(store: Store, pipeline: str, name: str) -> str:
    """Return the batch's name. Raise CliError if the pipeline does not have it."""
    known = [batch.name for batch in store.batches(pipeline)]
    if name in known:
        return name
    has = f"it has: {', '.join(known)}" if known else "it has none yet"
    raise CliError(f"pipeline {pipeline!r} has no batch {name!r}{_did_you_mean(name, known)}; {has}")


def require_batch_to_drain(store: Store, pipeline: str, name: str) -> None:
    """Raise CliError if the pipeline has documents but no such batch: a typing error would look like finished work."""
    if store.balance(pipeline).expected:
        require_batch(store, pipeline, name)


def warn_if_batch_unknown(store: Store, pipeline: str, name: str) -> None:
    """Print a warning if the pipeline does not have the batch. It may be submitted later, or be a typing error."""
    try:
        require_batch_to_drain(store, pipeline, name)
    except CliError as error:
        print_line(f"Waiting for a batch that does not exist yet: {error.message}", err=True)


def _did_you_mean(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
