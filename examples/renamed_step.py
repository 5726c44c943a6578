"""A step is renamed while a document is at it. First it is refused, then it is declared.

    python examples/renamed_step.py

The store pins documents to the steps of their pipeline. If a pipeline lacks a step at which open documents are, its
worker refuses to start, and the message says what to declare. With `renamed=`, the step keeps its number in the store.
Documents, items and cursors follow automatically, and nothing is done again.
"""

from __future__ import annotations

import holdfast


def first_version() -> holdfast.Pipeline:
    notes = holdfast.Pipeline("notes")

    @notes.step
    def fetch(doc: holdfast.Document) -> str:
        print("fetch runs")
        return f"the text of {doc.key}"

    @notes.step
    def tidy(doc: holdfast.Document) -> str:
        raise holdfast.Pause("the new spelling is not decided yet")

    return notes


def second_version(*, renamed: dict[str, str]) -> holdfast.Pipeline:
    notes = holdfast.Pipeline("notes", renamed=renamed)

    @notes.step
    def fetch(doc: holdfast.Document) -> str:
        print("fetch runs")
        return f"the text of {doc.key}"

    @notes.step
    def normalise(doc: holdfast.Document) -> str:
        return doc.output(fetch).upper()

    return notes


def main() -> None:
    with holdfast.open("sqlite:///renamed_step.db") as store:
        before = first_version()
        holdfast.submit(before, store, batch="march", documents=[("a", None)])
        print(holdfast.drain(before, store))

        try:
            holdfast.drain(second_version(renamed={}), store)
        except holdfast.PlanRefused as refused:
            print(refused)

        after = second_version(renamed={"tidy": "normalise"})
        plan = store.declare(after.shape())
        here = store.document("notes", "march", "a")
        store.resume(plan, [here.id], who="me", reason="decided: capitals")
        print(holdfast.drain(after, store))
        print(list(store.items(here.id)))


if __name__ == "__main__":
    main()
