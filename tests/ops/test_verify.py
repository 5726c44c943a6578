"""holdfast.verify: work that is gone is redone, work that is gone again is parked, and nothing else changes."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.reasons import ON_HOLD, WORK_GONE, WORK_GONE_AGAIN, sentence
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import SOON, PipelineHarness


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


class Filing(PipelineHarness):
    """Define read, upload (verified), index (verified) and file. Two sets have what is uploaded and indexed."""

    def __init__(self, store: Store) -> None:
        pipeline = holdfast.Pipeline("p")
        super().__init__(store, pipeline)
        self.up: set[str] = set()
        self.indexed: set[str] = set()
        self.lossy: set[str] = set()
        self.runs: list[str] = []
        self.file: Any = lambda doc: None
        pipeline.step(name="read")(lambda doc: [doc.key])
        upload = pipeline.step(name="upload")(lambda doc: self._put(self.up, doc))
        upload.verify(lambda doc: doc.key in self.up)
        index = pipeline.step(name="index")(lambda doc: self._put(self.indexed, doc))
        index.verify(lambda doc: doc.key in self.indexed)
        pipeline.step(name="file", retry=SOON)(self._file)

    def _file(self, doc: holdfast.Document) -> object:
        return self.file(doc)

    def drain_until_busy(self) -> None:
        """Drain until `file` is called. It asks to be called again in an hour."""
        budget = holdfast.Budget()

        def file(doc: holdfast.Document) -> None:
            budget.stop("it was called")
            raise holdfast.RetryLater("busy", after=3600)

        self.file = file
        self.drain(budget=budget)

    def _put(self, where: set[str], doc: holdfast.Document) -> None:
        self.runs.append(f"{doc.step} {doc.key}")
        if doc.key not in self.lossy:
            where.add(doc.key)

    def verify(self, **more: Any) -> holdfast.Verification:
        return holdfast.verify(self.pipeline, self.store, **more)

    def done(self, *keys: str) -> None:
        self.submit(*keys)
        assert self.drain().done == len(keys)
        self.runs.clear()

    def plan(self) -> Any:
        return self.store.declare(self.pipeline.shape())


def test_work_that_is_there_is_fine(store: Store) -> None:
    harness = Filing(store)
    harness.done("a", "b")
    found = harness.verify()
    assert (found.documents, found.checks, found.fine, found.gone, found.errors) == (2, 4, 2, 0, 0)
    assert harness.document().checkpoint.generation == 0
    assert harness.verbs() == []


def test_a_done_document_goes_back_to_the_step_whose_work_is_gone(store: Store) -> None:
    harness = Filing(store)
    harness.done("a", "b")
    harness.indexed.remove("a")
    found = harness.verify(who="ann")
    assert (found.documents, found.fine, found.rewound) == (2, 1, 1)
    here = harness.document()
    assert (here.state, here.checkpoint.step, here.checkpoint.generation) == ("waiting", "index", 1)
    (line,) = store.journal(here.id)
    assert (line.verb, line.who, line.detail["reason"]) == ("rewind", "ann", sentence(WORK_GONE, step="index"))
    assert (line.detail["was"], line.detail["state"], line.detail["to"]) == ("done", "waiting", "index")
    (finding,) = found.findings
    assert (finding.batch, finding.key, finding.step, finding.what) == ("b", "a", "index", "rewound")
    assert harness.drain().done == 1
    assert harness.runs == ["index a"]
    assert harness.verify().fine == 2


def test_the_first_step_whose_work_is_gone_is_where_it_goes(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.indexed.clear()
    harness.up.clear()
    assert harness.verify().checks == 1
    assert harness.document().checkpoint.step == "upload"


def test_work_of_a_done_document_that_is_gone_twice_in_a_row_parks_it(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.lossy.add("a")
    harness.indexed.clear()
    assert harness.verify().rewound == 1
    assert harness.drain().done == 1
    found = harness.verify()
    assert (found.rewound, found.parked) == (0, 1)
    here = harness.document()
    assert (here.state, here.checkpoint.step, here.due_at) == ("paused", "index", None)
    assert here.reason == sentence(WORK_GONE_AGAIN, step="index", since="after it was redone")
    assert harness.verbs() == ["rewind", "rewind"]
    assert harness.drain().done == 0


def test_work_that_was_found_in_between_is_not_gone_twice_in_a_row(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.indexed.clear()
    assert harness.verify().rewound == 1
    harness.drain()
    for _ in range(3):
        assert harness.verify(who="ann").fine == 1
    line = store.journal(harness.document().id)[-1]
    assert (harness.verbs(), line.who, line.detail["steps"]) == (["rewind", "verify"], "ann", ["index"])
    harness.lossy.add("a")
    harness.indexed.clear()
    assert harness.verify().rewound == 1
    harness.drain()
    assert harness.verify().parked == 1, "gone again right after it was done anew"


def test_work_of_one_step_that_is_there_says_nothing_of_another(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.up.clear()
    harness.verify()
    harness.drain()
    harness.lossy.add("a")
    harness.indexed.clear()
    assert harness.verify().rewound == 1
    assert (harness.document().checkpoint.step, harness.verify().fine) == ("index", 1), "only upload is behind it"
    assert harness.verbs() == ["rewind", "rewind", "verify"]
    harness.drain()
    assert harness.verify().parked == 1


def test_one_that_is_parked_is_not_asked_again(store: Store) -> None:
    test_work_of_a_done_document_that_is_gone_twice_in_a_row_parks_it(store)
    harness = Filing(store)
    harness.up.add("a")
    assert (harness.verify().gone, harness.document().state) == (0, "paused")


def test_a_resume_by_a_person_gives_it_another_chance(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.lossy.add("a")
    harness.indexed.clear()
    for _ in range(2):
        harness.verify()
        harness.drain()
    assert store.resume(harness.plan(), [harness.document().id], who="ann", reason="the index is back")
    assert harness.drain().done == 1
    assert (harness.verify().rewound, harness.document().state) == (1, "waiting")


def test_a_rewind_by_a_person_is_no_failure(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    here = harness.document()
    assert store.rewind_to(harness.plan(), [here.id], to="index", who="ann", reason="a new model") == [here.id]
    assert harness.drain().done == 1
    harness.indexed.clear()
    assert harness.verify().rewound == 1


def test_a_waiting_document_goes_back_before_a_worker_takes_it_up(store: Store) -> None:
    harness = Filing(store)
    harness.submit("a")
    harness.drain_until_busy()
    assert harness.document().checkpoint.step == "file"
    harness.up.clear()
    assert harness.verify().rewound == 1
    harness.file = lambda doc: None
    assert harness.drain().done == 1


def test_a_waiting_document_that_did_not_get_past_its_place_is_parked(store: Store) -> None:
    harness = Filing(store)
    harness.lossy.add("a")
    harness.submit("a")
    for word in ("rewound", "parked"):
        harness.drain_until_busy()
        assert getattr(harness.verify(), word) == 1
    assert harness.document().reason == sentence(
        WORK_GONE_AGAIN, step="upload", since="before the document passed file"
    )


def test_one_rewound_from_its_end_is_parked_when_it_is_gone_again_on_the_way(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.lossy.add("a")
    harness.indexed.clear()
    harness.verify()
    tries: list[int] = []

    def later(doc: holdfast.Document) -> None:
        tries.append(1)
        raise holdfast.RetryLater("busy", after=0.001)

    harness.file = later
    assert harness.drain().paused == 1
    assert tries == [1]
    assert "before the document passed its last step" in harness.document().reason


def test_a_dead_letter_whose_work_is_gone_is_reported_and_stays_dead(store: Store) -> None:
    harness = Filing(store)
    harness.file = lambda doc: (_ for _ in ()).throw(holdfast.Reject("no"))
    harness.submit("a")
    harness.drain()
    assert harness.verify().fine == 1
    harness.up.clear()
    before, found = harness.document(), harness.verify()
    assert (found.left_alone, found.rewound) == (1, 0)
    assert "the document is a dead letter: redrive it" in found.findings[0].why
    assert harness.document() == before
    harness.file = lambda doc: None
    store.redrive([before.id], who="ann", reason="as told")
    harness.runs.clear()
    assert harness.drain().done == 1
    assert harness.runs == ["upload a", "index a"]


def _at_file(harness: Filing) -> int:
    harness.submit("a")
    harness.drain_until_busy()
    harness.file = lambda doc: None
    return harness.document().id


def test_a_document_on_hold_is_rewound_and_stays_on_hold(store: Store) -> None:
    harness = Filing(store)
    number = _at_file(harness)
    store.pause([number], who="counsel", reason="legal hold")
    harness.up.clear()
    found = harness.verify(who="nightly")
    assert (found.rewound, found.parked) == (1, 0)
    assert found.findings[0].why == f"{sentence(WORK_GONE, step='upload')}; it stays paused: legal hold"
    here = harness.document()
    assert (here.state, here.reason, here.code) == ("paused", "legal hold", ON_HOLD)
    assert (here.checkpoint.step, here.checkpoint.generation) == ("upload", 1)
    assert store.journal(number)[-1].detail["reason"] == sentence(WORK_GONE, step="upload")
    assert harness.drain().done == 0
    store.resume(harness.plan(), [number], who="counsel", reason="settled")
    assert harness.drain().done == 1


def test_a_hold_without_words_is_a_hold(store: Store) -> None:
    harness = Filing(store)
    store.pause([_at_file(harness)], who="counsel", reason="")
    harness.up.clear()
    assert harness.verify().rewound == 1
    assert (harness.document().state, harness.document().code) == ("paused", ON_HOLD)


def test_a_hold_ends_when_it_would_have_ended(store: Store) -> None:
    harness = Filing(store)
    until = store.now() + timedelta(hours=1)
    store.pause([_at_file(harness)], who="counsel", reason="not before ten", until=until)
    harness.up.clear()
    harness.verify()
    assert (harness.document().checkpoint.step, harness.document().due_at) == ("upload", until)


def test_a_held_document_whose_work_is_gone_again_stays_with_who_holds_it(store: Store) -> None:
    harness = Filing(store)
    number = _at_file(harness)
    harness.lossy.add("a")
    harness.up.clear()
    assert harness.verify().rewound == 1
    harness.drain_until_busy()
    assert harness.document().checkpoint.step == "file"
    store.pause([number], who="counsel", reason="legal hold")
    assert harness.verify().rewound == 1
    assert (harness.document().reason, harness.document().code) == ("legal hold", ON_HOLD)


def test_a_question_of_a_body_stays_until_it_is_answered(store: Store) -> None:
    harness = Filing(store)
    harness.file = lambda doc: (_ for _ in ()).throw(holdfast.Pause("which page?"))
    harness.submit("a")
    harness.drain()
    harness.up.clear()
    assert harness.verify().rewound == 1
    here = harness.document()
    assert (here.state, here.reason, here.checkpoint.step) == ("paused", "which page?", "upload")


def test_a_document_at_a_gate_is_redone_and_comes_to_the_gate_again(store: Store) -> None:
    harness = PipelineHarness(store, pipeline := holdfast.Pipeline("p"))
    there: set[str] = set()
    pipeline.step(name="upload")(lambda doc: there.add(doc.key)).verify(lambda doc: doc.key in there)
    pipeline.gate("look")
    harness.submit("a")
    harness.drain()
    there.clear()
    assert holdfast.verify(pipeline, store).rewound == 1
    assert (harness.document().state, harness.document().checkpoint.step) == ("waiting", "upload")
    assert harness.drain().paused == 1
    assert harness.document().checkpoint.step == "look"


def test_an_accepted_dead_letter_is_left_as_it_is(store: Store) -> None:
    harness = Filing(store)
    harness.file = lambda doc: (_ for _ in ()).throw(holdfast.Reject("no"))
    harness.submit("a")
    harness.drain()
    harness.up.clear()
    store.accept([harness.document().id], who="ann", reason="we know")
    assert harness.verify().documents == 0
    assert (harness.document().state, harness.document().accepted_by) == ("dead", "ann")


def test_a_document_that_a_worker_holds_is_left_to_it(store: Store) -> None:
    harness = Filing(store)
    harness.submit("a")
    worker = store.register_worker(name="w", host="h", pid=1, born="x", lease=timedelta(seconds=60))
    store.claim(harness.plan(), worker, limit=1)
    found = harness.verify()
    assert (found.held, found.documents) == (1, 0)
    assert harness.document().holder == "w"


def test_a_document_that_has_done_nothing_is_not_asked_about(store: Store) -> None:
    harness = Filing(store)
    harness.submit("a")
    assert (harness.verify().documents, harness.document().checkpoint.generation) == (0, 0)


def test_a_verify_that_raises_is_reported_and_changes_nothing(store: Store) -> None:
    harness = Filing(store)
    harness.done("a", "b", "c")
    harness.indexed.remove("c")

    def broken(doc: holdfast.Document) -> bool:
        if doc.key == "a":
            raise OSError("no route")
        return True

    harness.pipeline["upload"].verify_body = broken
    found = harness.verify()
    assert (found.errors, found.fine, found.rewound) == (1, 1, 1)
    assert ("a", "error", "OSError: no route") in [(one.key, one.what, one.why) for one in found.findings]
    assert (harness.document("a").state, harness.document("a").checkpoint.generation) == ("done", 0)
    assert harness.verbs("a") == []


def test_a_document_that_moved_while_it_was_asked_about_is_left_alone(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")

    def changed_meanwhile(doc: holdfast.Document) -> bool:
        holdfast.submit(harness.pipeline, store, batch="b", documents=[("a", "changed")])
        return False

    harness.pipeline["upload"].verify_body = changed_meanwhile
    found = harness.verify()
    assert (found.left_alone, found.rewound, found.gone) == (1, 0, 1)
    assert (harness.document().checkpoint.step, harness.document().checkpoint.generation) == ("read", 1)


def test_of_two_that_verify_at_once_one_has_it_redone(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    inner: list[holdfast.Verification] = []

    def asks_too(doc: holdfast.Document) -> bool:
        if not inner:
            inner.append(holdfast.Verification())
            inner[0] = harness.verify()
        return False

    harness.pipeline["upload"].verify_body = asks_too
    outer = harness.verify()
    assert sorted([(inner[0].rewound, inner[0].left_alone), (outer.rewound, outer.left_alone)]) == [(0, 1), (1, 0)]
    assert harness.document().checkpoint.generation == 1
    assert harness.verbs() == ["rewind"]


def test_a_step_that_came_after_the_document_was_done_is_not_asked(store: Store) -> None:
    old = holdfast.Pipeline("p")
    old.step(name="read")(lambda doc: 1)
    holdfast.submit(old, store, batch="b", documents=[("a", None)])
    holdfast.drain(old, store)
    new = holdfast.Pipeline("p")
    new.step(name="read")(lambda doc: 1)
    new.step(name="sign")(lambda doc: 1).verify(lambda doc: False)
    found = holdfast.verify(new, store)
    assert (found.documents, found.gone) == (0, 0)


def test_a_verify_reads_what_was_kept_also_of_a_reused_generation(store: Store) -> None:
    harness = PipelineHarness(store, pipeline := holdfast.Pipeline("p"))
    read = pipeline.step(name="read")(lambda doc: [1, 2])
    seen: list[tuple[Any, str]] = []

    def look(doc: holdfast.Document) -> bool:
        seen.append((doc.output(read), doc.step))
        return True

    pipeline.step(name="index")(lambda doc: 3).verify(look)
    harness.submit("a")
    harness.drain()
    plan = store.declare(pipeline.shape())
    store.rewind_to(plan, [harness.document().id], to="index", who="ann", reason="anew")
    harness.drain()
    assert holdfast.verify(pipeline, store).fine == 1
    assert seen == [([1, 2], "index")]


def test_only_what_is_meant_is_asked_about(store: Store) -> None:
    harness = Filing(store)
    harness.done("a1", "a2", "b1")
    holdfast.submit(harness.pipeline, store, batch="c", documents=[("a1", None)])
    harness.drain()
    assert harness.verify(batch="c").documents == 1
    assert harness.verify(key="a1").documents == 2
    assert harness.verify(key="a*", batch="b").documents == 2
    assert harness.verify(batch="never").documents == 0


def _asked(harness: Filing, **how: Any) -> set[str]:
    asked: set[str] = set()
    harness.pipeline["upload"].verify_body = lambda doc: asked.add(doc.key) or True
    harness.verify(**how)
    return asked


def test_a_sample_is_random_and_can_be_drawn_again(store: Store) -> None:
    harness = Filing(store)
    harness.done(*(f"d{number}" for number in range(200)))
    some = _asked(harness, sample=20, seed=1)
    assert len(some) == 20
    assert _asked(harness, sample=20, seed=1) == some
    assert _asked(harness, sample=20, seed=2) != some
    share = _asked(harness, sample=0.25, seed=1)
    assert 25 <= len(share) <= 80
    assert some <= share, "a larger sample of the same seed has the smaller in it"
    assert len(_asked(harness, sample=1000, seed=1)) == len(_asked(harness, sample=1.0, seed=1)) == 200


def test_a_sample_reports_its_seed(store: Store) -> None:
    harness = Filing(store)
    harness.done("a", "b")
    assert harness.verify(sample=1).seed is not None
    assert harness.verify().seed is None


@pytest.mark.parametrize("sample", [0, -1, 0.0, 1.5, -0.1])
def test_a_sample_that_is_none_is_refused(sample: float) -> None:
    with pytest.raises(holdfast.HoldfastError, match="which share"):
        holdfast.verify(Filing(open_store("memory://")).pipeline, open_store("memory://"), sample=sample)


def test_verifies_run_in_threads_beside_each_other(store: Store) -> None:
    harness = Filing(store)
    harness.done("a", "b", "c")
    together = threading.Barrier(3, timeout=20)
    harness.pipeline["upload"].verify_body = lambda doc: together.wait() >= 0
    assert harness.verify(threads=3).fine == 3


def test_many_documents_are_asked_about_slice_by_slice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.ops import verify

    monkeypatch.setattr(verify, "SLICE_SIZE", 7)
    harness = Filing(store)
    harness.done(*(f"d{number}" for number in range(40)))
    harness.indexed -= {"d3", "d39"}
    found = harness.verify()
    assert (found.documents, found.fine, found.rewound) == (40, 38, 2)


def test_readers_see_the_old_work_until_it_is_redone(store: Store) -> None:
    harness = Filing(store)
    harness.done("a")
    harness.indexed.clear()
    here = harness.document()
    before = [*store.served(here.id)]
    assert before
    harness.verify()
    assert [*store.served(here.id)] == before
