"""The story of one document, from what the store knows of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.cli.asked import Asked
from holdfast.cli.saying import say, say_lines, styled, tell
from holdfast.cli.words import ago, count, harmless, inside, moment, one_line, place, table
from holdfast.core.codec import Kept, decode_json, encode_json
from holdfast.core.model import WHOLE, Aside, Entry, Output, Standing
from holdfast.stores.protocol import Store

STYLES = {"done": "green", "dead": "red", "paused": "yellow", "cancelled": "yellow"}


class Story:
    """Everything that is known of one document."""

    def __init__(self, store: Store, here: Standing) -> None:
        self.here = here
        self.now = store.now()
        self.shape = store.shape(here.pipeline)
        self.outputs = store.outputs(here.id)
        self.asides = store.asides(here.id)
        self.journal = store.journal(here.id)
        self._store = store

    def told(self, asked: Asked, *, items: bool) -> None:
        """Tells it as it was asked for."""
        if asked.json:
            tell(self.as_json(items=items))
            return
        self.tell()
        if items:
            self.tell_items()

    def tell(self) -> None:
        """Tells it to a person."""
        here = self.here
        say(f"{styled(harmless(here.key), bold=True)}  in batch {harmless(here.batch)} of pipeline {here.pipeline}")
        for line in table(self._facts(), indent="  "):
            say(line)
        self._tell_outputs()
        self._tell_asides()
        self._tell_journal()
        self._tell_traceback()

    def tell_items(self) -> None:
        """Prints every kept item, whole."""
        say("items", bold=True)
        for step, position, kept in self._store.items(self.here.id):
            where = step if position == WHOLE else f"{step}[{position}]"
            say(f"  {where}  {_printed(kept)}")

    def _facts(self) -> list[list[str]]:
        here = self.here
        facts = [["state", self._state()]]
        if here.state != "done":
            facts.append(["checkpoint", self.place()])
        facts += [["reason", one_line(here.reason, 500)]] if here.reason else []
        facts += [["held by", here.holder]] if here.holder else []
        facts += [["last held by", here.worked_by]] if here.worked_by else []
        facts += [["due", f"{moment(here.due_at)}, {self._when_due()}"]] if here.due_at and here.state != "done" else []
        if here.state in ("waiting", "running", "dead"):
            facts.append(["tries", f"{count(here.attempts, 'attempt')}, {count(here.crashes, 'crash', 'crashes')}"])
        facts += [["generation", f"{here.checkpoint.generation} (the content changed, or it was rewound)"]] * bool(
            here.checkpoint.generation
        )
        facts += [["priority", str(here.priority)]] if here.priority else []
        return [
            *facts,
            ["payload", one_line(encode_json(here.payload), 500)],
            ["fingerprint", here.fingerprint or "none"],
            ["submitted", f"{moment(here.submitted_at)}, {ago(here.submitted_at, self.now)}"],
            ["last moved", f"{moment(here.moved_at)}, {ago(here.moved_at, self.now)}, after {self._moves()}"],
        ]

    def _state(self) -> str:
        return styled(self.here.state, fg=STYLES.get(self.here.state), bold=True)

    def place(self) -> str:
        """Says where the checkpoint is."""
        if self.here.checkpoint.step is None and self.here.state != "done":
            return "at a step that the store does not know"
        return place(self.here.checkpoint, self.shape, self.outputs)

    def _when_due(self) -> str:
        assert self.here.due_at is not None
        return "now" if self.here.due_at <= self.now else ago(self.here.due_at, self.now)

    def _moves(self) -> str:
        return count(self.here.checkpoint.moves, "move")

    def _tell_outputs(self) -> None:
        if not self.outputs:
            cleaned = self.here.cleaned_at
            say(f"kept: nothing any more, cleaned up at {moment(cleaned)}" if cleaned else "kept: nothing yet")
            return
        say("kept", bold=True)
        rows = []
        for one in self.outputs:
            aside = f"{one.aside:,} set aside" if one.aside else ""
            rows.append([one.step, count(one.items, "item"), aside, _when(one)])
        for line in table(rows, indent="  ", right=(1,)):
            say(line)

    def _tell_asides(self) -> None:
        if not self.asides:
            return
        say("set aside", bold=True)
        for step, aside in self.asides:
            said = one_line(str(aside.error), 300)
            say(f"  {step}, item {aside.position:,}, after {count(aside.tries, 'try', 'tries')}: {said}")

    def _tell_journal(self) -> None:
        if not self.journal:
            return
        say("journal", bold=True)
        for entry in self.journal:
            say(f"  {moment(entry.at)}  {entry.verb:8}  {self._at(entry)}{_why(entry)}  (by {entry.who})")

    def _at(self, entry: Entry) -> str:
        if entry.verb == "rewind" and isinstance(entry.detail, dict):
            return self._from_and_to(entry.detail)
        if entry.step is None:
            return ""
        where = inside(entry.step, entry.cursor, self.shape, self.outputs)
        return f"at {entry.step}, {where}: " if where else f"at {entry.step}: "

    def _from_and_to(self, detail: dict[str, Any]) -> str:
        """Says where a rewind began and ended; the line itself stands where it ended."""
        came_from = detail.get("from") or "the end"
        where = inside(came_from, detail.get("cursor"), self.shape)
        return f"from {came_from}{', ' if where else ''}{where} back to {detail.get('to')}: "

    def _tell_traceback(self) -> None:
        if trace := last_traceback(self.journal, self.asides):
            say("the last failure", bold=True)
            say_lines(textwrap.indent(trace.rstrip(), "  "))

    def as_json(self, *, items: bool) -> dict[str, Any]:
        """Gives it for programs."""
        said: dict[str, Any] = msgspec.structs.asdict(self.here) | {
            "place": self.place(),
            "outputs": self.outputs,
            "asides": [{"step": step, **msgspec.structs.asdict(aside)} for step, aside in self.asides],
            "journal": self.journal,
            "traceback": last_traceback(self.journal, self.asides),
        }
        if items:
            said["items"] = [
                {"step": step, "position": position, "value": _plain(kept)}
                for step, position, kept in self._store.items(self.here.id)
            ]
        return said


def last_traceback(journal: Sequence[Entry], asides: Sequence[tuple[str, Aside]] = ()) -> str:
    """Gives the traceback of the last failure, or of an item that was set aside; empty when there is none."""
    for entry in reversed(journal):
        error = entry.detail.get("error") if isinstance(entry.detail, dict) else None
        if isinstance(error, dict) and error.get("traceback"):
            return str(error["traceback"])
    return next((aside.error.traceback for _, aside in reversed(asides) if aside.error.traceback), "")


def _why(entry: Entry) -> str:
    """Says the reason of a journal line, in the words it was given in."""
    detail = entry.detail
    if not isinstance(detail, dict):
        return "" if detail is None else one_line(encode_json(detail))
    error = detail.get("error")
    said = []
    if isinstance(error, dict):
        said.append(f"{error.get('kind')}: {error.get('message')}".rstrip(": "))
    elif detail.get("reason"):
        said.append(str(detail["reason"]))
    said += _change(entry.verb, detail)
    return one_line("; ".join(said), 300)


def _change(verb: str, detail: dict[str, Any]) -> Iterator[str]:
    """Says what was before a journal line, and after it."""
    was, state = detail.get("was"), detail.get("state")
    if verb == "change":
        yield f"the content changed while it was {state}"
        return
    if verb == "prioritise":
        yield f"priority from {detail.get('from')} to {detail.get('to')}"
    elif verb == "rename":
        yield f"from {detail.get('from')} to {detail.get('to')}"
    elif verb == "reclaim" and detail.get("from"):
        yield f"taken from {detail['from']}"
    if "answer" in detail:
        yield f"answered {one_line(encode_json(detail['answer']), 120)}"
    if state and was == state:
        yield f"still {state}"
    elif state:
        yield f"was {was}, now {state}" if was else f"now {state}"


def _when(output: Output) -> str:
    if output.first_at is None or output.last_at is None:
        return ""
    first, last = moment(output.first_at), moment(output.last_at)
    return first if first == last else f"{first} to {last}"


def _printed(kept: Kept) -> str:
    return f"<{len(kept):,} bytes>" if isinstance(kept, bytes) else kept


def _plain(kept: Kept) -> Any:
    return kept if isinstance(kept, bytes) else decode_json(kept)
