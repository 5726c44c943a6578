"""Results are links to their files. A file is served only as it was made searchable, and never as HTML."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="serving needs the extra web")

import holdfast
from holdfast.core.model import NewDocument
from holdfast.pipelines import rag
from holdfast.pipelines.rag.search.original_file import FileNotShown, OriginalFile, read_original
from holdfast.web.files import address_of, file_response
from tests.web.conftest import LETTERS

if TYPE_CHECKING:
    from starlette.testclient import TestClient


def hit(**fields: Any) -> Any:
    return SimpleNamespace(
        **{"collection": "documents", "source": "/data", "key": "a.txt", "kind": "text", "page": 3} | fields
    )


def test_each_result_of_the_page_is_a_link_that_opens_its_file(client: TestClient) -> None:
    page = client.get("/", params={"q": "spring tide"}).text
    (address, *_) = re.findall(r'<a href="(/files/[^"]+)"><bdi>tides\.txt', page)
    answer = client.get(unescape(address))
    assert answer.text == LETTERS["tides.txt"]
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_file_that_is_no_document_is_not_served(client: TestClient, source: str, database: str) -> None:
    for key in (Path(database).name, "../web.db", "nope.txt"):
        assert client.get("/files/documents", params={"source": source, "key": key}).status_code == 404
    assert client.get("/files/other", params={"source": source, "key": "tides.txt"}).status_code == 404
    assert client.get("/files/documents", params={"source": source}).status_code == 400


@pytest.mark.parametrize(
    ("name", "kind", "disposition"),
    [
        ("a.pdf", "application/pdf", "inline"),
        ("A.PNG", "image/png", "inline"),
        ("a.html", "application/octet-stream", "attachment"),
        ("a.svg", "application/octet-stream", "attachment"),
        ("a.eml", "application/octet-stream", "attachment"),
    ],
)
def test_what_a_browser_could_run_is_downloaded(name: str, kind: str, disposition: str) -> None:
    answer = file_response(OriginalFile(name, b"x"))
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-disposition"] == f"{disposition}; filename*=UTF-8''{name}"


def test_a_name_cannot_add_a_header() -> None:
    name = 'a"\r\nset-cookie: b.pdf'
    answer = file_response(OriginalFile(name, b"x"))
    assert answer.headers["content-disposition"] == f"inline; filename*=UTF-8''{quote(name, safe='')}"


def test_a_pdf_is_opened_at_its_page_a_web_page_at_its_own_address_and_an_object_not_at_all() -> None:
    assert address_of(hit(kind="pdf")) == "/files/documents?source=%2Fdata&key=a.txt#page=3"
    assert address_of(hit()) == "/files/documents?source=%2Fdata&key=a.txt"
    assert address_of(hit(source="https://example.org/a?b=c")) == "https://example.org/a?b=c"
    assert address_of(hit(source="s3://bucket/a")) == ""
    assert address_of(hit(source="javascript:alert(1)")).startswith("/files/")


# what is read


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("an anchor in the sand")
    return folder


def ingested(url: str, folder: Path) -> None:
    with holdfast.open(url) as store:
        rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64")).ingest(str(folder))


def test_a_file_that_has_changed_is_not_shown(letters: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    ingested(url, letters)
    with holdfast.open(url) as store:
        assert read_original(store, "documents", str(letters), "a.txt").content == b"an anchor in the sand"
        (letters / "a.txt").write_text("a secret")
        with pytest.raises(FileNotShown, match="has changed"):
            read_original(store, "documents", str(letters), "a.txt")


def test_a_link_out_of_the_folder_is_not_followed(letters: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    ingested(url, letters)
    (tmp_path / "outside.txt").write_text("an anchor in the sand")
    (letters / "a.txt").unlink()
    (letters / "a.txt").symlink_to(tmp_path / "outside.txt")
    with holdfast.open(url) as store, pytest.raises(FileNotShown):
        read_original(store, "documents", str(letters), "a.txt")


def test_a_document_that_names_a_file_outside_of_its_source_is_not_shown(letters: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    ingested(url, letters)
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    with holdfast.open(url) as store:
        library = rag.Library(store)
        for source in (str(letters), str(secret)):
            document = NewDocument("evil", {"location": str(secret), "name": "evil"}, "0" * 64)
            holdfast.submit(library.pipeline, store, batch=source, documents=[document])
            with pytest.raises(FileNotShown):
                read_original(store, "documents", source, "evil")


def test_an_attachment_opens_its_message(letters: Path, tmp_path: Path) -> None:
    message = (
        "From: a@example.org\nSubject: plan\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
        "--b\nContent-Type: text/plain\n\nsee the plan\n--b\nContent-Type: text/plain\n"
        "Content-Disposition: attachment; filename=plan.txt\n\nthe mooring plan\n--b--\n"
    )
    (letters / "mail.eml").write_text(message)
    url = f"sqlite:///{tmp_path}/a.db"
    ingested(url, letters)
    with holdfast.open(url) as store:
        found = read_original(store, "documents", str(letters), "mail.eml#plan.txt")
    assert (found.name, found.content.decode()) == ("mail.eml", message)
