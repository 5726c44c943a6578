"""What is left out, by default and by patterns in the style of .gitignore."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.rag.sources import SourceRefused, listing, source_of
from holdfast.pipelines.rag.sources.ignoring import Ignoring, matcher
from tests.rag.sources.test_listing import keys, write


def test_hidden_files_and_junk_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.docx", "~$a.docx", ".DS_Store", "Thumbs.db", "b.tmp", "c.pdf.part", ".git/config")
    write(tmp_path, "node_modules/x/readme.md", "__pycache__/a.pyc", "sub/.hidden", "sub/b.txt")
    assert keys(tmp_path) == ["a.docx", "sub/b.txt"]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["*.log"], ["a.txt", "build", "docs/a.txt", "docs/old/a.txt", "sub/build/out.txt"]),
        (["build/"], ["a.log", "a.txt", "build", "docs/a.txt", "docs/b.log", "docs/old/a.txt"]),
        (["build"], ["a.log", "a.txt", "docs/a.txt", "docs/b.log", "docs/old/a.txt"]),
        (["/a.*"], ["build", "docs/a.txt", "docs/b.log", "docs/old/a.txt", "sub/build/out.txt"]),
        (["docs/*.txt"], ["a.log", "a.txt", "build", "docs/b.log", "docs/old/a.txt", "sub/build/out.txt"]),
        (["docs/**/a.txt"], ["a.log", "a.txt", "build", "docs/b.log", "sub/build/out.txt"]),
        (["docs/**"], ["a.log", "a.txt", "build", "sub/build/out.txt"]),
        (["*", "!*.log"], ["a.log"]),
        (["*.log", "!b.log"], ["a.txt", "build", "docs/a.txt", "docs/b.log", "docs/old/a.txt", "sub/build/out.txt"]),
        (["docs/", "!docs/a.txt"], ["a.log", "a.txt", "build", "sub/build/out.txt"]),
        (["# a.txt", "", "[!ab]*.txt"], ["a.log", "a.txt", "build", "docs/a.txt", "docs/b.log", "docs/old/a.txt"]),
    ],
)
def test_patterns_mean_what_they_mean_to_git(tmp_path: Path, patterns: list[str], left: list[str]) -> None:
    write(tmp_path, "a.txt", "a.log", "build", "docs/a.txt", "docs/b.log", "docs/old/a.txt", "sub/build/out.txt")
    assert sorted(keys(tmp_path, *patterns)) == left


def test_what_is_left_out_by_default_can_be_asked_for(tmp_path: Path) -> None:
    write(tmp_path, ".notes/a.txt", ".git/config", "b.tmp")
    assert keys(tmp_path, "!.notes/", "!*.tmp") == ["b.tmp", ".notes/a.txt"]


def test_a_file_in_the_folder_says_what_to_leave_out_and_the_caller_has_the_last_word(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "b.log", "c.txt", "sub/c.txt")
    (tmp_path / ".holdfastignore").write_text("# no logs\n*.log\n/c.txt\n")
    assert keys(tmp_path) == ["sub/c.txt"]
    assert keys(tmp_path, "!b.log") == ["b.log", "sub/c.txt"]


def test_a_pattern_that_cannot_be_understood_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match=r"'\[z-a\]'"):
        list(listing(source_of(str(tmp_path)), ignore=["[z-a]"]))
    with pytest.raises(SourceRefused, match="more than 3 times"):
        Ignoring(["**/a/**/b/**/c/**/d"])


def test_a_hostile_pattern_ends_soon() -> None:
    assert not Ignoring(["*a" * 60 + "b"]).hides("a" * 250, "a" * 250)


def test_stars_stay_between_slashes_and_escapes_are_plain() -> None:
    assert not matcher("*.pdf").fullmatch("x/a.pdf")
    assert matcher(r"\*.pdf").fullmatch("*.pdf")
    assert not matcher(r"\*.pdf").fullmatch("a.pdf")
    assert not matcher("a[!b]c").fullmatch("a/c")
    assert Ignoring([r"\!odd", r"\#odd"]).hides("!odd", "!odd")


@pytest.mark.filterwarnings("error")  # Python warns of what it may understand differently one day
@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [("[--a]", "Z", "b"), ("[a-c-]", "-", "d"), ("[a&&b]", "&", "c"), ("[!!a]", "b", "!")],
)
def test_odd_brackets_mean_their_characters(pattern: str, meant: str, not_meant: str) -> None:
    assert matcher(pattern).fullmatch(meant)
    assert not matcher(pattern).fullmatch(not_meant)


def test_what_is_in_a_folder_is_not_the_folder() -> None:
    assert Ignoring(["a", "!a/*"]).hides_below("a/x")
    assert not Ignoring(["a/*"]).hides("a/", "a/")


PARTS = st.text(alphabet="ab*?.", min_size=1, max_size=4).filter(lambda part: "**" not in part and part.strip("."))
NAMES = st.text(alphabet="abc", min_size=1, max_size=3)
LINES = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/", "**/"]),
    st.lists(PARTS, min_size=1, max_size=2),
    st.sampled_from(["", "/", "/**"]),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not here")
def test_random_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    @settings(max_examples=50, deadline=None)  # each asks git
    @given(st.lists(LINES, min_size=1, max_size=4), st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=5))
    def compared(lines: list[str], paths: list[list[str]]) -> None:
        files = ["/".join(path) for path in paths] or ["a"]
        (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
        asked = subprocess.run(
            ["git", "-C", tmp_path, "check-ignore", "--no-index", "--stdin"],
            input="\n".join(files),
            capture_output=True,
            text=True,
            check=False,
        )
        ours = Ignoring(lines)
        assert {file for file in files if ours.hides_below(file)} == set(asked.stdout.split())

    compared()
