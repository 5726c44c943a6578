"""Options that several commands share. Each adds itself to a command when it is used as a decorator."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from holdfast.cli.context import DEFAULT_STORE, CliError
from holdfast.cli.param_types import LOOPBACK, DurationType, MoneyOrDurationType, format_duration_arg
from holdfast.core.batches import AT_DEADLINE, DEFAULT_DEADLINE_ACTION
from holdfast.core.codec import read_scalar
from holdfast.engine.settings import DEFAULT_CONCURRENCY, DEFAULT_LEASE, DEFAULT_PROCESSES, DEFAULT_THREADS
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


def option_group(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options. The help shows them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _set_on_context(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        assert parameter.name is not None
        setattr(context.find_root().obj, parameter.name, value)


common_options = option_group(
    click.option(
        "--store",
        "store_option",
        metavar="URL",
        expose_value=False,
        callback=_set_on_context,
        help=f"The store: sqlite:///x.db or postgresql://... [env: HOLDFAST_STORE; default: {DEFAULT_STORE}]",
    ),
    click.option(
        "--json", "json", is_flag=True, expose_value=False, callback=_set_on_context, help="Print JSON, for programs."
    ),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_on_context,
        help="Show tracebacks of holdfast's own errors.",
    ),
)
"""The options of every command. They may also stand before the command's name."""

pipeline_option = click.option("--pipeline", metavar="NAME", help="Only this pipeline (its name or its file).")
batch_option = click.option("--batch", metavar="NAME", help="Only this batch.")
DEFAULT_BATCH = "default"
"""The batch that documents are submitted to if none is named."""

deadline_options = option_group(
    click.option(
        "--deadline",
        type=DurationType(),
        help="End documents that are still open after this time, such as 2h. The batch is sealed then.",
    ),
    click.option(
        "--at-deadline",
        type=click.Choice([*AT_DEADLINE]),
        default=DEFAULT_DEADLINE_ACTION,
        show_default=True,
        help="Make these documents dead letters, or cancel them.",
    ),
)
"""The deadline of a batch."""

dry_run_option = click.option("--dry-run", is_flag=True, help="Only count what would be changed; change nothing.")
items_option = click.option("--items", is_flag=True, help="Also print the kept items.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def limit_option(default: int) -> Callable[[Command], Command]:
    """Return --limit, for commands that list documents."""
    return click.option(
        "--limit", "-n", type=click.IntRange(1), default=default, show_default=True, help="Maximum number of results."
    )


def current_user() -> str:
    """Return the name for the journal: HOLDFAST_WHO, or the login name."""
    try:
        return os.environ.get("HOLDFAST_WHO") or getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


def require_text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty name or reason. Use it as a callback of an option."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is written to the journal and must not be empty", ctx=context, param=parameter)
    return value


REASON_HELP = "The reason; kept in the journal."

who_option = click.option(
    "--who",
    default=current_user,
    callback=require_text,
    metavar="NAME",
    help="Who does this; kept in the journal. [env: HOLDFAST_WHO; default: your login name]",
)
reason_option = click.option("--reason", required=True, callback=require_text, help=REASON_HELP)
who_and_reason = option_group(who_option, reason_option)
"""--who and a required --reason."""


def who_and_optional_reason(default: str = "") -> Callable[[Command], Command]:
    """Return --who, and a --reason with a default."""
    reason = click.option("--reason", default=default, show_default=bool(default), help=REASON_HELP)
    return option_group(who_option, reason)


collection_option = click.option(
    "--collection",
    "-c",
    default=DEFAULT_COLLECTION,
    show_default=True,
    envvar="HOLDFAST_COLLECTION",
    help="The name of the collection.",
)

file_options = option_group(
    click.option(
        "--follow-symlinks", is_flag=True, help="Also submit files outside of a folder that links in it lead to."
    ),
    click.option("--allow-private", is_flag=True, help="Also ask servers in private networks about their URLs."),
)
"""How the files and URLs of `run` and `submit` are found."""

source_options = option_group(
    click.option(
        "--ignore", multiple=True, metavar="PATTERN", help="Leave out matching files, as in .gitignore. Repeatable."
    ),
    click.option("--flat", is_flag=True, help="Only files directly in a folder, not in its subfolders."),
    click.option("--allow-private", is_flag=True, help="Also fetch from addresses in private networks."),
    click.option(
        "--follow-symlinks", is_flag=True, help="Also follow links that lead outside of a folder, and links to folders."
    ),
)
"""How the files of a source are listed."""


def parse_pairs(given: Sequence[str], option: str) -> dict[str, str | int | float | bool | None]:
    """Return the values of NAME=VALUE arguments by name. Numbers, true, false and null are converted."""
    for pair in given:
        if not pair.partition("=")[0] or "=" not in pair:
            raise CliError(f"{option} takes NAME=VALUE, not {pair!r}")
    return {name: read_scalar(value) for name, _, value in (pair.partition("=") for pair in given)}


metadata_option = click.option(
    "--meta",
    "metadata",
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda _, __, given: parse_pairs(given, "--meta") if given else None,
    help="Metadata for all documents of SOURCES; replaces earlier metadata. Repeatable. [default: no change]",
)


def address_options(*, port: int) -> Callable[[Command], Command]:
    """Return --host and --port, for commands that serve HTTP."""
    return option_group(
        click.option(
            "--host",
            default=LOOPBACK,
            show_default=True,
            help="Address to listen on. Use 0.0.0.0 to let other machines connect.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 for any free port.",
        ),
    )


processes_option = click.option(
    "--processes",
    type=click.IntRange(1),
    default=DEFAULT_PROCESSES,
    show_default=True,
    help="Number of worker processes. Use more than one for CPU-heavy Python code.",
)


time_budget_option = click.option("--budget", type=DurationType(), help="Stop cleanly after this time, such as 15m.")
spending_options = option_group(
    click.option(
        "--budget",
        type=MoneyOrDurationType(),
        help="Stop when this much money is spent, such as 5.00, or after this time, such as 15m.",
    ),
    click.option("--budget-pages", type=click.IntRange(0), help="Stop when this many pages were read."),
    click.option("--budget-tokens", type=click.IntRange(0), help="Stop when about this many tokens were embedded."),
    click.option("--price", type=click.FloatRange(0), help="Price of a million tokens, for a --budget of money."),
    click.option("--page-price", type=click.FloatRange(0), help="Price of a thousand pages of a reading service."),
    click.option("--new-budget", is_flag=True, help="Forget the earlier budget, and what was spent of it."),
)
"""Budgets of a collection, which are kept in the store, and the budget of time of one run."""


def worker_options(
    *, threads: int = DEFAULT_THREADS, threads_shown: str = "", budget: Decorator[Any] = time_budget_option
) -> Callable[[Command], Command]:
    """Return the options of a worker.

    Args:
        threads: The default number of threads on this machine.
        threads_shown: The default as the help shows it, if `threads` depends on the machine.
        budget: The option --budget.
    """
    return option_group(
        click.option(
            "--threads",
            type=click.IntRange(1),
            default=threads,
            show_default=threads_shown or True,
            help="Number of threads for plain (not async) step functions.",
        ),
        click.option(
            "--concurrency",
            type=click.IntRange(1),
            default=DEFAULT_CONCURRENCY,
            show_default=True,
            help="Maximum number of documents held at the same time.",
        ),
        click.option(
            "--lease",
            type=DurationType(),
            default=format_duration_arg(DEFAULT_LEASE),
            show_default=True,
            help="If this worker sends no heartbeat for this long, others take its documents.",
        ),
        budget,
    )
