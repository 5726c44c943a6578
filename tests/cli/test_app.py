from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import click

from holdfast.cli.app import every_command
from holdfast.core.distribution import DISTRIBUTION
from tests.cli.conftest import Run


def test_the_list_of_commands_is_complete() -> None:
    assert " ".join(every_command()) == (
        "ingest watch search serve collection "
        "plan check run submit work status show explain "
        "dead items review orphans circuit cancel pause resume priority rewind "
        "verify seal reconcile close cleanup "
        "capsule debug metrics migrate crashtest"
    )


def test_every_command_and_option_is_explained() -> None:
    for command in every_command().values():
        assert command.help
        for parameter in command.params:
            assert getattr(parameter, "hidden", True) or getattr(parameter, "help", None), parameter


def test_every_command_answers_in_json_and_takes_a_store() -> None:
    groups = [command for command in every_command().values() if isinstance(command, click.Group)]
    for command in [*every_command().values(), *(one for group in groups for one in group.commands.values())]:
        assert {"--json", "--store", "--debug"} <= {option for one in command.params for option in one.opts}, command


def test_the_exit_codes_are_documented(holdfast: Run) -> None:
    told = holdfast("--help").stdout
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "130 "):
        assert f"\n    {code}" in told


def test_the_version_is_shown(holdfast: Run) -> None:
    assert holdfast("--version").stdout == f"holdfast {version(DISTRIBUTION)}\n"


def test_a_wrong_duration_is_refused(holdfast: Run) -> None:
    result = holdfast("run", "papers.py", "--budget", "soon")
    assert result.exit_code == 2
    assert "write 30s, 15m or 1h30m" in result.stderr


def test_the_changelog_names_every_command() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    (section,) = re.findall(r"^### Command line\n.*?(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert set(every_command()) == {name.removeprefix("holdfast ") for name in re.findall(r"`([a-z ]+)`", section)}
