"""A wrong definition is refused when it is written, and the message says how to write it right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.circuit import Circuit
from holdfast.core.errors import DefinitionError
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import StepShape
from holdfast.core.retry import Retry
from holdfast.core.step import StepOptions
from holdfast.core.validation import OPTIONS


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
    with pytest.raises(DefinitionError, match="a pipeline's name must be a letter, then letters, digits"):
        Pipeline(name)


def test_the_name_of_closing_steps_is_refused_for_other_pipelines() -> None:
    with pytest.raises(DefinitionError, match=r"a name that ends in '\.closing' is that of closing steps"):
        Pipeline("papers.closing")
    assert Pipeline("papers").closing.name == "papers.closing"
    assert Pipeline("closing").closing.name == "closing.closing"


@pytest.mark.parametrize("name", ["a", "papers-2025", "a.b_c", "x" * 63])
def test_a_plain_name_is_taken(name: str) -> None:
    assert Pipeline(name).name == name


def test_a_lambda_has_no_name_of_its_own(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"a step's name must be a letter.*<lambda>"):
        papers.step(lambda doc: 1)


def test_a_step_name_is_used_once(papers: Pipeline) -> None:
    papers.step(value)
    with pytest.raises(DefinitionError, match="already has a step 'value'; pass name="):
        papers.step(value)
    papers.step(name="other")(value)
    assert [step.name for step in papers.steps] == ["value", "other"]


def test_a_gate_name_is_used_once(papers: Pipeline) -> None:
    papers.step(value)
    with pytest.raises(DefinitionError, match="already has a step 'value'"):
        papers.gate("value")


def test_a_pipeline_without_steps_has_no_shape(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"'papers' has no steps; add one with @papers\.step"):
        papers.shape()


def test_the_three_kinds_of_body_are_recognised(papers: Pipeline) -> None:
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
    with pytest.raises(
        DefinitionError, match=r"yields, so it needs to know where to continue: def pages\(doc, cursor=0\)"
    ):

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
        ({"size": 3}, r"size= needs over="),
        ({"parallel": 3}, r"parallel= needs over="),
        ({"failure_rate": 0.5}, r"failure_rate= needs over="),
        ({"version": 0}, r"version= must be a whole number of at least 1, not 0"),
        ({"limit": -1}, r"limit= must be a whole number of at least 1"),
        ({"limit": 1.5}, r"limit= must be a whole number of at least 1, not 1\.5"),
        ({"timeout": 30}, r"timeout= must be a positive timedelta, not 30"),
        ({"timeout": timedelta(0)}, r"timeout= must be a positive timedelta"),
        ({"runs_in": "gpu"}, r'runs_in= must be "thread" or "process", not \'gpu\''),
        ({"memory": 10}, r'memory= needs runs_in="process"'),
        ({"commit_every": 5}, r"commit_every= is for bodies that yield; this one returns"),
        ({"cursor_expires": timedelta(hours=1)}, r"cursor_expires= is for bodies that yield"),
        ({"retries": 3}, r"step 'value': there is no option retries=; did you mean retry=\?"),
        ({"comit_every": 3}, r"there is no option comit_every=; did you mean commit_every=\?"),
        ({"time_out": 3}, r"there is no option time_out=; did you mean timeout=\?"),
        ({"xyzzy": 3}, r"there is no option xyzzy=; the options are circuit, commit_every, cursor_expires, failure"),
        ({"limit": True}, r"limit= must be a whole number of at least 1, not True"),
        ({"retry": 3}, r"retry= must be a Retry, such as retry=Retry\(attempts=5\), not 3"),
        ({"keep": "no"}, r"keep= must be True or False, not 'no'"),
    ],
)
def test_a_wrong_option_is_refused_with_the_fix(papers: Pipeline, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        papers.step(**options)(value)
    assert papers.steps == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"commit_every": 0}, r"commit_every= must be a number of items, a positive timedelta, or both.*not 0"),
        ({"commit_every": timedelta(0)}, r"commit_every= must be a number of items, a positive timedelta"),
        ({"commit_every": "10"}, r"such as \(500, timedelta\(minutes=5\)\), not '10'"),
        ({"commit_every": True}, r"commit_every= must be a number of items.*not True"),
        ({"commit_every": (timedelta(1), 5)}, r"commit_every= must be a number of items"),
        ({"commit_every": (5, timedelta(0))}, r"commit_every= must be a number of items"),
        ({"commit_every": (0, timedelta(1))}, r"commit_every= must be a number of items"),
        ({"commit_every": (5, 5)}, r"commit_every= must be a number of items"),
        ({"commit_every": (5,)}, r"commit_every= must be a number of items"),
        (
            {"commit_every": timedelta(minutes=5), "timeout": timedelta(minutes=1)},
            r"timeout=0:01:00 is over before commit_every= commits after 0:05:00: use a longer timeout, or commit more",
        ),
        ({"commit_every": (5, timedelta(1)), "timeout": timedelta(1)}, r"is over before commit_every= commits"),
        ({"cursor_expires": 3600}, r"cursor_expires= must be a positive timedelta, not 3600"),
        ({"when_expired": "cry"}, r'when_expired= must be "restart" or "fail", not \'cry\''),
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
        ({"size": 0}, r"size= must be a whole number of at least 1, not 0"),
        ({"parallel": 0}, r"parallel= must be a whole number of at least 1"),
        ({"failure_rate": 2}, r"failure_rate= must be between 0 and 1, not 2"),
        ({"failure_rate": "half"}, r"failure_rate= must be between 0 and 1, not 'half'"),
    ],
)
def test_a_wrong_option_over_items_is_refused_with_the_fix(
    papers: Pipeline, options: dict[str, Any], words: str
) -> None:
    source = papers.step(stream)
    with pytest.raises(DefinitionError, match=words):
        papers.step(over=source, **options)(each)


@pytest.mark.parametrize("every", [1, timedelta(seconds=1), (500, timedelta(minutes=5))])
def test_a_stream_is_committed_by_number_by_time_or_by_both(papers: Pipeline, every: Any) -> None:
    assert papers.step(commit_every=every, timeout=timedelta(hours=1))(stream).options.commit_every == every


GOOD: dict[str, Any] = {
    "size": 2,
    "parallel": 2,
    "failure_rate": 0.5,
    "commit_every": 5,
    "cursor_expires": timedelta(hours=1),
    "when_expired": "fail",
    "keep": False,
    "version": 2,
    "settings": {"a": 1},
    "retry": Retry(attempts=2),
    "circuit": Circuit(failures=9),
    "timeout": timedelta(hours=1),
    "limit": 3,
    "runs_in": "process",
    "memory": 1 << 30,
    "within": timedelta(days=1),
    "otherwise": "approve",
}
"""A value of each option that is right on some step."""
ALSO = {"when_expired": {"cursor_expires": timedelta(hours=1)}, "memory": {"runs_in": "process"}}
"""Options that another one needs."""
ALL_KINDS = {"keep", "version", "settings", "retry", "circuit", "timeout", "limit", "runs_in", "memory"}
"""The options that do something on every step with a body."""
WORKS_ON = {
    "value": ALL_KINDS,
    "stream": ALL_KINDS | {"commit_every", "cursor_expires", "when_expired"},
    "items": ALL_KINDS | {"parallel", "failure_rate"},
    "windows": ALL_KINDS | {"size", "parallel", "failure_rate"},
}


def test_every_option_is_tried_on_every_kind_of_step() -> None:
    assert {*GOOD, "over"} == {*StepOptions.__struct_fields__}
    assert set().union(*OPTIONS.values()) == {*StepOptions.__struct_fields__}


def add_step(papers: Pipeline, kind: str, options: dict[str, Any]) -> None:
    if kind in ("value", "stream"):
        papers.step(**options)(value if kind == "value" else stream)
        return
    source = papers.step(name="source")(stream)
    size = {"size": 3} if kind == "windows" else {}
    papers.step(over=source, **{**size, **options})(many if {**size, **options}.get("size") else each)


@pytest.mark.parametrize("option", GOOD)
@pytest.mark.parametrize("kind", WORKS_ON)
def test_an_option_that_does_nothing_on_a_step_is_refused_by_name(papers: Pipeline, kind: str, option: str) -> None:
    options = {option: GOOD[option], **ALSO.get(option, {})}
    if option in WORKS_ON[kind] or (kind, option) == ("items", "size"):  # a size makes windows of items
        add_step(papers, kind, options)
        assert getattr(papers.steps[-1].options, option) == GOOD[option]
        return
    with pytest.raises(DefinitionError, match=rf"step '\w+': ({option}|cursor_expires)= (is for|needs over=)"):
        add_step(papers, kind, options)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("commit_every", r"commit_every= is for bodies that yield; a body over items returns"),
        ("cursor_expires", r"cursor_expires= is for bodies that yield; a body over items returns"),
        ("within", r"within= is for gates; a body that waits for a person raises Pause"),
    ],
)
def test_a_step_over_items_says_why_an_option_does_nothing(papers: Pipeline, option: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        add_step(papers, "items", {option: GOOD[option]})


def test_what_happens_to_an_old_cursor_is_said_with_when_it_is_old(papers: Pipeline) -> None:
    with pytest.raises(DefinitionError, match=r"when_expired= needs cursor_expires="):
        papers.step(when_expired="fail")(stream)


@pytest.mark.parametrize("option", ["commit_every", "cursor_expires", "memory", "limit", "timeout"])
def test_none_is_no_option(papers: Pipeline, option: str) -> None:
    add_step(papers, "windows", {option: None})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"witin": timedelta(1), "otherwise": "reject"},
            r"gate 'look': there is no option witin=; did you mean within",
        ),
        ({"version": 2}, r"gate 'look': there is no option version=; the options are otherwise, within"),
    ],
)
def test_a_gate_has_two_options(papers: Pipeline, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        papers.gate("look", **options)


def test_over_takes_a_step_not_a_name(papers: Pipeline) -> None:
    papers.step(stream)
    with pytest.raises(DefinitionError, match=r"over= must be a step, such as over=chunk, not 'stream'"):
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
    with pytest.raises(DefinitionError, match="already has an effect; write both into one function"):
        step.effect(lambda tx, doc, value: None)
    with pytest.raises(DefinitionError, match="already has a verify function"):
        step.verify(lambda doc: True)


def test_an_effect_is_a_plain_function(papers: Pipeline) -> None:
    async def write(tx: Any, doc: Any, value: Any) -> None: ...

    with pytest.raises(DefinitionError, match="runs inside the transaction: write it as a plain def"):
        papers.step(value).effect(write)


def test_a_verify_is_a_plain_function(papers: Pipeline) -> None:
    async def is_there(doc: Any) -> bool:
        return True

    with pytest.raises(
        DefinitionError, match="the verify function of step 'value' runs in a thread and returns True"
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
    with pytest.raises(DefinitionError, match="renamed= contains 'value', which is still a step"):
        papers.shape()


def test_a_shape_has_what_stores_keep(papers: Pipeline) -> None:
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
    with pytest.raises(DefinitionError, match="must be between 0 and 1"):
        Pipeline("papers", tolerates=share)
