"""`holdfast.local_file`: the file of a document, wherever it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.sources.fetch import PATH_MAP, mapped_path
from holdfast.testing import document
from tests.support.services.web_server import CONTENT, Handler, Server, running_server


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("httpx2", reason="fetching needs httpx2: pip install 'holdfast-pipelines[rag]'")
    with running_server(Handler) as running:
        yield running


def test_a_file_is_given_by_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with holdfast.local_file(document(payload={"path": str(tmp_path / "a.txt")})) as path:
        assert path == tmp_path / "a.txt"


def test_a_folder_may_have_another_path_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a")
    monkeypatch.setenv(PATH_MAP, f"/data=/nowhere;/data/letters/={tmp_path}/")
    with holdfast.local_file(document(payload={"path": "/data/letters/a.txt"})) as path:
        assert path.read_text() == "a"
    assert mapped_path("/data/letters_of_2024/a.txt") == "/nowhere/letters_of_2024/a.txt"
    assert mapped_path("/database/a.txt") == "/database/a.txt"


def test_a_wrong_map_says_how_to_write_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_MAP, "/data")
    with pytest.raises(holdfast.HoldfastError, match="write it as /folder/there=/folder/here"):
        mapped_path("/data/a.txt")


def test_a_missing_file_is_rejected_with_what_to_do(tmp_path: Path) -> None:
    doc = document(payload={"path": str(tmp_path / "a.txt")})
    with pytest.raises(holdfast.Reject, match=f"not there any more.*set {PATH_MAP}"), holdfast.local_file(doc):
        pass


@pytest.mark.parametrize("payload", [None, {"lines": 3}, {"path": 3}, "a.txt"])
def test_a_payload_without_a_file_is_rejected(payload: object) -> None:
    with pytest.raises(holdfast.Reject, match="names no file"), holdfast.local_file(document(payload=payload)):
        pass


def test_a_url_is_fetched_for_the_block_only(server: Server) -> None:
    with holdfast.local_file(document(payload={"url": server.url("/document.pdf")}), allow_private=True) as path:
        assert path.read_bytes() == CONTENT
        assert path.suffix == ".pdf"
    assert not path.exists()


def test_a_url_in_a_private_network_is_not_fetched(server: Server) -> None:
    doc = document(payload={"url": server.url("/document.pdf")})
    with pytest.raises(holdfast.Reject, match="allow private networks"), holdfast.local_file(doc):
        pass


def test_an_error_of_the_block_is_raised_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    doc = document(payload={"path": str(tmp_path / "a.txt")})
    with pytest.raises(ModuleNotFoundError, match="no_such"), holdfast.local_file(doc):
        raise ModuleNotFoundError("no_such")
