"""The laboratory: a bench for each case, with a store, workers, somebody who submits and decides, and histories."""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import holdfast
from holdfast.core.errors import StoreError
from holdfast.core.model import NewDocument
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from holdfast.testing.postgres import Postgres, durable_postgres
from tests.faults import checker, histories, program
from tests.faults.cases import CannotRun, Case, Kind, NotAsExpected, require
from tests.faults.histories import FOLDER, Recorder
from tests.soak.fleet import Fleet

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "program.py"
PATIENCE = 90.0
"""How many seconds the end of a run may take when nobody makes trouble any more."""
GLANCE = 0.1


class Outcome(msgspec.Struct, frozen=True):
    """What came of a case on one store."""

    case: str
    store: str
    expected: str
    seen: str
    verdict: str
    seconds: float
    violations: list[str] = []

    @property
    def is_green(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        return f"{self.case:<18} {self.store:<8} {self.verdict:<5} {self.seconds:6.1f} s  {self.seen}"


def run_case(case: Case, kind: Kind, *, effort: float = 1.0, seed: int = 1) -> Outcome:
    """Runs a case on one kind of store, and says what came of it."""

    def outcome(seen: str, verdict: str, violations: Sequence[str] = ()) -> Outcome:
        seconds = round(time.monotonic() - began, 1)
        return Outcome(case.name, kind, case.expected, seen, verdict, seconds, list(violations))

    began = time.monotonic()
    if reason := case.does_not_apply.get(kind):
        return outcome(f"does not apply: {reason}", "-")
    with TemporaryDirectory(prefix="holdfast-lab-", dir="/tmp") as folder:
        bench = Bench(kind, Path(folder), effort=effort, seed=seed)
        try:
            seen = case.run(bench)
        except CannotRun as reason:
            return outcome(f"cannot run here: {reason}", "-")
        except NotAsExpected as error:
            return outcome(str(error), "RED", [str(error), *bench.violations])
        except Exception as error:  # the other cases shall be run all the same
            return outcome("", "RED", [f"{type(error).__name__}: {error}", traceback.format_exc(), *bench.violations])
    if not bench.proofs:
        return outcome(seen, "RED", [f"nothing shows that the fault of {case.name} happened", *bench.violations])
    proved = ", ".join(f"{times} {fault}" for fault, times in bench.proofs.items())
    seen = f"{seen}; proved: {proved}; {bench.history}"
    return outcome(seen, "RED", bench.violations) if bench.violations else outcome(seen, "green")


class Bench:
    """Where one case is run on one kind of store."""

    def __init__(self, kind: Kind, folder: Path, *, effort: float, seed: int) -> None:
        self.kind = kind
        self.folder = folder
        self.chance = Random(seed)
        self.violations: list[str] = []
        self.proofs: Counter[str] = Counter()
        self.history = ""
        self._effort = effort
        folder.chmod(0o755)

    def times(self, number: int) -> range:
        """So many times, or fewer when only a short run is wanted."""
        return range(max(round(number * self._effort), 2))

    def prove(self, fault: str, times: int = 1) -> None:
        """Counts a fault that was seen to happen. Where it never did, nothing was tried, and the case is red."""
        require(times, f"nothing shows that there were {fault}")
        self.proofs[fault] += times

    @contextmanager
    def lab(self, *, place: Path | None = None, settings: dict[str, str] | None = None) -> Iterator[Lab]:
        """Sets up a laboratory. At its end the histories are checked against the books."""
        with ExitStack() as around:
            server = None
            if self.kind == "postgres":
                where = {"place": place} if place else {}
                server = around.enter_context(durable_postgres(settings=settings, **where))
                url = server.create_database("lab")
            else:
                url = f"sqlite:///{place or self.folder}/lab.db"
            lab = around.enter_context(_opened(Lab(self, url, server)))
            yield lab
            if not self.history:
                self.check(lab)

    def check(self, lab: Lab) -> None:
        """Checks the histories against the books."""
        self.violations += checker.violations(lab.url, lab.histories)[:20]
        self.violations += lab.complaints()
        self.history = histories.summed(histories.read(lab.histories))


class Lab:
    """A store of its own, and hands that submit, decide, make trouble and wait for the end."""

    def __init__(self, bench: Bench, url: str, server: Postgres | None) -> None:
        self.bench = bench
        self.chance = bench.chance
        self.url = url
        self._server = server
        self.histories = bench.folder / "histories"
        self.histories.mkdir()
        self.histories.chmod(0o777)
        self.log = bench.folder / "workers.log"
        self.environment = {FOLDER: str(self.histories), "PYTHONPATH": _python_path()}
        self._recorder = Recorder(self.histories)
        self._submitted: dict[str, list[str]] = {}
        self.store: Store = open_store(url)
        with self.store.transaction() as tx:
            program.prepare(tx)

    @property
    def server(self) -> Postgres:
        """The PostgreSQL of this laboratory."""
        assert self._server is not None
        return self._server

    def workers(self, number: int, *, pipeline: str = "lab", url: str = "", **how: Any) -> Fleet:
        """Starts workers: processes of the command line, replaced when they end."""
        how = {"program": f"{PROGRAM}:{pipeline}", "environment": self.environment} | how
        return Fleet(url or self.url, number, self.log, **how)

    def submit(self, number: int, *, pipeline: str = "lab", pages: int = 3, **payload: Any) -> list[str]:
        """Submits new documents. When the store does not answer, nobody knows whether they are there."""
        batch = f"{pipeline}-batch"
        before = self._submitted.setdefault(batch, [])
        keys = [f"{len(before) + one:05}" for one in range(number)]
        before += keys
        documents = {key: {"pages": pages} | payload for key in keys}
        operation = self._recorder.invoke("submit", batch=batch, documents=documents)
        new = [NewDocument(key, document) for key, document in documents.items()]
        try:
            holdfast.submit(program.PIPELINES[pipeline], self.store, batch=batch, documents=new)
        except StoreError:
            return keys
        self._recorder.complete(operation)
        return keys

    def decide(self) -> None:
        """Decides about some documents, as people do while others work: cancels some, or sends them back."""
        keys = self._submitted.get("lab-batch", [])
        self.decide_about(
            self.chance.choice(("rewind", "rewind", "cancel")), *self.chance.sample(keys, min(len(keys), 3))
        )

    def decide_about(self, verb: str, *keys: str) -> None:
        """Cancels documents, or sends them back. When the store does not answer, nobody knows whether it was done."""
        operation = self._recorder.invoke("decision", verb=verb, batch="lab-batch", keys=keys)
        try:
            decided = self._decided(verb, keys)
        except StoreError:
            return
        self._recorder.complete(operation, decided=decided)

    def _decided(self, verb: str, keys: Sequence[str]) -> list[str]:
        who = {"who": "laboratory", "reason": "to make trouble"}
        ids = {self.store.standing("lab", "lab-batch", key).id: key for key in keys}
        if verb == "cancel":
            decided = self.store.cancel([*ids], **who)
        else:
            plan = self.store.declare(program.lab.shape())
            to = self.chance.choice(("read", "weigh", "risk", "add"))
            decided = self.store.rewind_to(plan, [*ids], to=to, **who)
        return [ids[one] for one in decided]

    def become(self, url: str) -> None:
        """Goes on with another database, which took over."""
        self.store.close()
        self.url = url
        self.store = open_store(url)

    def wait(self, least: float, most: float) -> None:
        """Lets a moment pass that nobody chose."""
        time.sleep(self.chance.uniform(least, most))

    def until(self, holds: Callable[[], object], otherwise: str, *, patience: float = PATIENCE) -> None:
        """Waits until something holds."""
        end = time.monotonic() + patience
        while not self._asked(holds):
            require(time.monotonic() < end, f"{otherwise}, after {patience:.0f} s. Workers said: {self.said()[-600:]}")
            time.sleep(GLANCE)

    def at_work(self, number: int, *, patience: float = PATIENCE) -> None:
        """Waits until so many workers have enlisted."""
        self.until(lambda: len(self.store.workers()) >= number, f"not {number} workers began", patience=patience)

    def settle(self, *, pipeline: str = "lab", patience: float = PATIENCE) -> None:
        """Waits until all has ended."""
        self.until(lambda: not self.open(pipeline), f"not all of {pipeline} ended", patience=patience)

    def open(self, pipeline: str = "lab") -> int:
        """How many documents have not ended."""
        return self.store.balance(pipeline).open

    def done(self, pipeline: str = "lab") -> int:
        """How many documents are done."""
        return self.store.balance(pipeline).done

    def rows(self, question: str) -> int:
        """Asks the database for a number."""
        with self.store.reading() as tx:
            return int(tx.execute(question).fetchone()[0])

    def said(self) -> str:
        """What the workers said."""
        return self.log.read_text() if self.log.exists() else ""

    def complaints(self) -> list[str]:
        """Workers may stop, but with a sentence."""
        said = self.said()
        return (
            [f"a worker ended with a traceback: {said[said.index('Traceback') :][:1500]}"]
            if "Traceback" in said
            else []
        )

    def _asked(self, holds: Callable[[], object]) -> object:
        try:
            return holds()
        except StoreError:
            return False


@contextmanager
def _opened(lab: Lab) -> Iterator[Lab]:
    try:
        yield lab
    finally:
        lab.store.close()


def _python_path() -> str:
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ROOT), *([before] if before else [])])
