"""Loads of files, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.pipelines.files.intake import Listing, list_documents
from holdfast.pipelines.files.pipeline import Ceiling, LoadParts, build_pipeline
from holdfast.pipelines.files.reading import target_columns
from holdfast.pipelines.files.tables import TargetTable, create_statistics
from holdfast.pipelines.files.transform import Transform
from holdfast.pipelines.files.values import Column, FileOptions
from holdfast.stores import open_store
from holdfast.stores.protocol import Store

NO_CEILING = Ceiling(share=1.0)


class Load:
    """Loads files into the table `event` of a store."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def pipeline(
        self,
        source: Path,
        *,
        columns: Sequence[Column] | None = None,
        transform: Callable[[Any], Any] | None = None,
        options: FileOptions | None = None,
        ceiling: Ceiling = NO_CEILING,
        **parts: Any,
    ) -> holdfast.Pipeline:
        made = None if transform is None else Transform(transform)
        options = options or FileOptions()
        known = TargetTable("event").read_columns(self.store)
        table = TargetTable("event", known or columns or target_columns(source, options, made))
        create_statistics(self.store)
        table.create(self.store)
        return build_pipeline(
            self.store, LoadParts(table=table, transform=made, options=options, ceiling=ceiling, **parts)
        )

    def submit(self, pipeline: holdfast.Pipeline, *sources: Path) -> holdfast.SubmitResult:
        documents = list_documents(list(map(str, sources)), Listing(), min_age=timedelta(0))
        return holdfast.submit(pipeline, self.store, batch="event", documents=documents)

    def load(self, *sources: Path, **parts: Any) -> holdfast.Report:
        pipeline = self.pipeline(sources[0], **parts)
        self.submit(pipeline, *sources)
        return holdfast.drain(pipeline, self.store, threads=2)

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self.store.reading() as tx:
            return [tuple(row) for row in tx.execute(sql, parameters).fetchall()]

    def rows(self, order: str = "1") -> list[tuple[Any, ...]]:
        names = ", ".join(f'"{column.name}"' for column in TargetTable("event").read_columns(self.store))
        return self.query(f"select {names} from event order by {order}")

    def aside(self) -> list[tuple[Any, ...]]:
        return self.query("select line, reason from file_set_aside order by line")

    def reason(self) -> str:
        (dead,) = self.store.documents("files", state="dead")
        return dead.reason


@pytest.fixture(params=["sqlite", "postgres"])
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Load]:
    url = f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    folder = tmp_path / "in"
    folder.mkdir()
    store = open_store(url)
    yield Load(store, folder)
    store.close()


@pytest.fixture
def sqlite_load(tmp_path: Path) -> Iterator[Load]:
    folder = tmp_path / "in"
    folder.mkdir()
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    yield Load(store, folder)
    store.close()
