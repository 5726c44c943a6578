"""The environment of a fault case: a store, workers, calls that submit and decide, and histories of what was done."""

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
from tests.faults import checker, histories, program
from tests.faults.cases import CannotRun, Case, Kind, NotAsExpected, require
from tests.faults.histories import FOLDER, Recorder
from tests.soak.fleet import Fleet
from tests.support.postgres import Postgres, durable_postgres

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "program.py"
TIME_LIMIT = 90.0
"""Seconds that the end of a run may take after the last fault."""
POLL_INTERVAL = 0.1
DATABASE = "faults"
"""The name of the database on PostgreSQL."""
PIPELINE = program.tolerant.name
"""The pipeline that most cases use."""
BATCH = f"{PIPELINE}-batch"


class CaseOutcome(msgspec.Struct, frozen=True):
    """The outcome of a case on one store."""

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


def run_case(case: Case, kind: Kind, *, effort: float = 1.0, seed: int = 1) -> CaseOutcome:
    """Run a case on one kind of store and return the outcome."""

    def outcome(seen: str, verdict: str, violations: Sequence[str] = ()) -> CaseOutcome:
        seconds = round(time.monotonic() - began, 1)
        return CaseOutcome(case.name, kind, case.expected, seen, verdict, seconds, list(violations))

    began = time.monotonic()
    if reason := case.does_not_apply.get(kind):
        return outcome(f"does not apply: {reason}", "-")
    with TemporaryDirectory(prefix="holdfast-faults-", dir="/tmp") as folder:
        case_run = CaseRun(kind, Path(folder), effort=effort, seed=seed)
        try:
            seen = case.run(case_run)
        except CannotRun as reason:
            return outcome(f"cannot run here: {reason}", "-")
        except NotAsExpected as error:
            return outcome(str(error), "RED", [str(error), *case_run.violations])
        except Exception as error:  # the other cases must run all the same
            violations = [f"{type(error).__name__}: {error}", traceback.format_exc(), *case_run.violations]
            return outcome("", "RED", violations)
    if not case_run.faults_seen:
        return outcome(seen, "RED", [f"nothing shows that the fault of {case.name} happened", *case_run.violations])
    faults = ", ".join(f"{times} {fault}" for fault, times in case_run.faults_seen.items())
    seen = f"{seen}; faults: {faults}; {case_run.history}"
    return outcome(seen, "RED", case_run.violations) if case_run.violations else outcome(seen, "green")


class CaseRun:
    """One run of a case on one kind of store: its folder, its random choices, and what was found."""

    def __init__(self, kind: Kind, folder: Path, *, effort: float, seed: int) -> None:
        self.kind = kind
        self.folder = folder
        self.random = Random(seed)
        self.violations: list[str] = []
        self.faults_seen: Counter[str] = Counter()
        self.history = ""
        self._effort = effort
        folder.chmod(0o755)

    def rounds(self, number: int) -> range:
        """Return a range of this many rounds, or of fewer in a short run."""
        return range(max(round(number * self._effort), 2))

    def record_fault(self, fault: str, times: int = 1) -> None:
        """Record that a fault was seen to happen. Raise NotAsExpected if it happened 0 times: nothing was tested."""
        require(times, f"nothing shows that there were {fault}")
        self.faults_seen[fault] += times

    @contextmanager
    def environment(
        self, *, place: Path | None = None, settings: dict[str, str] | None = None
    ) -> Iterator[Environment]:
        """Set up a store and its environment. At the end, check the histories against the stored state."""
        with ExitStack() as stack:
            server = None
            if self.kind == "postgres":
                where = {"place": place} if place else {}
                server = stack.enter_context(durable_postgres(settings=settings, **where))
                url = server.create_database(DATABASE)
            else:
                url = f"sqlite:///{place or self.folder}/faults.db"
            env = stack.enter_context(_opened(Environment(self, url, server)))
            yield env
            if not self.history:
                self.check(env)

    def check(self, env: Environment) -> None:
        """Check the histories against the stored state."""
        self.violations += checker.violations(env.url, env.histories)[:20]
        self.violations += env.tracebacks()
        self.history = histories.summary(histories.read(env.histories))


