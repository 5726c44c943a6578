"""Validate definitions of pipelines and steps. Every error says how to write it right."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.circuit import Circuit
from holdfast.core.codec import checked_json, decode_json
from holdfast.core.errors import CannotKeep, DefinitionError
from holdfast.core.model import StepKind
from holdfast.core.orphans import STRATEGIES
from holdfast.core.retry import Retry
from holdfast.core.step import StepOptions, needs_parameters

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")

COMMON = frozenset(("keep", "version", "settings", "retry", "circuit", "timeout", "limit", "runs_in", "memory"))
"""The options of all steps with a body."""
OPTIONS: Mapping[StepKind, frozenset[str]] = {
    "value": COMMON,
    "stream": COMMON | {"commit_every", "cursor_expires", "when_expired"},
    "over": COMMON | {"over", "size", "parallel", "failure_rate"},
    "gate": frozenset(("within", "otherwise")),
}
"""The options that do something, by the kind of the step. All others are refused."""


def kind_of(name: str, body: Callable[..., Any], options: StepOptions) -> StepKind:
    """Return the kind of a step by its function. Raise DefinitionError if the function cannot be a body."""
    if not callable(body):
        raise DefinitionError(f"step {name!r}: {body!r} is not a function")
    streams = inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body)
    parameters = list(inspect.signature(body).parameters.values())
    if not parameters:
        raise DefinitionError(f"step {name!r}: its body needs the document: def {name}(doc)")
    if options.over:
        if streams:
            raise DefinitionError(f"step {name!r}: a body over items returns its results; it cannot yield")
        needs_parameters(body, ("doc", "items" if options.size else "item"), f"the body of step {name!r}")
        return "over"
    if streams:
        if "cursor" not in {parameter.name for parameter in parameters}:
            raise DefinitionError(
                f"step {name!r} yields, so it needs to know where to continue: def {name}(doc, cursor=0), "
                "and start after the first `cursor` items"
            )
        return "stream"
    needs_parameters(body, ("doc",), f"the body of step {name!r}")
    return "value"


def refuse_bad_name(name: str, what: str) -> None:
    """Raise DefinitionError for a name that would need quoting somewhere."""
    if not NAME.fullmatch(name):
        raise DefinitionError(
            f"{what} must be a letter, then letters, digits, '_', '-' or '.', at most 63; not {name!r}"
        )


def refuse_bad_strategy(name: str, strategy: object) -> None:
    """Raise DefinitionError for an unknown strategy for orphans."""
    if strategy not in STRATEGIES:
        raise DefinitionError(f"pipeline {name!r}: orphans= must be one of {', '.join(STRATEGIES)}, not {strategy!r}")


def refuse_bad_gate(name: str, late: Mapping[str, Any]) -> None:
    """Raise DefinitionError for wrong options of a gate."""
    refuse_unknown_options(f"gate {name!r}", late, OPTIONS["gate"])
    if not late:
        return
    span, otherwise = late.get("within"), late.get("otherwise")
    if late.keys() != {"within", "otherwise"} or not isinstance(span, timedelta) or span <= timedelta(0):
        raise DefinitionError(f"gate {name!r}: within= must be a positive timedelta, together with otherwise=")
    if otherwise not in ("approve", "reject"):
        raise DefinitionError(f'gate {name!r}: otherwise= must be "approve" or "reject", not {otherwise!r}')


def refuse_bad_options(name: str, options: StepOptions) -> None:
    """Raise DefinitionError for options that are wrong or contradict each other."""
    where = f"step {name!r}"
    for option in ("size", "parallel", "version", "limit", "memory"):
        number = getattr(options, option)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise DefinitionError(f"{where}: {option}= must be a whole number of at least 1, not {number!r}")
    for option in ("timeout", "cursor_expires"):
        span = getattr(options, option)
        if span is not None and (not isinstance(span, timedelta) or span <= timedelta(0)):
            raise DefinitionError(f"{where}: {option}= must be a positive timedelta, not {span!r}")
    _refuse_bad_choices(where, options)
    _refuse_slow_commits(where, options)


def refuse_unknown_options(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise DefinitionError for an option that does not exist. The error names the nearest one that does."""
    for option in given:
        if option not in known:
            from difflib import get_close_matches  # slow to import, and rarely needed

            nearest = get_close_matches(option, known, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]}=?" if nearest else f"the options are {', '.join(sorted(known))}"
            raise DefinitionError(f"{where}: there is no option {option}=; {hint}")


