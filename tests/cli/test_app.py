from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from holdfast.cli import exit_codes
from holdfast.cli.app import COMMANDS, every_command
from holdfast.cli.command_group import MOVED, first_sentence
from holdfast.core.distribution import DISTRIBUTION
from tests.cli.conftest import Run

LARGEST_HELP = (23, 80)
"""Lines and columns of the smallest usual terminal, without the line of the prompt."""


def test_the_list_of_commands_is_complete() -> None:
    first_level = [name for name in every_command() if " " not in name]
    assert first_level == [*(name for section in COMMANDS.values() for name in section), "help"]
    assert " ".join(first_level) == (
        "ingest watch search serve collection run submit work files plan status show explain dead review doc batch "
        "pipeline store help"
    )


def test_the_help_fits_one_screen_with_complete_sentences(holdfast: Run) -> None:
    lines = holdfast("--help").stdout.splitlines()
    assert len(lines) <= LARGEST_HELP[0]
    assert max(map(len, lines)) <= LARGEST_HELP[1]
    assert "..." not in "".join(lines[1:])


def test_the_list_says_what_the_help_of_a_command_begins_with() -> None:
    commands = every_command()
    for section in COMMANDS.values():
        assert {name: first_sentence(commands[name]) for name in section} == {
            name: one for name, (_, one) in section.items()
        }


def test_a_group_lists_its_commands_with_complete_sentences(holdfast: Run) -> None:
    for name, command in every_command().items():
        if isinstance(command, click.Group):
            told = " ".join(holdfast(*name.split(), "--help").stdout.split())
            for subcommand in command.list_commands(click.Context(command)):
                assert f" {subcommand} {first_sentence(every_command()[f'{name} {subcommand}'])}" in told


@pytest.mark.parametrize(("word", "now"), MOVED.items())
def test_a_word_of_0_1_0_answers_with_the_new_one(holdfast: Run, word: str, now: str) -> None:
    result = holdfast(word, "a.pdf")
    assert result.exit_code == 2
    assert result.stderr == f"Error: `holdfast {word}` is now `holdfast {now}`\n"
    assert now in every_command()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("serach", "`holdfast search`"),
        ("cancle", "`holdfast doc cancel`"),
        ("batch sael", "`holdfast batch seal`"),
        ("doc seal", "`holdfast batch seal`"),
        ("status --batc x", "--batch"),
    ],
)
def test_a_misspelt_word_or_option_gets_a_suggestion(holdfast: Run, typed: str, meant: str) -> None:
    result = holdfast(*typed.split())
    assert result.exit_code == 2
    assert meant in result.stderr


def test_a_word_that_is_like_nothing_gets_no_suggestion(holdfast: Run) -> None:
    result = holdfast("xyzzy")
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: there is no command `holdfast xyzzy`\n")


def test_every_command_and_option_is_explained() -> None:
    for command in every_command().values():
        assert command.help
        for parameter in command.params:
            assert getattr(parameter, "hidden", True) or getattr(parameter, "help", None), parameter


def test_every_command_answers_in_json_and_takes_a_store() -> None:
    for command in every_command().values():
        assert {"--json", "--store", "--debug"} <= {option for one in command.params for option in one.opts}, command


def test_the_exit_codes_have_their_own_page(holdfast: Run) -> None:
    assert "holdfast help exit-codes" in holdfast("--help").stdout
    told = holdfast("help", "exit-codes").stdout
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert codes == {int(code) for code in exit_codes.EXIT_CODES}
    for code in codes:
        assert f"\n  {code} " in told
    assert json.loads(holdfast("help", "exit-codes", "--json").stdout) == exit_codes.EXIT_CODES


def test_help_is_also_a_command(holdfast: Run) -> None:
    assert holdfast("help").stdout == holdfast("--help").stdout
    assert holdfast("help", "batch", "close").stdout == holdfast("batch", "close", "--help").stdout
    assert "did you mean `holdfast batch close`?" in holdfast("help", "batch", "closee").stderr
    assert holdfast("help", "status", "now").exit_code == 2


def test_the_version_is_shown(holdfast: Run) -> None:
    assert holdfast("--version").stdout == f"holdfast {version(DISTRIBUTION)}\n"


def test_a_wrong_duration_is_refused(holdfast: Run) -> None:
    result = holdfast("run", "papers.py", "--budget", "soon")
    assert result.exit_code == 2
    assert "write 30s, 15m or 1h30m" in result.stderr


def test_the_changelog_names_every_command() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    section = re.findall(r"^### Command line\n.*?(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)[0]
    named = set(re.findall(r"`([a-z ]+)`", section))
    assert {name for section in COMMANDS.values() for name in section} <= named
    assert {*MOVED.values()} <= named
