from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.plan import DocumentCount, KnownPlan, Shape, StepShape, combined_shape
from holdfast.core.staleness import as_declared, differences, stale_work


def shape(*steps: str | StepShape, **renamed: str) -> Shape:
    return Shape("p", tuple(StepShape(one, "value") if isinstance(one, str) else one for one in steps), renamed)


def told(old: Shape, new: Shape) -> list[tuple[str, str | None]]:
    return [(one.why, one.to) for one in differences(old, new)]


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        ({}, {"version": 2}, "b changed: version 1 -> 2"),
        ({"settings": {"size": 1000}}, {"settings": {"size": 500}}, "settings of b changed: size 1000 -> 500"),
        ({}, {"settings": {"size": 500}}, 'settings of b changed: null -> {"size":500}'),
        (
            {"settings": {"size": 1, "old": "x"}},
            {"settings": {"size": 1, "model": "m"}},
            'settings of b changed: old "x" -> nothing, model nothing -> "m"',
        ),
        ({"settings": {"on": 1}}, {"settings": {"on": True}}, "settings of b changed: on 1 -> true"),
        ({"settings": {"a": None}}, {"settings": {}}, "settings of b changed: a null -> nothing"),
        ({"settings": "small"}, {"settings": "large"}, 'settings of b changed: "small" -> "large"'),
        ({}, {"kind": "over", "over": "a"}, "b changed: kind value -> over, over nothing -> a"),
        ({}, {"keep": False}, "b changed: keep True -> False"),
        (
            {"settings": [1]},
            {"version": 3, "settings": [2]},
            "b changed: version 1 -> 3; settings of b changed: [1] -> [2]",
        ),
    ],
)
def test_the_change_of_a_step_is_named(was: dict[str, Any], now: dict[str, Any], why: str) -> None:
    step = StepShape("b", "value")
    before, after = shape("a", replace(step, **was), "c"), shape("a", replace(step, **now), "c")
    assert told(before, after) == [(why, "b")]


def test_equal_shapes_do_not_differ() -> None:
    one = shape("a", StepShape("b", "value", settings={"x": 1, "y": 2}))
    other = shape("a", StepShape("b", "value", settings={"y": 2, "x": 1}))
    assert told(one, other) == []
    assert one.digest() == other.digest()


def test_a_new_step_is_redone_from_where_it_is() -> None:
    assert told(shape("a", "c"), shape("a", "b", "c")) == [("b is new", "b")]


def test_without_a_step_the_next_one_is_redone() -> None:
    assert told(shape("a", "b", "c"), shape("a", "c")) == [("b was removed", "c")]


def test_without_the_last_step_nothing_is_redone() -> None:
    assert told(shape("a", "b"), shape("a")) == [("b was removed", None)]


def test_without_a_gate_nothing_is_redone() -> None:
    assert told(shape("a", StepShape("look", "gate"), "c"), shape("a", "c")) == [("look was removed", None)]


def test_differences_come_in_the_order_of_the_steps() -> None:
    old, new = shape("a", "b", "c", "d"), shape("a", "new", "c", StepShape("d", "value", version=2))
    assert told(old, new) == [("new is new", "new"), ("b was removed", "c"), ("d changed: version 1 -> 2", "d")]


OLD = shape("a", "b", "c", "d")
NOW = shape("a", StepShape("b", "value", version=2), "c", "d")


def test_what_is_done_or_beyond_the_changed_step_is_stale() -> None:
    plan = KnownPlan(
        7,
        OLD,
        None,
        (
            DocumentCount("waiting", "a", 1),
            DocumentCount("running", "b", 2),
            DocumentCount("waiting", "c", 3),
            DocumentCount("paused", "d", 4),
            DocumentCount("done", None, 5),
            DocumentCount("dead", "b", 6),
            DocumentCount("dead", "c", 7),
            DocumentCount("cancelled", "d", 8),
            DocumentCount("done", None, 9, settled=True),
        ),
    )
    (stale,) = stale_work([plan], NOW)
    assert (stale.plan_id, stale.to, stale.why) == (7, "b", "b changed: version 1 -> 2")
    assert (stale.redone, stale.reused) == (("b", "c", "d"), ("a",))
    assert [one.documents for one in stale.counts] == [3, 4, 5, 7]
    assert stale.documents == 19


def test_nothing_is_stale_before_the_changed_step() -> None:
    assert stale_work([KnownPlan(1, OLD, None, (DocumentCount("waiting", "b", 1),))], NOW) == []


def test_a_step_that_is_renamed_is_not_stale() -> None:
    plans = [KnownPlan(1, shape("a", StepShape("b", "over", over="a")), None, (DocumentCount("done", None, 1),))]
    now = shape("pages", StepShape("b", "over", over="pages"), a="pages")
    assert stale_work(as_declared(plans, now), now) == []


def test_documents_follow_a_renamed_step() -> None:
    plans = [KnownPlan(1, OLD, None, (DocumentCount("waiting", "c", 1),))]
    (plan,) = as_declared(plans, shape("a", "b", "see", "d", c="see"))
    assert plan.documents == (DocumentCount("waiting", "see", 1),)
    assert plan.shape.names == ("a", "b", "see", "d")


def test_documents_move_to_a_step_that_is_there_already_unless_they_run() -> None:
    plans = [KnownPlan(1, OLD, None, (DocumentCount("waiting", "c", 1), DocumentCount("running", "c", 1)))]
    (plan,) = as_declared(plans, shape("a", "b", "d", c="d"))
    assert [one.step for one in plan.documents] == ["d", "c"]
    assert plan.shape == OLD


def test_a_document_that_goes_on_is_done_partly_under_each() -> None:
    now = shape("a", StepShape("b", "value", version=2), "c", StepShape("d", "value", version=2))
    assert combined_shape(OLD, now, "c") == shape("a", "b", "c", now.steps[3])
    assert combined_shape(OLD, now, "b") == now
    assert combined_shape(OLD, now, "a") == now


def test_a_document_that_goes_on_after_a_removed_step_remembers_what_it_kept() -> None:
    now = shape("a", "c", "d")
    gone = shape("a", StepShape("b", "value", gone=True), "c", "d")
    assert combined_shape(OLD, now, "c") == gone
    assert told(gone, now) == []
    assert told(gone, OLD) == [("b is new", "b")]
    assert combined_shape(OLD, now, "d") == OLD
    assert told(OLD, now) == [("b was removed", "c")]


def test_a_document_that_is_rewound_to_the_step_after_a_removed_one_is_stale_no_more() -> None:
    now = shape("a", "c", "d")
    again = combined_shape(combined_shape(OLD, now, "d"), now, "c")
    assert told(again, now) == []