def refuse_unused_options(name: str, kind: StepKind, given: Mapping[str, Any]) -> None:
    """Raise DefinitionError for an option that does nothing on a step of this kind. None counts as not given."""
    for option, value in given.items():
        if value is not None and option not in OPTIONS[kind]:
            raise DefinitionError(f"step {name!r}: {option}= {_why_unused(option, kind)}")
    if given.get("when_expired") is not None and given.get("cursor_expires") is None:
        raise DefinitionError(f"step {name!r}: when_expired= needs cursor_expires=, the time after which it decides")


def _why_unused(option: str, kind: StepKind) -> str:
    if option in OPTIONS["gate"]:
        return "is for gates; a body that waits for a person raises Pause"
    if option in OPTIONS["over"]:
        return "needs over=, the step whose items are processed"
    return f"is for bodies that yield; {'a body over items' if kind == 'over' else 'this one'} returns"


def plain_settings(name: str, settings: Any) -> Any:
    """Return the settings of a step as a store will return them. Raise DefinitionError if they are not JSON."""
    try:
        return decode_json(checked_json({"settings": settings}, "the value"))["settings"]
    except CannotKeep as error:
        raise DefinitionError(f"step {name!r}: {error}") from error


def _refuse_bad_choices(where: str, options: StepOptions) -> None:
    if not isinstance(options.retry, Retry):
        raise DefinitionError(
            f"{where}: retry= must be a Retry, such as retry=Retry(attempts=5), not {options.retry!r}"
        )
    if options.circuit is not None and not isinstance(options.circuit, Circuit):
        raise DefinitionError(
            f"{where}: circuit= must be a Circuit, such as circuit=Circuit(failures=10), or None, not "
            f"{options.circuit!r}"
        )
    if not isinstance(options.keep, bool):
        raise DefinitionError(f"{where}: keep= must be True or False, not {options.keep!r}")
    if options.commit_every is not None and not _is_interval(options.commit_every):
        raise DefinitionError(
            f"{where}: commit_every= must be a number of items, a positive timedelta, or both, such as "
            f"(500, timedelta(minutes=5)), not {options.commit_every!r}"
        )
    if not isinstance(options.failure_rate, (int, float)) or not 0 <= options.failure_rate <= 1:
        raise DefinitionError(f"{where}: failure_rate= must be between 0 and 1, not {options.failure_rate!r}")
    if options.runs_in not in ("thread", "process"):
        raise DefinitionError(f'{where}: runs_in= must be "thread" or "process", not {options.runs_in!r}')
    if options.when_expired not in ("restart", "fail"):
        raise DefinitionError(f'{where}: when_expired= must be "restart" or "fail", not {options.when_expired!r}')
    if options.memory is not None and options.runs_in != "process":
        raise DefinitionError(f'{where}: memory= needs runs_in="process": only a child process can have a memory limit')


def _refuse_slow_commits(where: str, options: StepOptions) -> None:
    """Raise DefinitionError if every turn of a stream would take longer than its timeout allows."""
    every, allowed = options.commit_every, options.timeout
    span = every[1] if isinstance(every, tuple) else every
    if isinstance(span, timedelta) and allowed is not None and span >= allowed:
        raise DefinitionError(
            f"{where}: timeout={allowed} is over before commit_every= commits after {span}: use a longer timeout, or "
            "commit more often"
        )


def _is_interval(every: object) -> bool:
    match every:
        case bool():
            return False
        case int():
            return every >= 1
        case timedelta():
            return every > timedelta(0)
        case tuple((int() as count, timedelta() as span)):
            return _is_interval(count) and _is_interval(span)
    return False
