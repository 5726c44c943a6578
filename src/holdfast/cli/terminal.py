"""Progress on a terminal: a bar, the steps below it, and failures scrolling by above."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.counts import Counts, Failed
from holdfast.cli.progress import also, kept, pace
from holdfast.cli.words import count, harmless, one_line, span

MOST_STEPS = 12


class Terminal:
    """Draws over its own last picture."""

    every = 0.25

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def picture(self, counts: Counts) -> None:
        if counts.total or counts.submitted:
            self._live.update(_drawn(counts) if counts.total else _submitting(counts), refresh=True)

    def failure(self, failed: Failed) -> None:
        mark, style = ("✗", "red") if failed.dead else ("↻", "yellow")
        line = one_line(str(failed), max(self._console.width - 3, 40))
        self._console.print(Text.assemble((f"{mark} ", style), line))

    def say(self, text: str) -> None:
        self._console.print(Text(harmless(text), style="bold"))

    def close(self) -> None:
        self._live.stop()


def _submitting(counts: Counts) -> Text:
    return Text(f"{counts.pipeline}  submitting: {count(counts.submitted, 'document')} so far")


def _drawn(counts: Counts) -> Group:
    rows: list[RenderableType] = [_bar(counts), _steps(counts)]
    if said := ", ".join(f"{number:,} {word}" for number, word in also(counts)):
        rows.append(Text(f"  {said}", style="yellow"))
    return Group(*rows)


def _bar(counts: Counts) -> Table:
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
            + pace(speed, items)
            + (f"  ETA {span(left)}" if left else "")
        ),
    )
    return grid


def _steps(counts: Counts) -> Table:
    """A row for each step; only those where something is or was, when there are many."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column(width=20)
    grid.add_column(justify="right")
    grid.add_column(justify="right", style="dim")
    steps = counts.steps
    if len(steps) > MOST_STEPS:
        steps = [step for step in steps if counts.at_step[step] or counts.items[step]][:MOST_STEPS]
    for step in steps:
        grid.add_row(
            f"  {step}",
            ProgressBar(total=max(counts.total, 1), completed=min(counts.past(step), counts.total)),
            f"{counts.at_step[step]:,} here" if counts.at_step[step] else "",
            kept(counts, step),
        )
    return grid
