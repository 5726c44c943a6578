"""Rules of CONTRIBUTING.md: docstrings start with a verb, sentences are short, old phrases do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.app import app, every_command
from tests.docs.pages import PAGES, ROOT, page_name

SOURCES = sorted((ROOT / "src").rglob("*.py"))
LONGEST_SENTENCE = 35
"""Words in a sentence of a page or a help text."""

OLD_STARTS = (
    *("Gives", "Answers", "Says", "Tells", "So many", "Lets", "What became", "Whether", "Asks", "Makes", "Takes"),
)
"""First words of docstrings that describe in the third person, or not at all. Write "Return", "Check", "Count"."""

OLD_PHRASES = re.compile(
    r"\b(so many|for ever|anew|became of|is told of|are told of|lets? go of|takes? in hand|by the books|of one's own"
    r"|stands? behind|makes? up for|in the very|all the while|whoever|nobody's|somebody's|everybody's)\b",
    re.IGNORECASE,
)
"""Phrases that a reader who learnt English as a second language may not know."""

BROAD = re.compile(r"(except\b[^#]*\b(Exception|BaseException)\b|except:|suppress\([^)]*\b(Exception|BaseException)\b)")
NOQA = re.compile(r"noqa: [A-Z0-9, ]+(- )?")

PROSE_PAGES = [page for page in PAGES if "reference" not in page.parts]


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module with their lines: of the module, its classes and its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks, tables of figures, headings and generated parts."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!-- Written by .*?<!-- The end", "<!--", text, flags=re.DOTALL)
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text. A list entry and a table cell end a sentence."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\||<!--", text):
        for sentence in re.split(r"(?<=[.:;?!])\s+", " ".join(block.split())):
            if sentence:
                yield sentence


def too_long(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if len(sentence.split()) > LONGEST_SENTENCE]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_docstring_starts_with_what_the_code_does(path: Path) -> None:
    old = [f"line {line}: {text.splitlines()[0]}" for line, text in docstrings(path) if text.startswith(OLD_STARTS)]
    assert not old, f"{path.relative_to(ROOT)}: start with the verb, as in 'Return ...' or 'Check whether ...': {old}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_code_has_no_phrases_of_the_old_style(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    found = [f"line {number}: {line.strip()}" for number, line in lines if OLD_PHRASES.search(line)]
    assert not found, f"{path.relative_to(ROOT)}: {found}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_broad_except_has_its_reason_on_the_line(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    found = [f"line {number}: {line.strip()}" for number, line in lines if BROAD.search(line) and not _reason(line)]
    assert not found, f"{path.relative_to(ROOT)}: say in a comment why everything is caught: {found}"


def _reason(line: str) -> str:
    return NOQA.sub("", line.partition("#")[2]).strip()


@pytest.mark.parametrize("page", PROSE_PAGES, ids=page_name)
def test_a_page_has_no_phrases_of_the_old_style(page: Path) -> None:
    found = [match[0] for match in OLD_PHRASES.finditer(prose(page))]
    assert not found, f"{page_name(page)}: {found}"


@pytest.mark.parametrize("page", PROSE_PAGES, ids=page_name)
def test_the_sentences_of_a_page_are_short(page: Path) -> None:
    found = too_long(prose(page))
    assert not found, f"{page_name(page)}: make two sentences of each, or a list: {found}"


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield every help text of the command line with its name: of commands, subcommands and options."""
    for name, command in [("holdfast", app), *every_command().items()]:
        yield name, command.help or ""
        for parameter in command.params:
            yield f"{name} {parameter.opts[0]}", getattr(parameter, "help", None) or ""


HELP_TEXTS = dict(help_texts())


@pytest.mark.parametrize("name", HELP_TEXTS)
def test_the_sentences_of_a_help_text_are_short(name: str) -> None:
    text = re.sub(r"\x08.*?(\n\n|\Z)", "", HELP_TEXTS[name], flags=re.DOTALL)  # \b marks tables and lists
    assert not too_long(text), f"{name}: make two sentences of each, or a list"


@pytest.mark.parametrize("name", HELP_TEXTS)
def test_a_help_text_starts_with_the_verb_and_has_no_old_phrases(name: str) -> None:
    text = HELP_TEXTS[name]
    assert not text.startswith(OLD_STARTS), text
    assert not OLD_PHRASES.search(text), text


def test_the_checks_can_fail() -> None:
    assert too_long("word " * (LONGEST_SENTENCE + 1))
    assert not too_long("word " * LONGEST_SENTENCE)
    assert OLD_PHRASES.search("What became of it")
    assert "Gives what it kept.".startswith(OLD_STARTS)
    assert BROAD.search("except Exception:")
    assert not _reason("except Exception:  # noqa: BLE001")
    assert _reason("except Exception:  # noqa: BLE001 - user code")


NAMED_COMMAND = re.compile(r"(?:`|\$ |\./)(?:holdfast|hf)((?: [a-z][a-z-]*)+)")
EARLIER = "\n## 0.1.0"
"""The part of the changelog from here on names commands as they were."""
OF_HF = {"setup", "demo", "test"}


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=page_name)
def test_a_command_that_is_named_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8").split(EARLIER)[0]
    known = {"help exit-codes", *every_command()}
    groups = {name.partition(" ")[0] for name in every_command() if " " in name}
    for words in map(str.split, NAMED_COMMAND.findall(text)):
        assert words[0] in (*known, *OF_HF), f"holdfast {words[0]}"
        if words[0] in groups and words[1:]:
            assert " ".join(words[:2]) in known, f"holdfast {' '.join(words[:2])}"
