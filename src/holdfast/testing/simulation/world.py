"""One schedule: a small fleet works on a few documents while everything that can go wrong does, then peace returns.

While there is trouble, each transaction must leave the books as they may be. When faults cease, every document has to
come to its end, and what was kept for it has to be what an undisturbed run would have kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from holdfast import Document
from holdfast.core.errors import HoldfastError, PlanRefused
from holdfast.core.stale import Stale
from holdfast.engine.bodies import StoreReader
from holdfast.engine.budget import Budget
from holdfast.engine.settings import Settings
from holdfast.engine.stale import stale_groups
from holdfast.engine.worker import Worker
from holdfast.stores.protocol import Which
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.simulation.books import Books, MemoryBooks, Seen, SqliteBooks
from holdfast.testing.simulation.choices import Choices
from holdfast.testing.simulation.machine import Machine, Process, Stuck, Thread
from holdfast.testing.simulation.peace import Peace
from holdfast.testing.simulation.promises import Held, Promises
from holdfast.testing.simulation.shapes import ORDER, SHAPES, Edition, pipeline_of, places, play_on
from holdfast.testing.simulation.stage import INCURABLE, TABLE, TEMPERS, Stage, Temper, new_document
from holdfast.testing.simulation.stores import LEASE, Watched, WatchedMemory, WatchedSqlite
from holdfast.testing.simulation.threads import run_on
from holdfast.testing.simulation.trouble import Trouble

GIVE_WAY = 0.08
"""How likely it is, at each point, that others go on first."""
LONG_ENOUGH = 500
"""After so many turns there is peace, whether all the trouble has come or not."""
MOST_TURNS = 8000
BATCH = "batch"


class Outcome(Struct):
    """What came of a schedule."""

    choices: list[int]
    broken: str
    turns: int
    troubles: dict[str, int]
    states: set[int]


class World:
    """A fleet, its store, its documents, and all that happens to them."""

    def __init__(
        self, choices: Choices, *, file: Path | None = None, story: Callable[[str], None] | None = None
    ) -> None:
        self.choices = choices
        self.trouble = Trouble(self)
        self.machine = Machine(choices, trouble=self.trouble, give_way=GIVE_WAY, most_turns=MOST_TURNS)
        self.people = Thread(Process("somebody", pid=0, host=""), "", 0)
        self._story = story
        self.store = self._open(file)
        self.books = self._open_books()
        self.promises = Promises(self.machine, self.books, is_incurable=self.is_incurable)
        self.store.watch.enlisted = self.promises.enlisted
        self.store.watch.reclaimed = self.promises.reclaimed
        self.store.watch.look = self.promises.look
        self.stage = Stage(
            clock=self.machine.clock,
            wait=self.machine.sleep,
            asked=self._asked,
            die=self._die,
            tell=self.tell,
            misread=self._misread,
            made=self.made,
            inside=self._inside,
        )
        self._bodies: list[tuple[Process, Held]] = []
        self.edition = Edition((), ())
        self.versions: dict[str, int] = {}
        self.budgets: dict[Process, Budget] = {}
        self.up_to_date: list[Process] = []

    def _open(self, file: Path | None) -> Watched:
        return WatchedMemory(self.machine) if file is None else WatchedSqlite(self.machine, file)

    def _open_books(self) -> Books:
        if isinstance(self.store, WatchedMemory):
            return MemoryBooks(self.store)
        return SqliteBooks(SqliteStore(self.store.url))

    # the schedule

    def run(self) -> Outcome:
        """Runs the schedule."""
        run_on(self.machine)
        play_on(self.stage)
        try:
            self._prepare()
            self.machine.run(self._is_enough)
            self._make_peace()
            peace = Peace(self)
            self.machine.run(peace.is_over)
            peace.look_back()
        except Stuck as stuck:
            self.promises.say(f"{stuck}: {[*self.promises.seen]}")
        except Exception as error:  # noqa: BLE001 - whatever comes out here, nobody promised it
            self.promises.say(f"{type(error).__name__}: {error}")
        finally:
            self.trouble.cease()
            for process in [one for one in self.machine.processes if one.alive]:
                self.machine.kill(process)
            self.store.watch.delivered.clear()  # moves lead to the store, and no collector looks into them
            self.store.close()
            self.books.close()
        broken = str(self.promises.broken or "")
        return Outcome(self.choices.taken, broken, self.machine.turns, self.trouble.counts, self.promises.states)

    def _prepare(self) -> None:
        with self.store.transaction() as tx:
            tx.execute(TABLE)
        self.deploy(Edition.of(dict.fromkeys(SHAPES[self.choices.one_of(len(SHAPES))], 1)))
        for number in range(1 + self.choices.one_of(3)):
            self.submit(f"doc{number}")
        for _ in range(1 + self.choices.one_of(2)):
            self.start_worker()

    def _is_enough(self) -> bool:
        if self.promises.broken or self.trouble.is_over or self.choices.are_over or self.machine.turns > LONG_ENOUGH:
            return True
        self.see_to_it_that_somebody_works()
        return False

    def _make_peace(self) -> None:
        self.tell("peace")
        self.trouble.cease()
        for process in self.machine.processes:
            process.skew = 0.0
        self.start_worker()

    def see_to_it_that_somebody_works(self) -> None:
        """Starts a worker with the present version, if there is none."""
        if not any(self.machine.is_running(process) for process in self.up_to_date):
            self.bring_back_what_is_missed()
            self.start_worker()

    def bring_back_what_is_missed(self) -> None:
        """Somebody sees documents at steps that were taken out, to which a worker brought them that did not know.

        While others are open that went through those steps in another order, it is refused, and tried again later.
        """
        at = {seen.step for seen in self.promises.seen if seen.state != "cancelled"} - {None, *self.steps}
        if at:
            self.tell(f"somebody brings {sorted(map(str, at))} back")
            try:
                self.deploy(self.edition.having({step: 1 for step in ORDER if step in at}))
            except PlanRefused as refused:
                self.tell(f"{refused}")

    # what people and machines do

    @contextmanager
    def as_people(self) -> Iterator[None]:
        """Whatever is done here, a person does."""
        before, self.machine.current = self.machine.current, self.people
        try:
            yield
        finally:
            self.machine.current = before

    def submit(self, key: str) -> None:
        """Somebody submits a document, or one that has changed."""
        version = self.versions[key] = self.versions.get(key, 0) + 1
        pages = 1 + self.choices.one_of(3)
        kind = TEMPERS[self.choices.one_of(len(TEMPERS))]
        step = self.steps[self.choices.one_of(len(self.steps))]
        room = len(places(step, pages)) or 1
        self.stage.tempers[key, version] = Temper(kind, step, self.choices.one_of(room), 1 + self.choices.one_of(2))
        self.tell(f"somebody submits {key}, version {version}, {pages} pages, {self.stage.tempers[key, version]}")
        with self.as_people():
            one = new_document(key, version, pages)
            self.store.submit(self.plan, BATCH, [one], submission=len(self.stage.tempers), part=0)
        self.promises.acknowledged.add(key)

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps that the pipeline has now."""
        return self.edition.steps

    def deploy(self, edition: Edition) -> None:
        """Somebody lets workers have another version from now on; those that run go on with theirs."""
        shape = pipeline_of(edition).shape()
        with self.as_people():
            self.plan = self.store.declare(shape)
            if self.store.shape(shape.pipeline) != shape:
                self.promises.say(f"{shape.names} was declared last, and is not the present shape")
        self.edition = edition
        self.promises.editions.deployed(self.plan, edition)
        self.up_to_date = []

    def redo(self) -> int:
        """Somebody has all work redone that is out of date. Answers how many documents that were."""
        with self.as_people():
            return sum(len(self._redo(group)) for group in stale_groups(self.store, pipeline_of(self.edition)))

    def _redo(self, group: Stale) -> list[int]:
        at: list[Which] = [{"plan": group.plan_id, "state": one.state, "step": one.step} for one in group.counts]
        numbers = [number for which in at for number in self.store.select(self.plan.pipeline, **which)]
        return self.store.rewind_to(self.plan, numbers, to=group.to, who="somebody", reason=group.why)

    def start_worker(self) -> None:
        """A process begins to work, with the pipeline as it is now."""
        number = len(self.machine.processes) + 1
        process = Process(f"worker{number}", pid=number, host="ab"[self.choices.one_of(2)])
        pipeline = pipeline_of(self.edition)
        budget = self.budgets[process] = Budget()
        settings = Settings(
            name=process.name,
            threads=1 + self.choices.one_of(2),
            concurrency=1 + self.choices.one_of(3),
            lease=LEASE,
            grace=timedelta(seconds=1),
        )

        def work() -> None:
            try:
                Worker(pipeline, self.store, settings=settings, budget=budget).work()
                process.has_stopped = True
            except HoldfastError as error:
                self.tell(f"ends: {error}")
            except Exception as error:  # noqa: BLE001 - as above
                self.promises.say(f"{process} ends with {type(error).__name__}: {error}")
            finally:
                self.machine.kill(process)

        self.tell(f"{process} begins on host {process.host} with {self.steps}, {settings.threads} threads")
        self.machine.start(process, work)
        self.up_to_date.append(process)

    def _die(self) -> None:
        current = self.machine.current
        assert current is not None
        self.machine.kill(current.process)
        self.machine.point("")

    @contextmanager
    def _inside(self, doc: Document, step: str) -> Iterator[None]:
        current = self.machine.current
        assert current is not None
        body = (current.process, _held(doc))
        self._bodies.append(body)
        self.promises.inside(step, self._bodies)
        try:
            yield
        finally:
            self._bodies.remove(body)

    def _asked(self, doc: Document, *, is_there: bool) -> None:
        current = self.machine.current
        assert current is not None
        self.promises.asked(current.process, _held(doc), is_there=is_there)

    def made(self, key: str, version: int, step: str, pages: int) -> list[int]:
        """Gives the places at which a step must have made something: all, but for what was given up."""
        given_up = self.promises.given_up.get((key, version, step), ())
        return [place for place in places(step, pages) if place not in given_up]

    def is_incurable(self, seen: Seen) -> bool:
        """Answers whether a document never ends well."""
        return self.stage.tempers[seen.key, seen.version].kind in INCURABLE

    # the story

    def _misread(self, doc: Document, what: str) -> None:
        """A body saw what is not so. One that was lost meanwhile may: nobody will hear of it."""
        current = self.machine.current
        assert current is not None
        if self.promises.holds(current.process, doc.key, doc.generation):
            self.promises.say(f"{doc.key} of version {doc.payload['version']} {what}")

    def tell(self, said: str) -> None:
        """Tells what happens, if somebody listens."""
        if self._story is not None:
            current = self.machine.current
            who = f"{current.process} {current.name}" if current else ""
            self._story(f"{self.machine.now:8.2f}  {who:28} {said}")


def _held(doc: Document) -> Held:
    """Says under which fence a body was begun. Its worker may hold the document under another one meanwhile."""
    assert isinstance(doc.reader, StoreReader)
    return doc.key, doc.reader.claim.fence
