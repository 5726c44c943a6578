"""The sentences of reasons, as people read them, and the step to which a damaged document should go back."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core import reasons
from holdfast.core.reasons import SENTENCES, rewind_target, sentence

DAMAGED = (
    "its checkpoint is damaged: it never moved. Nothing was guessed: look at it, then rewind it to read, or submit it "
    "again if its payload is gone"
)
STAY = "and the rows that its effect wrote the first time stay"
GONE = "the pipeline has no such step any more, so nothing can remove them"
PAGE = 'See "When a document changes" in docs/writing-pipelines.md. This is said once for each step.'
LOST_TOO_OFTEN = (
    "its worker was lost 25 times at read since the document last moved, with ann, bob on web1; the last one was bob. "
    "Why is not known: no fatal signal, no exit and no lack of memory was seen. Look for what kills the processes, "
    "then redrive it; Retry(losses=) allows more"
)
EXAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    reasons.AT_GATE: ({"gate": "review"}, "gate review: a person has to decide"),
    reasons.DAMAGED: ({"what": "it never moved", "to": "read"}, DAMAGED),
    reasons.DAMAGED_STEP: ({"what": "it never moved", "to": "read"}, DAMAGED),
    reasons.WORK_GONE: ({"step": "index"}, "the work of index is gone"),
    reasons.WORK_GONE_AGAIN: (
        {"step": "index", "since": "after it was redone"},
        "the work of index is gone again, after it was redone: a person has to decide",
    ),
    reasons.CURSOR_EXPIRED: (
        {"step": "list", "age": "2 h", "limit": "1 h"},
        "the cursor of list is 2 h old, and expires after 1 h",
    ),
    reasons.GATE_EXPIRED: ({"gate": "review", "within": "3 days"}, "nobody decided at review within 3 days"),
    reasons.REORDERED: ({}, "the order of the steps changed"),
    reasons.WORKER_GONE: ({"worker": "ann"}, "worker ann is gone"),
    reasons.WORKER_CRASHED: (
        {"worker": "ann", "step": "read", "sign": "SIGSEGV"},
        "worker ann crashed at read: SIGSEGV",
    ),
    reasons.LOST_TOO_OFTEN: (
        {"times": "25 times", "step": "read", "where": "with ann, bob on web1", "last": "the last one was bob"},
        LOST_TOO_OFTEN,
    ),
    reasons.OVERDUE: ({"step": "read"}, "overdue at read"),
    reasons.CIRCUIT_OPEN: (
        {"step": "embed", "why": "TimeoutError"},
        "step embed is paused for all documents: TimeoutError",
    ),
    reasons.CIRCUIT_PROBED: ({}, "a document was tried, and it works again"),
    reasons.CIRCUIT_REMOVED: ({}, "the pipeline has no such step any more, or the step has no circuit"),
    reasons.INTERRUPTED: (
        {"times": "3 times", "step": "read", "stop": "the budget of the worker was 15 min 00 s", "ran": "14 min 50 s"},
        (
            "interrupted 3 times in a row at read, before anything of it could be committed: the budget of the worker "
            "was 15 min 00 s, and its body had run for 14 min 50 s. Give the worker more time, commit smaller parts "
            "(commit_every=, size=), or write the step as a stream"
        ),
    ),
    reasons.DEFERRED_TOO_LONG: (
        {"times": "9 times", "step": "read", "duration": "7 d 1 h", "why": "throttled"},
        (
            "put off 9 times at read, for 7 d 1 h, the last time because: throttled. Look whether what it waits for "
            "can still come, then resume it"
        ),
    ),
    reasons.CLOCK_SET_BACK: (
        {"ahead": "24 h 00 min"},
        "the clock was 24 h 00 min ahead when this wait began, and was set back since: the wait starts again",
    ),
    reasons.BATCH_DEADLINE: ({"deadline": "noon"}, "its batch had to be finished by noon"),
    reasons.WOKEN: ({}, "its time has come"),
    reasons.FOR_REVIEW: ({"why": "worker ann is gone"}, "kept for review: worker ann is gone"),
    reasons.MORE_THAN_TOTAL: (
        {"step": "read", "items": "8", "total": "3"},
        "read yielded 8 items, and said that there are 3",
    ),
    reasons.FEWER_THAN_TOTAL: (
        {"step": "read", "items": "3", "total": "5"},
        "read ended after 3 items, and said that there are 5",
    ),
    reasons.MANY_SET_ASIDE: (
        {"step": "read", "aside": "3", "total": "40", "allowed": "4"},
        "3 of 40 items of read were set aside. It stops above 4",
    ),
    reasons.VERIFIED: ({"steps": "read, index"}, "the work of read, index is there"),
    reasons.BATCH_DEADLINE: ({"deadline": "noon"}, "its batch had to be finished by noon"),
    reasons.ROWS_LEFT: (
        {"step": "embed", "pipeline": "papers"},
        f"step embed of papers did a document again, {STAY}: it does not say how they go away. {PAGE}",
    ),
    reasons.REMOVED_ROWS_LEFT: (
        {"step": "embed", "pipeline": "papers"},
        f"papers did a document again, and rows that step embed wrote the first time stay: {GONE}. {PAGE}",
    ),
    reasons.ORPHAN_SILENT: ({"worker": "ann", "since": "noon"}, "worker ann is silent since noon"),
    reasons.ORPHAN_OVERDUE: ({"step": "read", "since": "noon"}, "overdue at read since noon"),
    reasons.ORPHAN_STUCK: ({"step": "read", "duration": "2 h 00 min"}, "no progress at read for 2 h 00 min"),
}


def test_every_sentence_has_an_example() -> None:
    assert EXAMPLES.keys() == SENTENCES.keys()


@pytest.mark.wording
@pytest.mark.parametrize("code", EXAMPLES)
def test_a_sentence_names_its_facts(code: str) -> None:
    facts, text = EXAMPLES[code]
    assert sentence(code, **facts) == text


@pytest.mark.parametrize(
    ("code", "step", "target"),
    [
        (reasons.DAMAGED, "index", "read"),
        (reasons.DAMAGED_STEP, "index", "index"),
        (reasons.DAMAGED_STEP, None, "read"),
        (reasons.AT_GATE, "index", None),
        ("", "index", None),
    ],
)
def test_only_a_damaged_document_has_a_step_to_go_back_to(code: str, step: str | None, target: str | None) -> None:
    assert rewind_target(code, step, "read") == target
