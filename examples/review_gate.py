"""A gate: documents wait for a person, who approves or rejects them.

    python examples/review_gate.py

Waiting at a gate costs nothing: no worker holds the document, and it may wait for months. The decision, who made it
and why are in the journal, and later steps can read them. If nobody decides within three days, the document is
rejected. On the command line, use `holdfast review list`, `approve`, `reject` and `answer`.
"""

from __future__ import annotations

from datetime import timedelta

import holdfast

offers = holdfast.Pipeline("offers")


@offers.step
def draft(doc: holdfast.Document) -> str:
    return f"We offer {doc.payload['amount']} for {doc.key}."


approval = offers.gate("approval", within=timedelta(days=3), otherwise="reject")


@offers.step
def sign(doc: holdfast.Document) -> str:
    approved = doc.decision(approval)
    assert approved is not None
    question = doc.decision()  # None until somebody answers the question of this step
    if approved.answer == "with a letter" and question is None:
        raise holdfast.Pause("what should the letter say?")
    letter = f" {question.answer}" if question else ""
    return f"{doc.output(draft)}{letter} Signed for {approved.who}."


@offers.step(keep=False)
def publish(doc: holdfast.Document) -> str:
    return doc.output(sign)


@publish.rows("published")
def offer(doc: holdfast.Document, text: str) -> list[dict[str, str]]:
    return [{"key": doc.key, "text": text}]


def prepare(tx: holdfast.Tx) -> None:
    tx.execute("create table if not exists published (document_id integer primary key, key text, text text)")


def main() -> None:
    with holdfast.open("sqlite:///review_gate.db") as store:
        with store.transaction() as tx:
            prepare(tx)
        documents = [("boat", {"amount": 100}), ("oar", {"amount": 9}), ("pier", {"amount": 9_000_000})]
        holdfast.submit(offers, store, batch="may", documents=documents)
        print(holdfast.drain(offers, store))

        plan = store.declare(offers.shape())
        for waiting in store.documents("offers", state="paused"):
            print(f"{waiting.key}: {waiting.reason}")
            seen = {waiting.id: waiting.checkpoint.moves}  # the decision counts only if the document did not change
            if waiting.payload["amount"] > 1000:
                store.reject([waiting.id], who="Ada", reason="we cannot pay that", at=seen)
            else:
                answer = "with a letter" if waiting.key == "boat" else None
                store.resume(plan, [waiting.id], who="Ada", reason="fair price", answer=answer, at=seen)
        print(holdfast.drain(offers, store))

        (boat,) = store.documents("offers", state="paused")
        print(f"{boat.key}: {boat.reason}")
        store.resume(plan, [boat.id], who="Ben", reason="as always", answer="Yours truly.")
        print(holdfast.drain(offers, store))

        print(store.balance("offers"))
        with store.transaction() as tx:
            for (text,) in tx.execute("select text from published order by key"):
                print(text)


if __name__ == "__main__":
    main()
