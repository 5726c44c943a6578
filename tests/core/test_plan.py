"""Digests of plans, and the message of PlanRefused."""

from __future__ import annotations

import pytest

from holdfast.core.errors import BodyError, PlanRefused
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.moves import refuse_to_end, rewound
from holdfast.core.plan import Shape, StepShape, refuse_if_stranded

PAPERS = Shape("papers", (StepShape("extract", "stream"), StepShape("chunk", "value")))


def test_equal_steps_have_equal_digests_whatever_they_were_called_before() -> None:
    assert PAPERS.digest() == Shape("papers", PAPERS.steps, {"scan": "extract"}).digest()


@pytest.mark.parametrize(
    "other",
    [
        (StepShape("chunk", "value"), StepShape("extract", "stream")),
        (StepShape("extract", "stream"),),
        (StepShape("extract", "stream", version=2), StepShape("chunk", "value")),
        (StepShape("extract", "value"), StepShape("chunk", "value")),
        (StepShape("extract", "stream", keep=False), StepShape("chunk", "value")),
        (StepShape("extract", "stream", settings={"dpi": 300}), StepShape("chunk", "value")),
    ],
)
def test_other_steps_have_other_digests(other: tuple[StepShape, ...]) -> None:
    assert Shape("papers", other).digest() != PAPERS.digest()


def test_nobody_stranded_is_no_reason_to_refuse() -> None:
    refuse_if_stranded(PAPERS, {}, {})


def test_a_refusal_names_documents_steps_and_the_way_out() -> None:
    orders = {1: ["scan", "ocr", "chunk"]}
    with pytest.raises(PlanRefused) as refused:
        refuse_if_stranded(PAPERS, {"scan": (12, ["a.pdf", "b.pdf", "c.pdf"]), "ocr": (1, ["d.pdf"])}, orders)
    assert str(refused.value) == (
        "pipeline 'papers' no longer has the steps at which documents are:\n"
        "  1 at 'ocr', such as 'd.pdf'\n"
        "  12 at 'scan', such as 'a.pdf', 'b.pdf', 'c.pdf'\n"
        "Its steps are now: extract, chunk.\n"
        "If they should go on there, write Pipeline('papers', renamed={'scan': 'extract', 'ocr': 'chunk'}); otherwise "
        "use other steps, or bring the old ones back until the documents are done."
    )


def suggested(now: str, before: str, **renamed: str) -> str:
    """Return what PlanRefused suggests if a document is at each removed step."""
    shape = Shape("p", tuple(StepShape(name, "value") for name in now.split()), renamed)
    gone = {name: (1, ["a"]) for name in before.split() if name not in now.split()}
    with pytest.raises(PlanRefused) as refused:
        refuse_if_stranded(shape, gone, {7: ["extract", "other"], 8: before.split()})
    return str(refused.value).partition(f"{', '.join(shape.names)}.\n")[2]


@pytest.mark.parametrize(
    ("now", "before", "map_"),
    [
        ("fetch normalise", "fetch tidy", "{'tidy': 'normalise'}"),
        ("pages chunks embed", "extract chunk embed", "{'chunk': 'chunks', 'extract': 'pages'}"),
        ("chunks pages embed", "chunk page embed", "{'chunk': 'chunks', 'page': 'pages'}"),
        ("extract embed", "extract chunk embed", "{'chunk': 'embed'}"),
        ("extract embed publish", "extract chunk embed", "{'chunk': 'embed'}"),
        ("extract split index", "extract chunk clean index", "{'chunk': 'split', 'clean': 'index'}"),
        ("reckon recognise", "recognize store", "{'recognize': 'recognise'}"),
        ("extract vector", "extract chunk vectors", "{'vectors': 'vector', 'chunk': 'vector'}"),
        (
            "vector",
            "scan extract chunk vectors",
            "{'vectors': 'vector', 'chunk': 'vector', 'extract': 'vector', 'scan': 'vector'}",
        ),
    ],
)
def test_a_refusal_suggests_the_new_name_or_the_step_that_comes_next(now: str, before: str, map_: str) -> None:
    assert suggested(now, before).startswith(f"If they should go on there, write Pipeline('p', renamed={map_});")


def test_a_refusal_keeps_what_was_renamed_before() -> None:
    assert "renamed={'read': 'extract', 'chunk': 'split'}" in suggested(
        "extract split", "extract chunk", read="extract"
    )


def test_a_refusal_never_suggests_to_go_back() -> None:
    assert suggested("extract", "extract embed") == (
        "No step comes after 'embed' any more: bring it back until its documents are done."
    )


def test_documents_that_are_held_are_told_apart() -> None:
    assert suggested("chunk", "extract chunk", extract="chunk") == (
        "'extract' is already in renamed=, but workers with the old pipeline hold its documents: stop them, "
        "then try again."
    )


@pytest.mark.parametrize(
    "sql",
    [
        "commit",
        "COMMIT;",
        " \n end transaction",
        "abort",
        "rollback",
        "ROLLBACK TRANSACTION",
        "-- so\ncommit",
        "/**/end",
    ],
)
def test_a_statement_that_ends_the_transaction_is_refused(sql: str) -> None:
    with pytest.raises(BodyError, match="leave commit and rollback alone"):
        refuse_to_end(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "insert into notes values ('commit')",
        "update committees set ended = 1",
        "rollback to here",
        "rollback transaction to savepoint here",
        "release here",
        "savepoint commit",
        "select 'rollback'",
        "-- commit\ninsert into a values (1)",
        "",
    ],
)
def test_other_statements_are_not(sql: str) -> None:
    refuse_to_end(sql)


def test_a_rewound_claim_reuses_each_step_from_where_it_was_made() -> None:
    from datetime import timedelta

    claim = Claim(1, 1, "march", "a", None, "", Checkpoint(2, "c", 5, 9), 1, 0, timedelta(0), {"a": 0})
    back = rewound(claim, to="c", steps=["a", "b", "c"])
    assert back.checkpoint == Checkpoint(3, "c", None, 10)
    assert back.reuses == {"a": 0, "b": 2}
