"""Qdrant's engine in this process: no server, and no other process beside this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.index import Place
from holdfast.pipelines.rag.index.qdrant.points import EVERY, INDEXED, Among, Point, QdrantAway, QdrantTrouble, place_of

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, Filter

EFFORT = 200
"""How many neighbours a search keeps in view."""
WORTH = 50_000
"""From how many vectors on that are compared one by one an index of them is built. Comparing so many takes about 15 ms,
indexing them more than a minute."""
PATIENCE = 600.0
"""Seconds that building it may take. What was not built in time is compared one by one."""
BUILD = """
import ctypes, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # whoever waits for it is gone: nobody else could open the space
import qdrant_edge
shard = qdrant_edge.EdgeShard.load(sys.argv[1])
shard.optimize()
shard.close()
"""
CONFIG = "edge_config.json"


class EdgePoints:
    """Points in a folder. Its log is on: what was put is there after a kill.

    For as long as a space is open, no other process can open it. `tend` and `close` let go of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Condition(threading.RLock())
        self._shards: dict[str, EdgeShard] = {}
        self._busy = 0
        self._of_the_parent: list[dict[str, EdgeShard]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_to_parent)

    def prepare(self, space: str, dimension: int) -> None:
        with self._lock:
            if self._opened(space) is None:
                self._create(space, dimension)

    def put(self, space: str, points: Sequence[Point]) -> None:
        import qdrant_edge as edge

        with self._using(space) as shard:
            assert shard is not None, f"{space} was not prepared"
            for start in range(0, len(points), EVERY):
                some = [edge.Point(one.id, one.vector, one.payload) for one in points[start : start + EVERY]]
                shard.update(edge.UpdateOperation.upsert_points(some))

    def nearest(self, space: str, vector: list[float], among: Among, *, limit: int) -> list[tuple[Place, float]]:
        import qdrant_edge as edge

        with self._using(space) as shard:
            if shard is None or not limit or _nobody(among):
                return []
            params = edge.SearchParams(hnsw_ef=max(EFFORT, limit))
            request = edge.SearchRequest(
                edge.Query.Nearest(vector), limit, filter=_filter(among), params=params, with_payload=True
            )
            return [(place_of(hit.payload or {}), hit.score) for hit in shard.search(request)]

    def count(self, space: str, among: Among) -> int:
        import qdrant_edge as edge

        with self._using(space) as shard:
            return shard.count(edge.CountRequest(exact=True, filter=_filter(among))) if shard else 0

    def delete(self, space: str, among: Among) -> None:
        import qdrant_edge as edge

        wanted = _filter(among)
        with self._using(space) as shard:
            if shard is not None and wanted is not None:
                shard.update(edge.UpdateOperation.delete_points_by_filter(wanted))

    def each(self, space: str) -> Iterator[Place]:
        import qdrant_edge as edge

        after: Any = None
        while True:
            with self._using(space) as shard:
                if shard is None:
                    return
                records, after = shard.scroll(edge.ScrollRequest(offset=after, limit=EVERY, with_payload=True))
            yield from (place_of(record.payload or {}) for record in records)
            if after is None:
                return

    def tend(self, space: str) -> None:
        with self._using(space) as shard:
            info = shard.info() if shard else None
        if info is not None and info.points_count - info.indexed_vectors_count >= WORTH:
            self.optimize(space)
        else:
            self.close()

    def optimize(self, space: str) -> None:
        """Builds the index of vectors of all that was put. It never runs by itself; till then all are compared.

        In a process of its own: the engine lets no other thread run meanwhile, for minutes where there is much to do.
        That process can be killed at any moment; what there was before is there then.
        """
        with self._idle():
            self._let_go()
            if (self._folder / space / CONFIG).exists():
                with suppress(subprocess.TimeoutExpired):
                    command = [sys.executable, "-c", BUILD, str(self._folder / space)]
                    subprocess.run(command, check=False, timeout=PATIENCE, capture_output=True)

    def drop(self, space: str) -> None:
        with self._idle():
            with suppress(Damaged):
                self._opened(space)  # somebody else may be in there
            self._let_go()
            shutil.rmtree(self._folder / space, ignore_errors=True)

    def close(self) -> None:
        with self._idle():
            self._let_go()

    @contextmanager
    def _using(self, space: str) -> Iterator[EdgeShard | None]:
        """Gives a space that stays open meanwhile. None: it was never made."""
        with self._lock:
            shard = self._opened(space)
            self._busy += 1
        try:
            yield shard
        finally:
            with self._lock:
                self._busy -= 1
                self._lock.notify_all()

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Waits until nobody in this process uses a space, and keeps them out meanwhile."""
        with self._lock:
            self._lock.wait_for(lambda: not self._busy)
            yield

    def _leave_to_parent(self) -> None:
        """A forked child must not write to its parent's spaces, nor close them: that lets go of the parent's lock."""
        self._of_the_parent.append(self._shards)
        self._shards, self._busy = {}, 0
        self._lock = threading.Condition(threading.RLock())

    def _let_go(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    def _opened(self, space: str) -> EdgeShard | None:
        import qdrant_edge as edge

        folder = self._folder / space
        if space not in self._shards and (folder / CONFIG).exists():
            try:
                self._shards[space] = edge.EdgeShard.load(str(folder))
            except Exception as error:  # the engine raises nothing narrower
                raise _trouble(folder, error) from error
        return self._shards.get(space)

    def _create(self, space: str, dimension: int) -> None:
        import qdrant_edge as edge

        folder = self._folder / space
        shutil.rmtree(folder, ignore_errors=True)  # what a kill left before there was anything in it
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise QdrantTrouble(f"points cannot be kept in {folder}: {error.strerror}") from error
        vectors = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)
        enough = max(WORTH // 2 * dimension * 4 // 1024, 1)  # kilobytes of vectors, of one segment
        order = edge.EdgeOptimizersConfig(indexing_threshold=enough)
        config = edge.EdgeConfig(vectors=vectors, wal_enabled=True, optimizers=order)
        shard = edge.EdgeShard.create(str(folder), config)
        shard.update(edge.UpdateOperation.create_field_index(INDEXED, edge.PayloadSchemaType.Integer))
        self._shards[space] = shard


class Damaged(QdrantTrouble):
    """A space cannot be opened, and nobody else has it open."""


_open: dict[Path, EdgePoints] = {}
_opening = threading.Lock()


def edge_at(folder: Path) -> EdgePoints:
    """Gives the points in a folder: the same to all of this process, because the engine lets only one in."""
    with _opening:
        return _open.setdefault(folder, EdgePoints(folder))


def _filter(among: Among) -> Filter | None:
    import qdrant_edge as edge

    must: list[Any] = []
    if among.documents is not None:
        must.append(edge.FieldCondition("document", match=edge.MatchAny(list(among.documents))))
    if among.version is not None:
        must.append(edge.FieldCondition("version", match=edge.MatchValue(among.version)))
    never: list[Any] = [edge.FieldCondition("version", match=edge.MatchValue(one)) for one in among.but_versions]
    return edge.Filter(must=must, must_not=never) if must or never else None


def _nobody(among: Among) -> bool:
    return among.documents is not None and not among.documents


def _trouble(folder: Path, error: Exception) -> QdrantTrouble:
    if "WouldBlock" in str(error):
        return QdrantAway(
            f"{folder} is in use: Qdrant's engine lets only one process in. Wait until the other one is done or end it "
            "(searches by words alone work meanwhile), or let both ask a Qdrant server"
        )
    return Damaged(
        f"Qdrant's engine cannot open {folder}: {error}. Delete that folder; `holdfast collection tidy` fills it anew"
    )
