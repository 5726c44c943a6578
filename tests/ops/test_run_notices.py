"""What a person is told before a pipeline runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.engine.budget import Budget
from holdfast.ops.run_notices import change_notices, resume_notice
from holdfast.stores.protocol import Store

ONCE = holdfast.Retry(attempts=1)


def papers(*steps: str, bad: str = "", renamed: dict[str, str] | None = None, **version: int) -> holdfast.Pipeline:
    """Return a pipeline with these steps. The step `bad` fails."""
    made = holdfast.Pipeline("papers", renamed=renamed or {})
    for name in steps:
        made.step(name=name, version=version.get(name, 1), retry=ONCE)(_body(fails=name == bad))
    return made


def _body(*, fails: bool) -> Callable[[holdfast.Document], Any]:
    def body(doc: holdfast.Document) -> int:
        if fails:
            raise ValueError("no")
        return 1

    return body


def run(store: Store, pipeline: holdfast.Pipeline) -> None:
    holdfast.submit(pipeline, store, batch="default", documents=[("a", None), ("b", None)])
    holdfast.drain(pipeline, store)


def notices(store: Store, pipeline: holdfast.Pipeline) -> list[str]:
    return change_notices(pipeline, store, redo="holdfast doc rewind --stale papers.py")


def test_a_new_pipeline_and_an_unchanged_one_say_nothing(store: Store) -> None:
    assert notices(store, papers("read", "chunk")) == []
    run(store, papers("read", "chunk"))
    assert notices(store, papers("read", "chunk")) == []


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (("read", "clean", "chunk"), "clean is new"),
        (("read",), "chunk was removed"),
        (("chunk", "read"), "the steps are in another order: chunk → read"),
    ],
)
def test_another_shape_is_said_in_one_line(store: Store, now: tuple[str, ...], change: str) -> None:
    run(store, papers("read", "chunk"))
    assert notices(store, papers(*now))[0] == f"papers changed since the last run: {change}."


def test_a_step_that_may_only_have_another_name_is_said_with_what_to_write(store: Store) -> None:
    run(store, papers("read", "tidy", "chunk"))
    assert notices(store, papers("read", "normalise", "chunk"))[0] == (
        "papers changed since the last run: normalise is new; tidy was removed. "
        "If tidy was only renamed, write Pipeline('papers', renamed={'tidy': 'normalise'})."
    )


def test_a_pipeline_that_the_store_refuses_is_left_to_the_error(store: Store) -> None:
    holdfast.submit(papers("read", "tidy"), store, batch="default", documents=[("a", None)])
    assert notices(store, papers("load", "tidy")) == []


def test_a_renamed_step_is_said_in_one_line(store: Store) -> None:
    run(store, papers("read", "chunk"))
    changed = papers("read", "split", renamed={"chunk": "split"})
    assert notices(store, changed) == ["papers changed since the last run: chunk is renamed to split."]
    run(store, changed)
    assert notices(store, changed) == []


def test_stale_documents_are_said_with_the_command_that_redoes_them_until_they_are_redone(store: Store) -> None:
    run(store, papers("read", "chunk"))
    changed = papers("read", "chunk", chunk=2)
    stale = (
        "The work of 2 documents is stale (chunk changed: version 1 -> 2) and stays as it is. "
        "To redo it: holdfast doc rewind --stale papers.py"
    )
    assert notices(store, changed) == ["papers changed since the last run: chunk changed: version 1 -> 2.", stale]
    run(store, changed)
    assert notices(store, changed) == [stale]


def test_a_pipeline_with_quite_other_steps_may_be_that_of_another_file(store: Store) -> None:
    run(store, papers("read", "chunk"))
    assert notices(store, papers("fetch", "save"))[0] == (
        "The last run of papers had other steps (read → chunk), none of these. "
        "If another file has a pipeline of this name too, give one of them another name."
    )


def test_two_files_that_take_turns_under_one_name_are_noticed(store: Store) -> None:
    run(store, papers("read", "chunk"))
    run(store, papers("read", "save"))
    assert notices(store, papers("read", "chunk"))[0] == (
        "papers is as it was before; only the last run had other steps (read → save). "
        "If another file has a pipeline of this name too, give one of them another name."
    )


def test_dead_letters_at_a_renamed_step_are_said_with_what_to_write(store: Store) -> None:
    run(store, papers("read", "chunk", bad="chunk"))
    assert notices(store, papers("read", "split"))[-1] == (
        "2 dead letters are at chunk, which papers no longer has, so they cannot be tried again. If it was renamed, "
        "write Pipeline('papers', renamed={'chunk': 'split'}); else rewind them to another step."
    )


def test_dead_letters_that_follow_a_renamed_step_can_be_tried_again(store: Store) -> None:
    run(store, papers("read", "chunk", bad="chunk"))
    renamed = papers("read", "split", renamed={"chunk": "split"})
    assert notices(store, renamed)[-1] == (
        "2 dead letters are at split, which was called chunk: --retry tries them again there."
    )


# where the work goes on


def letters(budget: Budget, *, stop_at: int) -> holdfast.Pipeline:
    """Return a pipeline that is stopped in the middle of letter_12."""
    made = holdfast.Pipeline("letters")

    @made.step(commit_every=1)
    def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 1000):
            if doc.key == "letter_12" and number == stop_at:
                budget.stop("enough")
            yield number

    return made


def resumed(store: Store, **nouns: str) -> str:
    balance = store.balance("letters")
    return resume_notice(store, "letters", batch=None, total=balance.expected, done=balance.done, nouns=nouns)


def test_a_first_run_resumes_nothing(store: Store) -> None:
    holdfast.submit(letters(Budget(), stop_at=5), store, batch="default", documents=[("a", None)])
    assert resumed(store) == ""


def test_a_resumed_run_says_how_many_are_done_and_at_which_item_it_goes_on(store: Store) -> None:
    budget = Budget()
    pipeline = letters(budget, stop_at=5)
    holdfast.submit(pipeline, store, batch="default", documents=[("a", None), ("b", None)])
    holdfast.drain(pipeline, store)
    holdfast.submit(pipeline, store, batch="default", documents=[("letter_12", None), ("letter_13", None)])
    holdfast.drain(pipeline, store, budget=budget, threads=1, concurrency=1)
    (kept,) = store.outputs(store.document("letters", "default", "letter_12").id)
    assert resumed(store) == (
        f"4 documents, 2 done before, going on at item {kept.items + 1} of step extract of letter_12"
    )
    assert resumed(store, extract="page").endswith(f"going on at page {kept.items + 1} of letter_12")


def test_a_document_of_a_living_worker_is_not_resumed(store: Store) -> None:
    seen: list[str] = []
    pipeline = holdfast.Pipeline("letters")

    @pipeline.step(commit_every=1)
    def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            seen.append(resumed(store))
            yield number

    holdfast.submit(pipeline, store, batch="default", documents=[("a", None)])
    holdfast.drain(pipeline, store)
    assert seen == ["", "", ""]
