"""A gate: documents wait for a person, who lets them go on or turns them down.

    python examples/review_gate.py

Waiting at a gate costs nothing: no worker holds the document, and it may wait for months. The decision, who made it
and why are in the journal.
"""

from __future__ import annotations

import holdfast

offers = holdfast.Pipeline("offers")


@offers.step
def draft(doc: holdfast.Document) -> str:
    return f"We offer {doc.payload['amount']} for {doc.key}."


offers.gate("approval")


@offers.step(keep=False)
def publish(doc: holdfast.Document) -> str:
    return doc.output(draft)


@publish.effect
def write(tx: holdfast.Tx, doc: holdfast.Document, text: str) -> None:
    tx.execute("create table if not exists published (key text primary key, text text)")
    tx.execute("insert into published values (?, ?)", (doc.key, text))


def main() -> None:
    with holdfast.open("sqlite:///review_gate.db") as store:
        documents = [("boat", {"amount": 100}), ("pier", {"amount": 9_000_000})]
        holdfast.submit(offers, store, batch="may", documents=documents)
        print(holdfast.drain(offers, store))

        plan = store.declare(offers.shape())
        for waiting in store.standings("offers", state="paused"):
            print(f"{waiting.key}: {waiting.reason}")
            if waiting.payload["amount"] < 1000:
                store.resume(plan, [waiting.id], who="Ada", reason="fair price")
            else:
                store.reject([waiting.id], who="Ada", reason="we cannot pay that")

        print(holdfast.drain(offers, store))
        print(store.balance("offers"))


if __name__ == "__main__":
    main()
