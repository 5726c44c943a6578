"""`holdfast.__version__` is the version of the package, and the import does not look it up."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import holdfast
from holdfast.core.distribution import DISTRIBUTION


def test_the_version_is_that_of_the_installed_package() -> None:
    assert holdfast.__version__ == version(DISTRIBUTION)


def test_the_import_does_not_look_the_version_up() -> None:
    code = "import sys, holdfast; print('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'version'"):
        holdfast.version  # type: ignore[attr-defined] # noqa: B018