class Environment:
    """A new store, and calls that submit, decide, start workers and wait."""

    def __init__(self, case_run: CaseRun, url: str, server: Postgres | None) -> None:
        self.case_run = case_run
        self.random = case_run.random
        self.url = url
        self._server = server
        self.histories = case_run.folder / "histories"
        self.histories.mkdir()
        self.histories.chmod(0o777)
        self.log = case_run.folder / "workers.log"
        self.variables = {FOLDER: str(self.histories), "PYTHONPATH": _python_path()}
        self._recorder = Recorder(self.histories)
        self._submitted: dict[str, list[str]] = {}
        self.store: Store = open_store(url)
        with self.store.transaction() as tx:
            program.prepare(tx)

    @property
    def server(self) -> Postgres:
        """The PostgreSQL server of this environment."""
        assert self._server is not None
        return self._server

    def workers(self, number: int, *, pipeline: str = PIPELINE, url: str = "", **options: Any) -> Fleet:
        """Start worker processes by the command line. Workers that end are replaced."""
        options = {"program": f"{PROGRAM}:{pipeline}", "environment": self.variables} | options
        return Fleet(url or self.url, number, self.log, **options)

    def submit(
        self, number: int, *, pipeline: str = PIPELINE, pages: int = 3, store: Store | None = None, **payload: Any
    ) -> list[str]:
        """Submit new documents and return their keys. If the store does not answer, they may be there or not."""
        batch = f"{pipeline}-batch"
        before = self._submitted.setdefault(batch, [])
        keys = [f"{len(before) + index:05}" for index in range(number)]
        before += keys
        documents = {key: {"pages": pages} | payload for key in keys}
        operation = self._recorder.invoke("submit", batch=batch, documents=documents)
        new = [NewDocument(key, document) for key, document in documents.items()]
        try:
            holdfast.submit(program.PIPELINES[pipeline], store or self.store, batch=batch, documents=new)
        except StoreError:
            return keys
        self._recorder.complete(operation)
        return keys

    def decide_at_random(self) -> None:
        """Cancel or rewind some documents, as people do while workers run."""
        keys = self._submitted.get(BATCH, [])
        self.decide_about(
            self.random.choice(("rewind", "rewind", "cancel")), *self.random.sample(keys, min(len(keys), 3))
        )

    def decide_about(self, verb: str, *keys: str) -> None:
        """Cancel or rewind documents. If the store does not answer, it may be done or not."""
        operation = self._recorder.invoke("decision", verb=verb, batch=BATCH, keys=keys)
        try:
            decided = self._decide(verb, keys)
        except StoreError:
            return
        self._recorder.complete(operation, decided=decided)

    def _decide(self, verb: str, keys: Sequence[str]) -> list[str]:
        who = {"who": "fault test", "reason": "a random decision"}
        ids = {self.store.document(PIPELINE, BATCH, key).id: key for key in keys}
        if verb == "cancel":
            decided = self.store.cancel([*ids], **who)
        else:
            plan = self.store.declare(program.tolerant.shape())
            to = self.random.choice(("read", "weigh", "risk", "add"))
            decided = self.store.rewind_to(plan, [*ids], to=to, **who)
        return [ids[document_id] for document_id in decided]

    def switch_to(self, url: str) -> None:
        """Continue with another database, after a failover."""
        self.store.close()
        self.url = url
        self.store = open_store(url)

    def wait_randomly(self, least: float, most: float) -> None:
        """Wait for a random time, so that the next fault happens at a random moment."""
        time.sleep(self.random.uniform(least, most))

    def wait_until(self, holds: Callable[[], object], otherwise: str, *, time_limit: float = TIME_LIMIT) -> None:
        """Wait until a condition holds. Raise NotAsExpected if it does not within the time limit."""
        end = time.monotonic() + time_limit
        while not self._is_true(holds):
            log = self.worker_log()[-600:]
            require(time.monotonic() < end, f"{otherwise}, after {time_limit:.0f} s. Log of the workers: {log}")
            time.sleep(POLL_INTERVAL)

    def wait_for_workers(self, number: int, *, time_limit: float = TIME_LIMIT) -> None:
        """Wait until this many workers have registered."""
        self.wait_until(
            lambda: len(self.store.workers()) >= number, f"fewer than {number} workers started", time_limit=time_limit
        )

    def wait_until_finished(self, *, pipeline: str = PIPELINE, time_limit: float = TIME_LIMIT) -> None:
        """Wait until no document is open."""
        self.wait_until(
            lambda: not self.open_documents(pipeline),
            f"not all documents of {pipeline} were finished",
            time_limit=time_limit,
        )

    def open_documents(self, pipeline: str = PIPELINE) -> int:
        """Return the number of documents that are not finished."""
        return self.store.balance(pipeline).open

    def done_documents(self, pipeline: str = PIPELINE) -> int:
        """Return the number of documents that are done."""
        return self.store.balance(pipeline).done

    def number(self, query: str) -> int:
        """Return the number that a query selects."""
        with self.store.reading() as tx:
            return int(tx.execute(query).fetchone()[0])

    def worker_log(self) -> str:
        """Return the output of all workers."""
        return self.log.read_text() if self.log.exists() else ""

    def tracebacks(self) -> list[str]:
        """Return a violation if a worker printed a traceback. A worker may stop, but only with an error message."""
        log = self.worker_log()
        if "Traceback" not in log:
            return []
        return [f"a worker ended with a traceback: {log[log.index('Traceback') :][:1500]}"]

    def _is_true(self, condition: Callable[[], object]) -> object:
        try:
            return condition()
        except StoreError:
            return False


@contextmanager
def _opened(env: Environment) -> Iterator[Environment]:
    try:
        yield env
    finally:
        env.store.close()


def _python_path() -> str:
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ROOT), *([before] if before else [])])
