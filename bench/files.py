"""Rows a second of `holdfast files load`, beside a bare loop and dlt, into SQLite and PostgreSQL, in one run.

    python -m bench.files --files 8 --rows 100000 --dlt /path/to/python/with/dlt

The bare loop parses the same files and inserts or COPYs the same rows, one transaction for each file, in as many
processes, without checkpoints. With --kill, every load is killed in the middle once and started again; the rows that
are missing or there twice are counted.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing import Process
from pathlib import Path
from typing import Any

import holdfast
from holdfast.pipelines.files import Loader

COLUMNS = ("id", "at", "user", "amount", "status", "city", "note", "ratio")
WORDS = ("harbour", "pier", "lamp", "rope", "tide", "quay", "mast", "anchor")
PROCESSES = 2
TYPES = "id integer, at timestamp, user_name text, amount integer, status text, city text, note text, ratio real"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each file")
    parser.add_argument("--commit-every", type=int)
    parser.add_argument("--dlt", help="a Python that has dlt")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--formats", default="csv,jsonl,parquet")
    options = parser.parse_args()
    from tests.support.postgres import durable_postgres

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, durable_postgres() as server:
        folder = Path(name)
        total = options.files * options.rows
        make_files(folder, options.files, options.rows)
        size = sum(path.stat().st_size for path in folder.glob("*.csv"))
        print(f"{options.files} files, {total:,} rows, {size / 1e6:,.0f} MB of CSV, {PROCESSES} processes")
        for database in ("sqlite", "postgresql"):
            make_url = lambda label, database=database: (  # noqa: E731
                f"sqlite:///{folder}/{label}.db" if database == "sqlite" else server.create_database(label)
            )
            bare = measure(lambda url: bare_loop(url, sorted(folder.glob("*.csv"))), make_url(f"bare_{database[0]}"))
            report(database, "bare loop", total, bare)
            for form in options.formats.split(","):
                url = make_url(f"own_{form}_{database[0]}")
                seconds = measure(
                    lambda url, form=form: run_child(
                        "--load", url, f"{folder}/*.{form}", str(options.commit_every or 0)
                    ),
                    url,
                )
                report(database, f"holdfast {form}", total, seconds, bare)
                check(url, total, "event")
            if options.dlt:
                url = make_url(f"dlt_{database[0]}")
                seconds = measure(lambda url: run_dlt(options.dlt, url, folder), url)
                report(database, "dlt", total, seconds, bare)
            if options.kill:
                url = make_url(f"killed_{database[0]}")
                kills = killed_load(url, f"{folder}/*.csv")
                rows, distinct = count(url, "event")
                print(f"{database:11} holdfast, {kills} kills: {total - distinct:,} missing, {rows - distinct:,} twice")
                assert rows == distinct == total


def make_files(folder: Path, files: int, rows: int) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    for number in range(files):
        path = folder / f"{number:04}.csv"
        chosen = random.Random(number)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("id", "at", "user_name", *COLUMNS[3:]))
            for row in range(rows):
                note = " ".join(chosen.choice(WORDS) for _ in range(4)) + (', "q"' if row % 50 == 0 else "")
                at = f"2026-{row % 12 + 1:02}-{row % 28 + 1:02}T{row % 24:02}:00:00"
                user, amount = f"user{chosen.randrange(10**6)}", chosen.randrange(10**5)
                status, city = chosen.choice(("ok", "late", "void")), chosen.choice(WORDS)
                writer.writerow((number * 10**7 + row, at, user, amount, status, city, note, round(chosen.random(), 6)))
        os.utime(path, (1e9, 1e9))
        table = pyarrow.csv.read_csv(path)
        pyarrow.parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=100_000)
        with path.open(newline="") as file, path.with_suffix(".jsonl").open("w") as out:
            import json

            for record in csv.DictReader(file):
                fields: dict[str, Any] = dict(record)
                fields |= {"id": int(record["id"]), "amount": int(record["amount"]), "ratio": float(record["ratio"])}
                out.write(json.dumps(fields) + "\n")
        for suffix in (".parquet", ".jsonl"):
            os.utime(path.with_suffix(suffix), (1e9, 1e9))


def measure(run: Any, url: str) -> float:
    began = time.perf_counter()
    run(url)
    return time.perf_counter() - began


def report(database: str, label: str, rows: int, seconds: float, bare: float | None = None) -> None:
    share = "" if bare is None else f"  {bare / seconds:.0%} of the bare loop"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{database:11} {label:18} {rows / seconds:12,.0f} rows/s  {seconds:6.1f} s  peak {peak:,.0f} MB{share}",
        flush=True,
    )


def bare_loop(url: str, files: list[Path]) -> None:
    """Parse and write the files in several processes, one transaction for each file."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            db.execute("pragma journal_mode = wal")
            db.execute(f"create table event ({TYPES})")
        target: Any = bare_sqlite
    else:
        import psycopg

        with psycopg.connect(url) as pg:
            pg.execute(f"create table event ({TYPES.replace('integer', 'bigint').replace('real', 'double precision')})")
        target = bare_postgres
    workers = [Process(target=target, args=(url, files[first::PROCESSES])) for first in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def bare_sqlite(url: str, files: list[Path]) -> None:
    db = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=300)
    db.execute("pragma synchronous = full")
    for path in files:
        with path.open(newline="") as file:
            reader = csv.reader(file)
            next(reader)
            db.execute("begin immediate")
            db.executemany("insert into event values (?, ?, ?, ?, ?, ?, ?, ?)", typed(reader))
            db.execute("commit")
    db.close()


