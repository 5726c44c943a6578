"""Feed inputs to a target, one after another, and record those that were not handled."""

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

CPU_LIMIT = 20.0
"""CPU seconds after which an input counts as hanging, and its process is ended."""
CLOCK_LIMIT = 600.0
"""Seconds by the clock after which an input that only waits counts as hanging."""
SLOW = 4.0
"""CPU seconds after which an input is reported as too slow, even if it ends."""
MAX_INPUT_BYTES = 1 << 20
"""How many bytes of the present input are saved, in case the process dies."""


class UnhandledInput(Struct):
    """The smallest input that was not handled in one way, and how often that happened."""

    kind: str
    details: str
    text: str
    """The input as text, for `read_back`."""
    times: int = 1


class TargetResult(Struct):
    """The result of feeding a target."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    findings: dict[str, UnhandledInput] = {}


class Feeder:
    """Feeds a target. Unexpected errors are recorded and not raised, so that the next input can follow."""

    def __init__(self, target: Target, *, last: Path | None = None) -> None:
        self.result = TargetResult(findings={})
        self._target = target
        self._last = None if last is None else _mapped_file(last)
        self._armed = 0.0
        self._sealed = the_guard().watching if target.sealed else nullcontext

    def warm_up(self, value: Any) -> None:
        """Run an input without recording, so that late imports are done before the guard watches."""
        try:
            self._target.attempt(value)
        except Exception:  # feed() runs the same input again and records its error
            return

    def feed(self, value: Any) -> None:
        """Run one input and record the result."""
        self._save(value)
        before = process_time()
        try:
            with self._sealed():
                self._target.attempt(value)
        except self._target.refusals as error:
            self.result.refused += 1
            if isinstance(error, OURS) and not str(error).strip():
                self._record("refused without a message", error, value)
        except Exception as error:  # any other error is what fuzzing looks for
            self._record(signature(error), error, value)
        took = process_time() - before
        if took > SLOW:
            self._record("slow", TimeoutError(f"it took {took:.1f} s"), value)
        self.result.inputs += 1
        self.result.slowest = max(self.result.slowest, took)

    def _save(self, value: Any) -> None:
        if self._last is not None:
            text = as_text(value)[: MAX_INPUT_BYTES - 8].encode(errors="replace")
            self._last[: 8 + len(text)] = len(text).to_bytes(8) + text
            self._arm()

    def _arm(self) -> None:
        """Set timers that print the stack and end the process if an input hangs. Once a second is enough."""
        if not self._armed:
            faulthandler.register(signal.SIGPROF, chain=True)
        if monotonic() - self._armed > 1:
            self._armed = monotonic()
            signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
            faulthandler.dump_traceback_later(CLOCK_LIMIT, exit=True)

    def _record(self, kind: str, error: BaseException, value: Any) -> None:
        text = as_text(value)
        known = self.result.findings.get(kind)
        if known is None:
            details = "".join(traceback.format_exception(error))
            self.result.findings[kind] = UnhandledInput(kind, details[-6000:], text)
            return
        known.times += 1
        if len(text) < len(known.text):
            known.text = text


@cache
def the_guard() -> Guard:
    """Return the guard of this process."""
    return Guard()


def signature(error: BaseException) -> str:
    """Return the class of an error and the last function of holdfast in its traceback."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "holdfast" in f.filename and "fuzz" not in f.name]
    frames = [frame for frame in ours if "/tests/" not in frame.filename] or ours
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{type(error).__name__} in {place}"


def as_text(value: Any) -> str:
    """Return an input as a text that `read_back` can read."""
    return repr(value)


def read_back(text: str) -> Any:
    """Return the input that a text stands for. The text is from one of our own files, so eval is safe."""
    return eval(text, {"__builtins__": {}, "nan": float("nan"), "inf": float("inf")})


def last_input(path: Path) -> str:
    """Return the input that a process was running when it died."""
    content = path.read_bytes()
    return content[8 : 8 + int.from_bytes(content[:8])].decode(errors="replace")


def _mapped_file(path: Path) -> mmap:
    with path.open("w+b") as file:
        file.truncate(MAX_INPUT_BYTES)
        return mmap(file.fileno(), MAX_INPUT_BYTES)


def until_over(feeder: Feeder, seconds: float) -> Callable[[], bool]:
    """Return a function that returns True when this many CPU seconds are used up."""
    begun = process_time()

    def over() -> bool:
        feeder.result.seconds = process_time() - begun
        return feeder.result.seconds >= seconds

    return over
