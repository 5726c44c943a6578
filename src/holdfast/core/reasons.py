"""Reasons: why a document is in its state, or why a journal line was written.

A reason has two parts. The code is for programs; it is in the column `code` of hf_document and hf_journal. The sentence
is for people; it is in the column `reason` and in the details of the journal. Code compares codes only. Every sentence
that stores, workers and scans write is in SENTENCES: rewording one changes nothing but what people read.
`tests/scenarios/test_reworded_reasons.py` checks that.

The decision of a person has the reason that the person wrote, and no code, except ON_HOLD and REJECTED. A ready
pipeline may use codes of its own.
"""

from __future__ import annotations

from typing import Any

AT_GATE = "at_gate"
"""Paused: the document waits at a gate for a decision."""
ON_HOLD = "on_hold"
"""Paused: a person put the document on hold. It waits for no decision, not even at a gate."""
REJECTED = "rejected"
"""A dead letter: a person rejected the document."""
QUESTION = "question"
"""Paused: a body raised Pause. The person who resumes the document answers that body."""
DAMAGED = "damaged"
"""Paused: the checkpoint cannot be true. The document must go back to its first step."""
DAMAGED_STEP = "damaged_step"
"""Paused: the checkpoint cannot be true, but the earlier steps are fine. It must go back to the step where it is."""
WORK_GONE = "work_gone"
"""Rewound: the work of a step is gone."""
WORK_GONE_AGAIN = "work_gone_again"
"""Paused: the work of a step is gone again, although it was redone. A person has to decide."""
CURSOR_EXPIRED = "cursor_expired"
"""Rewound: the cursor of a stream is older than it may be."""
ITEMS_REDRIVEN = "items_redriven"
"""Rewound: a person lets items that were set aside be tried again. What the step kept for the others is kept."""
GATE_EXPIRED = "gate_expired"
"""Approved or rejected: no person decided in time."""
REORDERED = "reordered"
"""A dead letter went back to the first step, because the steps of its pipeline have another order now."""
WORKER_GONE = "worker_gone"
"""Reclaimed: the worker is gone or silent, and nothing says that a document caused it."""
WORKER_CRASHED = "worker_crashed"
"""Reclaimed: the worker crashed while the document was running. There is evidence, such as a fatal signal."""
LOST_TOO_OFTEN = "lost_too_often"
"""A dead letter: its worker was lost more often than `Retry(losses=)` allows, and nobody knows why."""
OVERDUE = "overdue"
"""Reclaimed: the document was in a step for too long."""
NO_PROGRESS = "no_progress"
"""Reclaimed by a scan: the worker is alive, but the document does not move."""
CLOCK_SET_BACK = "clock_set_back"
"""Its wait started again: it had been put off by a clock that was ahead, and that was set back since."""
BATCH_DEADLINE = "batch_deadline"
"""Ended: the document was still open at the deadline of its batch."""
SERVICE_FAILED = "service_failed"
"""Waiting: an attempt failed because of a service. It counts for the circuit of the step."""
CIRCUIT_OPEN = "circuit_open"
"""Waiting: the step is paused for all documents, because a service is away."""
INTERRUPTED = "interrupted"
"""Waiting or paused: workers had to stop again and again before the document could move."""
DEFERRED_TOO_LONG = "deferred_too_long"
"""Paused: bodies put the document off for too long, or too often. A person has to look."""

ENDED_BY_OTHERS = (REJECTED, GATE_EXPIRED, BATCH_DEADLINE)
"""The codes of dead letters that no worker made: a person, the time at a gate, or the deadline of a batch did."""
ORPHAN_CODES = (WORKER_GONE, OVERDUE, NO_PROGRESS)
"""The codes of documents that were taken from a worker. Paused ones are orphans that are kept for review."""

WOKEN = "woken"
"""Only a sentence: a paused document was woken, because its time has come."""
FOR_REVIEW = "for_review"
"""Only a sentence: an orphan is paused until a person looks at it. It has the code of its cause."""
VERIFIED = "verified"
"""Only a sentence: the work of steps was verified, and it is there."""
ROWS_LEFT = "rows_left"
"""Only a sentence: the effect of a step has no undo, and left rows of an earlier generation behind."""
REMOVED_ROWS_LEFT = "removed_rows_left"
"""Only a sentence: rows of an earlier generation stay, because the step that wrote them was removed."""
MORE_THAN_TOTAL = "more_than_total"
"""Only a warning: a stream yielded more items than it said."""
FEWER_THAN_TOTAL = "fewer_than_total"
"""Only a warning: a stream ended with fewer items than it said."""
MANY_SET_ASIDE = "many_set_aside"
"""Only a warning: many items of a step were set aside, and it may stop soon."""
CIRCUIT_PROBED = "circuit_probed"
"""Only a sentence: a paused step goes on, because a document that was tried there moved."""
CIRCUIT_REMOVED = "circuit_removed"
"""Only a sentence: a paused step goes on, because it was removed or has no circuit any more."""
ORPHAN_SILENT = "orphan_silent"
"""Only a sentence: a scan found an orphan, because its worker sends no heartbeats."""
ORPHAN_OVERDUE = "orphan_overdue"
"""Only a sentence: a scan found an orphan, because its deadline has passed."""
ORPHAN_STUCK = "orphan_stuck"
"""Only a sentence: a scan found an orphan, because it does not move."""

