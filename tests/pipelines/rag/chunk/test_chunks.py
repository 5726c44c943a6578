"""Chunks are stored by their positions. Their texts are in the pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.document import Document
from holdfast.pipelines import rag
from holdfast.pipelines.rag.chunk.chunks import split_pages
from holdfast.pipelines.rag.chunk.splitters import split_recursive
from holdfast.pipelines.rag.values import Chunk, DocumentInfo, Page, mark_last
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")
PAGES = [
    Page(7, "Of tides.\n\n" + "The spring tide follows the moon. " * 60),
    Page(9, ""),
    Page(11, "Of ebb and flood."),
]


class Heard:
    """An embedder that records its texts."""

    name = "heard"
    dimension = 4
    window = 3

    def __init__(self) -> None:
        self.contents: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy as np

        self.contents += texts
        return np.ones((len(texts), 4), np.float32)

    def embed_query(self, text: str) -> Any:
        return self.embed([text])[0]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "letters").mkdir()
    path = tmp_path / "letters" / "tides.txt"
    path.write_text("any")
    return str(path)


def read(payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
    """Yield pages whose numbers are not their positions."""
    yield from PAGES[start:]


def read_twelve(payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
    yield from [Page(number, f"Of tide {number}.") for number in range(1, 13)][start:]


def set_one_aside(doc: Document, page: Page) -> Page:
    if page.number == 7:
        raise holdfast.Reject("nobody can read it")
    return page


def expected(pages: Sequence[Page]) -> list[str]:
    return [one.content for one in split_pages(iter(enumerate(pages)), split_recursive)]


def kept_chunks(store: Store) -> list[dict[str, Any]]:
    with store.reading() as tx:
        rows = tx.execute(
            "select i.value from hf_item i join hf_step s on s.id = i.step_id where s.name = 'chunk'"
            " order by i.position"
        ).fetchall()
    found = [msgspec.json.decode(row[0]) for row in rows]
    return [one for each in found for one in (each if isinstance(each, list) else [each])]


def test_a_stored_chunk_has_its_position_and_not_its_text() -> None:
    (one,) = mark_last(split_pages(iter([(0, Page(1, "The tide."))]), split_recursive))
    kept = msgspec.json.encode(one)
    back = msgspec.json.decode(kept, type=Chunk)
    assert (one.text, one.last, back) == ("The tide.", True, one)
    assert b"The tide." not in kept


def test_pages_are_found_again_however_they_are_numbered(store: Store, file: str) -> None:
    embedder = Heard()
    rag.Library(store, embedder=embedder, reader=read).ingest(file)
    assert sorted(embedder.contents) == sorted(expected(PAGES))
    assert len(embedder.contents) > embedder.window
    assert all("text" not in one for one in kept_chunks(store))


def test_a_page_that_was_set_aside_does_not_shift_the_others(store: Store, file: str) -> None:
    embedder = Heard()
    rag.Library(store, embedder=embedder, reader=read_twelve, pages=[set_one_aside]).ingest(file)
    told = [content.rpartition("\n")[2] for content in embedder.contents]
    assert sorted(told) == sorted(f"Of tide {number}." for number in range(1, 13) if number != 7)


def test_chunks_of_an_earlier_release_are_embedded(store: Store, file: str) -> None:
    """They stored the text, and no hash."""
    rag.Library(store, embedder=Heard(), reader=numbered).ingest(file)
    old = [{name: one[name] for name in one if name != "hash"} | {"text": "not asked"} for one in kept_chunks(store)]
    with store.transaction() as tx:
        tx.execute("delete from rag_vector")
        tx.execute(
            "update hf_item set value = ? where step_id in (select id from hf_step where name = 'chunk')",
            (msgspec.json.encode(old).decode(),),
        )
    embedder = Heard()
    library = rag.Library(store, embedder=embedder, reader=numbered)
    plan = store.declare(library.pipeline.shape())
    store.rewind_to(plan, store.select("documents"), to="embed", who="test", reason="as if it stood there")
    library.drain()
    assert sorted(embedder.contents) == sorted(expected([*numbered({}, start=0)]))


def numbered(payload: Mapping[str, Any], *, start: int) -> Iterator[Page]:
    yield from [msgspec.structs.replace(page, number=place) for place, page in enumerate(PAGES, 1)][start:]


@pytest.mark.parametrize("kind", ["eml", "msg"])
def test_a_message_without_a_subject_has_no_title(kind: str) -> None:
    headers = "From: ada@example.org\nTo: bob@example.org"
    page = Page(1, f"{headers}\n\nHigh tide is at noon.", kind=kind)
    (told,) = split_pages(iter([(0, page)]), split_recursive)
    assert (told.about, told.title) == (DocumentInfo(kind, ""), "")
    (told,) = split_pages(iter([(0, replace(page, kind=""))]), split_recursive, kind=kind)
    assert told.title == ""
    (told,) = split_pages(iter([(0, replace(page, label="Tides"))]), split_recursive)
    assert told.title == "Tides"
