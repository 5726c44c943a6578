"""Strategies for lockstep: shapes, keys, values, and how often each verb is drawn."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st

from holdfast.core.plan import Shape, StepShape

SHAPES = (
    Shape("papers", (StepShape("read", "stream"), StepShape("look", "gate"), StepShape("file", "value"))),
    Shape(
        "papers",
        (StepShape("scan", "stream"), StepShape("look", "gate"), StepShape("file", "value"), StepShape("end", "gate")),
        {"read": "scan"},
    ),
    Shape("papers", (StepShape("file", "value"), StepShape("end", "gate")), {"read": "file", "scan": "file"}),
    Shape("papers", (StepShape("file", "value"), StepShape("look", "gate"), StepShape("read", "stream"))),
    Shape(
        "papers",
        (StepShape("scan", "stream"), StepShape("look", "gate"), StepShape("file", "value")),
        {"read": "scan", "end": "file"},
    ),
    Shape("papers", (StepShape("read", "stream", version=2), StepShape("look", "gate"), StepShape("file", "value"))),
    Shape(
        "papers",
        (StepShape("read", "stream", settings={"size": 1}), StepShape("file", "value"), StepShape("end", "gate")),
        {"look": "file"},
    ),
)
KEYS = st.sampled_from("abcde")
MARKS = st.sampled_from(["f1", "f2", "file:1:1:c1", "file:1:2:c1", "file:2:2:c2"])
BATCHES = st.sampled_from(["march", "april"])
SECONDS = st.integers(0, 45).map(lambda seconds: timedelta(seconds=seconds))
SOME_BATCH = st.sampled_from([None, None, None, "march", "april"])
WAYS = st.sampled_from(["forward", "forward", "forward", "within", "broken"])
VALUES = st.sampled_from(['"v"', b"bytes", '"' + "x" * 70_000 + '"'])
COSTS = st.sampled_from(["attempt", "crash", "nothing", "deferral", "interruption"])
ASIDES = st.sampled_from(["", "aside", "mend"])
GATES = ("look", "end")
CIRCUIT_VERBS = (
    *["open_circuit"] * 2,
    *["claim_probe"] * 3,
    "end_probe",
    "close_circuit",
    "hasten_probes",
    "works_for_others",
)
DECISIONS = {"paused": "resume", "dead": "redrive", "done": "rewind_to"}
VERBS_OF_PEOPLE = (
    *("resume", "reject", "pause", "cancel", "withdraw", "redrive", "accept", "prioritise"),
    *["rewind_to"] * 2,
)
VERBS = (
    "submit",
    "rename",
    *["claim"] * 5,
    "claim_suspect",
    *["commit"] * 7,
    *["release"] * 3,
    *["reclaim"] * 3,
    *["scan"] * 2,
    *["decide"] * 3,
    *["time_passes"] * 2,
    "rewind",
    "admit",
    "wake",
    "clock",
    "set_gate_deadline",
    "add_step_times",
    "circuit",
    "begin_scan",
    "register_worker",
    "heartbeat",
    "retire_worker",
    "release_unknown",
    *["declare"] * 2,
    "check",
    "seal",
    "set_deadline",
    "expire_batch",
    "close",
    "cleanup",
)
"""Verbs, repeated by how often they are drawn, so that documents make progress."""
