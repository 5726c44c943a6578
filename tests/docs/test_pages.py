"""Run every block of the README and of docs/, in the order of its page, and check links and names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import KINDS, PAGES, ROOT, PageRunner, blocks, page_name

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SET_UP = re.compile(
    r"(\./hf|make|\.ci/run|HF_PYTHON=\S+ \./hf)\b|git clone URL holdfast && cd holdfast$"
    r"|pip install 'holdfast-pipelines\["
)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", [page for page in PAGES if "reference" not in page.parts], ids=page_name)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a page may import a file that it shows
    runner = PageRunner(tmp_path)
    for block in blocks(page):
        runner.run(block)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [str(block) for block in blocks(page) if block.kind not in KINDS]
    assert not unknown, f"these blocks have none of the kinds {', '.join(KINDS)}: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_set_up_is_one_line_with_nothing_to_install_first(page: Path) -> None:
    lines = [line for block in blocks(page) if block.kind == "sh" for line in block.text.splitlines()]
    assert all(SET_UP.match(line) for line in lines if line), lines


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(_prose(page)):
        path, _, anchor = target.partition("#")
        assert "://" not in path, f"{page_name(page)} links to {target}: pages link only to what is in this repository"
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page_name(page)} links to {target}, which does not exist"
        if anchor:
            headings = [_anchor(heading) for heading in HEADING.findall(_prose(file))]
            assert anchor in headings, f"{page_name(page)} links to {target}, and there is no such heading"


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    queue = [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        paths = [target.partition("#")[0] for target in LINK.findall(_prose(page))]
        queue += [(page.parent / path).resolve() for path in paths if path]
    lost = [page_name(page) for page in PAGES if page not in seen]
    assert not lost, f"no links lead from the README to {lost}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=page_name)
def test_a_decision_is_a_page_with_its_four_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert HEADING.findall(text)[1:] == ["Context", "Decision", "Cost", "What would change our mind"]
    assert len(text.split()) <= 450, "a note is at most a page"


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = [page.name.partition("-")[0] for page in (ROOT / "docs" / "decisions").glob("0*.md")]
    assert len(numbers) == len(set(numbers)), sorted(numbers)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=page_name)
def test_a_decision_is_listed_under_its_number(page: Path) -> None:
    (title,) = re.findall(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert title.startswith(f"{int(page.name[:4])}. ")
    assert f"[{title}]({page.name})" in (page.parent / "README.md").read_text(encoding="utf-8")


def _prose(page: Path) -> str:
    return re.sub(r"```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    places = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/holdfast/testing").rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in places)
    missing = [name for name in re.findall(r"`(test_\w+)`", _prose(page)) if f"def {name}(" not in code]
    assert not missing, f"{page_name(page)} names tests that do not exist: {missing}"
