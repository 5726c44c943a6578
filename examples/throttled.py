"""Calls to a service that throttles. Waiting costs no attempt, and the service recognises a repeated call by its key.

    python examples/throttled.py

The service below is a fake. It refuses every third call and says how long to wait. Once it does the work, but its
answer is lost. Work outside the database is done at least once. The idempotency key is the same on every attempt, so
the service can see that it has done the work already.
"""

from __future__ import annotations

from threading import Lock

import holdfast


class Throttled(Exception):
    """Raised by the client of the service. Its `retry_after` is honoured, also without RetryLater."""

    retry_after = 0.05


class Printer:
    """A fake that prints labels, at most two at a time."""

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
    """Print a label. At most two documents do so at the same time, over all workers. Throttling is not a failure."""
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
