"""Documents from another store: a capsule names a file that nobody ingested here."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.core.capsule import read_capsule
from holdfast.ops.capsule_export import pack
from holdfast.pipelines import rag
from holdfast.pipelines.rag.ingest.trusted_sources import is_inside
from holdfast.pipelines.rag.ingest.watcher import Watcher
from holdfast.sources import parse_source
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore

pytest.importorskip("numpy", reason="document search needs the extra rag")

SECRET = "the password of the lighthouse is herring"
WAITING = {"state": "waiting", "step": "extract", "cursor": None, "moves": 0, "due_at": "2026-11-18T00:51:27Z"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text("The spring tide comes twice a month, at new and at full moon.")
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    return secret


@pytest.fixture
def capsule(tmp_path: Path) -> dict[str, Any]:
    """A capsule of a document that was ingested in another store."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "anchors.txt").write_text("An anchor of twenty kilos holds a boat in sand.")
    with holdfast.open(f"sqlite:///{tmp_path}/there.db") as store:
        _opened(store).ingest(str(there))
        packed = BytesIO()
        pack(store, store.find("anchors.txt")[0].id, packed)
    capsule: dict[str, Any] = msgspec.json.decode(packed.getvalue())
    return capsule


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with holdfast.open(f"sqlite:///{tmp_path}/here.db") as store:
        yield store


def _opened(store: Store, **more: Any) -> rag.Library:
    return rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"), **more)


def _load(store: Store, capsule: dict[str, Any], **fields: Any) -> None:
    """Load a capsule whose document has other fields and is not processed yet."""
    hostile = capsule | {"items": [], "outputs": [], "journal": [], "document": capsule["document"] | fields}
    assert isinstance(store, SqliteStore)
    store.load(read_capsule(msgspec.json.encode(hostile)), who="a stranger")


def _naming(location: object, **more: object) -> dict[str, object]:
    return {"location": str(location), "name": "a.txt", **more}


def _texts(library: rag.Library) -> str:
    return " ".join(found.text for found in library.search("the password of the lighthouse", limit=100))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_capsule_reads_no_file_that_nobody_ingested_here(
    store: Store, capsule: dict[str, Any], folder: Path, secret: Path, processes: int
) -> None:
    _load(store, capsule, **WAITING, batch="/somewhere", key="a.txt", payload=_naming(secret))
    library = _opened(store)
    library.ingest(str(folder), processes=processes)
    assert "spring tide" in _texts(library)
    assert "herring" not in _texts(library)
    (one,) = store.find("a.txt")
    assert one.state == "dead"
    assert "came from another store" in one.reason
    assert f"{str(secret)!r}, and nobody ingested that here" in one.reason


def test_a_capsule_reads_no_file_of_a_folder_that_only_the_capsule_names(
    store: Store, capsule: dict[str, Any], folder: Path, secret: Path
) -> None:
    library = _opened(store)
    _load(store, capsule, **WAITING, batch=str(secret.parent), key="secret.txt", payload=_naming(secret))
    library.ingest(str(folder))
    assert "herring" not in _texts(library)


@pytest.mark.parametrize("place", ["{secret}", "{folder}/../secret.txt", "{folder}/.secret.txt"])
def test_a_capsule_reads_no_file_by_naming_an_ingested_folder(
    store: Store, capsule: dict[str, Any], folder: Path, secret: Path, place: str
) -> None:
    (folder / ".secret.txt").write_text(SECRET)
    location = place.format(secret=secret, folder=folder)
    _load(store, capsule, **WAITING, batch=str(folder), key="a.txt", payload=_naming(location))
    library = _opened(store)
    library.ingest(str(folder), scan=rag.ScanOptions(ignore=[".*"]))
    assert "herring" not in _texts(library)


