from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from holdfast.cli import exit_codes
from holdfast.cli.app import app, every_command
from holdfast.cli.context import CliContext
from holdfast.cli.examples import EXAMPLES, RESULTS
from tests.cli.conftest import Run

LEAVES = [name for name, command in every_command().items() if not isinstance(command, click.Group)]


def test_every_command_has_one_to_three_examples() -> None:
    assert set(EXAMPLES) == set(LEAVES)
    assert all(1 <= len(examples) <= 3 for examples in EXAMPLES.values())


@pytest.mark.parametrize(("name", "example"), [(name, one) for name, every in EXAMPLES.items() for one in every])
def test_an_example_is_a_command_as_it_can_be_typed(folder: Path, name: str, example: str) -> None:
    (folder / "a.pdf.capsule.json").touch()
    (folder / "bad.jsonl").touch()
    words = shlex.split(example.rpartition("holdfast ")[2])
    assert words[: len(name.split())] == name.split()
    context = click.Context(app, info_name="holdfast", obj=CliContext())
    for word in name.split():
        assert isinstance(context.command, click.Group)
        command = context.command.get_command(context, word)
        assert command is not None
        rest = words[len(name.split()) :] if command is every_command()[name] else []
        context = (
            click.Context(command, info_name=word, parent=context)
            if isinstance(command, click.Group)
            else command.make_context(word, rest, parent=context)
        )


def test_the_help_ends_with_examples_and_exit_codes(holdfast: Run) -> None:
    for name in LEAVES:
        told = holdfast(*name.split(), "--help").stdout
        for example in EXAMPLES[name]:
            assert f"    {example}" in told or f"    holdfast {example}" in told
        for code, meaning in RESULTS.get(name, {}).items():
            assert f"    {code}  {meaning}\n" in told


def test_an_exit_code_of_a_command_is_on_the_page_of_all_exit_codes() -> None:
    for name, results in RESULTS.items():
        for code in results:
            assert name in LEAVES
            if code != 4:  # the page speaks of all commands that work
                assert name in exit_codes.EXIT_CODES[str(code)], f"{name} ends with {code}"


def test_no_line_of_an_example_is_too_long() -> None:
    lines = [f"    holdfast {one}" for every in EXAMPLES.values() for one in every]
    lines += [f"    {code}  {meaning}" for results in RESULTS.values() for code, meaning in results.items()]
    assert [line for line in lines if len(line) > 80] == []
