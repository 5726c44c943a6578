"""Ignore rules: the default patterns, and patterns in the style of .gitignore."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.sources import SourceRefused, list_files, parse_source
from holdfast.sources.ignore_rules import IgnoreRules, compile_glob
from tests.sources.test_listing import keys, write


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
def test_patterns_match_as_in_git(tmp_path: Path, patterns: list[str], left: list[str]) -> None:
    write(tmp_path, "a.txt", "a.log", "build", "docs/a.txt", "docs/b.log", "docs/old/a.txt", "sub/build/out.txt")
    assert sorted(keys(tmp_path, *patterns)) == left


def test_a_file_that_is_ignored_by_default_can_be_included(tmp_path: Path) -> None:
    write(tmp_path, ".notes/a.txt", ".git/config", "b.tmp")
    assert keys(tmp_path, "!.notes/", "!*.tmp") == ["b.tmp", ".notes/a.txt"]


def test_the_ignore_file_of_a_folder_is_used_and_the_caller_wins(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "b.log", "c.txt", "sub/c.txt")
    (tmp_path / ".holdfastignore").write_text("# no logs\n*.log\n/c.txt\n")
    assert keys(tmp_path) == ["sub/c.txt"]
    assert keys(tmp_path, "!b.log") == ["b.log", "sub/c.txt"]


def test_an_invalid_pattern_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match=r"'\[z-a\]'"):
        list(list_files(parse_source(str(tmp_path)), ignore=["[z-a]"]))
    with pytest.raises(SourceRefused, match="more than 3 times"):
        IgnoreRules(["**/a/**/b/**/c/**/d"])


def test_a_hostile_pattern_ends_soon() -> None:
    assert not IgnoreRules(["*a" * 60 + "b"]).ignores("a" * 250, "a" * 250)


def test_stars_stay_between_slashes_and_escapes_are_plain() -> None:
    assert not compile_glob("*.pdf").fullmatch("x/a.pdf")
    assert compile_glob(r"\*.pdf").fullmatch("*.pdf")
    assert not compile_glob(r"\*.pdf").fullmatch("a.pdf")
    assert not compile_glob("a[!b]c").fullmatch("a/c")
    assert IgnoreRules([r"\!odd", r"\#odd"]).ignores("!odd", "!odd")


@pytest.mark.filterwarnings("error")  # Python warns of what it may understand differently one day
@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [("[--a]", "Z", "b"), ("[a-c-]", "-", "d"), ("[a&&b]", "&", "c"), ("[!!a]", "b", "!")],
)
def test_odd_brackets_mean_their_characters(pattern: str, meant: str, not_meant: str) -> None:
    assert compile_glob(pattern).fullmatch(meant)
    assert not compile_glob(pattern).fullmatch(not_meant)


def test_a_pattern_for_the_content_of_a_folder_does_not_match_the_folder() -> None:
    assert IgnoreRules(["a", "!a/*"]).ignores_path("a/x")
    assert not IgnoreRules(["a/*"]).ignores("a/", "a/")


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
def test_random_patterns_match_as_in_git(tmp_path: Path) -> None:
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
        ours = IgnoreRules(lines)
        assert {file for file in files if ours.ignores_path(file)} == set(asked.stdout.split())

    compared()