_DAMAGED = (
    "its checkpoint is damaged: {what}. Nothing was guessed: look at it, then rewind it to {to}, or submit it again if "
    "its payload is gone"
)
_ROWS_PAGE = 'See "When a document changes" in docs/writing-pipelines.md. This is said once for each step.'
SENTENCES = {
    AT_GATE: "gate {gate}: a person has to decide",
    DAMAGED: _DAMAGED,
    DAMAGED_STEP: _DAMAGED,
    WORK_GONE: "the work of {step} is gone",
    WORK_GONE_AGAIN: "the work of {step} is gone again, {since}: a person has to decide",
    CURSOR_EXPIRED: "the cursor of {step} is {age} old, and expires after {limit}",
    GATE_EXPIRED: "nobody decided at {gate} within {within}",
    REORDERED: "the order of the steps changed",
    WORKER_GONE: "worker {worker} is gone",
    WORKER_CRASHED: "worker {worker} crashed at {step}: {sign}",
    LOST_TOO_OFTEN: (
        "its worker was lost {times} at {step} since the document last moved, {where}; {last}. Why is not known: no "
        "fatal signal, no exit and no lack of memory was seen. Look for what kills the processes, then redrive it; "
        "Retry(losses=) allows more"
    ),
    OVERDUE: "overdue at {step}",
    CIRCUIT_OPEN: "step {step} is paused for all documents: {why}",
    CIRCUIT_PROBED: "a document was tried, and it works again",
    CIRCUIT_REMOVED: "the pipeline has no such step any more, or the step has no circuit",
    INTERRUPTED: (
        "interrupted {times} in a row at {step}, before anything of it could be committed: {stop}, and its body had "
        "run for {ran}. Give the worker more time, commit smaller parts (commit_every=, size=), or write the step as a "
        "stream"
    ),
    DEFERRED_TOO_LONG: (
        "put off {times} at {step}, for {duration}, the last time because: {why}. Look whether what it waits for can "
        "still come, then resume it"
    ),
    CLOCK_SET_BACK: "the clock was {ahead} ahead when this wait began, and was set back since: the wait starts again",
    BATCH_DEADLINE: "its batch had to be finished by {deadline}",
    WOKEN: "its time has come",
    FOR_REVIEW: "kept for review: {why}",
    VERIFIED: "the work of {steps} is there",
    ROWS_LEFT: (
        "step {step} of {pipeline} did a document again, and the rows that its effect wrote the first time stay: it "
        "does not say how they go away. " + _ROWS_PAGE
    ),
    REMOVED_ROWS_LEFT: (
        "{pipeline} did a document again, and rows that step {step} wrote the first time stay: the pipeline has no "
        "such step any more, so nothing can remove them. " + _ROWS_PAGE
    ),
    MORE_THAN_TOTAL: "{step} yielded {items} items, and said that there are {total}",
    FEWER_THAN_TOTAL: "{step} ended after {items} items, and said that there are {total}",
    MANY_SET_ASIDE: "{aside} of {total} items of {step} were set aside. It stops above {allowed}",
    ORPHAN_SILENT: "worker {worker} is silent since {since}",
    ORPHAN_OVERDUE: "overdue at {step} since {since}",
    ORPHAN_STUCK: "no progress at {step} for {duration}",
}
"""The sentence of each code, with its facts in braces."""

RECOVERABLE = {DAMAGED: False, DAMAGED_STEP: False}
"""For the codes of which it is known: whether the reason can go away by itself."""


def sentence(code: str, **facts: Any) -> str:
    """Return the sentence of a code, for people.

    Args:
        code: A code of this module.
        **facts: What the sentence names: a gate, a step, a worker.
    """
    return SENTENCES[code].format(**facts)


def rewind_target(code: str, step: str | None, first: str) -> str | None:
    """Return the step to which a person should rewind a damaged document. Return None if it is not damaged.

    Args:
        code: The code of the document.
        step: The step where the document is.
        first: The first step of its pipeline.
    """
    if code == DAMAGED:
        return first
    return (step or first) if code == DAMAGED_STEP else None
