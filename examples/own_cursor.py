"""A stream with a custom cursor: an API that returns its results in pages, in a session that expires.

    python examples/own_cursor.py

The catalogue below is a fake, so that the example runs anywhere. It behaves like such services: a search opens a
session, pages are fetched from it by their start, and after some time without a request the session expires.
`At(cursor, record)` stores the session and the start together with every record. `cursor_expires=` says how long they
are valid. A document that is resumed earlier continues in the middle. One that is resumed later starts the step again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from secrets import token_hex
from typing import TypedDict

import holdfast

SESSION_LIFETIME = timedelta(seconds=1)  # about a day with real services
PAGE_SIZE = 20


class Catalogue:
    """A fake with 100 records in pages. Sessions live for a second. It closes twice for a short time."""

    def __init__(self) -> None:
        self.sessions: dict[str, float] = {}
        self.requests: list[str] = []
        self.closes_at = {40: 0.1, 80: 1.5}  # at which start, and for how many seconds

    def search(self, query: str) -> str:
        session = token_hex(4)
        self.sessions[session] = time.monotonic()
        self.requests.append("search")
        return session

    def fetch(self, session: str, start: int) -> list[str]:
        if start in self.closes_at:
            raise holdfast.RetryLater("the catalogue is closed", after=self.closes_at.pop(start))
        if time.monotonic() - self.sessions[session] > SESSION_LIFETIME.total_seconds():
            raise holdfast.Reject("the session is gone")  # cursor_expires prevents this
        self.sessions[session] = time.monotonic()
        self.requests.append(f"fetch {start}")
        return [f"record {n}" for n in range(start, min(start + PAGE_SIZE, 100))]


class Position(TypedDict):
    session: str
    start: int


catalogue = Catalogue()
harvest = holdfast.Pipeline("harvest")


@harvest.step(commit_every=PAGE_SIZE, cursor_expires=SESSION_LIFETIME, when_expired="restart")
def fetch(doc: holdfast.Document, cursor: Position | None = None) -> Iterator[holdfast.At[str]]:
    """Yield every record with the position after it, so that a resumed call can start after any commit."""
    position = cursor or {"session": catalogue.search(doc.payload["query"]), "start": 0}
    session = position["session"]
    start = position["start"]
    while records := catalogue.fetch(session, start):
        for record in records:
            start += 1
            yield holdfast.At({"session": session, "start": start}, record)


def main() -> None:
    with holdfast.open("sqlite:///own_cursor.db") as store:
        holdfast.submit(harvest, store, batch="today", documents=[("ships", {"query": "ships"})])
        print(holdfast.drain(harvest, store))
        ships = store.document("harvest", "today", "ships")
        for entry in store.journal(ships.id):
            print(f"{entry.verb}: {entry.detail['reason']}")
        print("requests:", ", ".join(catalogue.requests))
        print("stored:", sum(output.items for output in store.outputs(ships.id)), "records")


if __name__ == "__main__":
    main()