def typed(reader: Iterator[list[str]]) -> Iterator[tuple[Any, ...]]:
    for a, b, c, d, e, f, g, h in reader:
        yield int(a), b, c, int(d), e, f, g, float(h)


def bare_postgres(url: str, files: list[Path]) -> None:
    import psycopg
    import pyarrow as pa
    from pyarrow import csv as arrow

    with psycopg.connect(url) as db:
        for path in files:
            with db.cursor() as cursor, cursor.copy("copy event from stdin (format csv)") as copy:
                for batch in arrow.open_csv(path, parse_options=arrow.ParseOptions(newlines_in_values=True)):
                    text = pa.BufferOutputStream()
                    arrow.write_csv(batch, text, arrow.WriteOptions(include_header=False))
                    copy.write(memoryview(text.getvalue()))
            db.commit()


def run_child(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "bench.files", *arguments], check=True)


def load(url: str, source: str, every: int) -> None:
    with holdfast.open(url) as store:
        loader = Loader(store, "event", commit_every=every or None)
        loader.submit([source], min_age=timedelta(milliseconds=1))
        loader.drain(processes=PROCESSES, threads=1)


def killed_load(url: str, source: str) -> int:
    """Load, and kill all processes of the load every few seconds until one load ends. Return the number of kills."""
    for kills in range(100):
        command = [sys.executable, "-m", "bench.files", "--load", url, source, "0"]
        child = subprocess.Popen(command, start_new_session=True)
        try:
            child.wait(2 + kills)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            continue
        assert child.returncode == 0
        return kills
    raise AssertionError("it never ended")


def count(url: str, table: str) -> tuple[int, int]:
    with holdfast.open(url) as store, store.reading() as tx:
        rows, distinct = tx.execute(f"select count(*), count(distinct id) from {table}").fetchone()
        return rows, distinct


def check(url: str, total: int, table: str) -> None:
    assert count(url, table) == (total, total)


DLT = """
import csv, sys, glob, dlt
url, folder = sys.argv[1:]
@dlt.resource(name="event")
def event():
    for path in sorted(glob.glob(folder + "/*.csv")):
        with open(path, newline="") as file:
            rows = []
            for row in csv.DictReader(file):
                rows.append(row)
                if len(rows) == 10000:
                    yield rows
                    rows = []
            yield rows
made = dlt.destinations.sqlalchemy if url.startswith("sqlite") else dlt.destinations.postgres
target = made(credentials=url)
pipeline = dlt.pipeline("bench", destination=target, dataset_name="main" if url.startswith("sqlite") else "bench",
                        pipelines_dir=folder + "/dlt")
pipeline.run(event())
"""


def run_dlt(python: str, url: str, folder: Path) -> None:
    environment = os.environ | {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    environment.pop("PYTHONPATH", None)
    url = url.replace("postgres@", "postgres:unused@")  # dlt wants a password, the server does not
    subprocess.run([python, "-c", DLT, url, str(folder)], check=True, env=environment, cwd=folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        load(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
