"""What only an index with its vectors elsewhere can get wrong: points nobody is to see, and points that are lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("qdrant_edge")
pytest.importorskip("qdrant_client")

from qdrant_client import QdrantClient

from holdfast.pipelines.rag.index import Model, Name, index_of, spaces
from holdfast.pipelines.rag.index.qdrant import QdrantIndex
from holdfast.pipelines.rag.index.qdrant.edge import EdgePoints
from holdfast.pipelines.rag.index.qdrant.points import Among, Point, Points, QdrantTrouble
from holdfast.pipelines.rag.index.qdrant.server import ServerPoints
from tests.rag.index.conftest import desk_at
from tests.rag.index.desk import PAPERS, Desk

EVERYTHING = Among()


@pytest.fixture(params=["edge-on-sqlite", "client-on-sqlite"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    yield from desk_at(f"sqlite:///{tmp_path / 'index.db'}", request.param, tmp_path)


def points_of(desk: Desk) -> tuple[Points, str]:
    index = desk.index
    assert isinstance(index, QdrantIndex)
    space = index._space(PAPERS, desk.model)
    return index._points, space.name if space else "never made"


def count(desk: Desk) -> int:
    points, space = points_of(desk)
    return points.count(space, EVERYTHING)


def sweep(desk: Desk) -> int:
    index = desk.index
    assert isinstance(index, QdrantIndex)
    return index.sweep(PAPERS, model=desk.model)


def test_publishing_again_makes_no_second_points(desk: Desk) -> None:
    desk.ingest("a", "heron one", "heron two")
    desk.publish("a")
    assert count(desk) == 2


def test_what_was_published_before_a_kill_is_not_seen(desk: Desk) -> None:
    desk.ingest("a", "heron old")
    desk.add("a", ["heron new"], version=2)
    desk.remember("heron new")
    desk.publish("a")
    assert count(desk) == 2
    assert desk.meaning("heron") == ["heron old"]


def test_the_next_version_clears_away_the_one_before_the_last(desk: Desk) -> None:
    for version in (1, 2, 3):
        desk.ingest("a", f"heron {version}", version=version)
    assert count(desk) == 2
    assert desk.meaning("heron") == ["heron 3"]


def test_a_sweep_leaves_what_is_seen_and_what_is_to_be_seen(desk: Desk) -> None:
    desk.ingest("gone", "heron gone")
    desk.forget("gone")
    desk.ingest("a", "heron one")
    desk.ingest("a", "heron two", version=2)
    desk.add("a", ["heron three"], version=3)
    desk.remember("heron three")
    assert sweep(desk) == 2
    assert sweep(desk) == 0
    assert count(desk) == 1
    desk.publish("a")
    assert sweep(desk) == 0
    desk.show("a")
    assert desk.meaning("heron") == ["heron three"]


def test_points_that_nobody_is_to_see_do_not_crowd_out_the_others(desk: Desk) -> None:
    desk.ingest("gone", *(f"heron {n}" for n in range(120)))
    desk.forget("gone")
    desk.ingest("a", "stork one", "stork two")
    assert set(desk.meaning("heron", limit=2)) == {"stork one", "stork two"}


def test_points_that_were_lost_are_missed_and_can_be_published_anew(desk: Desk) -> None:
    desk.ingest("a", "heron one", "heron two")
    points, space = points_of(desk)
    points.delete(space, Among(documents=[1]))
    assert not desk.holds("a", 2)
    desk.publish("a")
    assert desk.holds("a", 2)
    assert len(desk.meaning("heron")) == 2


def test_a_sweep_where_nothing_was_ever_published_is_nothing(desk: Desk) -> None:
    assert sweep(desk) == 0


def test_the_points_of_a_renamed_document_stay_its_own(desk: Desk) -> None:
    one = Point(name=Name("papers", "/", "a"), place=(1, 1, 0), page=1, vector=[])
    renamed = Point(name=Name("papers", "/", "b"), place=(1, 1, 0), page=1, vector=[])
    another = Point(name=Name("papers", "/", "a"), place=(2, 1, 0), page=1, vector=[])
    assert one.id == renamed.id != another.id


def test_every_space_has_a_name_of_its_own_that_qdrant_takes(desk: Desk) -> None:
    models = [Model(name, 8) for name in ("a/b", "a:b", "a b", "ü" * 300)]
    with desk.store.transaction() as tx:
        for model in models:
            spaces.enter(tx, PAPERS, "here", model)
            spaces.enter(tx, PAPERS, "here", model)
    ground = index_of(desk.store)
    names = [space.name for model in models for space in spaces.spaces_at(ground.ask, "here", model)]
    ground.close()
    assert len(set(names)) == len(names) == 4
    assert all(name.replace("-", "").isascii() and len(name) < 255 and "/" not in name for name in names)


def test_what_was_put_is_there_after_a_kill(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from holdfast.pipelines.rag.index import Name
from holdfast.pipelines.rag.index.qdrant.edge import EdgePoints
from holdfast.pipelines.rag.index.qdrant.points import Point
points = EdgePoints(Path({str(tmp_path)!r}))
points.prepare("space", 4)
points.put("space", [Point(name=Name("c", "s", "k"), place=(1, 1, n), page=1, vector=[1, 0, 0, n]) for n in range(50)])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    points = EdgePoints(tmp_path)
    assert points.count("space", EVERYTHING) == 50
    points.close()


def test_a_second_process_is_told_that_there_can_be_only_one(tmp_path: Path) -> None:
    one, other = EdgePoints(tmp_path), EdgePoints(tmp_path)
    one.prepare("space", 4)
    with pytest.raises(QdrantTrouble, match="only one process"):
        other.count("space", EVERYTHING)
    one.close()
    assert other.count("space", EVERYTHING) == 0
    other.close()


def test_a_forked_child_leaves_the_spaces_of_its_parent_alone(tmp_path: Path) -> None:
    points = EdgePoints(tmp_path)
    points.prepare("space", 4)
    assert in_a_child(lambda: points.count("space", EVERYTHING)) == "QdrantAway"
    assert points.count("space", EVERYTHING) == 0
    with pytest.raises(QdrantTrouble, match="only one process"):
        EdgePoints(tmp_path).count("space", EVERYTHING)
    points.close()


def test_a_forked_child_has_a_connection_to_the_server_of_its_own() -> None:
    made: list[int] = []

    def connect() -> QdrantClient:
        made.append(os.getpid())
        return QdrantClient(":memory:")

    points = ServerPoints(connect)
    points.count("space", EVERYTHING)
    assert in_a_child(lambda: (points.count("space", EVERYTHING), sorted(set(made)) == sorted(made))[1]) == "True"
    assert made == [os.getpid()]
    points.close()


def in_a_child(ask: Callable[[], object]) -> str:
    """Gives what a forked child answers, or the name of its error."""
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            said = str(ask())
        except Exception as error:
            said = type(error).__name__
        os.write(there, said.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(here, 1000).decode()
    os.close(here)
    os.close(there)
    return said


def test_the_engine_finds_the_same_after_it_built_its_index(tmp_path: Path) -> None:
    edge = desk_at(f"sqlite:///{tmp_path / 'index.db'}", "edge-on-sqlite", tmp_path)
    desk = next(edge)
    desk.ingest("a", *(f"heron {n}" for n in range(30)))
    before = desk.meaning("heron 7", limit=5)
    points, space = points_of(desk)
    assert isinstance(points, EdgePoints)
    points.optimize(space)
    assert desk.meaning("heron 7", limit=5) == before
    next(edge, None)
