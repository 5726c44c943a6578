"""Nothing is shown that is not run: every block of the README and of docs/, in the order of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import KINDS, PAGES, ROOT, Reader, blocks, named

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", [page for page in PAGES if "reference" not in page.parts], ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path)
    for block in blocks(page):
        reader.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [str(block) for block in blocks(page) if block.kind not in KINDS]
    assert not unknown, f"these blocks are none of {', '.join(KINDS)}: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_set_up_is_one_line_with_nothing_to_install_first(page: Path) -> None:
    lines = [line for block in blocks(page) if block.kind == "sh" for line in block.text.splitlines()]
    assert all(re.match(r"(\./hf|make|\.ci/run|HF_PYTHON=\S+ \./hf)\b", line) for line in lines if line), lines


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(_prose(page)):
        path, _, anchor = target.partition("#")
        assert "://" not in path, f"{named(page)} links to {target}: pages link only to what is in this repository"
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{named(page)} links to {target}, which is not there"
        if anchor:
            headings = [_anchor(heading) for heading in HEADING.findall(_prose(file))]
            assert anchor in headings, f"{named(page)} links to {target}, and there is no such heading"


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        paths = [target.partition("#")[0] for target in LINK.findall(_prose(page))]
        ahead += [(page.parent / path).resolve() for path in paths if path]
    lost = [named(page) for page in PAGES if page not in seen]
    assert not lost, f"no way leads from the README to {lost}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=named)
def test_a_decision_is_a_page_with_its_four_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert HEADING.findall(text)[1:] == ["Context", "Decision", "Cost", "What would change our mind"]
    assert len(text.split()) <= 450, "a note is at most a page"


def _prose(page: Path) -> str:
    return re.sub(r"```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    places = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/holdfast/testing").rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in places)
    missing = [name for name in re.findall(r"`(test_\w+)`", _prose(page)) if f"def {name}(" not in code]
    assert not missing, f"{named(page)} names tests that do not exist: {missing}"
