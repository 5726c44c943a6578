"""The search page: everything is escaped, no script, nothing to load. A real browser shows it, if there is one."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from holdfast.pipelines.rag.search.service import SearchService
from holdfast.web.app import search_app
from holdfast.web.server import serve_app
from tests.web.conftest import HERE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

MARKED = (0xFF, 0xE5, 0x8A)
"""The colour of the words of the question."""


class Tags(HTMLParser):
    """Collect the tags of a page, and the marked words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.marked: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["mark"]:
            self.marked.append(data)


def test_the_page_has_a_form_and_loads_nothing(client: TestClient) -> None:
    answer = client.get("/")
    page = Tags(answer.text)
    assert {"form", "input", "select", "button"} <= set(page.tags)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "onload", "onclick"} & page.attributes
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_page_shows_the_syntax_of_questions_until_there_is_one(client: TestClient) -> None:
    assert "<code>-neap</code>" in client.get("/").text
    assert "<code>-neap</code>" not in client.get("/", params={"q": "anchor"}).text


def test_answers_are_escaped_and_their_words_are_marked(client: TestClient) -> None:
    answer = client.get("/", params={"q": "anchor in sand"})
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "<script" not in answer.text
    assert {"anchor", "sand"} <= {word.lower() for word in Tags(answer.text).marked}


def test_a_name_of_a_file_is_escaped(client: TestClient) -> None:
    assert "<bdi>&lt;b&gt;bold.txt</bdi>" in client.get("/", params={"q": "markup"}).text


def test_a_question_is_shown_again_escaped(client: TestClient) -> None:
    answer = client.get("/", params={"q": '"><script>alert(2)</script>'})
    assert "<script" not in answer.text
    assert 'value="&quot;&gt;&lt;script&gt;alert(2)&lt;/script&gt;"' in answer.text


def test_the_page_shows_errors(client: TestClient) -> None:
    answer = client.get("/", params={"q": "tide", "collection": "<nope>"})
    assert answer.status_code == 404
    assert "there is no collection &#x27;&lt;nope&gt;&#x27;" in answer.text
    assert "<option>documents</option>" in answer.text


def test_the_page_says_that_nothing_was_found(client: TestClient) -> None:
    assert "Nothing was found." in client.get("/", params={"q": "tide", "type": "pdf"}).text


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [390, 1000])
def test_a_browser_shows_the_answers_with_their_words_marked(
    service: SearchService, tmp_path: Path, width: int
) -> None:
    from PIL import Image

    picture = tmp_path / "page.png"
    with serve_app(search_app(service, allowed_hosts=HERE), "127.0.0.1", 0) as server:
        browser = [
            *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"),
            *(f"--window-size={width},700", f"--screenshot={picture}"),
            f"http://127.0.0.1:{server.port}/?q=anchor+in+sand",
        ]
        subprocess.run(browser, capture_output=True, timeout=100, check=True)
    with Image.open(picture) as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24) or ()}
    assert image.width == width
    assert MARKED in colours
