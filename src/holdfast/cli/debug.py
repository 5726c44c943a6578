"""`holdfast debug`: one document in this very thread, where a debugger can follow it."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

import click

from holdfast.cli.asked import DEAD_LETTERS, FINE, Asked, Trouble, common
from holdfast.cli.chosen import the_one
from holdfast.cli.pipelines import Loaded, load
from holdfast.cli.saying import say, say_lines, tell
from holdfast.cli.stores import store_that_exists
from holdfast.cli.who import signed
from holdfast.cli.words import harmless, one_line, place
from holdfast.cli.working import prepared
from holdfast.core.commands import about
from holdfast.core.model import Standing
from holdfast.stores.protocol import Store


@click.command()
@click.argument("pipeline")
@click.argument("key")
@click.option("--batch", help="Only in this batch.")
@click.option("--pdb", is_flag=True, help="Open the debugger where the first error was raised.")
@click.option("--redrive", is_flag=True, help="Let a dead letter be tried again, from its checkpoint.")
@signed(reason="to debug it")
@common
@click.pass_obj
def debug(
    asked: Asked, /, *, pipeline: str, key: str, batch: str | None, pdb: bool, redrive: bool, who: str, reason: str
) -> None:
    """Runs the one document KEY in the calling thread, so that breakpoints work.

    It is claimed like by any worker and what it does is committed as always, so work on a capsule of it where that
    matters. `breakpoint()` in a body stops there; steps with runs_in="process" run in this process too, and timeouts do
    not end them. A document that is not due yet is taken all the same. Leaving the debugger gives it back, and costs
    nothing.
    """
    asked.tell_bodies()
    loaded = load(pipeline)
    with store_that_exists(asked) as store:
        here = the_one(asked, store, key, pipeline=loaded.pipeline.name, batch=batch, file=pipeline)
        if here.state == "dead":
            _redrive(asked, store, here, file=pipeline, redrive=redrive, who=who, reason=reason)
        prepared(loaded, store)
        looking = _Looking(post_mortem=pdb)
        here = _advanced(loaded, store, here, who=who, looking=looking)
    _tell(asked, here, looking)


def _redrive(asked: Asked, store: Store, here: Standing, *, file: str, redrive: bool, who: str, reason: str) -> None:
    if not redrive:
        again = asked.command(*about(("debug",), file, here.key, options=("--batch", here.batch, "--redrive")))
        raise Trouble(f"{here.key} is a dead letter ({one_line(here.reason)}). To try it again here: {again}")
    store.redrive([here.id], who=who, reason=reason)


def _advanced(loaded: Loaded, store: Store, here: Standing, *, who: str, looking: _Looking) -> Standing:
    from holdfast.engine.alone import advance_alone

    return advance_alone(loaded.pipeline, store, here.id, who=who, look_at=looking)


class _Looking:
    """Tells every error with the traceback of the body alone, and opens the debugger at the first if asked to."""

    def __init__(self, *, post_mortem: bool) -> None:
        self.errors = 0
        self._post_mortem = post_mortem

    def __call__(self, error: BaseException, trace: TracebackType | None) -> None:
        self.errors += 1
        say_lines("".join(traceback.format_exception(type(error), error, trace)), err=True, nl=False)
        if self._post_mortem and self.errors == 1:
            import pdb  # noqa: T100 - this is what was asked for

            pdb.post_mortem(trace)


def _tell(asked: Asked, here: Standing, looking: _Looking) -> None:
    if asked.json:
        said: dict[str, Any] = {"key": here.key, "state": here.state, "step": here.checkpoint.step}
        tell(said | {"reason": here.reason, "errors": looking.errors})
    else:
        where = "" if here.state == "done" else f" {place(here.checkpoint, None)}"
        why = f": {one_line(here.reason)}" if here.reason else ""
        say(f"{harmless(here.key)} is {here.state}{where}{why}")
    failed = here.state == "dead" or (looking.errors and here.state != "done")
    raise click.exceptions.Exit(DEAD_LETTERS if failed else FINE)
