"""The report about one document: `holdfast show` and `holdfast dead show`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.cli.context import CliContext
from holdfast.cli.output import print_json, print_line, print_lines, styled
from holdfast.cli.shown_keys import shown_key
from holdfast.core.codec import Kept, decode_json, encode_json
from holdfast.core.formatting import (
    RECOVERABLE,
    RECOVERABLE_NOTE,
    format_ago,
    format_checkpoint,
    format_count,
    format_cursor,
    format_table,
    format_time,
    format_tries,
    one_line,
    printable,
)
from holdfast.core.model import WHOLE, DocumentStatus, FailedItem, JournalEntry, Output
from holdfast.core.retry import count_retries
from holdfast.stores.protocol import Store

STYLES = {"done": "green", "dead": "red", "paused": "yellow", "cancelled": "yellow"}


class DocumentReport:
    """Everything that the store has about one document."""

    def __init__(self, store: Store, document: DocumentStatus) -> None:
        self.document = document
        self.now = store.now()
        self.shape = store.shape(document.pipeline)
        self.outputs = store.outputs(document.id)
        self.failed_items = store.failed_items(document.id)
        self.journal = store.journal(document.id)
        self.retries = count_retries(self.journal, document.checkpoint.generation)
        self._store = store

    def print(self, cli: CliContext, *, items: bool) -> None:
        """Print the report as text or as JSON, with or without the kept items."""
        if cli.json:
            print_json(self.as_json(items=items))
            return
        document = self.document
        place = f"in batch {printable(document.batch)} of pipeline {document.pipeline}"
        print_line(f"{styled(printable(shown_key(document.key)), bold=True)}  {place}")
        for line in format_table(self._facts(), indent="  "):
            print_line(line)
        self._print_outputs()
        self._print_failed_items()
        self._print_journal()
        self._print_traceback()
        if items:
            self._print_items()

    def _facts(self) -> list[list[str]]:
        """Return the rows of the table: a name and a value each."""
        document = self.document
        facts = [["state", styled(document.state, fg=STYLES.get(document.state), bold=True)]]
        if document.state != "done":
            facts.append(["checkpoint", self._format_checkpoint()])
        if document.reason:
            facts.append(["reason", one_line(document.reason, 500)])
        if document.error or document.recoverable is not None:
            facts.append(["recoverable", RECOVERABLE[document.recoverable]])
        if document.holder:
            facts.append(["held by", document.holder])
        if document.worked_by:
            facts.append(["last held by", document.worked_by])
        if document.due_at and document.state != "done":
            due = "now" if document.due_at <= self.now else format_ago(document.due_at, self.now)
            facts.append(["due", f"{format_time(document.due_at)}, {due}"])
        facts += self._counts()
        if document.checkpoint.generation:
            facts.append(["generation", f"{document.checkpoint.generation} (the content changed, or it was rewound)"])
        if document.priority:
            facts.append(["priority", str(document.priority)])
        moves = format_count(document.checkpoint.moves, "move")
        return [
            *facts,
            ["payload", one_line(encode_json(document.payload), 500)],
            ["fingerprint", document.fingerprint or "none"],
            ["submitted", f"{format_time(document.submitted_at)}, {format_ago(document.submitted_at, self.now)}"],
            [
                "last moved",
                f"{format_time(document.moved_at)}, {format_ago(document.moved_at, self.now)}, after {moves}",
            ],
        ]

    def _counts(self) -> Iterator[list[str]]:
        """Yield how often the document was tried, put off and interrupted."""
        document = self.document
        if document.state in ("waiting", "running", "dead"):
            counts = {name: getattr(document, name) for name in ("attempts", "crashes", "losses")}
            yield ["tries", f"{format_tries(**counts)} since its last move"]
        if self.retries:
            yield ["retries", f"{self.retries:,} in all"]
        if document.interruptions:
            yield ["interrupted", f"{format_count(document.interruptions, 'time')} since its last move"]
        if document.deferrals:
            since = f" since {format_time(document.deferred_at)}" if document.deferred_at else ""
            yield ["put off", f"{format_count(document.deferrals, 'time')}{since}"]

    def _format_checkpoint(self) -> str:
        if self.document.checkpoint.step is None and self.document.state != "done":
            return "at a step that the store does not know"
        document = self.document
        return format_checkpoint(document.checkpoint, self.shape, self.outputs, total=document.items_total)

    def _print_outputs(self) -> None:
        if not self.outputs:
            cleaned_at = self.document.cleaned_at
            print_line(f"kept: nothing; cleaned up at {format_time(cleaned_at)}" if cleaned_at else "kept: nothing yet")
            return
        print_line("kept", bold=True)
        rows = []
        for output in self.outputs:
            set_aside = f"{output.aside:,} set aside" if output.aside else ""
            rows.append([output.step, _format_items(output), set_aside, _format_times(output)])
        for line in format_table(rows, indent="  ", right=(1,)):
            print_line(line)

    def _print_failed_items(self) -> None:
        if not self.failed_items:
            return
        print_line("set aside", bold=True)
        for step, item in self.failed_items:
            tries, error = format_count(item.tries, "try", "tries"), one_line(str(item.error), 300)
            note = RECOVERABLE_NOTE[item.error.recoverable]
            print_line(f"  {step}, item {item.position:,}, after {tries}: {error}{note}")

    def _print_journal(self) -> None:
        if not self.journal:
            return
        print_line("journal", bold=True)
        for entry in self.journal:
            place = self._format_place(entry)
            detail = f"{_format_detail(entry)}{_format_times_of(entry)}"
            print_line(f"  {format_time(entry.at)}  {entry.verb:8}  {place}{detail}  (by {entry.who})")

    def _format_place(self, entry: JournalEntry) -> str:
        """Return where the document was. A rewind shows both places: from and to."""
        if entry.verb == "rewind" and isinstance(entry.detail, dict):
            step = entry.detail.get("from") or "the end"
            cursor = format_cursor(step, entry.detail.get("cursor"), self.shape)
            return f"from {step}{', ' if cursor else ''}{cursor} back to {entry.detail.get('to')}: "
        if entry.step is None:
            return ""
        cursor = format_cursor(entry.step, entry.cursor, self.shape, self.outputs)
        return f"at {entry.step}, {cursor}: " if cursor else f"at {entry.step}: "

    def _print_traceback(self) -> None:
        if trace := last_traceback(self.journal, self.failed_items):
            print_line("the last failure", bold=True)
            print_lines(textwrap.indent(trace.rstrip(), "  "))

    def _print_items(self) -> None:
        print_line("items", bold=True)
        for step, position, kept in self._store.items(self.document.id):
            where = step if position == WHOLE else f"{step}[{position}]"
            value = f"<{len(kept):,} bytes>" if isinstance(kept, bytes) else kept
            print_line(f"  {where}  {value}")

    def as_json(self, *, items: bool) -> dict[str, Any]:
        """Return the report for programs."""
        fields: dict[str, Any] = msgspec.structs.asdict(self.document) | {
            "place": self._format_checkpoint(),
            "retries": self.retries,
            "outputs": self.outputs,
            "asides": [{"step": step, **msgspec.structs.asdict(item)} for step, item in self.failed_items],
            "journal": self.journal,
            "traceback": last_traceback(self.journal, self.failed_items),
        }
        if items:
            fields["items"] = [
                {"step": step, "position": position, "value": _decode(kept)}
                for step, position, kept in self._store.items(self.document.id)
            ]
        return fields


CHARGES = {"crash": "counts as a crash", "loss": "counts as a lost worker", "nothing": "it was not running"}
"""What an entry says about what was counted against a document whose worker is gone."""


def last_traceback(journal: Sequence[JournalEntry], failed_items: Sequence[tuple[str, FailedItem]] = ()) -> str:
    """Return the traceback of the last failure, or else of an item that was set aside; empty if there is none."""
    for entry in reversed(journal):
        detail = entry.detail if isinstance(entry.detail, dict) else {}
        error = detail if entry.verb == "reclaim" else detail.get("error")  # of a crash of the worker
        if isinstance(error, dict) and error.get("traceback"):
            return str(error["traceback"])
    return next((item.error.traceback for _, item in reversed(failed_items) if item.error.traceback), "")


def _format_detail(entry: JournalEntry) -> str:
    """Return the reason of a journal entry, and what it changed."""
    detail = entry.detail
    if not isinstance(detail, dict):
        return "" if detail is None else one_line(encode_json(detail))
    error = detail.get("error")
    parts = []
    if isinstance(error, dict):
        note = RECOVERABLE_NOTE.get(error.get("recoverable"), "")
        parts.append(f"{error.get('kind')}: {error.get('message')}".rstrip(": ") + note)
    elif detail.get("reason"):
        parts.append(str(detail["reason"]))
    return one_line("; ".join([*parts, *_format_change(entry.verb, detail)]), 300)


def _format_times_of(entry: JournalEntry) -> str:
    """Return how often an entry repeated, and when it did so last."""
    if entry.times == 1:
        return ""
    last = f", last at {format_time(entry.last_at)}" if entry.last_at else ""
    return f"; {format_count(entry.times, 'time')}{last}"


def _format_change(verb: str, detail: dict[str, Any]) -> Iterator[str]:
    """Yield what a journal entry changed: before and after."""
    before, state = detail.get("was"), detail.get("state")
    if verb == "change":
        yield f"the content changed while it was {state}"
        return
    if verb == "prioritise":
        yield f"priority from {detail.get('from')} to {detail.get('to')}"
    elif verb == "rename":
        yield f"from {detail.get('from')} to {detail.get('to')}"
    elif verb == "reclaim" and detail.get("from"):
        yield f"taken from {detail['from']}"
        if charge := CHARGES.get(str(detail.get("counts_as"))):
            yield charge
    if "answer" in detail:
        yield f"answered {one_line(encode_json(detail['answer']), 120)}"
    if state and before == state:
        yield f"still {state}"
    elif state:
        yield f"was {before}, now {state}" if before else f"now {state}"


def _format_items(output: Output) -> str:
    if output.total is None:
        return format_count(output.items, "item")
    return f"{output.items:,} of {format_count(output.total, 'item')}"


def _format_times(output: Output) -> str:
    if output.first_at is None or output.last_at is None:
        return ""
    first, last = format_time(output.first_at), format_time(output.last_at)
    return first if first == last else f"{first} to {last}"


def _decode(kept: Kept) -> Any:
    return kept if isinstance(kept, bytes) else decode_json(kept)
