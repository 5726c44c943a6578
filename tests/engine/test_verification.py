"""Verification on demand: what is gone is done anew, what is gone again is a person's, and nothing else is touched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.model import ON_HOLD
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.engine.conftest import SOON, Bench


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/verify.db"}
    store = open_store(urls.get(request.param, lambda: request.getfixturevalue("postgres_url"))())
    yield store
    store.close()


class Filing(Bench):
    """read, upload (verified), index (verified), file. What is up and indexed is in two sets, to be taken from."""

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
    bench = Filing(store)
    bench.done("a", "b")
    found = bench.verify()
    assert (found.documents, found.checks, found.fine, found.gone, found.errors) == (2, 4, 2, 0, 0)
    assert bench.standing().checkpoint.generation == 0
    assert bench.verbs() == []


def test_a_done_document_goes_back_to_the_step_whose_work_is_gone(store: Store) -> None:
    bench = Filing(store)
    bench.done("a", "b")
    bench.indexed.remove("a")
    found = bench.verify(who="ann")
    assert (found.documents, found.fine, found.rewound) == (2, 1, 1)
    here = bench.standing()
    assert (here.state, here.checkpoint.step, here.checkpoint.generation) == ("waiting", "index", 1)
    (line,) = store.journal(here.id)
    assert (line.verb, line.who, line.detail["reason"]) == ("rewind", "ann", "the work of index is gone")
    assert (line.detail["was"], line.detail["state"], line.detail["to"]) == ("done", "waiting", "index")
    (finding,) = found.findings
    assert (finding.batch, finding.key, finding.step, finding.what) == ("b", "a", "index", "rewound")
    assert bench.drain().done == 1
    assert bench.runs == ["index a"]
    assert bench.verify().fine == 2


def test_the_first_step_whose_work_is_gone_is_where_it_goes(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.indexed.clear()
    bench.up.clear()
    assert bench.verify().checks == 1
    assert bench.standing().checkpoint.step == "upload"


def test_work_of_a_done_document_that_is_gone_twice_in_a_row_parks_it(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.lossy.add("a")
    bench.indexed.clear()
    assert bench.verify().rewound == 1
    assert bench.drain().done == 1
    found = bench.verify()
    assert (found.rewound, found.parked) == (0, 1)
    here = bench.standing()
    assert (here.state, here.checkpoint.step, here.due_at) == ("paused", "index", None)
    assert here.reason == "the work of index is gone again, after it was done anew: a person has to decide"
    assert bench.verbs() == ["rewind", "rewind"]
    assert bench.drain().done == 0


def test_work_that_was_found_in_between_is_not_gone_twice_in_a_row(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.indexed.clear()
    assert bench.verify().rewound == 1
    bench.drain()
    for _ in range(3):
        assert bench.verify(who="ann").fine == 1
    line = store.journal(bench.standing().id)[-1]
    assert (bench.verbs(), line.who, line.detail["steps"]) == (["rewind", "verify"], "ann", ["index"])
    bench.lossy.add("a")
    bench.indexed.clear()
    assert bench.verify().rewound == 1
    bench.drain()
    assert bench.verify().parked == 1, "gone again right after it was done anew"


def test_work_of_one_step_that_is_there_says_nothing_of_another(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.up.clear()
    bench.verify()
    bench.drain()
    bench.lossy.add("a")
    bench.indexed.clear()
    assert bench.verify().rewound == 1
    assert (bench.standing().checkpoint.step, bench.verify().fine) == ("index", 1), "only upload is behind it"
    assert bench.verbs() == ["rewind", "rewind", "verify"]
    bench.drain()
    assert bench.verify().parked == 1


def test_one_that_is_parked_is_not_asked_again(store: Store) -> None:
    test_work_of_a_done_document_that_is_gone_twice_in_a_row_parks_it(store)
    bench = Filing(store)
    bench.up.add("a")
    assert (bench.verify().gone, bench.standing().state) == (0, "paused")


def test_a_person_who_lets_it_go_on_gives_it_another_chance(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.lossy.add("a")
    bench.indexed.clear()
    for _ in range(2):
        bench.verify()
        bench.drain()
    assert store.resume(bench.plan(), [bench.standing().id], who="ann", reason="the index is back")
    assert bench.drain().done == 1
    assert (bench.verify().rewound, bench.standing().state) == (1, "waiting")


def test_a_rewind_by_a_person_is_no_failure(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    here = bench.standing()
    assert store.rewind_to(bench.plan(), [here.id], to="index", who="ann", reason="a new model") == [here.id]
    assert bench.drain().done == 1
    bench.indexed.clear()
    assert bench.verify().rewound == 1


def test_a_waiting_document_goes_back_before_a_worker_takes_it_up(store: Store) -> None:
    bench = Filing(store)
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.RetryLater("busy", after=3600))
    bench.submit("a")
    bench.drain(budget=timedelta(seconds=1))
    assert bench.standing().checkpoint.step == "file"
    bench.up.clear()
    assert bench.verify().rewound == 1
    bench.file = lambda doc: None
    assert bench.drain().done == 1


def test_a_waiting_document_that_did_not_get_past_its_place_is_parked(store: Store) -> None:
    bench = Filing(store)
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.RetryLater("busy", after=3600))
    bench.lossy.add("a")
    bench.submit("a")
    for word in ("rewound", "parked"):
        bench.drain(budget=timedelta(seconds=1))
        assert getattr(bench.verify(), word) == 1
    assert bench.standing().reason.startswith("the work of upload is gone again, before the document got past file")


def test_one_rewound_from_its_end_is_parked_when_it_is_gone_again_on_the_way(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.lossy.add("a")
    bench.indexed.clear()
    bench.verify()
    tries: list[int] = []

    def later(doc: holdfast.Document) -> None:
        tries.append(1)
        raise holdfast.RetryLater("busy", after=0.001)

    bench.file = later
    assert bench.drain().paused == 1
    assert tries == [1]
    assert "before the document got past its last step" in bench.standing().reason


def test_a_dead_letter_whose_work_is_gone_is_told_of_and_stays_dead(store: Store) -> None:
    bench = Filing(store)
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.Reject("no"))
    bench.submit("a")
    bench.drain()
    assert bench.verify().fine == 1
    bench.up.clear()
    before, found = bench.standing(), bench.verify()
    assert (found.left_alone, found.rewound) == (1, 0)
    assert "the document is a dead letter: redrive it" in found.findings[0].why
    assert bench.standing() == before
    bench.file = lambda doc: None
    store.redrive([before.id], who="ann", reason="as told")
    bench.runs.clear()
    assert bench.drain().done == 1
    assert bench.runs == ["upload a", "index a"]


def _at_file(bench: Filing) -> int:
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.RetryLater("busy", after=3600))
    bench.submit("a")
    bench.drain(budget=timedelta(seconds=1))
    bench.file = lambda doc: None
    return bench.standing().id


def test_a_document_that_a_person_holds_goes_back_and_stays_held(store: Store) -> None:
    bench = Filing(store)
    number = _at_file(bench)
    store.pause([number], who="counsel", reason="legal hold")
    bench.up.clear()
    found = bench.verify(who="nightly")
    assert (found.rewound, found.parked) == (1, 0)
    assert found.findings[0].why == "the work of upload is gone; it stays paused: legal hold"
    here = bench.standing()
    assert (here.state, here.reason, here.error) == ("paused", "legal hold", ON_HOLD)
    assert (here.checkpoint.step, here.checkpoint.generation) == ("upload", 1)
    assert store.journal(number)[-1].detail["reason"] == "the work of upload is gone"
    assert bench.drain().done == 0
    store.resume(bench.plan(), [number], who="counsel", reason="settled")
    assert bench.drain().done == 1


def test_a_hold_without_words_is_a_hold(store: Store) -> None:
    bench = Filing(store)
    store.pause([_at_file(bench)], who="counsel", reason="")
    bench.up.clear()
    assert bench.verify().rewound == 1
    assert (bench.standing().state, bench.standing().error) == ("paused", ON_HOLD)


def test_a_hold_ends_when_it_would_have_ended(store: Store) -> None:
    bench = Filing(store)
    until = store.now() + timedelta(hours=1)
    store.pause([_at_file(bench)], who="counsel", reason="not before ten", until=until)
    bench.up.clear()
    bench.verify()
    assert (bench.standing().checkpoint.step, bench.standing().due_at) == ("upload", until)


def test_a_held_document_whose_work_is_gone_again_stays_with_who_holds_it(store: Store) -> None:
    bench = Filing(store)
    number = _at_file(bench)
    bench.lossy.add("a")
    bench.up.clear()
    assert bench.verify().rewound == 1
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.RetryLater("busy", after=3600))
    bench.drain(budget=timedelta(seconds=1))
    assert bench.standing().checkpoint.step == "file"
    store.pause([number], who="counsel", reason="legal hold")
    assert bench.verify().rewound == 1
    assert (bench.standing().reason, bench.standing().error) == ("legal hold", ON_HOLD)


def test_a_question_of_a_body_stays_until_it_is_answered(store: Store) -> None:
    bench = Filing(store)
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.Pause("which page?"))
    bench.submit("a")
    bench.drain()
    bench.up.clear()
    assert bench.verify().rewound == 1
    here = bench.standing()
    assert (here.state, here.reason, here.checkpoint.step) == ("paused", "which page?", "upload")


def test_one_at_a_gate_is_done_anew_and_comes_to_the_gate_again(store: Store) -> None:
    bench = Bench(store, pipeline := holdfast.Pipeline("p"))
    there: set[str] = set()
    pipeline.step(name="upload")(lambda doc: there.add(doc.key)).verify(lambda doc: doc.key in there)
    pipeline.gate("look")
    bench.submit("a")
    bench.drain()
    there.clear()
    assert holdfast.verify(pipeline, store).rewound == 1
    assert (bench.standing().state, bench.standing().checkpoint.step) == ("waiting", "upload")
    assert bench.drain().paused == 1
    assert bench.standing().checkpoint.step == "look"


def test_an_accepted_dead_letter_is_left_as_it_is(store: Store) -> None:
    bench = Filing(store)
    bench.file = lambda doc: (_ for _ in ()).throw(holdfast.Reject("no"))
    bench.submit("a")
    bench.drain()
    bench.up.clear()
    store.accept([bench.standing().id], who="ann", reason="we know")
    assert bench.verify().documents == 0
    assert (bench.standing().state, bench.standing().accepted_by) == ("dead", "ann")


def test_a_document_that_a_worker_holds_is_left_to_it(store: Store) -> None:
    bench = Filing(store)
    bench.submit("a")
    worker = store.enlist(name="w", host="h", pid=1, born="x", lease=timedelta(seconds=60))
    store.claim(bench.plan(), worker, limit=1)
    found = bench.verify()
    assert (found.held, found.documents) == (1, 0)
    assert bench.standing().holder == "w"


def test_a_document_that_has_done_nothing_is_not_asked_about(store: Store) -> None:
    bench = Filing(store)
    bench.submit("a")
    assert (bench.verify().documents, bench.standing().checkpoint.generation) == (0, 0)


def test_a_verify_that_raises_is_told_and_changes_nothing(store: Store) -> None:
    bench = Filing(store)
    bench.done("a", "b", "c")
    bench.indexed.remove("c")

    def broken(doc: holdfast.Document) -> bool:
        if doc.key == "a":
            raise OSError("no route")
        return True

    bench.pipeline["upload"].verify_body = broken
    found = bench.verify()
    assert (found.errors, found.fine, found.rewound) == (1, 1, 1)
    assert ("a", "error", "OSError: no route") in [(one.key, one.what, one.why) for one in found.findings]
    assert (bench.standing("a").state, bench.standing("a").checkpoint.generation) == ("done", 0)
    assert bench.verbs("a") == []


def test_a_document_that_moved_while_it_was_asked_about_is_left_alone(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")

    def changed_meanwhile(doc: holdfast.Document) -> bool:
        holdfast.submit(bench.pipeline, store, batch="b", documents=[("a", "changed")])
        return False

    bench.pipeline["upload"].verify_body = changed_meanwhile
    found = bench.verify()
    assert (found.left_alone, found.rewound, found.gone) == (1, 0, 1)
    assert (bench.standing().checkpoint.step, bench.standing().checkpoint.generation) == ("read", 1)


def test_of_two_that_verify_at_once_one_has_it_redone(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    inner: list[holdfast.Verification] = []

    def asks_too(doc: holdfast.Document) -> bool:
        if not inner:
            inner.append(holdfast.Verification())
            inner[0] = bench.verify()
        return False

    bench.pipeline["upload"].verify_body = asks_too
    outer = bench.verify()
    assert sorted([(inner[0].rewound, inner[0].left_alone), (outer.rewound, outer.left_alone)]) == [(0, 1), (1, 0)]
    assert bench.standing().checkpoint.generation == 1
    assert bench.verbs() == ["rewind"]


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
    bench = Bench(store, pipeline := holdfast.Pipeline("p"))
    read = pipeline.step(name="read")(lambda doc: [1, 2])
    seen: list[tuple[Any, str]] = []

    def look(doc: holdfast.Document) -> bool:
        seen.append((doc.output(read), doc.step))
        return True

    pipeline.step(name="index")(lambda doc: 3).verify(look)
    bench.submit("a")
    bench.drain()
    plan = store.declare(pipeline.shape())
    store.rewind_to(plan, [bench.standing().id], to="index", who="ann", reason="anew")
    bench.drain()
    assert holdfast.verify(pipeline, store).fine == 1
    assert seen == [([1, 2], "index")]


def test_only_what_is_meant_is_asked_about(store: Store) -> None:
    bench = Filing(store)
    bench.done("a1", "a2", "b1")
    holdfast.submit(bench.pipeline, store, batch="c", documents=[("a1", None)])
    bench.drain()
    assert bench.verify(batch="c").documents == 1
    assert bench.verify(key="a1").documents == 2
    assert bench.verify(key="a*", batch="b").documents == 2
    assert bench.verify(batch="never").documents == 0


def _asked(bench: Filing, **how: Any) -> set[str]:
    asked: set[str] = set()
    bench.pipeline["upload"].verify_body = lambda doc: asked.add(doc.key) or True
    bench.verify(**how)
    return asked


def test_a_sample_is_random_and_can_be_drawn_again(store: Store) -> None:
    bench = Filing(store)
    bench.done(*(f"d{number}" for number in range(200)))
    some = _asked(bench, sample=20, seed=1)
    assert len(some) == 20
    assert _asked(bench, sample=20, seed=1) == some
    assert _asked(bench, sample=20, seed=2) != some
    share = _asked(bench, sample=0.25, seed=1)
    assert 25 <= len(share) <= 80
    assert some <= share, "a larger sample of the same seed has the smaller in it"
    assert len(_asked(bench, sample=1000, seed=1)) == len(_asked(bench, sample=1.0, seed=1)) == 200


def test_a_sample_tells_the_seed_it_was_drawn_with(store: Store) -> None:
    bench = Filing(store)
    bench.done("a", "b")
    assert bench.verify(sample=1).seed is not None
    assert bench.verify().seed is None


@pytest.mark.parametrize("sample", [0, -1, 0.0, 1.5, -0.1])
def test_a_sample_that_is_none_is_refused(sample: float) -> None:
    with pytest.raises(holdfast.HoldfastError, match="which share"):
        holdfast.verify(Filing(open_store("memory://")).pipeline, open_store("memory://"), sample=sample)


def test_verifies_run_in_threads_beside_each_other(store: Store) -> None:
    bench = Filing(store)
    bench.done("a", "b", "c")
    together = threading.Barrier(3, timeout=20)
    bench.pipeline["upload"].verify_body = lambda doc: together.wait() >= 0
    assert bench.verify(threads=3).fine == 3


def test_many_documents_are_asked_about_slice_by_slice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.engine import verification

    monkeypatch.setattr(verification, "SLICE", 7)
    bench = Filing(store)
    bench.done(*(f"d{number}" for number in range(40)))
    bench.indexed -= {"d3", "d39"}
    found = bench.verify()
    assert (found.documents, found.fine, found.rewound) == (40, 38, 2)


def test_readers_see_the_old_work_until_it_is_done_anew(store: Store) -> None:
    bench = Filing(store)
    bench.done("a")
    bench.indexed.clear()
    here = bench.standing()
    before = [*store.served(here.id)]
    assert before
    bench.verify()
    assert [*store.served(here.id)] == before
