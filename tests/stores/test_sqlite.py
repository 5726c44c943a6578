"""What only SQLite can get wrong: one file, many processes, a disk, and query plans."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.core.errors import (
    SchemaNewer,
    SchemaOutdated,
    StoreError,
    StoreFull,
    StoreGone,
    StoreReadOnly,
)
from holdfast.core.model import Claim, NewDocument
from holdfast.core.moves import ACCEPTED
from holdfast.stores import migrate_store, open_store
from holdfast.stores.protocol import OrphanVerdict
from holdfast.stores.sql.work import SUSPECT
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import store as sqlite_store
from holdfast.stores.sqlite.connection import Connections
from holdfast.stores.sqlite.dialect import SQL
from holdfast.stores.sqlite.writer_lock import WriterLock
from holdfast.stores.sqlite_guard import COMMIT
from holdfast.testing import ManualClock
from holdfast.testing.conformance import StoreHarness

NOBODY = 65534


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(url: str) -> Iterator[SqliteStore]:
    with_file = SqliteStore(url)
    yield with_file
    with_file.close()


@pytest.fixture
def harness(store: SqliteStore) -> StoreHarness:
    return StoreHarness(store, ManualClock())


PREAMBLE = """
import os, sys, time
from datetime import timedelta
from holdfast.core.model import Item
from holdfast.stores import open_store
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness

url = sys.argv[1]
"""


class Children:
    """Python programs on one database. The test that starts them also ends them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.running: list[subprocess.Popen[str]] = []

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(program), self.url, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(child)
        return child

    def end(self) -> None:
        for child in self.running:
            if child.poll() is None:
                child.kill()
            child.communicate()


@pytest.fixture
def children(url: str) -> Iterator[Children]:
    children = Children(url)
    yield children
    children.end()


def _line(child: subprocess.Popen[str]) -> str:
    """Return the next line of a child. Raise with its error output if it died."""
    assert child.stdout is not None
    assert child.stderr is not None
    line = child.stdout.readline().strip()
    assert line, f"the child said nothing: {child.stderr.read()}"
    return line


def _tell(child: subprocess.Popen[str], word: str = "go") -> None:
    assert child.stdin is not None
    child.stdin.write(word + "\n")
    child.stdin.flush()


