"""Feeding: one input after another into a target, and a note of all that were not handled."""

from __future__ import annotations

import faulthandler
import signal
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from mmap import mmap
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from msgspec import Struct

from tests.fuzz.guard import Guard
from tests.fuzz.target import OURS, Target

PATIENCE = 20.0
"""Seconds of the processor after which an input is taken to hang, and its process ended: others may use the machine."""
SLEEP = 600.0
"""Seconds by the clock after which the same goes for one that only waits."""
SLOW = 4.0
"""Seconds of the processor after which an input is a fault, though it ends: nobody could wait for a hundred of it."""
ROOM = 1 << 20
"""Bytes that are remembered of an input, should the process die of it."""


class Finding(Struct):
    """An input that was not handled, the smallest of its kind."""

    what: str
    story: str
    shown: str
    times: int = 1


class Told(Struct):
    """What came of feeding a target."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    findings: dict[str, Finding] = {}


class Feeder:
    """Feeds a target. What it raises, other than it may, is noted and not raised: the next input is waiting."""

    def __init__(self, target: Target, *, last: Path | None = None) -> None:
        self.told = Told(findings={})
        self._target = target
        self._last = None if last is None else _paper(last)
        self._armed = 0.0
        self._sealed = the_guard().watching if target.sealed else nullcontext

    def warm(self, value: Any) -> None:
        """Has everything imported that is imported late: a sealed target would be blamed for it."""
        try:
            self._target.attempt(value)
        except Exception:
            return

    def feed(self, value: Any) -> None:
        """Makes one attempt."""
        self._remember(value)
        before = process_time()
        try:
            with self._sealed():
                self._target.attempt(value)
        except self._target.refusals as error:
            self.told.refused += 1
            if isinstance(error, OURS) and not str(error).strip():
                self._note("refused without a word", error, value)
        except Exception as error:
            self._note(signature(error), error, value)
        took = process_time() - before
        if took > SLOW:
            self._note("slow", TimeoutError(f"it took {took:.1f} s"), value)
        self.told.inputs += 1
        self.told.slowest = max(self.told.slowest, took)

    def _remember(self, value: Any) -> None:
        if self._last is not None:
            shown = shown_as(value)[: ROOM - 8].encode(errors="replace")
            self._last[: 8 + len(shown)] = len(shown).to_bytes(8) + shown
            self._arm()

    def _arm(self) -> None:
        """Has the process say where it is, and end, when an input hangs. Once a second is enough."""
        if not self._armed:
            faulthandler.register(signal.SIGPROF, chain=True)
        if monotonic() - self._armed > 1:
            self._armed = monotonic()
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            faulthandler.dump_traceback_later(SLEEP, exit=True)

    def _note(self, what: str, error: BaseException, value: Any) -> None:
        shown = shown_as(value)
        known = self.told.findings.get(what)
        if known is None:
            story = "".join(traceback.format_exception(error))
            self.told.findings[what] = Finding(what, story[-6000:], shown)
            return
        known.times += 1
        if len(shown) < len(known.shown):
            known.shown = shown


@cache
def the_guard() -> Guard:
    """Gives the guard of this process."""
    return Guard()


def signature(error: BaseException) -> str:
    """Names a kind of fault: what was raised, and the last place of ours that it went through."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "holdfast" in f.filename and "fuzz" not in f.name]
    frames = [frame for frame in ours if "/tests/" not in frame.filename] or ours
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{type(error).__name__} in {place}"


def shown_as(value: Any) -> str:
    """Gives an input as a text that `read_back` reads."""
    return repr(value)


def read_back(shown: str) -> Any:
    """Gives the input that a text shows. It is one of our own files."""
    return eval(shown, {"__builtins__": {}, "nan": float("nan"), "inf": float("inf")})


def last_words(path: Path) -> str:
    """Gives what was being tried when a process died."""
    paper = path.read_bytes()
    return paper[8 : 8 + int.from_bytes(paper[:8])].decode(errors="replace")


def _paper(path: Path) -> mmap:
    with path.open("w+b") as file:
        file.truncate(ROOM)
        return mmap(file.fileno(), ROOM)


def until_over(feeder: Feeder, seconds: float) -> Callable[[], bool]:
    """Gives what answers whether so many seconds of the processor are used up."""
    begun = process_time()

    def over() -> bool:
        feeder.told.seconds = process_time() - begun
        return feeder.told.seconds >= seconds

    return over
