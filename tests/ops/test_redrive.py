from __future__ import annotations

import holdfast
from holdfast.ops.redrive import redrive_dead_letters
from holdfast.stores.protocol import Store


def failing() -> holdfast.Pipeline:
    made = holdfast.Pipeline("failing")

    @made.step(retry=holdfast.Retry(attempts=1))
    def fail(doc: holdfast.Document) -> None:
        raise ValueError("no")

    return made


def test_dead_letters_of_one_batch_are_tried_again_except_accepted_ones(store: Store) -> None:
    for batch in ("a", "b"):
        holdfast.submit(failing(), store, batch=batch, documents=[("one", None), ("two", None)])
    holdfast.drain(failing(), store)
    store.accept([store.document("failing", "a", "one").id], who="ann", reason="known")
    assert redrive_dead_letters(store, "failing", batch="a", who="ann", reason="mended") == 1
    assert store.document("failing", "a", "two").state == "waiting"
    assert store.document("failing", "a", "one").state == store.document("failing", "b", "two").state == "dead"
    assert redrive_dead_letters(store, "failing", who="ann", reason="mended") == 2
