"""The demo: it makes the sample documents searchable, kills that in the middle, goes on, and finds the right pages."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, environment
from tests.support.polling import wait_for

DOCUMENTS = ROOT / "examples" / "harbour"
TEXTS = tomllib.loads((ROOT / "scripts" / "harbour_texts.toml").read_text(encoding="utf-8"))
PAGES = 32
TIME_LIMIT = 100.0


def start(folder: Path) -> subprocess.Popen[str]:
    """Start the demo as `../hf demo` does, in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "demo.py", folder / "demo.db"],
        cwd=folder,
        env=environment() | {"HOLDFAST_COMMAND": "../hf"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def stored_pages(database: Path) -> list[int]:
    """Return the positions of the stored pages of the survey, none if there is no database yet."""
    query = "select position from hf_items where step = 'extract' and key like '%survey_of_the_quays.pdf'"
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
            return sorted(position for (position,) in db.execute(query))
    except sqlite3.OperationalError:
        return []


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.timeout(300)
def test_the_demo_goes_on_after_ctrl_c_and_after_its_kill_and_finds_the_pages(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="document search needs the extra rag")
    pytest.importorskip("tesserocr", reason="document search needs the extra rag")
    database = tmp_path / "demo.db"

    with start(tmp_path) as demo:
        wait_for(lambda: stored_pages(database), time_limit=TIME_LIMIT)
        os.killpg(demo.pid, signal.SIGINT)
        output, _ = demo.communicate(timeout=TIME_LIMIT)
    assert demo.returncode == 130, output
    assert f"Continue with the same command:\n  ../hf ingest {DOCUMENTS} --store sqlite:///demo.db\n" in output
    assert output.endswith("To go on with the demo:\n  ../hf demo\n")
    assert 0 < len(stored_pages(database)) < PAGES

    with start(tmp_path) as demo:
        output, _ = demo.communicate(timeout=2 * TIME_LIMIT)
    assert demo.returncode == 0, output
    killed = re.search(r"\$ kill -KILL \d+\n(\d+) of 32 pages of survey_of_the_quays.pdf are stored.\n", output)
    assert killed, output
    assert 0 < int(killed[1]) < PAGES
    assert "All 13 are done.\n" in output
    assert f"survey_of_the_quays.pdf: 32 pages, each stored once. {killed[1]} of them were not read again." in output
    assert stored_pages(database) == [*range(PAGES)]
    assert_answers(output)

    with start(tmp_path) as demo:
        output, _ = demo.communicate(timeout=TIME_LIMIT)
    assert demo.returncode == 0, output
    assert "12 unchanged" in output
    assert "kill -KILL" not in output
    assert_answers(output)

    begin_again = output.rstrip().splitlines()[-1]
    assert begin_again.strip() == "rm -r demo.db*"
    subprocess.run(begin_again, shell=True, cwd=tmp_path, check=True)
    assert [*tmp_path.iterdir()] == []


def assert_answers(output: str) -> None:
    """Fail unless the search shows the pages that have the answers, and how to open them."""
    found = re.findall(r"^ 1\. (\S+), page (\d+)", output, re.MULTILINE)
    assert found == [
        ("survey/survey_of_the_quays.pdf", "17"),
        ("contracts/pilot_launch_charter.pdf", "4"),
        ("mail/insurance_renewal.eml#insurance_offer.pdf", "2"),
    ]
    assert re.findall(r"Open: (\S+)", output) == [
        f"{(DOCUMENTS / 'survey/survey_of_the_quays.pdf').as_uri()}#page=17",
        f"{(DOCUMENTS / 'contracts/pilot_launch_charter.pdf').as_uri()}#page=4",
        (DOCUMENTS / "mail/insurance_renewal.eml").as_uri(),
    ]
    assert "../hf search 'your question' --store sqlite:///demo.db\n" in output


def test_the_sample_documents_are_small_and_of_many_types() -> None:
    files = [path for path in DOCUMENTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert {path.suffix for path in files} == {".docx", ".eml", ".html", ".md", ".pdf", ".png", ".txt", ".xlsx"}


def test_the_sample_documents_have_the_texts_that_they_are_built_from() -> None:
    for name, text in TEXTS["minutes"].items():
        assert (DOCUMENTS / "minutes" / f"{name}.md").read_text(encoding="utf-8") == text
    assert (DOCUMENTS / "notices" / "fog_signal.html").read_text(encoding="utf-8") == TEXTS["notices"]["fog_signal"]
    assert (DOCUMENTS / "notices" / "opening_hours.txt").read_text() == TEXTS["notices"]["opening_hours"]


def test_the_survey_has_only_pictures_of_its_pages() -> None:
    pdfium = pytest.importorskip("pypdfium2", reason="document search needs the extra rag")
    with pdfium.PdfDocument(DOCUMENTS / "survey" / "survey_of_the_quays.pdf") as survey:
        texts = [page.get_textpage().get_text_range() for page in survey]
    assert len(texts) == PAGES == len(TEXTS["survey"]["sections"]) + 3
    assert not "".join(texts).strip()
