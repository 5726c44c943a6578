"""holdfast says which version it is, and importing it does not pay for that."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import holdfast


def test_the_package_says_its_version() -> None:
    assert holdfast.__version__ == version("holdfast")


def test_the_import_does_not_look_the_version_up() -> None:
    code = "import sys, holdfast; print('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_other_unknown_names_are_still_unknown() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'version'"):
        holdfast.version  # type: ignore[attr-defined] # noqa: B018
