"""A stream with a cursor of its own: an API that gives its results in pages, from a session that expires.

    python examples/own_cursor.py

The catalogue below is a fake in this file, so that the example runs anywhere. It behaves as such services do: a search
opens a session, pages are fetched from it by their start, and after a while without a question the session is gone.
`At(cursor, record)` keeps the session and the start beside every record. `cursor_expires=` says how long they are good
for: a document that comes back earlier goes on in the middle, one that comes back later begins the step anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from secrets import token_hex
from typing import TypedDict

import holdfast

LIVES = timedelta(seconds=1)  # a day or so with real services
PAGE = 20


class Catalogue:
    """The fake: 100 records, in pages, out of sessions that live for a second. It closes twice for a while."""

    def __init__(self) -> None:
        self.sessions: dict[str, float] = {}
        self.asked: list[str] = []
        self.closes_at = {40: 0.1, 80: 1.5}  # at which start, and for how many seconds

    def search(self, query: str) -> str:
        session = token_hex(4)
        self.sessions[session] = time.monotonic()
        self.asked.append("search")
        return session

    def fetch(self, session: str, start: int) -> list[str]:
        if start in self.closes_at:
            raise holdfast.RetryLater("the catalogue is closed", after=self.closes_at.pop(start))
        if time.monotonic() - self.sessions[session] > LIVES.total_seconds():
            raise holdfast.Reject("the session is gone")  # what cursor_expires spares us
        self.sessions[session] = time.monotonic()
        self.asked.append(f"fetch {start}")
        return [f"record {n}" for n in range(start, min(start + PAGE, 100))]


class Place(TypedDict):
    session: str
    start: int


catalogue = Catalogue()
harvest = holdfast.Pipeline("harvest")


@harvest.step(commit_every=PAGE, cursor_expires=LIVES, when_expired="restart")
def fetch(doc: holdfast.Document, cursor: Place | None = None) -> Iterator[holdfast.At[str]]:
    """Every record stands beside the place after it, so any commit is a place to go on."""
    place = cursor or {"session": catalogue.search(doc.payload["query"]), "start": 0}
    session = place["session"]
    start = place["start"]
    while records := catalogue.fetch(session, start):
        for record in records:
            start += 1
            yield holdfast.At({"session": session, "start": start}, record)


def main() -> None:
    with holdfast.open("sqlite:///own_cursor.db") as store:
        holdfast.submit(harvest, store, batch="today", documents=[("ships", {"query": "ships"})])
        print(holdfast.drain(harvest, store))
        ships = store.standing("harvest", "today", "ships")
        for entry in store.journal(ships.id):
            print(f"{entry.verb}: {entry.detail['reason']}")
        print("asked:", ", ".join(catalogue.asked))
        print("kept:", sum(output.items for output in store.outputs(ships.id)), "records")


if __name__ == "__main__":
    main()
