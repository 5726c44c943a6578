"""Ingest a folder while its process is killed again and again, and compare with an undisturbed run.

    python -m tests.scenarios.document_search.killed_ingest FOLDER --kills 40

The kills are spread over the whole run, from the first page to the last vector. Every page that a parser returns is
recorded. A page that was committed before a kill must not be parsed again. In the end both indexes must be equal.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.extract.readers import LocalReader
from holdfast.pipelines.rag.values import Page

PATIENCE = 600.0
BEGUN = "begun"
MOMENT = 0.1
"""A process is killed after a number of moves, and at most this many seconds later."""
CONTENT = """
select d.source, d.key, d.kind, d.title, c.position, c.page, c.start, c.stop, w.text, hex(v.vector)
  from rag_document d
  join rag_chunk c on c.document_id = d.id and c.version = d.version
  join rag_words w on w.rowid = c.id
  join rag_meaning m on m.document_id = d.id and m.version = d.version
  join rag_vector v on v.model_id = m.model_id and v.hash = c.hash
 order by d.source, d.key, c.position
"""
STANDING = "select key, state, step, reason from hf_documents order by key"
MOVES = "select coalesce(sum(moves), 0) from hf_documents"
PAGES = "select key, position from hf_items where step = 'extract'"


class Noting(Struct, frozen=True):
    """A reader that records every page that it returns."""

    path: str

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
        into = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            for page in LocalReader()(payload, start=start):
                os.write(into, f"{_key(payload)}\t{page.number - 1}\n".encode())
                yield page
        finally:
            os.close(into)


def _key(payload: Mapping[str, Any]) -> str:
    return f"{payload['name']}{payload.get('inside', '')}"


class Findings(Struct, frozen=True):
    """The result."""

    kills: int
    pages: int
    parsed: int
    parsed_after_commit: list[str]
    different: list[str]
    chunks: int
    dead: int


def ingest(folder: Path, state: Path) -> None:
    """Ingest until all is done. This is what the killed processes run."""
    with holdfast.open(f"sqlite:///{state}/rag.db") as store:
        library = rag.Library(
            store, settings=rag.CollectionSettings(embedder="hash:64"), reader=Noting(str(state / "pages"))
        )
        print(BEGUN, flush=True)
        library.ingest(str(folder), threads=4, lease=timedelta(seconds=2))


def kill_again_and_again(folder: Path, *, kills: int, seed: int) -> Findings:
    """Compare a run that is killed at random times with one that is not."""
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        calm, killed = Path(one), Path(other)
        _finish(folder, calm)
        again: list[str] = []
        done = 0
        for moves in sorted(chance.sample(range(_moves(calm)), kills)):
            before, seen = _committed(killed), _noted(killed)
            process = _run(folder, killed)
            _wait_for(moves, killed, process)
            if _has_ended(process, within=chance.uniform(0, MOMENT)):
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
            again += [page for page in _noted(killed)[len(seen) :] if page in before]
        before, seen = _committed(killed), _noted(killed)
        _finish(folder, killed)
        noted = _noted(killed)
        again += [page for page in noted[len(seen) :] if page in before]
        chunks = _rows(killed, CONTENT)
        return Findings(
            kills=done,
            pages=len(_committed(killed)),
            parsed=len(noted),
            parsed_after_commit=again,
            different=[*_different(calm, killed, STANDING), *_different(calm, killed, CONTENT)][:20],
            chunks=len(chunks),
            dead=sum(row[1] == "dead" for row in _rows(killed, STANDING)),
        )


def _run(folder: Path, state: Path) -> subprocess.Popen[bytes]:
    """Start a process, and return when it has begun to work: a kill before that would undo nothing."""
    command = [
        sys.executable,
        "-m",
        "tests.scenarios.document_search.killed_ingest",
        str(folder),
        "--state",
        str(state),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline().decode().strip() == BEGUN
    return process


def _finish(folder: Path, state: Path) -> None:
    assert _run(folder, state).wait(PATIENCE) == 0


def _wait_for(moves: int, state: Path, process: subprocess.Popen[bytes]) -> None:
    patient_until = time.monotonic() + PATIENCE
    while _moves(state) < moves and not _has_ended(process, within=0.005):
        assert time.monotonic() < patient_until


def _has_ended(process: subprocess.Popen[bytes], *, within: float) -> bool:
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def _moves(state: Path) -> int:
    try:
        return int(_rows(state, MOVES)[0][0])
    except sqlite3.OperationalError:
        return 0


def _committed(state: Path) -> set[str]:
    try:
        return {f"{key}\t{position}" for key, position in _rows(state, PAGES)}
    except sqlite3.OperationalError:
        return set()  # it was killed before its store was made


def _noted(state: Path) -> list[str]:
    path = state / "pages"
    return path.read_text().splitlines() if path.exists() else []


def _different(calm: Path, killed: Path, question: str) -> Iterator[str]:
    before, after = set(_rows(calm, question)), set(_rows(killed, question))
    yield from (f"only undisturbed: {row}"[:300] for row in before - after)
    yield from (f"only after kills: {row}"[:300] for row in after - before)


def _rows(state: Path, question: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{state}/rag.db?mode=ro", uri=True)) as db:
        return db.execute(question).fetchall()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.state:
        ingest(asked.folder, asked.state)
        return 0
    seed = Random().randrange(10**6) if asked.seed is None else asked.seed
    found = kill_again_and_again(asked.folder, kills=asked.kills, seed=seed)
    print(f"seed {seed}: {found}".replace("only ", "\n  only "))
    return 1 if found.different or found.parsed_after_commit or found.kills < asked.kills else 0


if __name__ == "__main__":
    sys.exit(main())
