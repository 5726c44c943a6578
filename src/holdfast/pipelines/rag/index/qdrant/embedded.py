"""Points in a folder, with Qdrant's engine in this process: no server. Only one process can open the folder."""

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

from holdfast.pipelines.rag.index.qdrant.protocol import (
    EF_SEARCH,
    PAYLOAD_INDEX,
    POINTS_AT_ONCE,
    PointFilter,
    QdrantError,
    QdrantPoint,
    QdrantUnavailable,
    chunk_key_of,
)
from holdfast.pipelines.rag.index.values import ChunkKey

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, Filter

MIN_INDEXED = 50_000
"""Vectors without an index from which on the index is built. To compare that many takes about 15 ms, to index them
more than a minute."""
BUILD_TIMEOUT = 600.0
"""Seconds that building the index may take. Vectors that are not indexed in time are compared one by one."""
BUILD_PROGRAM = """
import ctypes, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the parent: otherwise nobody else could open the space
import qdrant_edge
shard = qdrant_edge.EdgeShard.load(sys.argv[1])
shard.optimize()
shard.close()
"""
CONFIG_FILE = "edge_config.json"


class EmbeddedPoints:
    """Points in a folder. The write-ahead log is on: points survive a kill.

    While a space is open, no other process can open it. `maintain` and `close` close all spaces.

    `_lock` guards the open shards and `_users`, the number of calls that use one. Closing waits until there are none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Condition(threading.RLock())
        self._shards: dict[str, EdgeShard] = {}
        self._users = 0
        self._parent_shards: list[dict[str, EdgeShard]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def create(self, space: str, dimension: int) -> None:
        with self._lock:
            if self._open(space) is None:
                self._create(space, dimension)

    def upsert(self, space: str, points: Sequence[QdrantPoint]) -> None:
        import qdrant_edge as edge

        with self._using(space) as shard:
            assert shard is not None, f"{space} was not created"
            for start in range(0, len(points), POINTS_AT_ONCE):
                batch = [
                    edge.Point(point.id, point.vector, point.payload)
                    for point in points[start : start + POINTS_AT_ONCE]
                ]
                shard.update(edge.UpdateOperation.upsert_points(batch))

    def nearest(
        self, space: str, vector: list[float], points: PointFilter, *, limit: int
    ) -> list[tuple[ChunkKey, float]]:
        import qdrant_edge as edge

        with self._using(space) as shard:
            if shard is None or not limit or points.matches_nothing:
                return []
            params = edge.SearchParams(hnsw_ef=max(EF_SEARCH, limit))
            request = edge.SearchRequest(
                edge.Query.Nearest(vector), limit, filter=_filter(points), params=params, with_payload=True
            )
            return [(chunk_key_of(point.payload or {}), point.score) for point in shard.search(request)]

    def count(self, space: str, points: PointFilter) -> int:
        import qdrant_edge as edge

        with self._using(space) as shard:
            return shard.count(edge.CountRequest(exact=True, filter=_filter(points))) if shard else 0

    def delete(self, space: str, points: PointFilter) -> None:
        import qdrant_edge as edge

        selected = _filter(points)
        with self._using(space) as shard:
            if shard is not None and selected is not None:
                shard.update(edge.UpdateOperation.delete_points_by_filter(selected))

    def chunk_keys(self, space: str) -> Iterator[ChunkKey]:
        import qdrant_edge as edge

        offset: Any = None
        while True:
            with self._using(space) as shard:
                if shard is None:
                    return
                request = edge.ScrollRequest(offset=offset, limit=POINTS_AT_ONCE, with_payload=True)
                records, offset = shard.scroll(request)
            yield from (chunk_key_of(record.payload or {}) for record in records)
            if offset is None:
                return

    def maintain(self, space: str) -> None:
        with self._using(space) as shard:
            info = shard.info() if shard else None
        if info is not None and info.points_count - info.indexed_vectors_count >= MIN_INDEXED:
            self.optimize(space)
        else:
            self.close()

    def optimize(self, space: str) -> None:
        """Build the vector index of a space. The engine never does it by itself; without it, all are compared.

        It runs in a child process: the engine blocks all other threads, for minutes if there is much to do. The child
        can be killed at any time; the space stays as it was before.
        """
        with self._unused():
            self._close_shards()
            if (self._folder / space / CONFIG_FILE).exists():
                with suppress(subprocess.TimeoutExpired):
                    command = [sys.executable, "-c", BUILD_PROGRAM, str(self._folder / space)]
                    subprocess.run(command, check=False, timeout=BUILD_TIMEOUT, capture_output=True)

    def drop(self, space: str) -> None:
        with self._unused():
            with suppress(DamagedSpace):
                self._open(space)  # raises if another process has it open
            self._close_shards()
            shutil.rmtree(self._folder / space, ignore_errors=True)

    def close(self) -> None:
        with self._unused():
            self._close_shards()

    @contextmanager
    def _using(self, space: str) -> Iterator[EdgeShard | None]:
        """Open a space and keep it open in the block. Yield None if it does not exist."""
        with self._lock:
            shard = self._open(space)
            self._users += 1
        try:
            yield shard
        finally:
            with self._lock:
                self._users -= 1
                self._lock.notify_all()

    @contextmanager
    def _unused(self) -> Iterator[None]:
        """Wait until no thread uses a space, and keep them out in the block."""
        with self._lock:
            self._lock.wait_for(lambda: not self._users)
            yield

    def _after_fork(self) -> None:
        """Forget the parent's spaces: a child must not write to them, and closing them would free the parent's lock."""
        self._parent_shards.append(self._shards)
        self._shards, self._users = {}, 0
        self._lock = threading.Condition(threading.RLock())

    def _close_shards(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    def _open(self, space: str) -> EdgeShard | None:
        import qdrant_edge as edge

        folder = self._folder / space
        if space not in self._shards and (folder / CONFIG_FILE).exists():
            try:
                self._shards[space] = edge.EdgeShard.load(str(folder))
            except Exception as error:  # the engine raises no narrower type
                raise _open_error(folder, error) from error
        return self._shards.get(space)

    def _create(self, space: str, dimension: int) -> None:
        import qdrant_edge as edge

        folder = self._folder / space
        shutil.rmtree(folder, ignore_errors=True)  # left by a crash before the space was complete
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise QdrantError(f"the folder {folder} for vectors cannot be created: {error.strerror}") from error
        vectors = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)
        threshold = max(MIN_INDEXED // 2 * dimension * 4 // 1024, 1)  # kilobytes of vectors in one segment
        optimizers = edge.EdgeOptimizersConfig(indexing_threshold=threshold)
        config = edge.EdgeConfig(vectors=vectors, wal_enabled=True, optimizers=optimizers)
        shard = edge.EdgeShard.create(str(folder), config)
        shard.update(edge.UpdateOperation.create_field_index(PAYLOAD_INDEX, edge.PayloadSchemaType.Integer))
        self._shards[space] = shard


class DamagedSpace(QdrantError):
    """A space cannot be opened, although no other process has it open."""


_folders: dict[Path, EmbeddedPoints] = {}
_folders_lock = threading.Lock()


def open_embedded(folder: Path) -> EmbeddedPoints:
    """Return the points in a folder. All threads of this process share one: the engine opens a folder only once."""
    with _folders_lock:
        return _folders.setdefault(folder, EmbeddedPoints(folder))


def _filter(points: PointFilter) -> Filter | None:
    import qdrant_edge as edge

    must: list[Any] = []
    if points.documents is not None:
        must.append(edge.FieldCondition("document", match=edge.MatchAny(list(points.documents))))
    if points.version is not None:
        must.append(edge.FieldCondition("version", match=edge.MatchValue(points.version)))
    must_not: list[Any] = [
        edge.FieldCondition("version", match=edge.MatchValue(version)) for version in points.except_versions
    ]
    return edge.Filter(must=must, must_not=must_not) if must or must_not else None


def _open_error(folder: Path, error: Exception) -> QdrantError:
    if "WouldBlock" in str(error):  # the engine has no error code for its lock
        return QdrantUnavailable(
            f"{folder} is in use: Qdrant's embedded engine allows only one process. Wait until the other process is "
            "done, or end it (until then, search by words alone), or use a Qdrant server for both"
        )
    return DamagedSpace(
        f"Qdrant's engine cannot open {folder}: {error}. Delete that folder; `holdfast collection tidy` fills it again"
    )
