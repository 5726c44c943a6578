"""A step is renamed while a document stands at it: refused, then declared.

    python examples/renamed_step.py

Documents are pinned to the steps of their pipeline by the store. A worker whose pipeline lacks a step at which open
documents stand refuses to start, and its message says what to declare. Declared with `renamed=`, the step keeps its
number in the store: documents, items and cursors follow by themselves, and nothing is done again.
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
        here = store.standing("notes", "march", "a")
        store.resume(plan, [here.id], who="me", reason="decided: capitals")
        print(holdfast.drain(after, store))
        print(list(store.items(here.id)))


if __name__ == "__main__":
    main()
