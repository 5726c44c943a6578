"""The free text of a person decides nothing: also not if it equals a sentence that holdfast itself writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast
from holdfast.core.model import DocumentStatus
from holdfast.core.reasons import SENTENCES
from holdfast.stores.protocol import Store

ANY_WORDS = "please do it again"


class _Facts(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return {"step": "a", "gate": "review", "to": "a"}.get(name, "x")


OUR_WORDS = sorted({text.format_map(_Facts()) for text in SENTENCES.values()})


@pytest.fixture
def store() -> Iterator[Store]:
    with holdfast.open("memory://") as opened:
        yield opened


def _pipeline(there: dict[str, bool]) -> holdfast.Pipeline:
    pipeline = holdfast.Pipeline("p")

    @pipeline.step
    def a(doc: holdfast.Document) -> int:
        return 1

    @a.verify
    def is_there(doc: holdfast.Document) -> bool:
        return there["a"]

    @pipeline.step
    def b(doc: holdfast.Document) -> int:
        return 2

    return pipeline


def _rewound_by_a_person(store: Store, reason: str) -> DocumentStatus:
    """A person rewinds a finished document; it is done again; then the work of `a` is lost."""
    there = {"a": True}
    pipeline = _pipeline(there)
    holdfast.submit(pipeline, store, batch="x", documents=[("k", None)])
    holdfast.drain(pipeline, store, threads=1)
    plan = store.plan("p")
    assert plan is not None
    store.rewind_to(plan, [store.document("p", "x", "k").id], to="a", who="ann", reason=reason)
    holdfast.drain(pipeline, store, threads=1)
    there["a"] = False
    holdfast.verify(pipeline, store)
    return store.document("p", "x", "k")


@pytest.mark.parametrize("reason", [ANY_WORDS, *OUR_WORDS])
def test_a_rewind_of_a_person_is_never_taken_for_lost_work(store: Store, reason: str) -> None:
    status = _rewound_by_a_person(store, reason)
    assert (status.state, status.code) == ("waiting", ""), status.reason


@pytest.mark.parametrize("reason", [ANY_WORDS, *OUR_WORDS])
def test_a_hold_of_a_person_is_never_taken_for_a_gate_or_a_damaged_document(store: Store, reason: str) -> None:
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="a")(lambda doc: 1)
    pipeline.gate("review")
    holdfast.submit(pipeline, store, batch="x", documents=[("k", None)])
    number = store.document("p", "x", "k").id
    store.pause([number], who="ann", reason=reason)
    explanation = holdfast.explain(store, store.document("p", "x", "k"))
    assert explanation.facts["cause"] == "person"
    assert "rewind" not in str(explanation).replace(reason, "")
