"""The report of a batch as one HTML page to file or print. The layout is in batch_report.html."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

from holdfast.cli.ui.balance import BY_STEP, STATES, sort_steps
from holdfast.core.batches import BatchReport, Counted, DeadLetter
from holdfast.core.close_refusal import percent
from holdfast.core.formatting import RECOVERABLE_NOTE, format_count, format_lost_workers
from holdfast.core.html_template import HtmlTemplate

MAX_ROWS = 1000
"""Maximum number of rows of a list. The JSON report has all rows."""

_TEMPLATE = HtmlTemplate(files("holdfast.cli.ui").joinpath("batch_report.html").read_text(encoding="utf-8"))


def render_batch_report(report: BatchReport) -> str:
    """Return the report as HTML. The page loads nothing and runs nothing."""
    values = _header(report) | _balance(report) | _steps(report) | _dead_letters(report) | _record(report)
    return _TEMPLATE.render(values | {"key_lists": _key_lists(report)})


def _header(report: BatchReport) -> dict[str, Any]:
    if report.closed_at is not None:
        reason = f": {report.reason}" if report.reason else ""
        state = f"Closed on {_format_day(report.closed_at)} by {report.closed_by}{reason}"
    else:
        state = f"{report.state.capitalize()}, not closed. As of {_format_day(report.made_at)}"
    return {"pipeline": report.pipeline, "batch": report.batch, "state": state}


def _balance(report: BatchReport) -> dict[str, Any]:
    counts = report.in_all
    notes = [*_notes(report)]
    mismatch = f"Does not balance: {report.expected:,} expected, {counts.found:,} found"
    return {
        "verdict_class": "good" if report.balances else "bad",
        "verdict": "Nothing is missing: the count balances." if report.balances else mismatch,
        "expected": f"{report.expected:,}",
        "expected_count": report.expected,
        "terms": [_term(getattr(counts, state), state) for state in STATES],
        "has_notes": bool(notes),
        "notes": notes,
    }


def _notes(report: BatchReport) -> Iterator[str]:
    counts = report.in_all
    if counts.dead:
        yield f"Of the dead letters, {counts.accepted:,} are accepted and {counts.not_accepted:,} are not."
    if counts.orphaned:
        yield f"{format_count(counts.orphaned, 'running document has', 'running documents have')} lost the worker."
    if report.asides:
        yield f"{format_count(report.asides, 'single item was', 'single items were')} set aside."
    if report.gone:
        yield f"{format_count(report.gone, 'document was', 'documents were')} cleaned up before this report."


def _term(number: int, state: str) -> dict[str, Any]:
    operator = "+" if state != STATES[0] else ""
    return {"operator": operator, "count": number, "number": f"{number:,}", "name": state}


def _steps(report: BatchReport) -> dict[str, Any]:
    columns = [state for state in BY_STEP if any(getattr(counted, state) for counted in report.at_step.values())]
    names = sort_steps(report.at_step, [step.name for step in report.steps])
    rows = [{"name": name, "numbers": _numbers(report.at_step[name], columns)} for name in names]
    return {"has_steps": bool(columns), "columns": columns, "steps": rows}


def _numbers(counted: Counted, columns: Sequence[str]) -> list[str]:
    return [f"{getattr(counted, column):,}" if getattr(counted, column) else "\N{EN DASH}" for column in columns]


def _dead_letters(report: BatchReport) -> dict[str, Any]:
    rows = [_dead_letter(letter) for letter in report.dead_letters[:MAX_ROWS]]
    total = report.in_all.dead
    return {
        "has_dead_letters": bool(total),
        "dead": f"{total:,}",
        "dead_letters": rows,
        "more_dead": _format_more(total, len(rows)),
    }


def _dead_letter(letter: DeadLetter) -> dict[str, Any]:
    return {
        "key": _split_path(letter.key),
        "fingerprint": letter.fingerprint,
        "reason": letter.reason or letter.error,
        "error": letter.error,
        "recoverable": RECOVERABLE_NOTE[letter.recoverable],
        "step": letter.step,
        "died_at": _format_day(letter.died_at),
        "attempts": f"{letter.attempts:,}",
        "crashes": _ends_of_workers(letter),
        "accepted_by": letter.accepted_by,
    }


def _ends_of_workers(letter: DeadLetter) -> str:
    crashes = [format_count(letter.crashes, "crash", "crashes")] if letter.crashes else []
    losses = [format_lost_workers(letter.losses)] if letter.losses else []
    return ", ".join(crashes + losses)


def _key_lists(report: BatchReport) -> list[dict[str, Any]]:
    lists = [
        _key_list("Missing", "Expected by the manifest, but not in the store.", report.missing, len(report.missing)),
        _key_list("Cancelled", "", report.cancelled, report.in_all.cancelled),
    ]
    return [keys for keys in lists if keys["total"] != "0"]


def _key_list(heading: str, note: str, keys: Sequence[str], total: int) -> dict[str, Any]:
    shown = keys[:MAX_ROWS]
    return {
        "heading": heading,
        "total": f"{total:,}",
        "note": note,
        "keys": [{"key": _split_path(key)} for key in shown],
        "more": _format_more(total, len(shown)),
    }


def _format_more(total: int, shown: int) -> str:
    return f"{total - shown:,}" if total > shown else ""


def _record(report: BatchReport) -> dict[str, Any]:
    return {
        "created_at": _format_day(report.created_at),
        "sealed_at": _format_day(report.sealed_at) if report.sealed_at else "",
        "closed_at": _format_day(report.closed_at) if report.closed_at else "",
        "made_at": _format_day(report.made_at),
        "tolerance": percent(report.tolerance) if report.tolerance else "",
        "pipeline_steps": [
            {"arrow": "→" if number else "", "name": step.name, "version": step.version}
            for number, step in enumerate(report.steps)
        ],
        "workers": ", ".join(report.workers),
        "holdfast": report.holdfast,
        "plan": report.plan,
        "documents_sha256": report.documents_sha256,
        "sha256": report.sha256,
    }


def _split_path(key: str) -> list[str]:
    """Split a key after each slash, so that a long one can be broken there."""
    return re.split(r"(?<=/)", key)


def _format_day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y, %H:%M} UTC"
