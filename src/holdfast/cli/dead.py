"""`holdfast dead`: dead letters, and what becomes of them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.capsule import pack
from holdfast.cli.chosen import Chosen, choosing, chosen, since, the_one
from holdfast.cli.deciding import Verb, decide, named_and_reasoned, trying_out
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import store_that_exists
from holdfast.cli.story import Story
from holdfast.cli.words import ago, count, harmless, one_line, table
from holdfast.core.commands import about
from holdfast.core.model import Standing
from holdfast.engine.case import where
from holdfast.stores.protocol import Store

RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|min|m|h)")
SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}


class Rate(click.ParamType):  # type: ignore[type-arg]
    """So many in a length of time: 50/s, 10/min."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Gives the time between two."""
        if isinstance(value, timedelta):
            return value
        found = RATE.fullmatch(str(value).replace(" ", ""))
        if not found or not float(found[1]):
            self.fail(f"{value!r} is not a rate; write 50/s or 10/min", param, ctx)
        return timedelta(seconds=SECONDS[found[2]] / float(found[1]))


REDRIVE = Verb("redriven", "not dead, cleaned up, or at a step that is gone: those can be rewound", (("dead", None),))
ACCEPT = Verb("accepted", "not dead, or accepted already", (("dead", None),))


@click.group()
@common
def dead() -> None:
    """Lists dead letters, shows them, tries them again, accepts them, or takes one along."""


@dead.command("list")
@choosing
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="So many at most.")
@common
@click.pass_obj
def list_(asked: Asked, /, *, limit: int, **given: Any) -> None:
    """Lists dead letters, the newest first: all, or those that the options describe."""
    with store_that_exists(asked) as store:
        found = _found(asked, store, given)
        letters = [one for documents in found for one in documents.standings(limit) if one.state == "dead"]
        total = len(letters) if given["keys"] else sum(documents.count() for documents in found)
        if asked.json:
            listed = [_listed(one, since(store, one)) for one in letters]
            tell({"total": total, "dead_letters": listed})
        else:
            _tell(asked, store, letters, total)


def _found(asked: Asked, store: Store, given: dict[str, Any]) -> list[Chosen]:
    """Looks in the pipeline that is named, or in all that have the batch."""
    if given["pipeline"] or (given["keys"] and not any(mark in key for key in given["keys"] for mark in "*?")):
        return [chosen(asked, store, given | {"everything": True}, state="dead")]
    names = store.pipelines()
    if given["batch"]:
        names = [name for name in names if any(one.name == given["batch"] for one in store.batches(name))]
        if not names:
            raise Trouble(f"no pipeline has a batch {given['batch']!r}; `holdfast status` tells what is there")
    return [chosen(asked, store, given | {"pipeline": name, "everything": True}, state="dead") for name in names]


def _listed(one: Standing, died_at: datetime) -> dict[str, Any]:
    return {
        "pipeline": one.pipeline,
        "batch": one.batch,
        "key": one.key,
        "step": one.checkpoint.step,
        "error": one.error,
        "reason": one.reason,
        "attempts": one.attempts,
        "crashes": one.crashes,
        "died_at": died_at,
        "moved_at": one.moved_at,
        "accepted_by": one.accepted_by,
    }


def _tell(asked: Asked, store: Store, letters: list[Standing], total: int) -> None:
    if not letters:
        say("There are no dead letters.")
        return
    more = f", the newest {len(letters):,}" if total > len(letters) else ""
    say(f"{count(total, 'dead letter')}{more}:")
    now = store.now()
    rows = [
        [
            harmless(f"{one.batch}/{one.key}"),
            f"at {one.checkpoint.step}",
            ago(since(store, one), now),
            one_line(_why(one), 120),
        ]
        for one in letters
    ]
    for line in table(rows, indent="  "):
        say(line)
    newest = next((one for one in letters if not one.accepted_by), letters[0])
    here = where(store, newest)
    for word, command in (
        ("why", about(("dead", "show"), newest.key, options=here)),
        ("try again", about(("dead", "redrive"), newest.key, options=(*here, "--reason", "mended"))),
        ("accept", about(("dead", "accept"), newest.key, options=(*here, "--reason", "cannot be read"))),
    ):
        say(f"  {word + ':':10} {asked.command(*command)}")


def _why(one: Standing) -> str:
    return f"accepted by {one.accepted_by}: {one.reason}" if one.accepted_by else one.reason


@dead.command()
@click.argument("key")
@click.option("--pipeline", help="Only in this pipeline (its name, or its file).")
@click.option("--batch", help="Only in this batch.")
@click.option("--items", is_flag=True, help="Print the kept items too.")
@common
@click.pass_obj
def show(asked: Asked, *, key: str, pipeline: str | None, batch: str | None, items: bool) -> None:
    """Tells the whole story of the dead letter KEY: error, traceback, attempts, checkpoint, items, payload."""
    with store_that_exists(asked) as store:
        here = the_one(asked, store, key, pipeline=pipeline, batch=batch)
        if here.state != "dead":
            raise Trouble(f"{here.key} is no dead letter: it is {here.state}")
        Story(store, here).told(asked, items=items)


@dead.command()
@choosing
@click.option("--rate", type=Rate(), default=timedelta(0), help="At most so many in a time, such as 50/s or 10/min.")
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def redrive(asked: Asked, /, *, rate: timedelta, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Lets dead letters be tried again, from the very item where they stopped: by KEYS, by filter, or --all.

    With --rate they become due one after the other; the command itself does not wait. Letters that somebody accepted
    are left alone unless they are named.
    """
    with store_that_exists(asked) as store:
        documents = chosen(asked, store, given, state="dead", accepted=False)
        redriven = 0

        def act(ids: list[int]) -> list[int]:
            nonlocal redriven
            changed = store.redrive(ids, who=who, reason=reason, every=rate, after=redriven * rate)
            redriven += len(changed)
            return changed

        decide(asked, documents, act, REDRIVE, dry_run=dry_run)


@dead.command()
@choosing
@named_and_reasoned
@trying_out
@common
@click.pass_obj
def accept(asked: Asked, /, *, who: str, reason: str, dry_run: bool, **given: Any) -> None:
    """Accepts dead letters by name: they stay dead, and their batch can be closed."""
    with store_that_exists(asked) as store:
        documents: Chosen = chosen(asked, store, given, state="dead")
        act = lambda ids: store.accept(ids, who=who, reason=reason)  # noqa: E731
        decide(asked, documents, act, ACCEPT, dry_run=dry_run)


dead.add_command(pack, "capsule")
