"""Calls to a service that throttles: waiting costs no attempt, and a repeated call is known by its key.

    python examples/throttled.py

The service below is a fake in this file. It refuses every third call with a time to wait, and once it does the work but
its answer is lost. Work done outside the database is done at least once; the idempotency key, which is the same on
every attempt, lets the service see that it has done it already.
"""

from __future__ import annotations

from threading import Lock

import holdfast


class Throttled(Exception):
    """What the service's client raises. Its `retry_after` is honoured, also without RetryLater."""

    retry_after = 0.05


class Printer:
    """The fake: prints labels, at most two at a time."""

    def __init__(self) -> None:
        self.calls = 0
        self.printed: dict[str, str] = {}
        self.lock = Lock()

    def print(self, text: str, *, key: str) -> str:
        with self.lock:
            self.calls += 1
            if self.calls % 3 == 0:
                raise Throttled
            self.printed.setdefault(key, text)
            if self.calls == 5:
                raise ConnectionError("the answer was lost")
            return self.printed[key]


printer = Printer()
labels = holdfast.Pipeline("labels")


@labels.step(limit=2, retry=holdfast.Retry(attempts=2))
def label(doc: holdfast.Document) -> str:
    """At most two documents at once, over all workers. Being throttled is not failing."""
    try:
        return printer.print(f"to {doc.key}", key=doc.idempotency_key())
    except Throttled as error:
        raise holdfast.RetryLater("the printer is busy", after=error.retry_after) from error


def main() -> None:
    with holdfast.open("sqlite:///throttled.db") as store:
        holdfast.submit(labels, store, batch="today", documents=[(f"customer {n}", None) for n in range(20)])
        print(holdfast.drain(labels, store))
        print(f"{printer.calls} calls, {len(printer.printed)} labels")


if __name__ == "__main__":
    main()
