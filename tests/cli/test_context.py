from __future__ import annotations

import pytest

from holdfast.cli.context import CliContext


def test_suggested_commands_name_the_command_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = CliContext(["run", "my papers.py"])
    monkeypatch.delenv("HOLDFAST_COMMAND", raising=False)
    assert (cli.command("status"), cli.same_command()) == ("holdfast status", "holdfast run 'my papers.py'")
    monkeypatch.setenv("HOLDFAST_COMMAND", "./hf")
    assert (cli.command("status"), cli.same_command()) == ("./hf status", "./hf run 'my papers.py'")