@pytest.mark.parametrize("state", ["dead", "paused", "done"])
def test_a_capsule_reads_no_file_when_somebody_continues_its_document(
    store: Store, capsule: dict[str, Any], folder: Path, secret: Path, state: str
) -> None:
    fields = WAITING | {"state": state, "step": None if state == "done" else "extract"}
    _load(store, capsule, **fields, batch="/somewhere", key="a.txt", payload=_naming(secret))
    library = _opened(store)
    library.ingest(str(folder))
    (one,) = store.find("a.txt")
    plan = store.declare(library.pipeline.shape())
    store.redrive([one.id], who="ann", reason="again")
    store.resume(plan, [one.id], who="ann", reason="again")
    if state == "done":
        store.rewind_to(plan, [one.id], to="extract", who="ann", reason="again")
    holdfast.drain(library.pipeline, store)
    assert "herring" not in _texts(library)
    assert store.documents_by_id([one.id])[0].state == "dead"


def test_a_capsule_reads_no_file_through_its_attachments(
    store: Store, capsule: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    mail = EmailMessage()
    mail["Subject"] = "keys"
    mail.set_content("see below")
    mail.add_attachment(SECRET, filename="a.txt")
    (tmp_path / "mail.eml").write_bytes(bytes(mail))
    payload = _naming(tmp_path / "mail.eml", inside=[0])
    _load(store, capsule, **WAITING, batch="/somewhere", key="mail.eml#a.txt", payload=payload)
    library = _opened(store)
    library.ingest(str(folder))
    assert "herring" not in _texts(library)


def test_a_url_that_a_capsule_names_is_not_fetched(store: Store, capsule: dict[str, Any], folder: Path) -> None:
    url = "http://127.0.0.1:9/admin"
    _load(store, capsule, **WAITING, batch=url, key=url, payload=_naming(url))
    _opened(store, allow_private=True).ingest(str(folder))
    (one,) = store.find(url)
    assert "came from another store" in one.reason


def test_a_document_of_a_capsule_is_submitted_again_with_its_folder(
    store: Store, capsule: dict[str, Any], tmp_path: Path
) -> None:
    _load(store, capsule, **WAITING)
    library = _opened(store)
    library.ingest(str(tmp_path / "there"))
    assert store.find("anchors.txt")[0].state == "done"
    assert "twenty kilos" in _texts(library)


def test_a_watched_source_is_trusted(store: Store, capsule: dict[str, Any], tmp_path: Path) -> None:
    _load(store, capsule, **WAITING)
    library = _opened(store)
    source = parse_source(str(tmp_path / "there"))
    watcher = Watcher(source)
    watcher.poll()
    snapshot = watcher.poll()
    assert snapshot is not None
    library.submit_snapshot(source, snapshot)
    library.drain()
    assert store.find("anchors.txt")[0].state == "done"


def test_a_finished_document_of_a_capsule_stays_done(store: Store, capsule: dict[str, Any], folder: Path) -> None:
    _load(store, capsule)
    _opened(store).ingest(str(folder))
    assert store.find("anchors.txt")[0].state == "done"


@pytest.mark.parametrize(
    ("location", "source"),
    [
        ("/a/b.txt", "/a"),
        ("/a/b/c.txt", "/a"),
        ("/a/b.txt", "/a/b.txt"),
        ("/b.txt", "/"),
        ("/a/..b/c", "/a"),
        ("https://a.example/b", "https://a.example/b"),
        ("memory:///a/b", "memory://a"),
        ("memory:///a/b", "memory://a/"),
        ("memory:///a", "memory:///a"),
    ],
)
def test_a_location_below_a_source_is_inside(location: str, source: str) -> None:
    assert is_inside(location, source)


@pytest.mark.parametrize(
    ("location", "source"),
    [
        ("/etc/passwd", "/a"),
        ("/a/../etc/passwd", "/a"),
        ("/a/./b", "/a"),
        ("/ab", "/a"),
        ("a/b", "/a"),
        ("", ""),
        ("/etc/passwd", ""),
        ("file:///etc/passwd", "/"),
        ("file:///etc/passwd", "/etc"),
        ("/etc/passwd", "file:///etc"),
        ("https://a.example/b/c", "https://a.example/b"),
        ("https://a.example.evil/", "https://a.example"),
        ("memory:///ab", "memory://a"),
        ("memory:///a/../b", "memory://a"),
        ("memory://a/b::file:///etc/passwd", "memory://a"),
        ("file:///a/b", "memory://a"),
        ("nothing://a/b", "nothing://a"),
    ],
)
def test_a_location_not_below_a_source_is_not_inside(location: str, source: str) -> None:
    assert not is_inside(location, source)