class TestManyProcesses:
    WRITES = """
        name, count = sys.argv[2], int(sys.argv[3])
        store = open_store(url)
        harness = StoreHarness(store, ManualClock())
        harness.worker = harness.register_worker(name)
        harness.submit("a", batch=name)
        claim = harness.claim_one(batch=name)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            claim = harness.keep(claim, '"x"', start=number)
        print("finished", flush=True)
    """

    def test_four_processes_write_at_once_without_an_error(self, children: Children, harness: StoreHarness) -> None:
        names = ["p0", "p1", "p2", "p3"]
        started = [children.start(self.WRITES, name, "200") for name in names]
        for child in started:
            assert _line(child) == "ready"
        for child in started:
            _tell(child)
        for child in started:
            assert _line(child) == "finished"
        kept = Counter(one.checkpoint.cursor for one in harness.store.documents("papers"))
        assert kept == {200: 4}

    def test_processes_that_write_at_once_get_their_fair_share(self, children: Children, harness: StoreHarness) -> None:
        """When the first has finished, each other has done at least a quarter of a fair share."""
        names = ["p0", "p1", "p2", "p3"]
        started = [children.start(self.WRITES, name, "400") for name in names]
        for child in started:
            assert _line(child) == "ready"
        for child in started:
            _tell(child)
        while True:
            written = {one.batch: one.checkpoint.cursor or 0 for one in harness.store.documents("papers")}
            if len(written) == 4 and max(written.values()) >= 300:
                break
        fair = sum(written.values()) / 4
        assert min(written.values()) >= fair / 4, written

    def test_many_processes_may_open_a_fresh_file_at_once(self, tmp_path: Path) -> None:
        opens = """
            print("ready", flush=True)
            for line in sys.stdin:
                open_store(f"sqlite:///{url}/{line.strip()}.db").close()
                print("opened", flush=True)
        """
        children = Children(str(tmp_path))
        try:
            started = [children.start(opens) for _ in range(4)]
            for child in started:
                _line(child)
            for turn in range(15):
                for child in started:
                    _tell(child, f"fresh-{turn}")
                for child in started:
                    assert _line(child) == "opened"
        finally:
            children.end()

    def test_threads_may_open_a_fresh_file_at_once(self, tmp_path: Path) -> None:
        barrier = threading.Barrier(4)
        errors: list[BaseException] = []

        def opens(number: int) -> None:
            for turn in range(15):
                barrier.wait()
                try:
                    SqliteStore(f"sqlite:///{tmp_path}/fresh-{turn}.db").close()
                except StoreError as error:
                    errors.append(error)

        threads = [threading.Thread(target=opens, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []

    def test_an_outside_writer_with_the_lock_is_waited_for(
        self, url: str, harness: StoreHarness, tmp_path: Path
    ) -> None:
        outside = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
        outside.execute("begin immediate")
        began = threading.Event()
        answers: list[object] = []

        def writes() -> None:
            began.set()
            answers.append(harness.store.heartbeat(harness.worker))

        thread = threading.Thread(target=writes)
        thread.start()
        began.wait()
        outside.execute("create table theirs (id integer)")
        assert answers == []
        outside.execute("commit")
        thread.join()
        outside.close()
        assert answers == [True]

    def test_a_lock_that_is_never_released_raises_store_gone(self, harness: StoreHarness, tmp_path: Path) -> None:
        outside = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        with harness.store._db.reading() as db:
            db.execute("pragma busy_timeout = 1")
        outside.execute("begin immediate")
        with pytest.raises(StoreGone, match="was locked by another program"):
            harness.store.heartbeat(harness.worker)
        outside.close()
        assert harness.store.heartbeat(harness.worker)


class TestKilled:
    def test_a_killed_writer_leaves_whole_commits_and_a_free_writer_lock(
        self, children: Children, harness: StoreHarness
    ) -> None:
        writes = """
            harness = StoreHarness(open_store(url), ManualClock())
            harness.worker = harness.register_worker("victim")
            harness.submit("a")
            claim = harness.claim_one()
            number = 0
            while True:
                values = [f'"{number + place}"' for place in range(20)]
                claim = harness.keep(claim, *values, start=number)
                number += 20
                print(number, flush=True)
        """
        for turn in range(3):
            child = children.start(writes.replace('"a"', f'"doc-{turn}"'))
            while int(_line(child)) < 100 * (turn + 1):
                pass
            child.send_signal(signal.SIGKILL)
            child.wait()
            assert harness.store.heartbeat(harness.worker)
            here = harness.document(f"doc-{turn}")
            kept = list(harness.store.items(here.id))
            assert len(kept) == here.checkpoint.cursor == here.checkpoint.moves * 20
            harness.store.reclaim(
                harness.plan,
                who="ann",
                decide=lambda _: OrphanVerdict("dead"),
                gone=[worker.id for worker, _, _ in harness.store.workers() if worker.name == "victim"],
            )
        with harness.store._db.reading() as db:
            assert db.execute("pragma integrity_check").fetchall() == [("ok",)]

    def test_a_writer_killed_inside_a_transaction_writes_nothing(
        self, children: Children, harness: StoreHarness
    ) -> None:
        child = children.start(
            """
            store = open_store(url)
            with store.transaction() as tx:
                tx.execute("create table half (id integer)")
                print("inside", flush=True)
                sys.stdin.readline()
            """
        )
        assert _line(child) == "inside"
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert harness.store.heartbeat(harness.worker)
        assert harness.sql("select count(*) from sqlite_master where name = 'half'") == [(0,)]

    def test_a_child_that_outlives_a_killed_writer_does_not_hold_the_writer_lock(
        self, children: Children, harness: StoreHarness
    ) -> None:
        """A fork shares its parent's locks: processes that outlive their parent must not block everybody."""
        child = children.start(
            """
            store = open_store(url)
            with store.transaction() as tx:
                tx.execute("create table half (id integer)")
                orphan = os.fork()
                if orphan == 0:
                    while True:
                        time.sleep(1)
                print(orphan, flush=True)
                sys.stdin.readline()
            """
        )
        orphan = int(_line(child))
        try:
            child.send_signal(signal.SIGKILL)
            child.wait()
            answers: list[bool] = []
            writer = threading.Thread(
                target=lambda: answers.append(harness.store.heartbeat(harness.worker)), daemon=True
            )
            writer.start()
            writer.join(timeout=20)
            assert answers == [True]
        finally:
            os.kill(orphan, signal.SIGKILL)


class TestForked:
    def test_a_forked_child_uses_its_own_connection(self, harness: StoreHarness) -> None:
        harness.submit("a")
        pid = os.fork()
        if pid == 0:
            try:
                claimed = harness.claim()
                moved = harness.commit(harness.forward(claimed[0]))
                os._exit(0 if moved == [ACCEPTED] else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert harness.document().checkpoint.step == "chunk"
        assert harness.store.heartbeat(harness.worker)

    def test_a_forked_child_that_closes_the_store_leaves_its_parents_open(self, harness: StoreHarness) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                harness.store.heartbeat(harness.worker)
                harness.store.close()
                os._exit(0)
            finally:
                os._exit(2)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        harness.submit("a")
        assert harness.balance().expected == 1


class TestFiles:
    def test_writes_are_ahead_logged_and_fully_synchronous(self, store: SqliteStore) -> None:
        with store._db.reading() as db:
            assert db.execute("pragma journal_mode").fetchone() == ("wal",)
            assert db.execute("pragma synchronous").fetchone() == (2,)

    def test_every_thread_is_fully_synchronous(self, store: SqliteStore) -> None:
        found: list[tuple[int, ...]] = []

        def asks() -> None:
            with store._db.reading() as db:
                found.append(db.execute("pragma synchronous").fetchone())

        thread = threading.Thread(target=asks)
        thread.start()
        thread.join()
        assert found == [(2,)]

    def test_less_synchronous_writes_are_an_option_of_the_url(self, tmp_path: Path) -> None:
        store = SqliteStore(f"sqlite:///{tmp_path}/store.db?synchronous=normal")
        with store._db.reading() as db:
            assert db.execute("pragma synchronous").fetchone() == (1,)
        store.close()

    @pytest.mark.parametrize(
        "wrong",
        ["sqlite://", "sqlite:///", "sqlite://host/x.db", "sqlite:///x.db?synchronous=off", "sqlite:///x.db?a=1"],
    )
    def test_a_url_that_names_no_file_is_refused(self, wrong: str) -> None:
        with pytest.raises(StoreError, match="sqlite"):
            open_store(wrong)

    @pytest.mark.parametrize(
        "wrong", ["sqlite://]", "sqlite:///a%00b.db", "sqlite:///\ud800.db", f"sqlite:///{'a' * 300}/b.db"]
    )
    def test_a_url_that_no_file_can_have_is_refused(self, wrong: str, tmp_path: Path) -> None:
        with chdir(tmp_path), pytest.raises(StoreError, match="sqlite"):
            open_store(wrong)
        with chdir(tmp_path), pytest.raises(StoreError, match="sqlite"):
            migrate_store(wrong)
        assert not [*tmp_path.iterdir()]

    @pytest.mark.parametrize("wrong", ["sqlite:///report#1.db", "sqlite:///report\n1.db"])
    def test_a_name_that_would_be_cut_is_refused(self, wrong: str, tmp_path: Path) -> None:
        with chdir(tmp_path), pytest.raises(StoreError, match="write # as %23"):
            open_store(wrong)
        assert not [*tmp_path.iterdir()]

    def test_a_file_name_may_have_any_character_as_a_percent_escape(self, tmp_path: Path) -> None:
        open_store(f"sqlite:///{tmp_path}/report%231%0A%20%3F.db").close()
        assert (tmp_path / "report#1\n ?.db").exists()

    def test_a_missing_folder_raises_store_gone(self, tmp_path: Path) -> None:
        with pytest.raises(StoreGone, match=r"there is no folder .*/nowhere; create it first"):
            SqliteStore(f"sqlite:///{tmp_path}/nowhere/store.db")
        assert not (tmp_path / "nowhere").exists()

    def test_a_file_that_is_no_database_is_not_changed(self, url: str, tmp_path: Path) -> None:
        file = tmp_path / "store.db"
        file.write_text("minutes of the meeting\n" * 100)
        with pytest.raises(StoreError, match="is not a SQLite database"):
            SqliteStore(url)
        assert file.read_text() == "minutes of the meeting\n" * 100
        assert [path.name for path in tmp_path.iterdir()] == ["store.db"]

    def test_a_database_of_somebody_else_gets_our_tables_beside_theirs(self, url: str, tmp_path: Path) -> None:
        theirs = sqlite3.connect(tmp_path / "store.db")
        theirs.execute("create table theirs (id integer)")
        theirs.commit()
        theirs.close()
        store = SqliteStore(url)
        assert store.schema_version() == sqlite_store.NEWEST
        store.close()

    def test_an_outdated_schema_is_refused(self, url: str, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite_store, "NEWEST", sqlite_store.NEWEST + 1)
        with pytest.raises(SchemaOutdated, match="run `holdfast store migrate`"):
            SqliteStore(url)

    def test_a_statement_that_fails_after_an_upgrade_of_the_schema_says_so(self, url: str, store: SqliteStore) -> None:
        with store.transaction() as tx:
            tx.execute("insert into hf_schema values (999, 0)")
            tx.execute("alter table hf_step_time rename to hf_tempo")
            tx.execute("alter table hf_worker rename column lease to term")
        with pytest.raises(SchemaNewer, match=r"was upgraded to schema 999 meanwhile"):
            store.step_times("papers")
        with pytest.raises(SchemaNewer, match=r"was upgraded to schema 999 meanwhile"):
            store.register_worker(name="ann", host="h", pid=1, born="", lease=timedelta(seconds=30))

    def test_a_newer_schema_is_refused(self, url: str, store: SqliteStore) -> None:
        with store.transaction() as tx:
            tx.execute("insert into hf_schema values (999, 0)")
        with pytest.raises(SchemaNewer, match=r"has schema 999.*upgrade holdfast"):
            SqliteStore(url)

    def test_migrating_again_does_nothing(self, store: SqliteStore) -> None:
        assert store.migrate() == []

    def test_a_connection_that_opens_while_the_store_is_closed_does_not_stay_open(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = SqliteStore(url)
        store.disconnect()
        opened = []

        def connected(connections: Connections) -> tuple[sqlite3.Connection, WriterLock]:
            opened.append(connect(connections))
            store.close()  # as another thread would, just now
            return opened[-1]

        connect = Connections._open
        monkeypatch.setattr(Connections, "_open", connected)
        with pytest.raises(StoreGone, match="was closed"):
            store.pipelines()
        ((connection, _),) = opened
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("select 1")

    def test_a_sqlite_that_is_too_old_says_so(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
        with pytest.raises(StoreError, match=r"3\.38\.0 or newer is needed"):
            SqliteStore(url)

    def test_a_closed_store_says_so_in_every_thread(self, url: str) -> None:
        store = SqliteStore(url)
        store.pipelines()
        store.close()
        with pytest.raises(StoreGone, match="was closed"):
            store.pipelines()

    def test_threads_that_ended_leave_no_files_open(self, store: SqliteStore) -> None:
        def files() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        def asks() -> None:
            thread = threading.Thread(target=store.pipelines)
            thread.start()
            thread.join()

        asks()
        before = files()
        for _ in range(10):
            asks()
        assert files() <= before

    def test_the_views_can_be_read_with_plain_sql(self, harness: StoreHarness, tmp_path: Path) -> None:
        harness.keep(harness.submit_and_claim(payload={"path": "a.pdf"}), '"page"')
        with sqlite3.connect(tmp_path / "store.db") as db:
            row = db.execute("select key, state, step, cursor, holder, payload from hf_documents").fetchone()
            assert row == ("a", "running", "extract", "1", "ann", '{"path":"a.pdf"}')
            assert db.execute("select step, position, value from hf_items").fetchall() == [("extract", 0, '"page"')]
        db.close()

    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_a_file_that_is_removed_while_in_use_is_noticed(
        self, harness: StoreHarness, tmp_path: Path, how: str
    ) -> None:
        claim = harness.submit_and_claim()
        harness.submit("b")
        _take_away(tmp_path / "store.db", how)
        with pytest.raises(StoreGone, match="was removed or replaced while it was in use"):
            harness.commit(harness.forward(claim))
        with pytest.raises(StoreGone, match="was removed or replaced while it was in use"):
            harness.claim()

    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_a_file_that_was_removed_is_not_created_again(
        self, harness: StoreHarness, tmp_path: Path, how: str
    ) -> None:
        _take_away(tmp_path / "store.db", how)
        before = sorted(tmp_path.iterdir())
        harness.store.disconnect()
        with pytest.raises(StoreGone, match="was removed or replaced while it was in use"):
            harness.store.pipelines()
        assert [path for path in tmp_path.iterdir() if path not in before] == []

    def test_a_file_that_is_removed_within_a_transaction_is_noticed(
        self, harness: StoreHarness, tmp_path: Path
    ) -> None:
        claim = harness.submit_and_claim()
        taken_away = harness.forward(claim, effect=lambda _: (tmp_path / "store.db").unlink())
        with pytest.raises(StoreGone, match="was removed or replaced while it was in use"):
            harness.commit(taken_away)

    @pytest.mark.parametrize("how", ["removed", "replaced"])
    @pytest.mark.parametrize("endings", [("-wal",), ("-shm",), ("-wal", "-shm")], ids="+".join)
    def test_a_log_that_is_removed_while_in_use_is_noticed_before_anything_is_acknowledged(
        self, harness: StoreHarness, url: str, tmp_path: Path, how: str, endings: tuple[str, ...]
    ) -> None:
        claim = harness.submit_and_claim()
        harness.advance(claim)
        for ending in endings:
            _take_away(tmp_path / f"store.db{ending}", how)
        with pytest.raises(StoreGone, match=f"store.db{endings[0]} was removed or replaced while it was in use"):
            harness.commit(harness.within(claim, 1))
        with pytest.raises(StoreGone, match="nothing is acknowledged any more"):
            harness.submit("b")
        harness.store.close()
        again = SqliteStore(url)
        assert again.document("papers", "march", "a").checkpoint.step == "chunk", "what was acknowledged is there"
        again.close()

    @pytest.mark.parametrize("how", ["removed", "replaced"])
    @pytest.mark.parametrize("ending", ["-wal", "-shm"])
    def test_a_thread_that_opens_the_store_after_its_log_was_removed_does_not_damage_it(
        self, harness: StoreHarness, url: str, tmp_path: Path, how: str, ending: str
    ) -> None:
        harness.advance(harness.submit_and_claim())
        _take_away(tmp_path / f"store.db{ending}", how)
        with ThreadPoolExecutor(1) as other_thread:
            for use in (harness.store.pipelines, lambda: harness.submit("b")):
                with pytest.raises(StoreGone, match=f"store.db{ending} was removed or replaced while it was in use"):
                    other_thread.submit(use).result()
        harness.store.close()
        again = SqliteStore(url)
        assert again.document("papers", "march", "a").checkpoint.step == "chunk", "what was acknowledged is there"
        again.close()

    def test_a_log_that_is_removed_within_a_transaction_is_noticed(self, harness: StoreHarness, tmp_path: Path) -> None:
        claim = harness.submit_and_claim()
        taken_away = harness.forward(claim, effect=lambda _: (tmp_path / "store.db-wal").unlink())
        with pytest.raises(StoreGone, match=r"store\.db-wal was removed or replaced while it was in use"):
            harness.commit(taken_away)

    def test_a_log_that_sqlite_removes_when_nobody_needs_it_is_no_trouble(
        self, harness: StoreHarness, tmp_path: Path
    ) -> None:
        claim = harness.submit_and_claim()
        harness.store.disconnect()
        assert not (tmp_path / "store.db-wal").exists()
        reader = threading.Thread(target=harness.store.pipelines)
        reader.start()
        harness.advance(claim)
        reader.join()  # the store is closed after the test

    def test_a_log_beside_the_file_that_a_link_leads_to_is_found(self, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "link.db").symlink_to(tmp_path / "disk" / "store.db")
        store = SqliteStore(f"sqlite:///{tmp_path}/link.db")
        harness = StoreHarness(store, ManualClock())
        harness.submit("a")
        (tmp_path / "disk" / "store.db-wal").unlink()
        with pytest.raises(StoreGone, match="was removed or replaced"):
            harness.submit("b")
        store.close()

    def test_a_file_that_is_vacuumed_or_checkpointed_by_another_stays_in_use(
        self, harness: StoreHarness, tmp_path: Path
    ) -> None:
        claim = harness.submit_and_claim()
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("vacuum")
        other.execute("pragma wal_checkpoint(truncate)")
        other.close()
        harness.advance(claim)

    def test_a_change_of_folder_does_not_lose_a_relative_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        store = SqliteStore("sqlite:///store.db")
        harness = StoreHarness(store, ManualClock())
        monkeypatch.chdir(tmp_path / "elsewhere")
        harness.submit("a")
        store.disconnect()
        assert harness.keys_claimed() == ["a"]
        assert list((tmp_path / "elsewhere").iterdir()) == []
        store.close()

    def test_an_interrupted_wait_for_the_writer_lock_does_not_block_others(self, tmp_path: Path) -> None:
        (tmp_path / "store.db").touch()
        holder, waiter, third = (WriterLock(tmp_path / "store.db") for _ in range(3))
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with holder:
                held.set()
                done.wait(60)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        other = threading.Thread(target=hold)
        other.start()
        held.wait(60)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt), waiter:
                pass
        finally:
            signal.signal(signal.SIGALRM, before)
            done.set()
            other.join()
        with third:
            pass
        for lock in (holder, waiter, third):
            lock.close()


def _take_away(file: Path, how: str) -> None:
    if how == "replaced":
        (file.parent / "other.db").write_bytes(file.read_bytes())
        (file.parent / "other.db").replace(file)
    else:
        file.unlink()


def _as_somebody(action: str, url: str) -> str:
    """Run an action on a store as a user without special rights, and return how it ended."""
    drop = f"os.setgid({NOBODY}); os.setuid({NOBODY})" if os.getuid() == 0 else "pass"
    program = f"{drop}\ntry:\n    {action}\nexcept Exception as error:\n    print(type(error).__name__, error)"
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program, url], capture_output=True, text=True, check=True, cwd="/"
    )
    return done.stdout


class TestRights:
    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        """Make a folder that a user without special rights can reach. The folders of pytest are private."""
        with tempfile.TemporaryDirectory(prefix="holdfast-rights-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            yield folder
            folder.chmod(0o755)

    def test_a_read_only_file_raises_store_read_only(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/store.db"
        SqliteStore(url).close()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o777)
        said = _as_somebody("StoreHarness(open_store(url), ManualClock())", url)
        assert said.startswith("StoreReadOnly"), said
        assert "cannot be written" in said

    def test_a_read_only_folder_raises_store_read_only(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/store.db"
        SqliteStore(url).close()
        folder.chmod(0o555)
        said = _as_somebody("StoreHarness(open_store(url), ManualClock())", url)
        assert said.startswith("StoreReadOnly"), said
        assert "cannot be written" in said

    def test_a_fresh_file_in_a_read_only_folder_is_refused(self, folder: Path) -> None:
        folder.chmod(0o555)
        said = _as_somebody("open_store(url)", f"sqlite:///{folder}/store.db")
        assert said.split()[0] in ("StoreReadOnly", "StoreGone"), said

    def test_a_read_only_file_system_raises_store_read_only(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuses(*_: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("holdfast.stores.sqlite.connection.WriterLock", refuses)
        with pytest.raises(StoreReadOnly, match="Read-only file system"):
            SqliteStore(url)


class TestFullDisk:
    def _fill(self, harness: StoreHarness) -> StoreFull:
        with pytest.raises(StoreFull) as full:
            self._keep_many(harness, harness.submit_and_claim())
        return full.value

    def _keep_many(self, harness: StoreHarness, claim: Claim) -> None:
        for number in range(100):
            claim = harness.keep(claim, "x" * 60_000, start=number)

    def _limit(self, harness: StoreHarness, pages: int) -> None:
        with harness.store._db.reading() as db:
            db.execute(f"pragma max_page_count = {pages}")

    def test_a_full_disk_raises_store_full(self, harness: StoreHarness) -> None:
        self._limit(harness, 100)
        assert "is full; nothing of the last write was kept" in str(self._fill(harness))

    def test_what_was_committed_before_the_disk_was_full_stays(self, harness: StoreHarness) -> None:
        self._limit(harness, 100)
        self._fill(harness)
        here = harness.document()
        assert len(list(harness.store.items(here.id))) == here.checkpoint.cursor > 0

    def test_work_goes_on_when_there_is_room_again(self, harness: StoreHarness) -> None:
        self._limit(harness, 100)
        self._fill(harness)
        self._limit(harness, 100_000)
        harness.store.retire_worker(harness.worker)
        claim = harness.claim_one(worker=harness.register_worker("bob"))
        harness.keep(claim, "x" * 60_000, start=claim.checkpoint.cursor)

    def test_an_effect_that_finds_the_disk_full_stops_the_commit_not_the_document(self, harness: StoreHarness) -> None:
        harness.sql("create table rows (text varchar)")
        claim = harness.submit_and_claim()
        self._limit(harness, 60)
        big = harness.forward(claim, effect=lambda tx: tx.execute("insert into rows values (zeroblob(1000000))"))
        with pytest.raises(StoreFull):
            harness.commit(big)
        self._limit(harness, 100_000)
        assert harness.commit(big) == [ACCEPTED]

    def test_a_disk_that_is_really_full_raises_store_full(self, tmp_path: Path) -> None:
        """On a file system of one megabyte, where we may mount one."""
        disk = tmp_path / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("we may not mount a small file system here")
        try:
            store = SqliteStore(f"sqlite:///{disk}/store.db")
            harness = StoreHarness(store, ManualClock())
            self._fill(harness)
            kept = harness.document().checkpoint.cursor
            store.close()
            again = SqliteStore(f"sqlite:///{disk}/store.db")
            assert again.document("papers", "march", "a").checkpoint.cursor == kept
            again.close()
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)

    def test_a_file_that_may_not_grow_raises_an_error_and_keeps_its_rows(
        self, children: Children, harness: StoreHarness
    ) -> None:
        """A limit on the size of files (EFBIG) is not ENOSPC: SQLite calls it an input/output error."""
        child = children.start(
            """
            import resource
            from holdfast.core.errors import StoreError
            harness = StoreHarness(open_store(url), ManualClock())
            harness.worker = harness.register_worker("bob")
            harness.submit("a")
            claim = harness.claim_one()
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
            kept = 0
            try:
                while True:
                    claim = harness.keep(claim, "x" * 60_000, start=kept)
                    kept += 1
            except StoreError as error:
                print(kept, type(error).__name__, flush=True)
            """
        )
        kept, name = _line(child).split()
        child.wait()
        assert name in ("StoreGone", "StoreFull")
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 400_000
        assert harness.document().checkpoint.cursor == int(kept) > 0


class TestRows:
    def test_items_are_json_text_in_documented_tables(self, harness: StoreHarness) -> None:
        harness.keep(harness.submit_and_claim(), json.dumps({"page": 1}))
        rows = harness.sql("select position, value, data, blob_hash from hf_item")
        assert rows == [(0, '{"page": 1}', None, None)]

    def test_a_large_value_is_one_blob_for_all_items_that_have_it(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "x" * 70_000, "x" * 70_000)
        assert harness.sql("select count(*), max(media) from hf_blob") == [(1, "json")]
        assert len(harness.items(claim)) == 2

    def test_a_submission_may_have_many_parts(self, harness: StoreHarness) -> None:
        for part in range(3):
            documents = [NewDocument(f"doc-{part}-{number}") for number in range(400)]
            harness.store.submit(harness.plan, "march", documents, submission=77, part=part)
        assert harness.balance("march").expected == 1200

    def test_a_claim_does_not_read_the_batches_while_others_wait_to_write(
        self, harness: StoreHarness, store: SqliteStore
    ) -> None:
        harness.submit("a", "b", batch="march")
        harness.submit("c", batch="april")
        said: list[str] = []
        with store._db.reading() as db:
            db.set_trace_callback(said.append)
        assert [claim.batch for claim in harness.claim(limit=2) + harness.claim()] == ["march", "march", "april"]
        first, last = (place for place, sql in enumerate(said) if "hf_batch" in sql)
        assert said[first - 1] == said[last - 1] == COMMIT
        assert harness.keys_claimed() == []

    def test_the_name_of_a_batch_is_read_once(self, harness: StoreHarness, store: SqliteStore) -> None:
        harness.submit("a", "b")
        harness.claim_one()
        said: list[str] = []
        with store._db.reading() as db:
            db.set_trace_callback(said.append)
        assert harness.claim_one().batch == "march"
        assert not [sql for sql in said if "hf_batch" in sql]


class TestPlans:
    """Which indexes the queries for documents use."""

    @staticmethod
    def plan_of(harness: StoreHarness, query: str, *names: str) -> str:
        asked = dict.fromkeys(("keys", "text", "key", "state", "step", "error", "plan", "accepted", "batch"), "")
        asked |= {"pipeline": "papers", "after": "0", "limit": "9", "now": "0", "idle": "0"}
        assert isinstance(harness.store, SqliteStore)
        with harness.store._db.reading() as db:
            rows = db.execute(f"explain query plan {SQL[query].with_conditions(names)}", asked).fetchall()
        return "\n".join(row[3] for row in rows)

    @pytest.mark.parametrize("query", ["documents", "select_documents", "count_documents"])
    @pytest.mark.parametrize("more", ["", "step", "error", "text", "idle", "accepted"])
    def test_dead_letters_are_found_by_their_index(self, harness: StoreHarness, query: str, more: str) -> None:
        assert "USING INDEX hf_document_dead" in self.plan_of(harness, query, "dead", more)

    @pytest.mark.parametrize("query", ["documents", "count_documents"])
    @pytest.mark.parametrize("state", ["waiting", "paused"])
    def test_states_with_an_index_are_found_by_it(self, harness: StoreHarness, query: str, state: str) -> None:
        assert f"USING INDEX hf_document_{state}" in self.plan_of(harness, query, state)

    @pytest.mark.parametrize("names", [("batch",), ("batch", "waiting"), ("paused",), ("dead", "batch"), ("key",)])
    def test_a_slice_is_found_by_walking_on_without_a_sort(self, harness: StoreHarness, names: tuple[str, ...]) -> None:
        assert "TEMP B-TREE" not in self.plan_of(harness, "select_documents", *names)

    @pytest.mark.parametrize("query", ["suspects_due", "claimable"])
    def test_suspects_are_found_by_their_index(self, harness: StoreHarness, query: str) -> None:
        asked = dict.fromkeys(("pipeline_id", "plan_id", "worker_id", "batch_id", "limit", "now"), 1)
        assert isinstance(harness.store, SqliteStore)
        with harness.store._db.reading() as db:
            statement = SQL[query].with_conditions(SUSPECT)
            rows = db.execute(f"explain query plan {statement}", asked | {"step_ids": "[]", "batch": None}).fetchall()
        assert "USING INDEX hf_document_suspect" in "\n".join(row[3] for row in rows)

    @pytest.mark.parametrize("query", ["journal_changed_documents", "restart_changed_documents"])
    def test_changed_documents_are_looked_up_by_their_keys_however_many_the_batch_has(
        self, harness: StoreHarness, query: str
    ) -> None:
        asked = dict.fromkeys(("plan_id", "step_id", "submission", "part", "now", "batch_id"), 1) | {"documents": "[]"}
        assert isinstance(harness.store, SqliteStore)
        with harness.store._db.reading() as db:
            found = "\n".join(row[3] for row in db.execute(f"explain query plan {SQL[query]}", asked).fetchall())
        assert "(batch_id=? AND key=?)" in found
        assert found.index(" VIRTUAL TABLE") < found.index("(batch_id=? AND key=?)")
        assert "SCAN hf_document" not in found

    @pytest.mark.parametrize(
        ("query", "kind", "found"),
        [
            ("waiting_priorities", "", "hf_document_waiting (pipeline_id=? AND priority<?)"),
            ("count_future_times", "", "hf_document_waiting (pipeline_id=? AND priority=? AND due_at>?)"),
            ("count_future_times", "", "hf_document_paused (pipeline_id=? AND due_at>?)"),
            ("future_waits", "waiting", "hf_document_waiting (pipeline_id=? AND priority=? AND due_at>?)"),
            ("future_waits", "paused", "hf_document_paused (pipeline_id=? AND due_at>?)"),
            ("future_running", "", "hf_document_running"),
        ],
    )
    def test_only_documents_that_are_due_later_are_read_to_find_waits_that_are_too_long(
        self, harness: StoreHarness, query: str, kind: str, found: str
    ) -> None:
        asked = dict.fromkeys(("pipeline_id", "priority", "limit", "now", "tolerance"), 1) | {"priorities": "[0]"}
        assert isinstance(harness.store, SqliteStore)
        with harness.store._db.reading() as db:
            statement = f"explain query plan {SQL[query].with_conditions([kind])}"
            plan = "\n".join(row[3] for row in db.execute(statement, asked).fetchall())
        assert found in plan, plan
        running = "SCAN hf_document USING INDEX hf_document_running"
        assert "SCAN hf_document" not in plan.replace(running, ""), plan
        assert running in plan or "TEMP B-TREE" not in plan, plan


def test_a_name_that_no_file_can_have_is_refused_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(f"sqlite:///{tmp_path}/{'a' * 300}.db")
