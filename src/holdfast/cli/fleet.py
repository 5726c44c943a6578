"""Several worker processes, led by one: started together, stopped together, replaced when they die."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.cli.asked import DEAD_LETTERS, FINE, INTERRUPTED, STORE_TROUBLE, TERMINATED, USAGE, Asked, Trouble
from holdfast.cli.counts import Counts, Failed
from holdfast.cli.eyes import words_for_process
from holdfast.cli.pipelines import Loaded
from holdfast.cli.progress import Progress, showing
from holdfast.cli.summary import Summary
from holdfast.cli.working import closed
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.engine.report import Report
from holdfast.stores.protocol import Store

LOOK = 0.1
"""Seconds between looks at the processes."""
QUICK_DEATH = 5.0
MOST_QUICK_DEATHS = 5
"""So many deaths in a row, each soon after its start, mean that starting another is pointless."""
Command = Callable[[int], list[str]]
"""Gives the words that start a worker process, by its number."""

ENDED = (FINE, DEAD_LETTERS, INTERRUPTED, TERMINATED)


class Member:
    """One worker process, and what it told."""

    def __init__(self, number: int, command: Command, counts: Counts, *, quick_deaths: int = 0) -> None:
        self.number = number
        self.quick_deaths = quick_deaths
        self.report = Report()
        self._counts = counts
        self._began = monotonic()
        self._process = subprocess.Popen(
            command(number), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )  # stdin tells it when we are gone; its own session, because Ctrl-C is for us to pass on
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(msgspec.MsgspecError):
                self._hear(msgspec.json.decode(line))

    def _hear(self, said: dict[str, Any]) -> None:
        event = said.pop("event", "")
        if event == "failed":
            self._counts.failures.append(msgspec.convert(said, Failed))
        elif event == "summary":
            self.report = msgspec.convert(said["report"], Report)

    def exit_code(self) -> int | None:
        """What the process ended with; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._reader.join(timeout=1)
        return code

    def died_quickly(self) -> bool:
        return monotonic() - self._began < QUICK_DEATH

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if there is still somebody to hear it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


class Fleet:
    """The processes, and what is done when one of them ends."""

    def __init__(self, command: Command, progress: Progress, budget: Budget, *, size: int) -> None:
        self._command = command
        self._progress = progress
        self._budget = budget
        self._reports: list[Report] = []
        self._members = [Member(number, command, progress.counts) for number in range(1, size + 1)]
        self.code = FINE

    def watch(self) -> Report:
        """Watches until all have ended for good."""
        began = monotonic()
        told = False
        try:
            while self._members:
                if self._budget.reason and not told:
                    told = True
                    self._tell_all(signal.SIGTERM)
                for member in list(self._members):
                    if (code := member.exit_code()) is not None:
                        self._lost(member, code)
                sleep(LOOK)
        except KeyboardInterrupt:
            self._tell_all(signal.SIGTERM)
            self._end_soon()
            raise
        return _together(self._reports, monotonic() - began)

    def _lost(self, member: Member, code: int) -> None:
        self._members.remove(member)
        self._reports.append(member.report)
        if code in ENDED or self._budget.reason:
            return
        if code in (USAGE, STORE_TROUBLE):
            self.code = code
            self._budget.stop(f"worker process {member.number} could not go on")
            return
        quick = member.quick_deaths + 1 if member.died_quickly() else 0
        how = f"worker process {member.number} {_cause(code)}"
        if quick >= MOST_QUICK_DEATHS:
            self.code = STORE_TROUBLE
            self._budget.stop(f"{how} {quick} times in a row, soon after its start")
            return
        self._progress.display.say(f"{how}; another one takes its place.")
        sleep(min(0.1 * 2**quick, 2))
        self._members.append(Member(member.number, self._command, self._progress.counts, quick_deaths=quick))

    def _tell_all(self, number: signal.Signals) -> None:
        for member in self._members:
            member.signal(number)

    def _end_soon(self) -> None:
        deadline = monotonic() + 2
        while monotonic() < deadline and any(member.exit_code() is None for member in self._members):
            sleep(LOOK)
        self._tell_all(signal.SIGKILL)


def lead(asked: Asked, loaded: Loaded, store: Store, *, processes: int, batch: str | None, how: dict[str, Any]) -> None:
    """Starts the processes, shows what they do together, and ends when all have ended."""
    store.declare(loaded.pipeline.shape())  # what is refused is refused once, here
    budget = Budget()
    counts = Counts(loaded.pipeline, store, batch=batch, hands=processes * how["threads"])
    counts.recount()
    done, dead = counts.done, counts.dead
    counts.looks_every = 1.0  # others do the work: only the store knows how far it is
    with showing(asked, counts, budget) as progress, stopping_on_signals(budget):
        fleet = Fleet(partial(_command, asked, loaded, batch, how), progress, budget, size=processes)
        report = fleet.watch()
    report = replace(report, done=counts.done - done, dead=counts.dead - dead)  # those that were killed told nothing
    if fleet.code:
        raise Trouble(f"{budget.reason}; the others were stopped, and what was committed is safe", code=fleet.code)
    goes_on = asked.same_command("work", loaded.spec, "--processes", str(processes))
    name = loaded.pipeline.name
    closed(asked, Summary(store, name, batch, report=report, stopped_by=budget.reason, goes_on=goes_on), progress)


def _command(asked: Asked, loaded: Loaded, batch: str | None, how: dict[str, Any], number: int) -> list[str]:
    words = [sys.executable, "-m", "holdfast.cli", "work", loaded.spec, "--supervised", "--json"]
    words += ["--store", asked.store, *(["--batch", batch] if batch else []), *(["--drain"] if how["drain"] else [])]
    for option in ("lease", "budget"):
        if how[option] is not None:
            words += [f"--{option}", f"{how[option].total_seconds()}s"]
    words += ["--threads", str(how["threads"]), "--concurrency", str(how["concurrency"])]
    return [*words, *words_for_process(how, number)]


def _cause(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _together(reports: Sequence[Report], seconds: float) -> Report:
    names = [name for name in Report.__struct_fields__ if name not in ("seconds", "stopped_by")]
    sums = {name: sum(getattr(report, name) for report in reports) for name in names}
    return Report(**sums, seconds=seconds)
