"""The progress display for terminals: a progress bar, one line for each step, and failures above them."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.ui.progress import format_kept_items, format_speed, other_counts
from holdfast.cli.ui.progress_counts import FailedAttempt, ProgressCounts
from holdfast.core.formatting import format_count, format_duration, one_line, printable

MAX_STEPS_SHOWN = 12


class _CursorConsole(Console):
    """A console that never hides the cursor: a process that is killed could not show it again."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - as in rich
        return False


class TerminalDisplay:
    """Draw the progress, and redraw it in place."""

    interval = 0.25

    def __init__(self) -> None:
        self._console = _CursorConsole(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def show_counts(self, counts: ProgressCounts) -> None:
        if counts.total or counts.submitted:
            self._live.update(_draw(counts) if counts.total else _draw_submitting(counts), refresh=True)

    def show_failure(self, failed: FailedAttempt) -> None:
        mark, style = ("✗", "red") if failed.dead else ("↻", "yellow")
        line = one_line(str(failed), max(self._console.width - 3, 40))
        self._console.print(Text.assemble((f"{mark} ", style), line))

    def show_message(self, text: str) -> None:
        self._console.print(Text(printable(text), style="bold"))

    def close(self) -> None:
        self._live.stop()


def _draw_submitting(counts: ProgressCounts) -> Text:
    return Text(f"{counts.pipeline}  submitting: {format_count(counts.submitted, 'document')} so far")


def _draw(counts: ProgressCounts) -> Group:
    rows: list[RenderableType] = [_draw_bar(counts), _draw_steps(counts)]
    if others := ", ".join(f"{number:,} {word}" for number, word in other_counts(counts)):
        rows.append(Text(f"  {others}", style="yellow"))
    return Group(*rows)


def _draw_bar(counts: ProgressCounts) -> Table:
    speed, items = counts.rates()
    left = counts.seconds_left(speed)
    grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, max_width=60)
    grid.add_column(no_wrap=True)
    grid.add_row(
        Text(counts.pipeline, style="bold"),
        ProgressBar(total=max(counts.total, 1), completed=min(counts.ended, counts.total)),
        Text(
            f"{counts.ended:,}/{counts.total:,}  {counts.ended / max(counts.total, 1):4.0%}  "
            + format_speed(speed, items)
            + (f"  ETA {format_duration(left)}" if left else "")
        ),
    )
    return grid


def _draw_steps(counts: ProgressCounts) -> Table:
    """Draw a row for each step. If there are many steps, draw only those that have or had documents."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column(width=20)
    grid.add_column(justify="right")
    grid.add_column(justify="right", style="dim")
    steps = counts.steps
    if len(steps) > MAX_STEPS_SHOWN:
        steps = [step for step in steps if counts.at_step[step] or counts.items[step]][:MAX_STEPS_SHOWN]
    for step in steps:
        grid.add_row(
            f"  {step}",
            ProgressBar(total=max(counts.total, 1), completed=min(counts.past(step), counts.total)),
            f"{counts.at_step[step]:,} here" if counts.at_step[step] else "",
            format_kept_items(counts, step),
        )
    return grid
