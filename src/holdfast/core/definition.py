"""What makes a definition wrong, and how to write it right."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.errors import DefinitionError
from holdfast.core.plan import StepKind
from holdfast.core.retry import Retry
from holdfast.core.step import Options, needs_parameters

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")


def kind_of(name: str, body: Callable[..., Any], options: Options) -> StepKind:
    """Tells value, stream and over apart by the function itself, and refuses what is none of them."""
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
                f"step {name!r} yields, so it must know where to go on: def {name}(doc, cursor=0), "
                "and start after the first `cursor` items"
            )
        return "stream"
    needs_parameters(body, ("doc",), f"the body of step {name!r}")
    for option in ("commit_every", "cursor_expires"):
        if getattr(options, option) is not None:
            raise DefinitionError(f"step {name!r}: {option}= is for bodies that yield; this one returns")
    return "value"


def refuse_bad_name(name: str, what: str) -> None:
    """Refuses names that would need quoting somewhere."""
    if not NAME.fullmatch(name):
        raise DefinitionError(f"{what} is a letter, then letters, digits, '_', '-' or '.', 63 at most; not {name!r}")


def refuse_bad_gate(name: str, late: Mapping[str, Any]) -> None:
    """Refuses a gate whose time to decide makes no sense."""
    if not late:
        return
    span, otherwise = late.get("within"), late.get("otherwise")
    if late.keys() != {"within", "otherwise"} or not isinstance(span, timedelta) or span <= timedelta(0):
        raise DefinitionError(f"gate {name!r}: within= is a timedelta longer than nothing, and goes with otherwise=")
    if otherwise not in ("approve", "reject"):
        raise DefinitionError(f'gate {name!r}: otherwise= is "approve" or "reject", not {otherwise!r}')


def refuse_bad_options(name: str, options: Options, given: Mapping[str, Any]) -> None:
    """Refuses options that contradict each other or make no sense."""
    where = f"step {name!r}"
    for option in ("within", "otherwise"):
        if option in given:
            raise DefinitionError(f"{where}: {option}= is for gates; a body that waits for somebody raises Pause")
    for option in ("size", "parallel", "failure_rate"):
        if option in given and options.over is None:
            raise DefinitionError(f"{where}: {option}= goes with over=, which names the step whose items are walked")
    for option in ("size", "parallel", "version", "limit", "memory"):
        number = getattr(options, option)
        if number is not None and (not isinstance(number, int) or number < 1):
            raise DefinitionError(f"{where}: {option}= is a whole number of at least 1, not {number!r}")
    for option in ("timeout", "cursor_expires"):
        span = getattr(options, option)
        if span is not None and (not isinstance(span, timedelta) or span <= timedelta(0)):
            raise DefinitionError(f"{where}: {option}= is a timedelta longer than nothing, not {span!r}")
    _refuse_bad_choices(where, options)


def _refuse_bad_choices(where: str, options: Options) -> None:
    if not isinstance(options.retry, Retry):
        raise DefinitionError(f"{where}: retry= is a Retry, such as retry=Retry(attempts=5), not {options.retry!r}")
    if not isinstance(options.keep, bool):
        raise DefinitionError(f"{where}: keep= is True or False, not {options.keep!r}")
    if options.commit_every is not None and not _is_a_pace(options.commit_every):
        every = options.commit_every
        raise DefinitionError(f"{where}: commit_every= is a count of at least 1 or a timedelta, not {every!r}")
    if not isinstance(options.failure_rate, (int, float)) or not 0 <= options.failure_rate <= 1:
        raise DefinitionError(f"{where}: failure_rate= is a share between 0 and 1, not {options.failure_rate!r}")
    if options.runs_in not in ("thread", "process"):
        raise DefinitionError(f'{where}: runs_in= is "thread" or "process", not {options.runs_in!r}')
    if options.when_expired not in ("restart", "fail"):
        raise DefinitionError(f'{where}: when_expired= is "restart" or "fail", not {options.when_expired!r}')
    if options.memory is not None and options.runs_in != "process":
        raise DefinitionError(f'{where}: memory= goes with runs_in="process": only a child can be held to a limit')


def _is_a_pace(every: object) -> bool:
    return every > timedelta(0) if isinstance(every, timedelta) else isinstance(every, int) and every >= 1
