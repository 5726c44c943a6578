"""The report of a batch as one page that a person can file: self-contained, printable, and the same for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from holdfast.core.batches import BatchReport, Counted, DeadLetter
from holdfast.core.refusal import percent

EQUATION = ("done", "dead", "cancelled", "running", "waiting", "paused")
BY_STEP = ("waiting", "running", "orphaned", "paused", "dead", "accepted", "cancelled")
LISTED = 1000
"""So many rows of a list are printed; the JSON has the rest."""

STYLE = """
:root { --ink: #1f2933; --soft: #667380; --line: #d9dfe5; --wash: #f5f7f9; --good: #2f6f4f; --bad: #a63d2f; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 15px/1.55 "Segoe UI", "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 56px 40px 72px; }
header { border-bottom: 2px solid var(--ink); padding-bottom: 20px; }
.kind { margin: 0; color: var(--soft); font-size: 13px; letter-spacing: .02em; }
h1 { margin: 4px 0 6px; font: 600 34px/1.2 Georgia, "Times New Roman", "Liberation Serif", serif;
  overflow-wrap: anywhere; }
p.said { margin: 0 0 10px; color: var(--soft); }
header p.said { margin: 0; }
h2 small { color: var(--soft); font: 400 14px/1 sans-serif; }
h2 { margin: 40px 0 12px; font: 600 20px/1.3 Georgia, "Times New Roman", "Liberation Serif", serif; }
.verdict { display: inline-block; margin: 24px 0 0; padding: 5px 14px; border-radius: 4px; font-weight: 600; }
.verdict.good { color: var(--good); background: #e9f3ed; }
.verdict.bad { color: var(--bad); background: #f9ebe8; }
.equation { display: flex; flex-wrap: wrap; align-items: flex-end; gap: 8px 12px; margin: 20px 0 0; padding: 0; }
.equation div { text-align: center; }
.equation b { display: block; font: 600 27px/1.1 Georgia, "Times New Roman", "Liberation Serif", serif;
  font-variant-numeric: tabular-nums; }
.equation .none b { color: #b3bcc5; font-weight: 400; }
.equation span { color: var(--soft); font-size: 12.5px; }
.equation i { padding-bottom: 20px; color: var(--soft); font-style: normal; }
.notes { margin: 16px 0 0; padding: 0; list-style: none; color: var(--soft); }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; }
th { padding: 7px 10px; border-bottom: 1px solid var(--ink); text-align: left; font-weight: 600; white-space: nowrap; }
table.wide th:first-child { width: 31%; }
td { padding: 7px 10px; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td small { color: var(--soft); font-size: 12.5px; }
dl { display: grid; grid-template-columns: 170px 1fr; gap: 6px 20px; margin: 0; font-size: 14px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: 12.5px/1.5 ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; }
ul.keys { columns: 2; column-gap: 32px; margin: 0; padding: 0; list-style: none; font-size: 13.5px; }
ul.keys li { padding: 2px 0; overflow-wrap: anywhere; break-inside: avoid; }
.signed { display: grid; grid-template-columns: 2fr 1fr; gap: 40px; margin-top: 64px; break-inside: avoid; }
.signed div { border-top: 1px solid var(--ink); padding-top: 6px; color: var(--soft); font-size: 12.5px; }
footer { margin-top: 40px; color: var(--soft); font-size: 12.5px; }
@page { margin: 18mm 16mm; }
@media print { main { max-width: none; padding: 0; } tr { break-inside: avoid; } thead { display: table-header-group; }
  h2 { break-after: avoid; } .verdict { border: 1px solid currentColor; } }
"""


def page_of(report: BatchReport) -> str:
    """Gives the report as HTML. It loads nothing, and runs nothing."""
    body = (
        _head(report),
        _balance(report),
        _steps(report),
        _dead_letters(report),
        _keys("Missing", "Expected by the manifest and not in the store.", report.missing),
        _keys("Cancelled", "", report.cancelled, report.in_all.cancelled),
        _record(report),
        _signed(),
        _foot(report),
    )
    title = f"{report.batch} of {report.pipeline}: reconcile report"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _head(report: BatchReport) -> str:
    if report.closed_at is not None:
        reason = f": {escape(report.reason)}" if report.reason else ""
        said = f"Closed on {_day(report.closed_at)} by {escape(report.closed_by)}{reason}"
    else:
        said = f"{report.state.capitalize()}, not closed. As it was on {_day(report.made_at)}"
    return (
        f'<header>\n<p class="kind">Reconcile report &middot; pipeline {escape(report.pipeline)}</p>\n'
        f'<h1>{escape(report.batch)}</h1>\n<p class="said">{said}</p>\n</header>'
    )


def _balance(report: BatchReport) -> str:
    counts = report.in_all
    good = ("good", "Nothing is missing: the count balances.")
    kind, verdict = good if report.balances else ("bad", f"Does not balance: {_off(report)}")
    terms = "<i>+</i>".join(_term(getattr(counts, word), word) for word in EQUATION)
    notes = [
        f"Of the dead letters, {counts.accepted:,} accepted, {counts.not_accepted:,} not." if counts.dead else "",
        f"{_many(counts.orphaned, 'running document has', 'running documents have')} lost the worker."
        if counts.orphaned
        else "",
        f"{_many(report.asides, 'single item was', 'single items were')} set aside." if report.asides else "",
        f"{report.gone:,} of them were cleaned up before this report." if report.gone else "",
    ]
    listed = "".join(f"<li>{note}</li>" for note in notes if note)
    return (
        f'<p class="verdict {kind}">{verdict}</p>\n<div class="equation">{_term(report.expected, "expected")}<i>=</i>'
        f"{terms}</div>" + (f'\n<ul class="notes">{listed}</ul>' if listed else "")
    )


def _off(report: BatchReport) -> str:
    found = report.in_all.found
    return f"{report.expected:,} expected, {found:,} found"


def _term(number: int, word: str) -> str:
    return f"<div{'' if number else ' class=none'}><b>{number:,}</b><span>{word}</span></div>"


def _steps(report: BatchReport) -> str:
    words = [word for word in BY_STEP if any(getattr(counted, word) for counted in report.at_step.values())]
    if not words:
        return ""
    order = [step.name for step in report.steps]
    steps = sorted(report.at_step, key=lambda step: order.index(step) if step in order else len(order))
    rows = [[escape(step), *_numbers(report.at_step[step], words)] for step in steps]
    return "<h2>By step</h2>\n<p class=said>Where the documents are that are not done.</p>\n" + _table(
        ["step", *words], rows, numbers=range(1, len(words) + 1)
    )


def _numbers(counted: Counted, words: Sequence[str]) -> list[str]:
    return [f"{getattr(counted, word):,}" if getattr(counted, word) else "&ndash;" for word in words]


def _dead_letters(report: BatchReport) -> str:
    total = report.in_all.dead
    if not total:
        return ""
    rows = [_dead_letter(one) for one in report.dead_letters[:LISTED]]
    more = _more(total, len(rows))
    return (
        f"<h2>Dead letters <small>({total:,})</small></h2>\n"
        + _table(["document", "what went wrong", "tries", "accepted by"], rows, numbers=(2,), kind="wide")
        + more
    )


def _dead_letter(one: DeadLetter) -> list[str]:
    where = f" at {escape(one.step)}" if one.step else ""
    crashes = f"<br><small>{_many(one.crashes, 'crash', 'crashes')}</small>" if one.crashes else ""
    mark = f"<br><small>content {escape(one.fingerprint)}</small>" if one.fingerprint else ""
    return [
        f"{_path(one.key)}{mark}",
        f"{escape(one.reason or one.error)}<br><small>{escape(one.error)}{where}, {_day(one.died_at)}</small>",
        f"{one.attempts:,}{crashes}",
        escape(one.accepted_by) or "<small>nobody</small>",
    ]


def _keys(heading: str, said: str, keys: Sequence[str], total: int | None = None) -> str:
    count = len(keys) if total is None else total
    if not count:
        return ""
    listed = "".join(f"<li>{_path(key)}</li>" for key in keys[:LISTED])
    note = f"<p class=said>{escape(said)}</p>\n" if said else ""
    shown = min(len(keys), LISTED)
    return f'<h2>{heading} <small>({count:,})</small></h2>\n{note}<ul class="keys">{listed}</ul>' + _more(count, shown)


def _more(total: int, shown: int) -> str:
    return f"<p>and {total - shown:,} more, in the JSON report or in the store.</p>" if total > shown else ""


def _record(report: BatchReport) -> str:
    steps = " → ".join(f"{escape(step.name)} <small>v{step.version}</small>" for step in report.steps)
    facts = [
        ("Opened", _day(report.created_at)),
        ("Sealed", _day(report.sealed_at) if report.sealed_at else ""),
        ("Closed", _day(report.closed_at) if report.closed_at else ""),
        ("Tolerated", f"{percent(report.tolerance)} of the documents" if report.tolerance else ""),
        ("Steps", steps),
        ("Workers", escape(", ".join(report.workers))),
        ("holdfast", escape(report.holdfast)),
        ("Plan", f"<code>{escape(report.plan)}</code>"),
        ("Documents, SHA-256", f"<code>{escape(report.documents_sha256)}</code>"),
        ("This report, SHA-256", f"<code>{escape(report.sha256)}</code>"),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{said}</dd>" for name, said in facts if said)
    return f"<h2>For the record</h2>\n<dl>{listed}</dl>"


def _signed() -> str:
    return '<div class="signed"><div>Name and signature</div><div>Date</div></div>'


def _foot(report: BatchReport) -> str:
    return (
        f"<footer>Made by holdfast {escape(report.holdfast)} on {_day(report.made_at)}. Times are UTC. "
        "The first hash is over key, fingerprint, generation and state of every document, in the order of their keys; "
        "the second over the JSON form of this report.</footer>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int], kind: str = "") -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        marks = (" class=number" if place in numbers else "" for place in range(len(cells)))
        told = (f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{''.join(told)}</tr>"

    listed = "".join(row(cells, "td") for cells in rows)
    return f"<table class='{kind}'>\n<thead>{row(heads, 'th')}</thead>\n<tbody>{listed}</tbody>\n</table>"


def _path(key: str) -> str:
    """Gives a key that may be broken after a slash, as a path is."""
    return escape(key).replace("/", "/<wbr>")


def _many(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y, %H:%M} UTC"
