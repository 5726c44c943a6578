"""`holdfast review`: what waits for a person, and what the person decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
import msgspec

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.chosen import since, the_one
from holdfast.cli.deciding import named_and_reasoned, plan_of
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import known_pipeline, store_that_exists
from holdfast.cli.words import ago, count, harmless, one_line, table
from holdfast.core.codec import encode_json
from holdfast.core.commands import about
from holdfast.core.damage import leads_out_to
from holdfast.core.model import ON_HOLD, Standing
from holdfast.engine.case import where
from holdfast.stores.protocol import Store, Which


@click.group()
@common
def review() -> None:
    """Decides about documents that wait for a person: at a gate, or because a step asked."""


@review.command("list")
@click.option("--pipeline", help="Only in this pipeline (its name, or its file).")
@click.option("--batch", help="Only in this batch.")
@click.option("--gate", help="Only at this gate or step.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="So many at most.")
@common
@click.pass_obj
def list_(asked: Asked, *, pipeline: str | None, batch: str | None, gate: str | None, limit: int) -> None:
    """Lists what waits for a decision, the last moved first."""
    with store_that_exists(asked) as store:
        names = [known_pipeline(store, pipeline)] if pipeline else store.pipelines()
        _refuse_unknown(store, names, batch, gate)
        paused: Which = {"batch": batch, "step": gate, "state": "paused"}
        on_hold: Which = {"batch": batch, "step": gate, "state": "paused", "error": ON_HOLD}
        here = [one for name in names for one in store.standings(name, limit=limit, **paused)]
        waiting = [one for one in here if one.error != ON_HOLD]
        total = sum(store.count(name, **paused) - store.count(name, **on_hold) for name in names)
        if asked.json:
            tell({"total": total, "documents": [_listed(one, since(store, one)) for one in waiting]})
        else:
            _tell(asked, store, waiting, total)


def _refuse_unknown(store: Store, names: list[str], batch: str | None, gate: str | None) -> None:
    """Refuses names that nothing has: with nothing to decide there, a slip would look like an end."""
    batches = {one.name for name in names for one in store.batches(name)}
    steps = {step for name in names if (shape := store.shape(name)) for step in shape.names}
    for what, asked_for, known in (("batch", batch, batches), ("gate or step", gate, steps)):
        if asked_for and asked_for not in known:
            raise Trouble(f"there is no {what} {asked_for!r}; there are: {', '.join(sorted(known)) or 'none yet'}")


def _listed(one: Standing, parked_at: datetime) -> dict[str, Any]:
    return {
        "pipeline": one.pipeline,
        "batch": one.batch,
        "key": one.key,
        "at": one.checkpoint.step,
        "reason": one.reason,
        "since": parked_at,
        "until": one.due_at,
        "payload": one.payload,
    }


def _tell(asked: Asked, store: Store, waiting: list[Standing], total: int) -> None:
    if not waiting:
        say("Nothing waits for a decision.")
        return
    more = f", the last moved {len(waiting):,}" if total > len(waiting) else ""
    say(f"{count(total, 'document waits', 'documents wait')} for a decision{more}:")
    now = store.now()
    rows = [
        [
            harmless(f"{one.batch}/{one.key}"),
            f"at {one.checkpoint.step}",
            ago(since(store, one), now),
            _until(one, now),
            one_line(one.reason),
        ]
        for one in waiting
    ]
    for line in table(rows, indent="  "):
        say(line)
    first, here = waiting[0], where(store, waiting[0])
    say(f"  look: {asked.command(*about(('show',), first.key, options=(*here, '--items')))}")
    say(f"  decide: {asked.command(*_decision(first, here))}")


def _decision(first: Standing, here: tuple[str, ...]) -> tuple[str, ...]:
    """Gives the words of the command that decides: one that is damaged would only be parked again if approved."""
    if to := leads_out_to(first.reason):
        return about(("rewind",), first.key, options=(*here, "--to", to, "--reason", "damaged"))
    return about(("review", "approve"), first.key, options=(*here, "--reason", "looks good"))


def _until(one: Standing, now: datetime) -> str:
    return f"decides itself {ago(one.due_at, now)}" if one.due_at else ""


def deciding(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the arguments of a decision about one document."""
    options = (
        click.argument("key"),
        click.option("--pipeline", help="Only in this pipeline (its name, or its file)."),
        click.option("--batch", help="Only in this batch."),
        click.option("--gate", help="Only if it still waits at this gate or step."),
    )
    for option in reversed(options):
        command = option(command)
    return common(click.pass_obj(named_and_reasoned(command)))


@review.command()
@deciding
def approve(asked: Asked, *, key: str, who: str, reason: str, **where: Any) -> None:
    """Lets the document KEY go on: past the gate, or with the step that asked."""
    with store_that_exists(asked) as store:
        here = _waiting(asked, store, key, where)
        plan = plan_of(store, here.pipeline)
        passed = store.resume(plan, [here.id], who=who, reason=reason, at=_at(here))
        _tell_decision(asked, store, here, "approved", passed)


@review.command()
@deciding
def reject(asked: Asked, *, key: str, who: str, reason: str, **where: Any) -> None:
    """Makes the document KEY a dead letter, with the reason."""
    with store_that_exists(asked) as store:
        here = _waiting(asked, store, key, where)
        _tell_decision(asked, store, here, "rejected", store.reject([here.id], who=who, reason=reason, at=_at(here)))


@review.command()
@deciding
@click.argument("answer")
def answer(asked: Asked, *, key: str, answer: str, who: str, reason: str, **where: Any) -> None:
    """Lets the document KEY go on with an ANSWER, which later steps read with doc.decision(). JSON, or plain text."""
    with store_that_exists(asked) as store:
        here = _waiting(asked, store, key, where)
        plan = plan_of(store, here.pipeline)
        passed = store.resume(plan, [here.id], who=who, reason=reason, answer=_value(answer), at=_at(here))
        _tell_decision(asked, store, here, "answered", passed)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _at(here: Standing) -> dict[int, int]:
    """What was seen: a decision about anything later is none."""
    return {here.id: here.checkpoint.moves}


def _waiting(asked: Asked, store: Store, key: str, where: dict[str, Any]) -> Standing:
    here = the_one(asked, store, key, pipeline=where["pipeline"], batch=where["batch"])
    if here.state != "paused":
        raise Trouble(f"{here.key} waits for nobody: it is {here.state}{_decided_before(store, here)}")
    if where["gate"] and here.checkpoint.step != where["gate"]:
        place = f"it waits at {here.checkpoint.step}, not at {where['gate']}"
        raise Trouble(f"{here.key}: {place}{_decided_before(store, here)}")
    return here


def _decided_before(store: Store, here: Standing) -> str:
    decided = [line for line in store.journal(here.id) if line.verb in ("resume", "reject", "cancel")]
    if not decided:
        return ""
    last = decided[-1]
    return f"; {last.who} decided ({last.verb}) at {last.step}: {one_line(encode_json(last.detail.get('reason')))}"


def _tell_decision(asked: Asked, store: Store, here: Standing, done: str, changed: list[int]) -> None:
    if not changed:
        raise Trouble(f"{here.key} was decided about meanwhile{_decided_before(store, here)}; nothing was changed")
    now = store.standing(here.pipeline, here.batch, here.key)
    if asked.json:
        said = {"key": here.key, "decision": done, "state": now.state, "step": now.checkpoint.step}
        tell(said)
    else:
        to = f" at {now.checkpoint.step}" if now.checkpoint.step else ""
        say(f"{here.key} is {done} at {here.checkpoint.step}; it is {now.state}{to} now.")
