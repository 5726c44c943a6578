"""A wrong definition is refused when it is written, and the message says how to write it right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.errors import DefinitionError
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import StepShape
from holdfast.core.retry import Retry


@pytest.fixture
def papers() -> Pipeline:
    return Pipeline("papers")


def value(doc: Any) -> int:
    return 1


def stream(doc: Any, cursor: int = 0) -> Iterator[int]:
    yield 1


def each(doc: Any, item: int) -> int:
    return item


def many(doc: Any, items: list[int]) -> list[int]:
    return items


@pytest.mark.parametrize("name", ["", "1st", "a b", "ä", "a/b", "x" * 64, "-a"])
def test_a_name_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="a pipeline's name is a letter, then letters, digits"):
        Pipeline(name)


@pytest.mark.parametrize("name", ["a", "papers-2025", "a.b_c", "x" * 63])
def test_a_plain_name_is_taken(name: str) -> None:
    assert Pipeline(name).name == name


def test_a_lambda_has_no_name_of_its_own(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"a step's name is a letter.*<lambda>"):
        papers.step(lambda doc: 1)


def test_a_step_name_is_used_once(papers: Pipeline) -> None:
    papers.step(value)
    with pytest.raises(DefinitionError, match="has a step 'value' already; pass name="):
        papers.step(value)
    papers.step(name="other")(value)
    assert [step.name for step in papers.steps] == ["value", "other"]


def test_a_gate_name_is_used_once(papers: Pipeline) -> None:
    papers.step(value)
    with pytest.raises(DefinitionError, match="has a step 'value' already"):
        papers.gate("value")


def test_a_pipeline_without_steps_has_no_shape(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"'papers' has no steps; add one with @papers\.step"):
        papers.shape()


def test_the_three_shapes_of_a_body_are_told_apart(papers: Pipeline) -> None:
    async def later(doc: Any, cursor: int = 0) -> AsyncIterator[int]:
        yield 1

    papers.step(value)
    source = papers.step(stream)
    papers.step(later)
    papers.step(over=source)(each)
    papers.step(over=source, size=3)(many)
    papers.gate("look")
    assert [step.kind for step in papers.steps] == ["value", "stream", "stream", "over", "over", "gate"]


def test_a_body_needs_the_document(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"its body needs the document: def nothing\(doc\)"):

        @papers.step
        def nothing() -> int:
            return 1


def test_a_value_body_takes_the_document_alone(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"the body of step 'each' is called with \(doc\)"):
        papers.step(each)


def test_a_stream_must_know_where_to_go_on(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"yields, so it must know where to go on: def pages\(doc, cursor=0\)"):

        @papers.step
        def pages(doc: Any) -> Iterator[int]:
            yield 1


def test_a_body_over_items_does_not_yield(papers: Pipeline) -> None:
    source = papers.step(stream)
    with pytest.raises(DefinitionError, match="a body over items returns its results; it cannot yield"):

        @papers.step(over=source)
        def walk(doc: Any, item: int) -> Iterator[int]:
            yield 1


def test_a_body_over_items_takes_the_document_and_the_item(papers: Pipeline) -> None:
    source = papers.step(stream)
    with pytest.raises(DefinitionError, match=r"is called with \(doc, item\)"):
        papers.step(over=source)(value)
    with pytest.raises(DefinitionError, match=r"is called with \(doc, items\)"):
        papers.step(over=source, size=2)(value)


def test_what_is_no_function_is_refused(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match="42 is not a function"):
        papers.step(name="answer")(42)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 3}, r"size= goes with over="),
        ({"parallel": 3}, r"parallel= goes with over="),
        ({"failure_rate": 0.5}, r"failure_rate= goes with over="),
        ({"version": 0}, r"version= is a whole number of at least 1, not 0"),
        ({"limit": -1}, r"limit= is a whole number of at least 1"),
        ({"limit": 1.5}, r"limit= is a whole number of at least 1, not 1\.5"),
        ({"timeout": 30}, r"timeout= is a timedelta longer than nothing, not 30"),
        ({"timeout": timedelta(0)}, r"timeout= is a timedelta longer than nothing"),
        ({"runs_in": "gpu"}, r'runs_in= is "thread" or "process", not \'gpu\''),
        ({"memory": 10}, r'memory= goes with runs_in="process"'),
        ({"commit_every": 5}, r"commit_every= is for bodies that yield; this one returns"),
        ({"cursor_expires": timedelta(hours=1)}, r"cursor_expires= is for bodies that yield"),
        ({"retries": 3}, r"step 'value'.*retries.*the options are explained at Pipeline\.step"),
        ({"retry": 3}, r"retry= is a Retry, such as retry=Retry\(attempts=5\), not 3"),
        ({"keep": "no"}, r"keep= is True or False, not 'no'"),
    ],
)
def test_a_wrong_option_is_refused_with_the_fix(papers: Pipeline, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        papers.step(**options)(value)
    assert papers.steps == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"commit_every": 0}, r"commit_every= is a count of at least 1 or a timedelta, not 0"),
        ({"commit_every": timedelta(0)}, r"commit_every= is a count of at least 1 or a timedelta"),
        ({"commit_every": "10"}, r"commit_every= is a count of at least 1 or a timedelta, not '10'"),
        ({"cursor_expires": 3600}, r"cursor_expires= is a timedelta longer than nothing, not 3600"),
        ({"when_expired": "cry"}, r'when_expired= is "restart" or "fail", not \'cry\''),
    ],
)
def test_a_wrong_option_of_a_stream_is_refused_with_the_fix(
    papers: Pipeline, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(DefinitionError, match=words):
        papers.step(**options)(stream)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, r"size= is a whole number of at least 1, not 0"),
        ({"parallel": 0}, r"parallel= is a whole number of at least 1"),
        ({"failure_rate": 2}, r"failure_rate= is a share between 0 and 1, not 2"),
        ({"failure_rate": "half"}, r"failure_rate= is a share between 0 and 1, not 'half'"),
    ],
)
def test_a_wrong_option_over_items_is_refused_with_the_fix(
    papers: Pipeline, options: dict[str, Any], words: str
) -> None:
    source = papers.step(stream)
    with pytest.raises(DefinitionError, match=words):
        papers.step(over=source, **options)(each)


def test_over_takes_a_step_not_a_name(papers: Pipeline) -> None:
    papers.step(stream)
    with pytest.raises(DefinitionError, match=r"over= takes a step, such as over=chunk, not 'stream'"):
        papers.step(over="stream")(each)  # type: ignore[call-overload]


def test_over_takes_an_earlier_step_of_the_same_pipeline(papers: Pipeline) -> None:
    source = Pipeline("letters").step(stream)
    with pytest.raises(DefinitionError, match="over=stream is not an earlier step of pipeline 'papers'"):
        papers.step(over=source)(each)


def test_over_takes_a_step_that_keeps(papers: Pipeline) -> None:
    source = papers.step(keep=False)(stream)
    with pytest.raises(DefinitionError, match=r"keeps nothing \(keep=False\), so there are no items"):
        papers.step(over=source)(each)


def test_a_step_has_one_effect_and_one_verify(papers: Pipeline) -> None:
    step = papers.step(value)
    step.effect(lambda tx, doc, value: None)
    step.verify(lambda doc: True)
    with pytest.raises(DefinitionError, match="has an effect already; write both into one function"):
        step.effect(lambda tx, doc, value: None)
    with pytest.raises(DefinitionError, match="has a verify already"):
        step.verify(lambda doc: True)


def test_an_effect_is_a_plain_function(papers: Pipeline) -> None:
    async def write(tx: Any, doc: Any, value: Any) -> None: ...

    with pytest.raises(DefinitionError, match="runs inside the transaction: write it as a plain def"):
        papers.step(value).effect(write)


def test_a_verify_is_a_plain_function(papers: Pipeline) -> None:
    async def is_there(doc: Any) -> bool:
        return True

    with pytest.raises(
        DefinitionError, match="the verify of step 'value' is asked on a thread, and its answer is"
    ) as no:
        papers.step(value).verify(is_there)
    assert "transaction" not in str(no.value)


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda step: step.effect(lambda tx: None), r"the effect of step 'value' is called with \(tx, doc, value\)"),
        (lambda step: step.verify(lambda: True), r"the verify of step 'value' is called with \(doc\)"),
    ],
)
def test_an_effect_and_a_verify_take_what_they_are_given(
    papers: Pipeline, declare: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(DefinitionError, match=words):
        declare(papers.step(value))


def test_a_renamed_step_has_to_exist() -> None:
    papers = Pipeline("papers", renamed={"scan": "pages"})
    papers.step(value)
    with pytest.raises(DefinitionError, match=r"renamed=\{'scan': 'pages'\}, but there is no step 'pages'"):
        papers.shape()


def test_a_step_that_is_still_there_is_not_renamed() -> None:
    papers = Pipeline("papers", renamed={"value": "other"})
    papers.step(value)
    papers.step(name="other")(value)
    with pytest.raises(DefinitionError, match="renamed names 'value', which is still a step"):
        papers.shape()


def test_a_shape_tells_what_stores_remember(papers: Pipeline) -> None:
    source = papers.step(version=2)(stream)
    papers.step(over=source, keep=False, retry=Retry(attempts=9))(each)
    papers.gate("look")
    assert papers.shape().steps == (
        StepShape("stream", "stream", version=2),
        StepShape("each", "over", over="stream", keep=False),
        StepShape("look", "gate", keep=False),
    )


def test_settings_are_part_of_the_shape_as_a_store_gives_them_back(papers: Pipeline) -> None:
    papers.step(settings={"model": "m", "sizes": (1, 2)})(value)
    assert papers.shape().steps[0].settings == {"model": "m", "sizes": [1, 2]}


@pytest.mark.parametrize("settings", [{1, 2}, b"x", {"a": float("nan")}, {1: 2}, object()])
def test_settings_that_are_not_json_are_refused(papers: Pipeline, settings: object) -> None:
    with pytest.raises(DefinitionError, match=r"step 'value': .*\['settings'\]"):
        papers.step(settings=settings)(value)


def test_a_step_is_called_like_its_body(papers: Pipeline) -> None:
    assert papers.step(value)(None) == 1  # type: ignore[arg-type]


def test_steps_know_their_neighbours(papers: Pipeline) -> None:
    papers.step(value)
    papers.step(stream)
    papers.gate("look")
    assert papers.first.name == "value"
    assert [step.name if step else None for step in map(papers.after, ("value", "stream", "look"))] == [
        "stream",
        "look",
        None,
    ]
    assert [step.name for step in papers.behind("look")] == ["value", "stream"]
    assert repr(papers) == "<Pipeline papers: value → stream → look>"


@pytest.mark.parametrize("share", ["5%", None, 1.5, float("nan")])
def test_a_tolerance_that_is_no_share_is_refused(share: Any) -> None:
    with pytest.raises(DefinitionError, match="is no share"):
        Pipeline("papers", tolerates=share)
