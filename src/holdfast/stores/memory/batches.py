"""Batches in memory: they balance, are sealed and closed, and leave a report."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.errors import UnknownBatch
from holdfast.stores.memory.base import Base


class Batches(Base):
    """Keeps documents together that belong together."""

    def seal(self, pipeline: str, batch: str) -> None:
        with self._writing() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            row = self._batch(pipeline_id, batch)
            if row is None:
                known = [one.name for one in tables.batches.values() if one.pipeline_id == pipeline_id]
                raise UnknownBatch(pipeline, batch, known)
            if row.state == "open":
                tables.batches[row.id] = replace(row, state="sealed")
