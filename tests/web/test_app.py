"""Search over HTTP: the same results as on the command line, and errors with a message."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import holdfast
from holdfast.cli.app import app as command
from holdfast.pipelines import rag
from holdfast.pipelines.rag.search import service as module
from holdfast.pipelines.rag.search.service import SearchService
from holdfast.web.app import search_app
from holdfast.web.host_check import allowed_hosts
from holdfast.web.query_params import SEARCH_PARAMS

QUESTION = "anchor tide moon sand"


def keys(client: TestClient, **parameters: str | list[str]) -> list[str]:
    answer = client.get("/search", params={"q": QUESTION, **parameters})
    assert answer.status_code == 200, answer.text
    return sorted(found["key"] for found in answer.json()["found"])


def test_an_answer_is_the_one_of_the_command_line(client: TestClient, database: str) -> None:
    words = ["search", QUESTION, "--json", "--store", database, "--limit", "2"]
    said = CliRunner().invoke(command, words, prog_name="holdfast")
    assert client.get("/search", params={"q": QUESTION, "limit": "2"}).json() == json.loads(said.output)


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({}, ["<b>bold.txt", "anchors.md", "tides.txt"]),
        ({"type": "markdown"}, ["anchors.md"]),
        ({"path": "*.md"}, ["anchors.md"]),
        ({"document": "tides.txt"}, ["tides.txt"]),
        ({"by": "words", "q": "moon"}, ["tides.txt"]),
        ({"by": "meaning", "document": "tides.txt"}, ["tides.txt"]),
        ({"type": "pdf"}, []),
        ({"q": "anchor tide type:markdown"}, ["anchors.md"]),
        ({"q": "anchor moon -anchor", "path": "*s.*"}, ["tides.txt"]),
        ({"q": '"full moon" tide'}, ["tides.txt"]),
        ({"where": "case:12"}, []),
        ({"where": ["case:12", "year:2024"]}, []),
        ({"source": "/elsewhere"}, []),
        ({"document": "", "type": "", "each": "1"}, ["<b>bold.txt", "anchors.md", "tides.txt"]),
    ],
)
def test_answers_are_narrowed_down(client: TestClient, parameters: dict[str, str], wanted: list[str]) -> None:
    assert keys(client, **parameters) == wanted


def test_what_came_from_a_source_is_found_by_it(client: TestClient, source: str) -> None:
    assert len(keys(client, source=source)) == 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "the parameter q is required"),
        ("q=", "the question in q has no word"),
        ("q=%20%20", "the question in q has no word"),
        ("q=!!!", "the question in q has no word and no number"),
        ("q=a&limit=0", "limit takes a number from 1 to 1,000, not '0'"),
        ("q=a&limit=1001", "limit takes a number"),
        ("q=a&limit=1_0", "limit takes a number"),
        ("q=a&limit=%D9%A1", "limit takes a number"),
        ("q=a&each=0", "each takes a number"),
        ("q=a&by=magic", "by takes words or meaning"),
        ("q=a&where=case", "where takes NAME:VALUE"),
        ("q=a&where=ca%22se:1", "where takes NAME:VALUE"),
        ("q=a&path=" + "*a" * 7, "at most 6 stars"),
        ("q=a&q=b", "q is given twice"),
        ("q=a&limt=3", "there is no parameter 'limt'; there are: q, "),
        pytest.param("q=" + "a" * 2001, "q takes at most 2,000 characters", id="long"),
    ],
)
def test_a_parameter_that_is_not_understood_is_refused_with_a_sentence(
    client: TestClient, query: str, said: str
) -> None:
    answer = client.get(f"/search?{query}")
    assert answer.status_code == 400
    assert said in answer.json()["error"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*SEARCH_PARAMS, "other"]), st.text(max_size=60)), max_size=4),
    st.text(min_size=1),
)
def test_no_parameter_makes_the_server_fail(client: TestClient, pairs: list[tuple[str, str]], question: str) -> None:
    answer = client.get("/search", params=[("q", question), *pairs])
    assert answer.status_code in (200, 400, 404)
    assert ("found" if answer.status_code == 200 else "error") in answer.json()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40))
def test_no_bytes_make_the_server_fail(client: TestClient, query: bytes) -> None:
    raw = "".join(f"%{byte:02x}" for byte in query)
    for path in (f"/search?q={raw}", f"/search?q=tide&path={raw}", f"/?q={raw}", f"/documents/documents?key={raw}"):
        assert client.get(path).status_code in (200, 400, 404)


def test_collections_are_shown_as_the_command_line_shows_them(client: TestClient, database: str) -> None:
    words = ["collection", "show", "documents", "--json", "--store", database]
    said = json.loads(CliRunner().invoke(command, words, prog_name="holdfast").output)
    assert client.get("/collections/documents").json() == said
    assert said.pop("counters")["chunks_indexed"] == 3
    assert sum(said.pop("languages").values()) == 3
    assert client.get("/collections").json() == [said], "counting is for one of them"


def test_a_document_shows_its_progress(client: TestClient, source: str) -> None:
    here = client.get("/documents/documents", params={"source": source, "key": "tides.txt"}).json()
    assert (here["document"], here["status"], here["pages_extracted"]) == ("tides.txt", "COMPLETED", 1)
    assert here["chunks_created"] == here["chunks_embedded"] == here["chunks_indexed"] == 1


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/search?q=a&collection=nope", "there is no collection 'nope'; there are: documents"),
        ("/collections/nope", "there is no collection 'nope'"),
        ("/documents/nope?source=a&key=b", "there is no collection 'nope'"),
        ("/documents/documents?source=a&key=b", "has no document 'b'"),
        ("/nowhere", "/openapi.json lists all paths"),
    ],
)
def test_what_is_not_there_is_a_404_that_says_so(client: TestClient, path: str, said: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert said in answer.json()["error"]


def test_asking_for_a_collection_does_not_make_it(client: TestClient) -> None:
    client.get("/search?q=a&collection=nope")
    assert [one["name"] for one in client.get("/collections").json()] == ["documents"]


def test_the_server_only_reads(client: TestClient) -> None:
    answer = client.post("/search?q=a")
    assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


def test_a_broken_store_is_a_503(database: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    copy(database.removeprefix("sqlite:///"), path)
    with holdfast.open(f"sqlite:///{path}") as store, closing(SearchService(store)) as service:
        with TestClient(search_app(service), base_url="http://127.0.0.1") as client:
            assert client.get("/health").json() == {"status": "ok"}
            path.write_bytes(b"this is no database any more" * 1000)
            answer = client.get("/search?q=tide")
        assert answer.status_code == 503
        assert answer.json()["error"]


def test_documents_and_settings_of_other_processes_are_seen(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shared.db"
    copy(database.removeprefix("sqlite:///"), path)
    monkeypatch.setattr(module, "CACHE_SECONDS", 0.0)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "whale.txt").write_text("A whale was seen.")
    url = f"sqlite:///{path}"
    with holdfast.open(url) as store, closing(SearchService(store)) as service:
        assert service.search("whale", by="words").found == []
        with holdfast.open(url) as other:
            rag.Library(other).ingest(str(tmp_path / "more"))
            rag.Library(other, "second", settings=rag.CollectionSettings(embedder="hash:64"))
        assert [found.key for found in service.search("whale", by="words").found] == ["whale.txt"]
        assert service.search("whale", collection="second").found == []
        with holdfast.open(url) as other:
            rag.Library(other, settings=rag.CollectionSettings(embedder="hash:32")).ingest(str(tmp_path / "more"))
        assert service.collection("documents").settings["embedder"] == "hash:32"
        assert service.search("whale").found[0].key == "whale.txt"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil", "127.0.0.1:80:80"])
def test_a_name_that_is_not_its_own_is_refused_on_loopback(client: TestClient, host: str) -> None:
    answer = client.get("/search?q=tide", headers={"Host": host})
    assert answer.status_code == 421
    assert "answers only to" in answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8321", "LOCALHOST:1"])
def test_its_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200


def test_loopback_has_known_names_and_other_addresses_are_not_checked() -> None:
    assert allowed_hosts("127.0.0.1") == allowed_hosts("localhost") == {"localhost", "127.0.0.1", "[::1]"}
    assert allowed_hosts("127.0.0.2") == {"localhost", "127.0.0.1", "[::1]", "127.0.0.2"}
    assert allowed_hosts("0.0.0.0") is allowed_hosts("search.example") is None


def test_the_description_names_all_that_is_served_and_every_parameter(client: TestClient) -> None:
    told = client.get("/openapi.json").json()
    served = {route.path for route in client.app.routes}  # type: ignore[attr-defined]
    assert set(told["paths"]) == served - {"/", "/openapi.json"}
    parameters = told["paths"]["/search"]["get"]["parameters"]
    assert [one["name"] for one in parameters] == list(SEARCH_PARAMS)
    named = set(told["components"]["schemas"])
    refs = {part.split('"')[0] for part in json.dumps(told).split("#/components/schemas/")[1:]}
    assert refs <= named
    found = told["components"]["schemas"]["SearchResult"]
    assert set(found["properties"]) == set(client.get("/search?q=tide").json()["found"][0])
